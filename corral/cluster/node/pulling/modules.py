"""The module in an artifact: a layer that is one, or the one file of that kind in an image.

Both ways to ship a module are taken: artifacts with a layer of WebAssembly, and ordinary images
whose layers are tar archives. Archives are read as streams, within a limit, and nothing but the
module is taken out of them.
"""

from __future__ import annotations

import gzip
import json
import os
import posixpath
import tarfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, cast

from corral.files.archives import ShortInfo, each_member
from corral.oci import Descriptor, InvalidArtifact, Manifest, TooLarge

__all__ = ["ARCHIVES", "PLATFORMS", "ImageConfig", "archives_of", "extract", "module_layer"]

PLATFORMS: Final = ("wasi/wasm", "wasip1/wasm", "")
"""In an index, the first of these that there is; empty: the only one there is."""
MODULES: Final = frozenset(
    {
        "application/wasm",
        "application/vnd.wasm.content.layer.v1+wasm",
        "application/vnd.module.wasm.content.layer.v1+wasm",
    }
)
ARCHIVES: Final = {
    "application/vnd.oci.image.layer.v1.tar": False,
    "application/vnd.oci.image.layer.v1.tar+gzip": True,
    "application/vnd.docker.image.rootfs.diff.tar": False,
    "application/vnd.docker.image.rootfs.diff.tar.gzip": True,
}
"""Kinds of layers, and whether they are compressed."""
_TITLE: Final = "org.opencontainers.image.title"
_PIECE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class ImageConfig:
    """What an image says about how it is run."""

    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, raw: bytes) -> ImageConfig:
        """What can be read of a config; one of another kind says nothing."""
        try:
            content: Any = json.loads(raw)
        except (ValueError, RecursionError):
            return cls()
        config = content.get("config") if isinstance(content, dict) else None
        if not isinstance(config, dict):
            return cls()
        pairs = (str(one).partition("=") for one in _strings(config.get("Env")))
        return cls(
            _strings(config.get("Entrypoint")),
            _strings(config.get("Cmd")),
            tuple((name, value) for name, _, value in pairs if name),
        )


def _strings(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        return ()
    return tuple(value)


def module_layer(manifest: Manifest) -> tuple[Descriptor, str] | None:
    """The layer that is a module, and its name; None where none is.

    Raises:
        InvalidArtifact: there are several.
    """
    found = [layer for layer in manifest.layers if layer.media_type in MODULES]
    if len(found) > 1:
        raise InvalidArtifact(f"it has {len(found)} layers that are modules, and one is wanted")
    if not found:
        return None
    title = posixpath.basename(found[0].annotations.get(_TITLE, ""))
    return found[0], title


def archives_of(manifest: Manifest) -> list[Descriptor]:
    """The layers to look for a module in, the topmost first.

    Raises:
        InvalidArtifact: there are none, or some that cannot be read.
    """
    if not manifest.layers:
        raise InvalidArtifact("it has no layers")
    for layer in manifest.layers:
        if layer.media_type not in ARCHIVES:
            raise InvalidArtifact(
                f"it is no WebAssembly module: a layer is of the type {layer.media_type!r}; wanted "
                "is application/wasm, or an image of tar layers with one .wasm file"
            )
    return list(reversed(manifest.layers))


def extract(
    archive: Path, *, compressed: bool, wanted: Sequence[str], target: Path, limit: int
) -> str:
    """Write the module of an archive to a file; gives its name, empty where there is none.

    ``wanted`` are the paths that the image's own entrypoint names; without any, the only one.

    Raises:
        InvalidArtifact: there are several, or the archive is damaged.
        TooLarge: there is more in it than the limit.
    """
    try:
        with archive.open("rb") as raw:
            plain = cast(IO[bytes], gzip.GzipFile(fileobj=raw)) if compressed else raw
            limited = cast(IO[bytes], _Limited(plain, limit))
            with tarfile.open(fileobj=limited, mode="r|", tarinfo=ShortInfo) as tar:
                return _take(tar, wanted, target, limit)
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error, ValueError) as error:
        raise InvalidArtifact(f"a layer of it cannot be read: {error}") from error


def _take(tar: tarfile.TarFile, wanted: Sequence[str], target: Path, limit: int) -> str:
    names = {_absolute(name.partition("#")[0]) for name in wanted}
    names = {name for name in names if name.endswith(".wasm")}
    found = ""
    for member in each_member(tar):
        path = _absolute(member.name)
        if not member.isreg() or not path.endswith(".wasm") or (names and path not in names):
            continue
        if found:
            raise InvalidArtifact(
                f"it has several modules ({found}, {path}), and its entrypoint names none of them"
            )
        if member.size > limit:
            raise TooLarge(f"{path} has {member.size} bytes, and {limit} are taken")
        source = tar.extractfile(member)
        if source is None:
            continue
        with target.open("wb") as file:
            while piece := source.read(_PIECE):
                file.write(piece)
        found = path
    return found


def _absolute(path: str) -> str:
    return posixpath.normpath("/" + path.lstrip("/"))


class _Limited:
    """A stream that ends in an error when more comes out of it than is taken."""

    def __init__(self, stream: IO[bytes], limit: int) -> None:
        self._stream = stream
        self._left = limit
        self._limit = limit

    def read(self, size: int = -1) -> bytes:
        content = self._stream.read(min(size, _PIECE) if size >= 0 else _PIECE)
        self._left -= len(content)
        if self._left < 0:
            raise TooLarge(f"a layer unpacks to more than {self._limit} bytes")
        return content

    def close(self) -> None:
        self._stream.close()


def starts_like_a_module(path: Path) -> bool:
    """Whether a file begins as WebAssembly does."""
    with path.open("rb", buffering=0) as file:
        return os.pread(file.fileno(), 4, 0) == b"\0asm"
