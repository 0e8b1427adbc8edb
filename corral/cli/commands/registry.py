"""``corral registry``, and the registry as a part of ``corral up``."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from corral.cli.views.output import complain, fail, say
from corral.files.private import private_umask

if TYPE_CHECKING:
    from corral.cluster.registry.local import LocalRegistry
    from corral.cluster.registry.settings import StoreSettings
    from corral.cluster.up.cluster import Addition
    from corral.cluster.up.folder import DataFolder
    from corral.cluster.up.supervisor import Ready
    from corral.runtime.serving.listening import Listen

DEFAULT_DIR = Path("~/.corral-registry")
_MODULES = ("corral.cluster.registry.local",)


def registry(
    data_dir: Annotated[Path, typer.Option(help="Data folder.")] = DEFAULT_DIR,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 picks a free one.")
    ] = 5000,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            help="Kubeconfig of the cluster that authenticates tokens (default: KUBECONFIG, "
            "~/.kube/config, then in-cluster). Its user needs the role system:auth-delegator."
        ),
    ] = None,
    anonymous_read: Annotated[
        bool, typer.Option(help="Allow clients on this machine to pull without a token.")
    ] = False,
    open_to_all: Annotated[
        bool, typer.Option("--open", help="Disable authentication; allowed on the loopback only.")
    ] = False,
    cert: Annotated[Path | None, typer.Option(help="TLS certificate file (PEM).")] = None,
    key: Annotated[Path | None, typer.Option(help="TLS private key file (PEM).")] = None,
    max_blob: Annotated[int, typer.Option(min=1, help="Maximum size of a blob in bytes.")] = 64
    << 30,
    max_total: Annotated[
        int, typer.Option(min=0, help="Maximum total size in bytes; 0: limited by the disk.")
    ] = 0,
    max_namespace: Annotated[
        int, typer.Option(min=0, help="Maximum size of a namespace in bytes; 0: half of the total.")
    ] = 0,
    grace: Annotated[
        float, typer.Option(min=1, help="Seconds to keep a blob that no manifest references.")
    ] = 3600.0,
    expire_after: Annotated[
        float,
        typer.Option(
            min=1,
            help="Seconds without use after which artifacts in expiring repositories are deleted.",
        ),
    ] = 86400.0,
    expiring: Annotated[
        list[str] | None,
        typer.Option(help="Pattern of expiring repositories; repeatable (default: */updates)."),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log at debug level.")] = False,
) -> None:
    """Run an OCI registry: one process, one data folder."""
    from corral.cluster.registry.settings import StoreSettings
    from corral.oci.registries import is_loopback
    from corral.runtime.logcontext import configure_logging
    from corral.runtime.serving import eventloop
    from corral.runtime.serving.listening import Listen

    configure_logging(level=logging.DEBUG if verbose else logging.WARNING)
    if (cert is None) != (key is None):
        raise typer.BadParameter("--cert and --key belong together")
    if not is_loopback(f"[{host}]" if ":" in host else host):
        if open_to_all:
            raise typer.BadParameter(
                "--open is for the loopback only: anyone who can connect could write"
            )
        if cert is None:
            complain("tokens are sent unencrypted: give --cert and --key")
    settings = StoreSettings(
        max_blob=max_blob,
        max_total=max_total,
        max_namespace=max_namespace,
        grace=grace,
        expire_after=expire_after,
        expiring=tuple(expiring or ("*/updates",)),
    )
    private_umask()
    eventloop.run(
        _serve(
            data_dir.expanduser().absolute(),
            settings,
            Listen(host, port),
            files=(cert, key) if cert and key else None,
            access=None if open_to_all else (kubeconfig, anonymous_read),
        )
    )


async def _serve(
    folder: Path,
    settings: StoreSettings,
    listen: Listen,
    *,
    files: tuple[Path, Path] | None,
    access: tuple[Path | None, bool] | None,
) -> None:
    import asyncio
    import signal
    from contextlib import AsyncExitStack

    from corral.cluster.registry.access import Access, ClusterAccess, OpenAccess
    from corral.cluster.registry.process import serving
    from corral.cluster.registry.store import Store, StoreInUse
    from corral.gateway.tls import CertificateFiles, ServerTls
    from corral.kube import ConfigError, KubeClient
    from corral.kube.connection.kubeconfig import load_config
    from corral.runtime.serving.listening import bind, shown

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with AsyncExitStack() as stack:
        try:
            context = None
            if files is not None:
                tls = ServerTls(CertificateFiles(*files))
                watching = asyncio.create_task(tls.run())  # renewed files are taken into use
                stack.callback(watching.cancel)
                context = tls.context
            chosen: Access = OpenAccess()
            if access is not None:
                client = await stack.enter_async_context(KubeClient(load_config(access[0])))
                chosen = ClusterAccess(client, anonymous_read=access[1])
            sock = stack.enter_context(bind(listen))
            store = Store(folder, settings)
        except (ConfigError, StoreInUse) as err:
            raise fail(err) from err
        except OSError as err:
            where = f"{listen.host}:{listen.port}"
            raise fail(f"cannot listen on {where}, or use {folder}: {err.strerror or err}") from err
        stack.callback(store.close)
        port = await stack.enter_async_context(serving(store, chosen, sock, tls=context))
        scheme = "http" if context is None else "https"
        say(f"corral registry is ready: {scheme}://{shown(listen.host)}:{port}", flush=True)
        await stop.wait()


# -- in `corral up` --------------------------------------------------------------------------------


def local_registry(
    folder: DataFolder, port: int | None, *, any_port: bool, names: Sequence[str]
) -> LocalRegistry:
    """Where the registry of a cluster will listen; ``names`` mean it too."""
    from corral.cluster.registry.local import LocalRegistry, choose_port

    try:
        chosen = choose_port(folder.path, port, any_port=any_port)
    except OSError as err:
        raise fail(
            f"the registry cannot listen on 127.0.0.1:{port}: {err.strerror or err}; "
            "choose another port with --registry-port (0 picks a free one)"
        ) from err
    return LocalRegistry(folder=folder.path, port=chosen, names=tuple(names))


def addition(local: LocalRegistry) -> Addition:
    """The registry as a part of a cluster."""
    from corral.cluster.registry.local import USER
    from corral.cluster.up.cluster import Addition

    async def run(folder: DataFolder, ready: Ready) -> None:
        from corral.cluster.registry.local import run_part
        from corral.cluster.up.supervisor import Expected

        own = folder.credentials("registry")
        try:
            await run_part(local, ready, own=own, administrator=folder.kubeconfig)
        except OSError as err:
            raise Expected(f"the registry cannot run: {err}") from err

    return Addition("registry", USER, run, _MODULES)


def split_map(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Names that mean our own registry, and names with the URL of another. Raises BadParameter."""
    if not words:
        return [], {}
    from corral.oci import RegistryError, endpoints

    own = [word for word in words if "=" not in word]
    try:
        others = endpoints(word for word in words if "=" in word)
    except RegistryError as err:
        raise typer.BadParameter(f"--registry-map: {err}") from err
    return own, {name: endpoint.url for name, endpoint in others.items()}


def where(
    local: LocalRegistry | None, others: dict[str, str]
) -> tuple[str, dict[str, str], dict[str, str]]:
    """The base of models, and where registries are: from the machine, and from pods."""
    if local is None:
        return "", others, others
    from corral.cluster.registry.local import POD_URL
    from corral.oci.own import OWN

    return f"oci://{OWN}", {**local.urls(), **others}, {**local.urls(POD_URL), **others}
