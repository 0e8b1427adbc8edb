"""A store in memory that can die at any operation, or flip what it gives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from corral.checkpoints.errors import AlreadyExists, Conflict, NotFound
from corral.checkpoints.store import Blob, Chunk, Stat


class Crash(BaseException):
    """The process died: nothing may catch it."""


class MemoryStore:
    def __init__(self, objects: dict[str, bytes] | None = None) -> None:
        self.objects: dict[str, bytes] = {} if objects is None else objects
        self.log: list[tuple[str, str]] = []
        self.crash_after: int | None = None
        """Changes until the crash; the fatal change happens only if `crash_does` says so."""
        self.crash_does = False
        self.flip_reads = 0
        self.now = 1000.0

    @property
    def url(self) -> str:
        return "memory:"

    @property
    def part_size(self) -> int | None:
        return 1000

    def _change(self, verb: str, path: str) -> bool:
        """Whether to do it; counts down to the crash."""
        self.log.append((verb, path))
        if self.crash_after is None:
            return True
        self.crash_after -= 1
        return self.crash_after >= 0 or (self.crash_after == -1 and self.crash_does)

    def _die(self) -> None:
        if self.crash_after is not None and self.crash_after < 0:
            raise Crash

    def write(self, path: str, chunks: Iterable[Chunk]) -> None:
        data = b"".join(chunks)
        if self._change("write", path):
            self.objects[path] = data
        self._die()

    def create(self, path: str, data: bytes) -> None:
        if path in self.objects:
            raise AlreadyExists(path)
        if self._change("create", path):
            self.objects[path] = data
        self._die()

    def replace(self, path: str, data: bytes, *, etag: str | None) -> None:
        if etag is not None and self.objects.get(path) != etag.encode("latin1"):
            raise Conflict(path)
        self.write(path, [data])

    def read(self, path: str, *, limit: int = 64 << 20) -> Blob:
        if path not in self.objects:
            raise NotFound(path)
        return Blob(self.objects[path], self.objects[path].decode("latin1"))

    def read_into(self, path: str, buffer: memoryview, *, start: int = 0) -> int:
        data = self.read(path).data[start : start + len(buffer)]
        if self.flip_reads and data:
            self.flip_reads -= 1
            data = bytes([data[0] ^ 1]) + data[1:]
        buffer[: len(data)] = data
        return len(data)

    def stat(self, path: str) -> Stat:
        return Stat(path, len(self.read(path).data), self.now)

    def walk(self, prefix: str) -> Iterator[Stat]:
        for path in sorted(self.objects):
            if not prefix or path.startswith(prefix + "/"):
                yield self.stat(path)

    def entries(self, prefix: str) -> tuple[list[str], list[str]]:
        folders, objects = set(), set()
        for stat in self.walk(prefix):
            name, slash, _ = stat.path[len(prefix) :].lstrip("/").partition("/")
            (folders if slash else objects).add(name)
        return sorted(folders), sorted(objects)

    def delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            if self._change("delete", path):
                self.objects.pop(path, None)
            self._die()

    def sweep(self, prefix: str, *, before: float) -> int:
        return 0
