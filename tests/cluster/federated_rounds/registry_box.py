"""A registry that a case may stop and start again, and look into as anybody could."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from corral.families.federated.models import ARTIFACT, MODEL
from corral.oci import Artifacts, Layer, NotFound, Reference
from tests.registries import RunningRegistry

T = TypeVar("T")
LIMIT = 1 << 30


class RegistryBox:
    """``with RegistryBox(folder) as registry:``; its port stays the same."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: RunningRegistry | None = RunningRegistry(folder)
        self._registries = self._running.registries()
        self._port, self.url = self._running.port, self._running.url

    def __enter__(self) -> Self:
        assert self._running is not None
        self._running.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        if self._running is not None:
            self._running.stop()
            self._running = None

    def start(self) -> None:
        self._running = RunningRegistry(self._folder, port=self._port)
        self._running.start()

    def push(self, where: str, body: bytes, *, format: str = "f32-le", note: str = "") -> str:
        """Store something as a model or update; its reference with a digest."""
        notes = {"note": note} if note else {}

        async def work(artifacts: Artifacts) -> str:
            layers = [Layer(f"{MODEL}{format}", body)]
            reference = Reference.parse(where)
            pushed = await artifacts.push(
                reference, layers, artifact_type=ARTIFACT, annotations=notes
            )
            return str(pushed.reference)

        return self._do(work)

    def layer(self, where: str, number: int = 0) -> bytes:
        """The bytes of a layer."""

        async def work(artifacts: Artifacts) -> bytes:
            reference = Reference.parse(where)
            manifest = await artifacts.manifest(reference)
            return await artifacts.read(reference, manifest.layers[number], limit=LIMIT)

        return self._do(work)

    def annotations(self, where: str) -> dict[str, str]:
        async def work(artifacts: Artifacts) -> dict[str, str]:
            return dict((await artifacts.manifest(Reference.parse(where))).annotations)

        return self._do(work)

    def digests(self, where: str) -> list[str]:
        """Of the layers."""

        async def work(artifacts: Artifacts) -> list[str]:
            manifest = await artifacts.manifest(Reference.parse(where))
            return [layer.digest for layer in manifest.layers]

        return self._do(work)

    def has(self, where: str) -> bool:
        async def work(artifacts: Artifacts) -> bool:
            try:
                await artifacts.manifest(Reference.parse(where))
            except NotFound:
                return False
            return True

        return self._do(work)

    def _do(self, work: Callable[[Artifacts], Awaitable[T]]) -> T:
        async def main() -> T:
            async with Artifacts(self._registries) as artifacts:
                return await work(artifacts)

        return asyncio.run(main())
