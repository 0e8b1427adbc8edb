"""The registry as a part of ``corral up``: there at once, loaded with the first connection.

It serves on the loopback, without TLS: nothing leaves the machine. Pods reach it through a Service,
whatever their network is.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from corral.oci.own import OWN
from corral.runtime.serving.listening import (
    Listen,
    bind,
    bind_or_any,
    first_connection,
    keep_facts,
    kept_ports,
)

__all__ = [
    "NAMESPACE",
    "POD_URL",
    "PREFERRED",
    "SERVICE",
    "SERVICE_PORT",
    "USER",
    "LocalRegistry",
    "choose_port",
    "run_part",
]

PREFERRED: Final = 5000
"""The port where nobody wishes otherwise."""
USER: Final = "corral:registry"
"""Who the registry is to the API server."""
SERVICE: Final = "corral-registry"
NAMESPACE: Final = "corral-system"
SERVICE_PORT: Final = 5000
"""Not a privileged one: nodes that are no root's offer services too."""
POD_URL: Final = f"http://{SERVICE}.{NAMESPACE}.svc:{SERVICE_PORT}"
"""Where pods reach it."""
_LOOPBACK: Final = "127.0.0.1"
_QUIET: Final = 1.0
"""Seconds that the rest of the cluster has to start before the Service is looked after."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRegistry:
    """The registry of a cluster on this machine."""

    folder: Path
    """The cluster's data folder."""
    port: int
    names: tuple[str, ...] = ()
    """Further names in references that mean it."""

    @property
    def addresses(self) -> Path:
        """Where its address is written."""
        return self.folder / "registry.json"

    @property
    def url(self) -> str:
        return f"http://{_LOOPBACK}:{self.port}"

    def urls(self, url: str = "") -> dict[str, str]:
        """Where its names are reached."""
        return dict.fromkeys((OWN, *self.names), url or self.url)


def choose_port(folder: Path, port: int | None, *, any_port: bool) -> int:
    """The port: that of the last time, if it is free.

    It is chosen before the registry runs, because others are told. Raises OSError where the port
    that is asked for is taken.
    """
    (last,) = kept_ports(folder / "registry.json", 1) or (0 if any_port else PREFERRED,)
    wished = Listen(_LOOPBACK, port if port else last)
    with bind(wished) if port else bind_or_any(wished) as own:
        chosen: int = own.getsockname()[1]
        return chosen


async def run_part(
    local: LocalRegistry,
    ready: Callable[[dict[str, Any]], None],
    *,
    own: Path,
    administrator: Path,
) -> None:
    """Serve until SIGTERM; ``own`` and ``administrator`` are kubeconfigs.

    Raises:
        OSError: the port is taken.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    with bind(Listen(_LOOPBACK, local.port)) as sock:
        facts = {"name": OWN, "url": local.url}
        keep_facts(local.addresses, facts, local.port)
        ready(facts)
        await first_connection(sock, stop=stop, within=_QUIET)
        from corral.cluster.registry.service import look_after

        service = asyncio.create_task(look_after(administrator, _LOOPBACK, local.port))
        try:
            await first_connection(sock, stop=stop, within=None)
            if not stop.is_set():
                await _serve(local, own, sock, stop)
        finally:
            service.cancel()
            await asyncio.gather(service, return_exceptions=True)


async def _serve(local: LocalRegistry, own: Path, sock: Any, stop: asyncio.Event) -> None:
    from corral.cluster.registry.access import ClusterAccess
    from corral.cluster.registry.process import serving
    from corral.cluster.registry.store import Store
    from corral.kube.client import KubeClient
    from corral.kube.connection.kubeconfig import load_kubeconfig

    store = await asyncio.to_thread(Store, local.folder / "registry")
    try:
        async with KubeClient(load_kubeconfig([own]).resolve()) as client:
            async with serving(store, ClusterAccess(client), sock):
                await stop.wait()
    finally:
        store.close()
