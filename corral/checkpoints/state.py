"""The state of a training program as data files: raw bytes and a JSON index, no pickle.

A state maps names to arrays (anything NumPy can view), bytes, files (as `Path`), and plain JSON
values. Arrays and bytes follow each other in one stream, each aligned to 64 bytes; the stream is
cut into files of `shard_size`, so that hashing, writing and reading use all cores even for one
huge array. Reading fills one piece of memory and gives out views of it. JSON values lie in the
index; files are stored as they are.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from corral.checkpoints import transfer
from corral.checkpoints.errors import CheckpointError
from corral.checkpoints.findings import Damaged, Finding, Reason
from corral.checkpoints.manifest import FileEntry, Manifest
from corral.checkpoints.repository import Repository
from corral.checkpoints.restore import Restored, download_file, newest_good
from corral.checkpoints.store import Chunk
from corral.checkpoints.writer import CheckpointWriter

INDEX = "index.json"
SHARD_SIZE = 64 << 20
"""Bytes of each data file but the last."""
_ALIGNMENT = 64
_FORMAT = "corral.dev/state/v1"


@dataclass(frozen=True, slots=True)
class Entry:
    """One named piece of the stream."""

    name: str
    kind: str
    """The kind of the value: ``bytes`` or ``array``."""
    offset: int
    view: memoryview
    dtype: str = ""
    shape: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything of a state goes. The views refer to the caller's memory."""

    entries: tuple[Entry, ...]
    values: Mapping[str, Any]
    files: Mapping[str, Path]
    size: int
    """The size of the stream in bytes."""

    def index(self, shard_size: int) -> bytes:
        document = {
            "format": _FORMAT,
            "size": self.size,
            "shardSize": shard_size,
            "values": dict(self.values),
            "files": {name: f"files/{i:05d}" for i, name in enumerate(self.files)},
            "entries": [
                {
                    "name": entry.name,
                    "kind": entry.kind,
                    "offset": entry.offset,
                    "length": entry.view.nbytes,
                    **({"dtype": entry.dtype, "shape": entry.shape} if entry.dtype else {}),
                }
                for entry in self.entries
            ],
        }
        return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()


def lay_out(state: Mapping[str, Any]) -> Layout:
    """Plans where each value goes, without copying any.

    Raises:
        TypeError: for a value that cannot be stored without pickling it.
    """
    entries: list[Entry] = []
    values: dict[str, Any] = {}
    files: dict[str, Path] = {}
    offset = 0
    for name, value in state.items():
        if isinstance(value, os.PathLike):
            files[name] = Path(value)
        elif isinstance(value, bytes | bytearray | memoryview):
            entries.append(Entry(name, "bytes", offset, _flat(memoryview(value))))
        elif hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
            entries.append(_array_entry(name, value, offset))
        else:
            values[name] = _plain(name, value)
            continue
        if entries:
            offset = _aligned(entries[-1].offset + entries[-1].view.nbytes)
    return Layout(tuple(entries), values, files, offset)


def add_state(writer: CheckpointWriter, layout: Layout, *, shard_size: int = SHARD_SIZE) -> None:
    """Stores a state straight from the caller's memory, which must not change meanwhile."""
    add_stream(writer, layout, partial(_stream, layout), shard_size=shard_size)


def add_stream(
    writer: CheckpointWriter,
    layout: Layout,
    stream: Callable[[int, int], Iterable[Chunk]],
    *,
    shard_size: int,
) -> None:
    """Stores a state whose stream is given by offsets, e.g. from a copy."""
    sources: dict[str, Callable[[], Iterable[Chunk]]] = {}
    for number, start in enumerate(range(0, layout.size, shard_size)):
        end = min(start + shard_size, layout.size)
        sources[f"data/{number:05d}"] = partial(stream, start, end)
    for number, path in enumerate(layout.files.values()):
        sources[f"files/{number:05d}"] = partial(transfer.file_chunks, path)
    sources[INDEX] = lambda: (layout.index(shard_size),)
    writer.add_all(sources)


def load_state(
    repository: Repository,
    *,
    identifier: str | None = None,
    shard: int | None = None,
    files_into: Path | None = None,
    quarantine: bool = True,
) -> Restored[dict[str, Any]]:
    """The newest intact state.

    Arrays are writable views of one piece of memory, which lives as long as any of them.

    Args:
        repository: where to look.
        identifier: the checkpoint; the newest intact one if None.
        shard: which writer's state, where there were several.
        files_into: an empty folder for stored files; needed if the state has any.
        quarantine: mark damaged ones in the store.
    """
    return newest_good(
        repository,
        lambda manifest: read_state(repository, manifest, shard=shard, files_into=files_into),
        identifier=identifier,
        quarantine=quarantine,
    )


