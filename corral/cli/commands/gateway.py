"""``corral gateway``: REST and gRPC in front of a cluster."""

from __future__ import annotations

import logging
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corral.cli.views.output import complain, fail, say
from corral.files.private import private_umask

if TYPE_CHECKING:
    from corral.gateway.process import ProcessSettings
    from corral.kube.connection.config import ClusterConfig
    from corral.runtime.serving.listening import Listen

DEFAULT_CERTS = Path("~/.corral-gateway")


def gateway(
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            help="Path of the kubeconfig (default: KUBECONFIG, ~/.kube/config, then in-cluster). "
            "Its credentials are not used; callers authenticate with their own tokens."
        ),
    ] = None,
    listen: Annotated[
        str, typer.Option(help="HOST:PORT to serve REST on; port 0 picks a free one.")
    ] = ("127.0.0.1:8443"),
    grpc_listen: Annotated[
        str, typer.Option(help="HOST:PORT to serve gRPC on; none: no gRPC.")
    ] = "127.0.0.1:8444",
    cert: Annotated[Path | None, typer.Option(help="TLS certificate file (PEM).")] = None,
    key: Annotated[Path | None, typer.Option(help="TLS private key file (PEM).")] = None,
    given_certs: Annotated[
        Path | None,
        typer.Option(help="Folder with tls.crt and tls.key to use if they exist."),
    ] = None,
    cert_dir: Annotated[
        Path,
        typer.Option(help="Folder for a generated certificate, if --cert and --key are not given."),
    ] = DEFAULT_CERTS,
    host: Annotated[
        list[str] | None,
        typer.Option(help="Host name or address for the generated certificate; repeatable."),
    ] = None,
    tls: Annotated[
        bool, typer.Option(help="Serve with TLS; disable only behind a proxy that terminates TLS.")
    ] = True,
    rate: Annotated[
        float, typer.Option(min=0.1, help="Maximum requests per second per token.")
    ] = 50.0,
    burst: Annotated[int, typer.Option(min=1, help="Maximum burst of requests per token.")] = 200,
    registry_map: Annotated[
        list[str] | None,
        typer.Option(help="NAME=URL: address of a registry to read models from; repeatable."),
    ] = None,
    audit_file: Annotated[
        Path | None, typer.Option(help="Audit log file (default: standard error).")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log at debug level.")] = False,
) -> None:
    """Run the REST and gRPC gateway of a cluster; callers use their own tokens."""
    from corral.gateway.limits import LimitSettings
    from corral.gateway.process import ProcessSettings

    if (cert is None) != (key is None):
        raise typer.BadParameter("--cert and --key belong together")
    for pair in registry_map or ():
        if not re.fullmatch(r"[^=]+=https?://.+", pair):
            raise typer.BadParameter(f"--registry-map: expected NAME=URL, not {pair!r}")
    if given_certs is not None and (given_certs / "tls.crt").exists():
        cert, key = given_certs / "tls.crt", given_certs / "tls.key"
    from corral.runtime.logcontext import configure_logging

    configure_logging(level=logging.DEBUG if verbose else logging.WARNING)
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
    from corral.runtime.serving.listening import Listen

    host, _, port = written.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise typer.BadParameter(f"{option}: expected HOST:PORT, such as 127.0.0.1:8443")
    return Listen(host.strip("[]"), int(port))


def _run(kubeconfig: Path | None, settings: ProcessSettings) -> None:
    import asyncio

    import uvloop

    from corral.kube.connection.config import ConfigError
    from corral.kube.connection.kubeconfig import load_config

    private_umask()
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
    from corral.runtime.serving.listening import bind

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if not settings.tls:
        complain(
            "tokens are sent unencrypted: use --no-tls only behind a proxy that terminates TLS"
        )

    def ready(facts: dict[str, Any]) -> None:
        scheme = "https" if settings.tls else "http"
        where = f"{scheme}://{_shown(settings.rest.host)}:{facts['rest']}"
        grpc = f" grpc={_shown(settings.grpc.host)}:{facts['grpc']}" if settings.grpc else ""
        say(f"corral gateway is ready: {where}{grpc}", flush=True)

    await run_gateway(config, settings, sock=bind(settings.rest), stop=stop, ready=ready)


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
