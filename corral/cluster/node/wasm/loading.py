"""The module of a plan: read from its file, compiled, kept in the cache.

Its file and the cache are reached before the host gives everything up; it is compiled after.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import wasmtime
from wasmtime import Config, Engine, Module, WasmtimeError

from corral.cluster.node.wasm import outcomes
from corral.cluster.node.wasm.cache import CompileCache, Keeper
from corral.cluster.node.wasm.plan import Folder, Plan
from corral.files.beneath import open_beneath

__all__ = ["Cached", "CannotRun", "compile_module", "open_folders", "read_module", "settings"]

MAX_MODULE: Final = 256 << 20
"""Bytes of a module."""
_MAGIC: Final = b"\0asm"
_CORE: Final = b"\x01\0\0\0"
_COMPONENT: Final = b"\x0d\0\x01\0"


class CannotRun(Exception):
    """There is nothing to run."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


def open_folders(plan: Plan) -> Plan:
    """The plan with folders that cannot be exchanged any more: they are open. Raises CannotRun.

    The way to a subPath goes through a volume, in which other containers may put links.
    """
    return replace(plan, folders=[_opened(folder) for folder in plan.folders])


def _opened(folder: Folder) -> Folder:
    if not folder.within:
        return folder
    relative = os.path.relpath(folder.source, folder.within)
    try:
        fd = open_beneath(folder.within, relative, os.O_PATH | os.O_DIRECTORY)
    except OSError as err:
        why = f"{folder.target}: the volume cannot be used: {err.strerror or err}"
        raise CannotRun(outcomes.BROKEN, why) from err
    return replace(folder, source=f"/proc/self/fd/{fd}", within="")


def read_module(plan: Plan) -> bytes:
    """The module as its file has it. Raises CannotRun."""
    try:
        content = _content(plan)
    except FileNotFoundError:
        raise CannotRun(outcomes.MISSING, f"{plan.argv[0]}: no such module") from None
    except OSError as err:
        raise CannotRun(outcomes.BROKEN, f"{plan.argv[0]}: {err.strerror}") from err
    if content[:4] != _MAGIC:
        raise CannotRun(outcomes.BROKEN, f"{plan.argv[0]}: not a WebAssembly module")
    if content[4:8] == _COMPONENT:
        what = "a component, and only modules (WASI preview 1) can be run"
        raise CannotRun(outcomes.BROKEN, f"{plan.argv[0]}: {what}")
    if content[4:8] != _CORE:
        raise CannotRun(outcomes.BROKEN, f"{plan.argv[0]}: a WebAssembly version that is not known")
    return content


def _content(plan: Plan) -> bytes:
    """The file of the module. Where it lies is asked of what was opened: links may be exchanged."""
    fd = os.open(plan.module, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        found = Path(os.readlink(f"/proc/self/fd/{fd}"))
        if plan.within and not found.is_relative_to(Path(plan.within).resolve()):
            raise CannotRun(outcomes.MISSING, f"{plan.argv[0]}: the link leads out of its volume")
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise CannotRun(outcomes.BROKEN, f"{plan.argv[0]}: not a file")
        if info.st_size > MAX_MODULE:
            why = f"it has {info.st_size} bytes, and may have {MAX_MODULE}"
            raise CannotRun(outcomes.BROKEN, f"{plan.argv[0]}: {why}")
        return file.read(MAX_MODULE)


def settings(plan: Plan) -> Config:
    """How the module is compiled."""
    out = Config()
    out.consume_fuel = plan.fuel is not None
    out.epoch_interruption = plan.seconds is not None
    # One memory of at most 4 GiB, which the limit is about.
    out.wasm_threads = False
    out.wasm_memory64 = False
    out.wasm_multi_memory = False
    return out


class Cached:
    """The compiled module in the cache: looked for before all is given up."""

    def __init__(self, plan: Plan, content: bytes) -> None:
        self.found: bytes | None = None
        self._keeper: Keeper | None = None
        if not plan.cache:
            return
        writable = [folder.source for folder in plan.folders if not folder.read_only]
        cache = CompileCache(Path(plan.cache), reachable=writable)
        fuel, epoch = plan.fuel is not None, plan.seconds is not None
        key = cache.key(content, f"fuel={fuel} epoch={epoch} build={_build()}")
        self.found = cache.load(key)
        if cache.usable and self.found is None:
            self._keeper = Keeper(cache, key)

    def keep(self, compiled: Callable[[], bytes]) -> None:
        """Put a compiled module there."""
        if self._keeper is not None:
            self._keeper.keep(compiled())

    def close(self) -> None:
        """From now on nothing can be put there."""
        if self._keeper is not None:
            self._keeper.close()


def compile_module(plan: Plan, engine: Engine, content: bytes, cached: Cached) -> Module:
    """The module as machine code. Raises CannotRun."""
    try:
        if cached.found is not None:
            try:
                return Module.deserialize(engine, cached.found)
            except WasmtimeError:
                cached.found = None  # of another build of the same version: compiled anew
        module = Module(engine, content)
        cached.keep(lambda: bytes(module.serialize()))
        return module
    except WasmtimeError as err:
        raise CannotRun(outcomes.BROKEN, f"{plan.argv[0]}: {err}") from err
    finally:
        cached.close()


def _build() -> int:
    """Tells one installed wasmtime from another: what they compile is not the same."""
    return os.stat(wasmtime.__file__).st_mtime_ns
