"""``corral gateway``: REST and gRPC in front of a cluster."""

from __future__ import annotations

import logging
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corral.cli.output import complain, fail

if TYPE_CHECKING:
    from corral.gateway.process import ProcessSettings
    from corral.kube.config import ClusterConfig
    from corral.runtime.listening import Listen

DEFAULT_CERTS = Path("~/.corral-gateway")


def gateway(
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            help="Which cluster; else KUBECONFIG, else ~/.kube/config, else that of the pod. "
            "Its credentials are not used: callers bring their own."
        ),
    ] = None,
    listen: Annotated[str, typer.Option(help="HOST:PORT of REST; port 0 takes a free one.")] = (
        "127.0.0.1:8443"
    ),
    grpc_listen: Annotated[
        str, typer.Option(help="HOST:PORT of gRPC; none serves none.")
    ] = "127.0.0.1:8444",
    cert: Annotated[Path | None, typer.Option(help="Certificate to serve with, PEM.")] = None,
    key: Annotated[Path | None, typer.Option(help="Its key, PEM.")] = None,
    given_certs: Annotated[
        Path | None,
        typer.Option(help="Folder with tls.crt and tls.key, which are used if they are there."),
    ] = None,
    cert_dir: Annotated[
        Path, typer.Option(help="Folder for a certificate of our own, without --cert and --key.")
    ] = DEFAULT_CERTS,
    host: Annotated[
        list[str] | None, typer.Option(help="A name or address that our own certificate is for.")
    ] = None,
    tls: Annotated[
        bool, typer.Option(help="Off only behind a proxy that does TLS: tokens are secrets.")
    ] = True,
    rate: Annotated[float, typer.Option(min=0.1, help="Requests a second of one token.")] = 50.0,
    burst: Annotated[int, typer.Option(min=1, help="Requests that may come at once.")] = 200,
    registry_map: Annotated[
        list[str] | None,
        typer.Option(help="NAME=URL: where a registry is that models are read from."),
    ] = None,
    audit_file: Annotated[
        Path | None, typer.Option(help="Where audit lines go; else to standard error.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log more.")] = False,
) -> None:
    """Serve REST and gRPC in front of a cluster; callers use their own tokens."""
    from corral.gateway.limits import LimitSettings
    from corral.gateway.process import ProcessSettings

    if (cert is None) != (key is None):
        raise typer.BadParameter("--cert and --key belong together")
    for pair in registry_map or ():
        if not re.fullmatch(r"[^=]+=https?://.+", pair):
            raise typer.BadParameter(f"--registry-map: expected NAME=URL, not {pair!r}")
    if given_certs is not None and (given_certs / "tls.crt").exists():
        cert, key = given_certs / "tls.crt", given_certs / "tls.key"
    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    # its debug lines would hold the headers of requests to the API server
    logging.getLogger("aiohttp").setLevel(logging.INFO)
    settings = ProcessSettings(
        rest=_address(listen, "--listen"),
        grpc=None if grpc_listen == "none" else _address(grpc_listen, "--grpc-listen"),
        cert=cert,
        key=key,
        cert_dir=cert_dir.expanduser().absolute(),
        hosts=tuple(host or ()),
        tls=tls,
        limits=LimitSettings(rate=rate, burst=burst),
        registries=tuple(registry_map or ()),
        audit_file=audit_file,
    )
    _run(kubeconfig, settings)


def _address(written: str, option: str) -> Listen:
    from corral.runtime.listening import Listen

    host, _, port = written.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise typer.BadParameter(f"{option}: expected HOST:PORT, such as 127.0.0.1:8443")
    return Listen(host.strip("[]"), int(port))


def _run(kubeconfig: Path | None, settings: ProcessSettings) -> None:
    import asyncio

    import uvloop

    from corral.kube.config import ConfigError
    from corral.kube.kubeconfig import load_config

    try:
        config = load_config(kubeconfig)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(config, settings))
    except ConfigError as err:
        raise fail(err) from err
    except OSError as err:
        where = f"{settings.rest.host}:{settings.rest.port}"
        raise fail(f"cannot serve on {where}: {err.strerror or err}") from err


async def _serve(config: ClusterConfig, settings: ProcessSettings) -> None:
    import asyncio

    from corral.gateway.process import run_gateway
    from corral.runtime.listening import bind

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if not settings.tls:
        complain("tokens travel in the clear: serve without TLS only behind a proxy that does it")

    def ready(facts: dict[str, Any]) -> None:
        scheme = "https" if settings.tls else "http"
        where = f"{scheme}://{_shown(settings.rest.host)}:{facts['rest']}"
        grpc = f" grpc={_shown(settings.grpc.host)}:{facts['grpc']}" if settings.grpc else ""
        print(f"corral gateway is ready: {where}{grpc}", flush=True)

    await run_gateway(config, settings, sock=bind(settings.rest), stop=stop, ready=ready)


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
