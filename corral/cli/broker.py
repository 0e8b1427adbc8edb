"""``corral broker``, and the broker as a part of ``corral up``."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corral.cli.output import fail

if TYPE_CHECKING:
    from corral.cluster.broker.process import LocalBroker
    from corral.cluster.up.cluster import Addition
    from corral.cluster.up.folder import DataFolder
    from corral.cluster.up.supervisor import Ready

DEFAULT_DIR = Path("~/.corral-broker")


def broker(
    data_dir: Annotated[Path, typer.Option(help="Folder of everything it keeps.")] = DEFAULT_DIR,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")
    ] = 9092,
    advertised: Annotated[
        str, typer.Option(help="HOST:PORT that clients are told; else where it listens.")
    ] = "",
    users: Annotated[
        Path | None,
        typer.Option(help="Lines name:password; with it everybody logs in, by SCRAM."),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE: a setting of topics that have none of their own."),
    ] = None,
    partitions: Annotated[
        int, typer.Option(min=1, max=1000, help="Of topics made without a number.")
    ] = 1,
    auto_create: Annotated[
        bool, typer.Option(help="Make topics that clients ask for and that are not there.")
    ] = True,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log more.")] = False,
) -> None:
    """Serve the Kafka protocol from one process and one folder."""
    from corral.cluster.broker.errors import BrokerError, DataError
    from corral.cluster.broker.process import serve
    from corral.cluster.broker.settings import BrokerSettings
    from corral.runtime import eventloop

    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    if advertised:
        checked_address(advertised, "--advertised")
    settings = BrokerSettings(
        data_dir=data_dir.expanduser().absolute(),
        host=host,
        port=port,
        advertised=advertised,
        auto_create=auto_create,
        default_partitions=partitions,
        topic_defaults=_pairs(config or []),
        users_file=users,
    )

    def ready(facts: dict[str, Any]) -> None:
        print(f"corral broker is ready: {facts['bootstrap']}", flush=True)

    try:
        eventloop.run(serve(settings, ready))
    except (DataError, BrokerError) as err:
        raise fail(err) from err
    except OSError as err:
        raise fail(
            f"cannot listen on {host}:{port}, or use {settings.data_dir}: {err.strerror or err}"
        ) from err


def checked_address(text: str, option: str) -> str:
    """HOST:PORT, or several with commas between. Raises BadParameter."""
    for one in text.split(","):
        host, _, port = one.strip().rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise typer.BadParameter(f"{option}: expected HOST:PORT, not {one!r}")
    return text


def _pairs(words: list[str]) -> dict[str, str]:
    pairs = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise typer.BadParameter(f"--config: expected NAME=VALUE, not {word!r}")
        pairs[name.strip()] = value.strip()
    return pairs


def local_broker(folder: DataFolder, port: int | None, *, any_port: bool) -> LocalBroker:
    """Where the broker of a cluster will listen."""
    from corral.cluster.broker.process import LocalBroker, choose_ports

    try:
        own, pods = choose_ports(folder.path, port, any_port=any_port)
    except OSError as err:
        raise fail(
            f"the broker cannot listen on 127.0.0.1:{port}: {err.strerror or err}; "
            "choose another port with --broker-port (0 takes a free one)"
        ) from err
    return LocalBroker(folder=folder.path, port=own, pod_port=pods)


def addition(local: LocalBroker) -> Addition:
    """The broker as a part of a cluster; it is nobody to the API server."""
    from corral.cluster.up.cluster import Addition

    async def run(folder: DataFolder, ready: Ready) -> None:
        from corral.cluster.broker.process import run_part
        from corral.cluster.up.supervisor import Expected

        try:
            await run_part(local, ready, kubeconfig=folder.kubeconfig)
        except OSError as err:
            raise Expected(f"the broker cannot run: {err}") from err

    return Addition("broker", "", run, ("corral.cluster.broker.process",))


def addresses(local: LocalBroker | None, kafka: str) -> tuple[str, str]:
    """Bootstrap servers for those on the machine, and for pods."""
    if kafka:
        return checked_address(kafka, "--kafka"), ""
    if local is None:
        return "", ""
    from corral.cluster.broker.address import POD_ADDRESS

    # pods without a network of their own know no names, and need none
    return local.bootstrap, f"{POD_ADDRESS},{local.bootstrap}"
