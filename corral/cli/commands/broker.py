"""``corral broker``, and the broker as a part of ``corral up``."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corral.cli.views.output import fail, say
from corral.files.private import private_umask

if TYPE_CHECKING:
    from corral.cluster.broker.process import LocalBroker
    from corral.cluster.up.cluster import Addition
    from corral.cluster.up.folder import DataFolder
    from corral.cluster.up.supervisor import Ready

DEFAULT_DIR = Path("~/.corral-broker")


def broker(
    data_dir: Annotated[Path, typer.Option(help="Data folder.")] = DEFAULT_DIR,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 picks a free one.")
    ] = 9092,
    advertised: Annotated[
        str, typer.Option(help="HOST:PORT advertised to clients (default: the listen address).")
    ] = "",
    users: Annotated[
        Path | None,
        typer.Option(help="File with name:password lines; clients must then log in with SCRAM."),
    ] = None,
    namespace_key: Annotated[
        Path | None,
        typer.Option(
            help="File with the key for namespace logins, created if missing; each namespace must "
            "then log in and sees only its own topics."
        ),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE: default topic setting; repeatable."),
    ] = None,
    partitions: Annotated[
        int, typer.Option(min=1, max=1000, help="Default number of partitions per topic.")
    ] = 1,
    auto_create: Annotated[
        bool, typer.Option(help="Create missing topics when clients use them.")
    ] = True,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log at debug level.")] = False,
) -> None:
    """Run a Kafka-compatible broker: one process, one data folder."""
    from corral.cluster.broker.errors import BrokerError, DataError
    from corral.cluster.broker.process import serve
    from corral.cluster.broker.settings import BrokerSettings
    from corral.runtime.logcontext import configure_logging
    from corral.runtime.serving import eventloop

    configure_logging(level=logging.DEBUG if verbose else logging.WARNING)
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
        key_file=namespace_key,
    )

    def ready(facts: dict[str, Any]) -> None:
        say(f"corral broker is ready: {facts['bootstrap']}", flush=True)

    private_umask()
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


def local_broker(
    folder: DataFolder, port: int | None, *, any_port: bool, open_to_all: bool = False
) -> LocalBroker:
    """Where the broker of a cluster will listen."""
    from corral.cluster.broker.process import LocalBroker, choose_ports

    try:
        own, pods = choose_ports(folder.path, port, any_port=any_port)
    except OSError as err:
        raise fail(
            f"the broker cannot listen on 127.0.0.1:{port}: {err.strerror or err}; "
            "choose another port with --broker-port (0 picks a free one)"
        ) from err
    return LocalBroker(folder=folder.path, port=own, pod_port=pods, open=open_to_all)


def addition(local: LocalBroker) -> Addition:
    """The broker as a part of a cluster; it is nobody to the API server."""
    from corral.cluster.up.cluster import Addition

    async def run(folder: DataFolder, ready: Ready) -> None:
        from corral.cluster.broker.process import run_part
        from corral.cluster.up.supervisor import Expected

        try:
            await run_part(local, ready, kubeconfig=folder.kubeconfig)
        except (OSError, ValueError) as err:
            raise Expected(f"the broker cannot run: {err}") from err

    return Addition("broker", "", run, ("corral.cluster.broker.process",))


def addresses(local: LocalBroker | None, kafka: str) -> tuple[str, str]:
    """Bootstrap servers for those on the machine, and for pods."""
    if kafka:
        return checked_address(kafka, "--kafka"), ""
    if local is None:
        return "", ""
    return local.bootstrap, local.pods
