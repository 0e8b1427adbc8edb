"""Writing one checkpoint: data first, digests on the way, the manifest last.

With several writers (`shard`), each stores its files in a folder that nobody else uses and then
its record, create-if-absent; whoever finds all records there publishes the manifest, whose bytes
depend on the records alone, so it does not matter who does, or that two do it at once. A writer
that dies leaves files that no manifest names: they are never read and `collect` removes them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from corral.checkpoints import transfer
from corral.checkpoints.errors import AlreadyExists, InvalidManifest, InvalidPath, StoreError
from corral.checkpoints.manifest import SCHEMA, FileEntry, Manifest, decode, seal, unseal
from corral.checkpoints.paths import MANIFEST, check_data_path, join, shard_of, shard_record
from corral.checkpoints.store import Chunk

if TYPE_CHECKING:
    from corral.checkpoints.repository import Repository


@dataclass(frozen=True, slots=True)
class Shard:
    """Which of how many writers this is."""

    index: int
    count: int

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.count <= 99999:
            raise ValueError(f"shard {self.index} of {self.count} does not exist")


@dataclass(frozen=True, slots=True)
class About:
    """What a checkpoint tells of itself besides its step and files."""

    attempt: int = 0
    job_uid: str = ""
    framework: str = ""
    world_size: int = 1
    kind: str = "files"
    mesh: Mapping[str, int] = field(default_factory=dict)
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    position: Any = None
    rng: Any = None
    parent: str | None = None


class CheckpointWriter:
    """One checkpoint in the making. Files may be added from several threads."""

    def __init__(
        self,
        repository: Repository,
        manifest: Manifest,
        *,
        shard: Shard | None = None,
        nonce: str = "",
    ) -> None:
        self._repository = repository
        self._manifest = manifest
        self._shard = shard
        self._folder = f"shard-{shard.index:05d}-{nonce}" if shard else ""
        self._files: dict[str, FileEntry] = {}
        self._lock = threading.Lock()

    @property
    def id(self) -> str:
        return self._manifest.id

    def add(self, path: str, chunks: Iterable[Chunk]) -> FileEntry:
        """Store one data file of the checkpoint."""
        stored = self._reserve(path)
        store = self._repository.store
        size, digest = transfer.write(store, join(self._repository.folder(self.id), stored), chunks)
        part = store.part_size if store.part_size is not None and size > store.part_size else None
        entry = FileEntry(stored, size, digest, part, self._shard.index if self._shard else None)
        with self._lock:
            self._files[stored] = entry
        return entry

    def add_all(self, sources: Mapping[str, Callable[[], Iterable[Chunk]]]) -> list[FileEntry]:
        """Stores many files in parallel; each source is opened when its turn comes."""
        tasks = [partial(self._add_opened, path, source) for path, source in sources.items()]
        return transfer.in_parallel(tasks, workers=self._repository.workers)

    def add_folder(self, folder: Path) -> list[FileEntry]:
        """Stores all regular files below a folder under their relative names."""
        found = sorted(path for path in folder.rglob("*") if path.is_file())
        return self.add_all(
            {
                path.relative_to(folder).as_posix(): partial(transfer.file_chunks, path)
                for path in found
            }
        )

    def stored_path(self, path: str) -> str:
        """Where a file of this writer lies within the checkpoint's folder."""
        return check_data_path(join(self._folder, path) if self._folder else path)

    def adopt(self, path: str, *, size: int, sha256: str, part_size: int | None = None) -> None:
        """Counts in a file that was stored at its `stored_path` by other means: a signed URL."""
        stored = self._reserve(path)
        shard = self._shard.index if self._shard else None
        with self._lock:
            self._files[stored] = FileEntry(stored, size, sha256, part_size, shard)

    def commit(self, *, metrics: Mapping[str, float | None] | None = None) -> Manifest | None:
        """Makes the checkpoint visible, all of it at once.

        Returns:
            The manifest; None while other shards are missing, whose writers will publish it.

        Raises:
            Fenced: if a newer attempt of the job has begun.
        """
        self._repository.check_fence(self._manifest.attempt)
        files = tuple(sorted(self._files.values(), key=lambda entry: entry.path))
        manifest = replace(self._manifest, files=files)
        if metrics is not None:
            manifest = replace(manifest, metrics=dict(metrics))
        if self._shard is None:
            self._publish(manifest)
            return manifest
        self._record(manifest, self._shard)
        return self._merge(self._shard.count)

    def abort(self) -> None:
        """Removes what this writer stored; a failure to do so is left to `collect`."""
        folder = self._repository.folder(self.id)
        with contextlib.suppress(StoreError):
            self._repository.store.delete([join(folder, path) for path in self._files])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self.abort()

    def _add_opened(self, path: str, source: Callable[[], Iterable[Chunk]]) -> FileEntry:
        return self.add(path, source())

    def _reserve(self, path: str) -> str:
        stored = self.stored_path(path)
        with self._lock:
            if stored in self._files:
                raise InvalidPath(f"{path} was added already")
            self._files[stored] = FileEntry(stored, 0, "")
        return stored

    def _publish(self, manifest: Manifest) -> None:
        path = join(self._repository.folder(self.id), MANIFEST)
        data = manifest.encode()
        try:
            self._repository.store.create(path, data)
        except AlreadyExists:
            # A retry after a lost answer, or another writer of the same shards: both wrote this.
            if self._repository.store.read(path).data != data:
                raise
        self._repository.note_latest(manifest)

    def _record(self, manifest: Manifest, shard: Shard) -> None:
        path = join(self._repository.folder(self.id), shard_record(shard.index, shard.count))
        document = {**manifest.document(), "schema": SCHEMA, "shard": shard.index}
        try:
            self._repository.store.create(path, seal(document))
        except AlreadyExists:
            # The record that was there first is the one that counts; our files are not named.
            unseal(self._repository.store.read(path).data)

    def _merge(self, count: int) -> Manifest | None:
        folder = self._repository.folder(self.id)
        _, names = self._repository.store.entries(folder)
        records = [name for name in names if (shard_of(name) or (0, 0))[1] == count]
        if len(records) < count:
            return None
        documents = [unseal(self._repository.store.read(join(folder, n)).data) for n in records]
        first = dict(documents[0])
        first.pop("shard", None)
        first["files"] = [entry for document in documents for entry in document["files"]]
        manifest = decode(seal(first), expected_id=self.id)
        if any(document["step"] != manifest.step for document in documents):
            raise InvalidManifest(f"the shards of {self.id} are of different steps")
        self._publish(manifest)
        return manifest
