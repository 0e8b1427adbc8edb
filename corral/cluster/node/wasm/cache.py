"""Compiled modules, kept in a folder.

Compiled code is run as it is, so a file is loaded only if nobody else could have written it: it and
its folder belong to us, nobody else may write them, and no other user could have put another folder
in their place. It must also be whole (a checksum) and made by the same wasmtime with the same
settings; otherwise it is as if it were not there.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NoReturn

from corral.files.private import is_safe

__all__ = ["CompileCache", "Keeper", "overlaps"]

logger = logging.getLogger(__name__)

MAX_FILES: Final = 64
MAX_FILE: Final = 256 << 20
MAX_BYTES: Final = 2 << 30
"""Of all files together: modules are anybody's, and the disk is the node's."""
_SUM: Final = hashlib.sha256().digest_size


class CompileCache:
    """The folder; ``usable`` says whether it is fit."""

    def __init__(self, folder: Path, *, reachable: Iterable[str] = ()) -> None:
        """``reachable``: folders that modules can write to; the cache must not lie in one."""
        self._folder = folder
        self.usable = _ours(folder) and not overlaps(folder, reachable)

    def key(self, module: bytes, settings: str) -> str:
        """The name under which a module is kept."""
        digest = hashlib.sha256(module)
        digest.update(f"\0{settings}\0{platform.machine()}".encode())
        return digest.hexdigest()

    def load(self, key: str) -> bytes | None:
        """The compiled module, if there is one that may be trusted."""
        if not self.usable:
            return None
        try:
            fd = os.open(self._folder / key, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return None
        with open(fd, "rb") as file:
            if not _is_private(os.fstat(fd)) or not stat.S_ISREG(os.fstat(fd).st_mode):
                return None
            content = file.read()
        if hashlib.sha256(content[_SUM:]).digest() != content[:_SUM]:
            return None
        return content[_SUM:]

    def store(self, key: str, compiled: bytes) -> None:
        """Keep a compiled module; nothing happens where that cannot be."""
        if not self.usable or len(compiled) > MAX_FILE:
            return
        try:
            fd, name = tempfile.mkstemp(dir=self._folder, prefix=".new-")
            with open(fd, "wb") as file:
                file.write(hashlib.sha256(compiled).digest() + compiled)
            os.rename(name, self._folder / key)
            self._prune()
        except OSError as err:
            logger.debug("a compiled module was not kept: %s", err)

    def _prune(self) -> None:
        files = [entry for entry in os.scandir(self._folder) if entry.is_file()]
        files.sort(key=lambda entry: entry.stat().st_mtime, reverse=True)
        total = 0
        for number, entry in enumerate(files):
            total += entry.stat().st_size
            if number >= MAX_FILES or total > MAX_BYTES:
                os.unlink(entry.path)


class Keeper:
    """Puts one compiled module into the cache for a process that cannot reach it any more.

    It is a process of its own, which waits for the module and has ended before the module is run.
    """

    def __init__(self, cache: CompileCache, key: str) -> None:
        again, self._to = os.pipe2(os.O_CLOEXEC)
        self._child = os.fork()
        if self._child == 0:
            os.close(self._to)
            _keep(cache, key, again)
        os.close(again)

    def keep(self, compiled: bytes) -> None:
        """Hand the module over, whole."""
        try:
            with open(os.dup(self._to), "wb") as pipe:
                pipe.write(len(compiled).to_bytes(8, "little"))
                pipe.write(compiled)
        except BrokenPipeError as err:
            logger.debug("a compiled module was not kept: %s", err)

    def close(self) -> None:
        """Nothing more comes; wait for its end."""
        os.close(self._to)
        os.waitpid(self._child, 0)


def _keep(cache: CompileCache, key: str, pipe: int) -> NoReturn:
    try:
        with open(pipe, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            compiled = file.read()
        if size and len(compiled) == size:
            cache.store(key, compiled)
    finally:
        os._exit(0)


def _ours(folder: Path) -> bool:
    """Whether only we can write into the folder, and only we can replace it."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if not _is_private(folder.lstat()) or not folder.is_dir():
            return False
        return all(is_safe(parent.stat()) for parent in folder.resolve().parents)
    except OSError:
        return False


def _is_private(info: os.stat_result) -> bool:
    return info.st_uid == os.geteuid() and not info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def overlaps(folder: Path, others: Iterable[str]) -> bool:
    """Whether a folder lies in one of the others, or one of them in it."""
    own = folder.resolve()
    for other in others:
        place = Path(other).resolve()
        if own == place or own in place.parents or place in own.parents:
            return True
    return False