def read_state(
    repository: Repository,
    manifest: Manifest,
    *,
    shard: int | None = None,
    files_into: Path | None = None,
) -> dict[str, Any]:
    """The state in one checkpoint.

    Raises:
        Damaged: if it is not intact.
    """
    entries = {_name(e, shard): e for e in manifest.files if shard is None or e.shard == shard}
    if INDEX not in entries:
        raise CheckpointError(f"{manifest.id} holds files, not a state: restore it to a folder")
    index = _read_index(repository, manifest, entries[INDEX])
    arena = allocate(index["size"])
    _load(repository, manifest, entries, index, arena)
    return {
        **index["values"],
        **dict(_views(index, arena)),
        **dict(_files(repository, manifest, entries, index, files_into)),
    }


def allocate(size: int) -> memoryview:
    """Zeroed memory in huge pages where the system has them: far fewer page faults."""
    memory = mmap.mmap(-1, max(size, 1))
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(memory)[:size]


def _load(
    repository: Repository,
    manifest: Manifest,
    entries: Mapping[str, FileEntry],
    index: Mapping[str, Any],
    arena: memoryview,
) -> None:
    tasks = []
    for number, start in enumerate(range(0, index["size"], index["shardSize"])):
        piece = arena[start : start + index["shardSize"]]
        entry = entries.get(f"data/{number:05d}")
        if entry is None or entry.size != len(piece):
            raise _bad_index(manifest, f"data/{number:05d} does not fit the index")
        folder = repository.folder(manifest.id)
        tasks.append(partial(transfer.load_verified, repository.store, folder, entry, piece))
    transfer.in_parallel(tasks, workers=repository.workers)


def _read_index(repository: Repository, manifest: Manifest, entry: FileEntry) -> dict[str, Any]:
    data = bytearray(entry.size)
    transfer.load_verified(
        repository.store, repository.folder(manifest.id), entry, memoryview(data)
    )
    index = json.loads(data)
    if not isinstance(index, dict) or index.get("format") != _FORMAT:
        raise _bad_index(manifest, f"the index is not of format {_FORMAT}")
    if any(e["offset"] < 0 or e["offset"] + e["length"] > index["size"] for e in index["entries"]):
        raise _bad_index(manifest, "an entry of the index lies outside the data")
    return index


def _bad_index(manifest: Manifest, message: str) -> Damaged:
    return Damaged(Finding(manifest.id, Reason.CORRUPT, message, INDEX))


def _views(index: Mapping[str, Any], arena: memoryview) -> Iterator[tuple[str, Any]]:
    for entry in index["entries"]:
        view = arena[entry["offset"] : entry["offset"] + entry["length"]]
        yield entry["name"], _as_array(entry, view) if entry["kind"] == "array" else bytes(view)


def _as_array(entry: Mapping[str, Any], view: memoryview) -> Any:
    numpy = import_module("numpy")
    return numpy.frombuffer(view, dtype=_dtype(entry["dtype"])).reshape(entry["shape"])


def _dtype(name: str) -> Any:
    numpy = import_module("numpy")
    try:
        return numpy.dtype(name)
    except TypeError:
        # bfloat16, float8: known to NumPy only through this package
        return numpy.dtype(getattr(import_module("ml_dtypes"), name))


def _array_entry(name: str, value: Any, offset: int) -> Entry:
    numpy = import_module("numpy")
    array = numpy.asarray(value, order="C")
    if array.dtype.hasobject or array.dtype.names is not None:
        raise TypeError(f"{name}: arrays of {array.dtype} cannot be stored; use plain numbers")
    dtype = array.dtype.name if array.dtype.kind == "V" else array.dtype.str
    flat = array.reshape(-1).view(numpy.uint8) if array.size else numpy.empty(0, numpy.uint8)
    return Entry(name, "array", offset, memoryview(flat), dtype, tuple(array.shape))


def _files(
    repository: Repository,
    manifest: Manifest,
    entries: Mapping[str, FileEntry],
    index: Mapping[str, Any],
    into: Path | None,
) -> Iterator[tuple[str, Path]]:
    if index["files"] and into is None:
        raise CheckpointError("this state holds files: say which folder to put them in")
    for number, (name, stored) in enumerate(index["files"].items()):
        assert into is not None
        target = into / f"{number:05d}"
        target.unlink(missing_ok=True)  # of a first reading that failed
        download_file(repository, manifest, entries[stored], target)
        yield name, target


def _stream(layout: Layout, start: int, end: int) -> Iterator[memoryview]:
    position = start
    for entry in layout.entries:
        finish = entry.offset + entry.view.nbytes
        if finish <= position or entry.offset >= end:
            continue
        if entry.offset > position:
            yield memoryview(bytes(entry.offset - position))
        yield from transfer.pieces(
            entry.view[max(position - entry.offset, 0) : min(end, finish) - entry.offset]
        )
        position = min(end, finish)
    if position < end:
        yield memoryview(bytes(end - position))


def _plain(name: str, value: Any) -> Any:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name}: {type(value).__name__} cannot be stored; use an array, bytes, a Path or JSON"
        ) from error
    return value


def _flat(view: memoryview) -> memoryview:
    if not view.c_contiguous:
        return memoryview(view.tobytes())
    return view.cast("B") if view.nbytes else memoryview(b"")


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT


def _name(entry: FileEntry, shard: int | None) -> str:
    return entry.path if shard is None else entry.path.partition("/")[2]
