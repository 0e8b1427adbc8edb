"""A registry in a thread, for tests that need one and no `corral up`.

with running_registry(tmp_path) as registry:
    settings = ProcessSettings(registry=registry.base, registry_map=registry.pairs())
    async with Artifacts(registry.registries()) as artifacts: …
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from corral.cluster.registry.access import Access, OpenAccess
from corral.cluster.registry.process import serving
from corral.cluster.registry.settings import StoreSettings
from corral.cluster.registry.store import Store
from corral.oci import OWN, Registries, endpoints
from corral.runtime.serving.listening import Listen, bind

PATIENCE = 30.0


class RunningRegistry:
    """A registry on a free port of this machine; everybody may do everything by default."""

    def __init__(
        self,
        folder: Path,
        *,
        settings: StoreSettings | None = None,
        access: Callable[[], Access] = OpenAccess,
        clock: Callable[[], float] | None = None,
        port: int = 0,
    ) -> None:
        """``access`` is made in the registry's own thread and event loop."""
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.store = (
            Store(folder, settings) if clock is None else Store(folder, settings, clock=clock)
        )
        self._access = access
        self._socket = bind(Listen(port=port))
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.host = f"127.0.0.1:{self.port}"
        """As a registry in references that need no mapping."""
        self.base = f"oci://{OWN}"
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="registry")

    def pairs(self, *names: str, url: str = "") -> tuple[str, ...]:
        """``NAME=URL`` of the registry's own name and others."""
        return tuple(f"{name}={url or self.url}" for name in (OWN, *names))

    def registries(self, *names: str, token: Callable[[], str] | None = None) -> Registries:
        """For a client."""
        return Registries(endpoints(self.pairs(*names), token=token))

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(PATIENCE), "the registry did not start"

    def stop(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the registry did not stop"
        self._socket.close()
        self.store.close()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with serving(self.store, self._access(), self._socket, grace=1.0):
            self._ready.set()
            await self._stop.wait()


@contextmanager
def running_registry(
    folder: Path,
    *,
    settings: StoreSettings | None = None,
    access: Callable[[], Access] = OpenAccess,
    clock: Callable[[], float] | None = None,
    port: int = 0,
) -> Iterator[RunningRegistry]:
    registry = RunningRegistry(folder, settings=settings, access=access, clock=clock, port=port)
    registry.start()
    try:
        yield registry
    finally:
        registry.stop()
