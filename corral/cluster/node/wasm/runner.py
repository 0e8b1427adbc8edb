"""Runs one WebAssembly module: the process of a container of a wasm pod.

The module has its arguments, variables and standard streams, the folders of its plan and nothing
else of the machine. It ends with the code it chose (0 to 125), or with one of ``outcomes``; then
the termination message and the last line of the log say why.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from wasmtime import (
    Config,
    Engine,
    ExitTrap,
    Func,
    Linker,
    Memory,
    Module,
    Store,
    Trap,
    TrapCode,
    WasiConfig,
    WasmtimeError,
)

from corral.cluster.node.wasm import outcomes
from corral.cluster.node.wasm.cache import CompileCache
from corral.cluster.node.wasm.plan import Plan, from_environment

__all__ = ["Ended", "main", "run"]

GRACE: Final = 1.0
"""Seconds that a module has to come back from a call to the machine when its time is over."""
MAX_MESSAGE: Final = 4096
MAX_FRAMES: Final = 8
_NUMBER: Final = re.compile(r"^\d+: ")
_MAGIC: Final = b"\0asm"
_CORE: Final = b"\x01\0\0\0"
_COMPONENT: Final = b"\x0d\0\x01\0"


@dataclass(frozen=True, slots=True)
class Ended:
    """How it ended; ``why`` is empty where the module ended by itself."""

    code: int
    why: str = ""


class _CannotRun(Exception):
    """There is nothing to run."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.ended = Ended(code, why)


def main() -> NoReturn:
    """Run the module of the plan in the environment, and end as it ends."""
    plan = from_environment(os.environ)
    ended = run(plan)
    _leave(plan, ended)


def run(plan: Plan) -> Ended:
    """Run a module to its end."""
    try:
        content = _read(plan)
        engine = Engine(_settings(plan))
        alarm = _Alarm(plan, engine)
        try:
            return _execute(plan, engine, content)
        finally:
            alarm.cancel()
    except _CannotRun as error:
        return error.ended


def _leave(plan: Plan, ended: Ended) -> NoReturn:
    """Say why, and end at once: nothing of the module's may keep the process."""
    if ended.why:
        text = ended.why.encode(errors="replace")[:MAX_MESSAGE]
        if plan.message:
            try:
                Path(plan.message).write_bytes(text)
            except OSError as err:
                os.write(2, f"the termination message was not written: {err}\n".encode())
        os.write(2, text + b"\n")
    os._exit(ended.code)


class _Alarm:
    """Ends a module whose time is over: in its own code at once, in a call to the machine soon."""

    def __init__(self, plan: Plan, engine: Engine) -> None:
        self._plan, self._engine = plan, engine
        self._timer: threading.Timer | None = None
        if plan.seconds is not None:
            self._start(plan.seconds, self._interrupt)

    def _start(self, seconds: float, function: Callable[[], None]) -> None:
        self._timer = threading.Timer(seconds, function)
        self._timer.daemon = True
        self._timer.start()

    def _interrupt(self) -> None:
        self._engine.increment_epoch()
        self._start(GRACE, self._end)

    def _end(self) -> None:
        _leave(self._plan, _out_of_time(self._plan))

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


# --- the module ----------------------------------------------------------------------------------


def _read(plan: Plan) -> bytes:
    path = Path(plan.module)
    try:
        found = path.resolve(strict=True)
        if plan.within and not found.is_relative_to(Path(plan.within).resolve()):
            raise _CannotRun(outcomes.MISSING, f"{plan.argv[0]}: the link leads out of its volume")
        content = found.read_bytes()
    except FileNotFoundError:
        raise _CannotRun(outcomes.MISSING, f"{plan.argv[0]}: no such module") from None
    except OSError as err:
        raise _CannotRun(outcomes.BROKEN, f"{plan.argv[0]}: {err.strerror}") from err
    if content[:4] != _MAGIC:
        raise _CannotRun(outcomes.BROKEN, f"{plan.argv[0]}: not a WebAssembly module")
    if content[4:8] == _COMPONENT:
        what = "a component, and only modules (WASI preview 1) can be run"
        raise _CannotRun(outcomes.BROKEN, f"{plan.argv[0]}: {what}")
    if content[4:8] != _CORE:
        raise _CannotRun(
            outcomes.BROKEN, f"{plan.argv[0]}: a WebAssembly version that is not known"
        )
    return content


def _settings(plan: Plan) -> Config:
    settings = Config()
    settings.consume_fuel = plan.fuel is not None
    settings.epoch_interruption = plan.seconds is not None
    # One memory of at most 4 GiB, which the limit is about.
    settings.wasm_threads = False
    settings.wasm_memory64 = False
    settings.wasm_multi_memory = False
    return settings


def _compile(plan: Plan, engine: Engine, content: bytes) -> Module:
    if not plan.cache:
        return _compiled(plan, engine, content)
    writable = [folder.source for folder in plan.folders if not folder.read_only]
    cache = CompileCache(Path(plan.cache), reachable=writable)
    fuel, epoch = plan.fuel is not None, plan.seconds is not None
    key = cache.key(content, f"fuel={fuel} epoch={epoch}")
    known = cache.load(key)
    if known is not None:
        try:
            return Module.deserialize(engine, known)
        except WasmtimeError:
            # of another build of wasmtime: compiled anew, and replaced
            known = None
    module = _compiled(plan, engine, content)
    cache.store(key, bytes(module.serialize()))
    return module


def _compiled(plan: Plan, engine: Engine, content: bytes) -> Module:
    try:
        return Module(engine, content)
    except WasmtimeError as err:
        raise _CannotRun(outcomes.BROKEN, f"{plan.argv[0]}: {err}") from err


# --- running it ----------------------------------------------------------------------------------


def _execute(plan: Plan, engine: Engine, content: bytes) -> Ended:
    module = _compile(plan, engine, content)
    store = Store(engine)
    if plan.memory is not None:
        store.set_limits(memory_size=plan.memory)
    if plan.fuel is not None:
        store.set_fuel(plan.fuel)
    if plan.seconds is not None:
        store.set_epoch_deadline(1)
    store.set_wasi(_surroundings(plan))
    linker = Linker(engine)
    linker.define_wasi()
    try:
        exports = linker.instantiate(store, module).exports(store)
    except Trap as trap:
        return _trapped(plan, trap, 0)
    except ExitTrap as trap:
        return Ended(trap.code)
    except WasmtimeError as err:
        return _refused(plan, str(err))
    start, memory = exports.get("_start"), exports.get("memory")
    call = _entry(plan, start, exports) if plan.inputs is not None else start
    if isinstance(call, str):
        return Ended(outcomes.BROKEN, f"{plan.argv[0]}: {call}")
    if not isinstance(call, Func):
        what = "has no function _start: it is a library, not a program"
        return Ended(outcomes.BROKEN, f"{plan.argv[0]}: the module {what}")
    try:
        if call is start:
            call(store)
        else:
            _tell(plan, call(store, *_arguments(plan, call, store)))
    except ExitTrap as trap:
        return Ended(trap.code)
    except Trap as trap:
        size = memory.data_len(store) if isinstance(memory, Memory) else 0
        return _trapped(plan, trap, size)
    except WasmtimeError as err:
        # a call to the machine that made no sense
        return Ended(outcomes.TRAP, _cause(str(err)))
    return Ended(0)


def _entry(plan: Plan, start: object, exports: Mapping[str, object]) -> Func | str:
    """What is to be called: the program, else the function of a library; or why nothing is."""
    if isinstance(start, Func):
        return start
    functions = {
        name: found
        for name, found in exports.items()
        if isinstance(found, Func) and not name.startswith("_")
    }
    chosen = functions.get(plan.function)
    if chosen is None and len(functions) == 1:
        (chosen,) = functions.values()
    if chosen is None:
        names = ", ".join(sorted(functions)) or "none"
        return (
            "the module is a library: say which of its functions is meant in the annotation "
            f"wasm.corral.dev/function (there are: {names})"
        )
    return chosen


def _arguments(plan: Plan, function: Func, store: Store) -> list[int | float]:
    """The inputs as the function's parameters take them: whole numbers wrap, others convert."""
    wanted = [str(kind) for kind in function.type(store).params]
    inputs = list(plan.inputs or ())
    if len(wanted) != len(inputs):
        raise WasmtimeError(
            f"the function takes {len(wanted)} numbers ({', '.join(wanted)}), there are "
            f"{len(inputs)} inputs"
        )
    return [_number(kind, value) for kind, value in zip(wanted, inputs, strict=True)]


def _number(kind: str, value: int) -> int | float:
    if kind not in ("i32", "i64"):
        return float(value)
    size = 32 if kind == "i32" else 64
    wrapped = value & ((1 << size) - 1)
    return wrapped - (1 << size) if wrapped >> (size - 1) else wrapped


def _tell(plan: Plan, output: object) -> None:
    """What a function gave: on standard output, and as the termination message."""
    text = json.dumps({"output": output})
    os.write(1, f"{text}\n".encode())
    if plan.message:
        Path(plan.message).write_text(text[:MAX_MESSAGE])


def _surroundings(plan: Plan) -> WasiConfig:
    wasi = WasiConfig()
    wasi.argv = list(plan.argv)
    wasi.env = list(plan.env.items())
    wasi.inherit_stdin()
    wasi.inherit_stdout()
    wasi.inherit_stderr()
    for folder in plan.folders:
        try:
            wasi.preopen_dir(folder.source, folder.target, not folder.read_only)
        except WasmtimeError as err:
            raise _CannotRun(
                outcomes.BROKEN, f"{folder.target}: the volume cannot be used"
            ) from err
    return wasi


def _trapped(plan: Plan, trap: Trap, size: int) -> Ended:
    code = trap.trap_code
    if code is TrapCode.OUT_OF_FUEL:
        return Ended(outcomes.FUEL, f"out of fuel: all {plan.fuel} units are used up")
    if code is TrapCode.INTERRUPT:
        return _out_of_time(plan)
    if code in (TrapCode.UNREACHABLE, TrapCode.ALLOCATION_TOO_LARGE) and _was_short(plan, size):
        return _out_of_memory(plan, f"the module gave up with {size} bytes")
    return Ended(outcomes.TRAP, _cause(trap.message) + _places(trap))


def _was_short(plan: Plan, size: int) -> bool:
    """Whether a module that gave up was refused memory, as allocators double what they have."""
    return plan.memory is not None and 2 * size > plan.memory


def _refused(plan: Plan, text: str) -> Ended:
    if "exceeds memory limits" in text:
        return _out_of_memory(plan, _cause(text))
    return Ended(outcomes.BROKEN, f"{plan.argv[0]}: {_cause(text)}")


def _out_of_memory(plan: Plan, why: str) -> Ended:
    return Ended(outcomes.MEMORY, f"out of memory: the limit is {plan.memory} bytes: {why}")


def _out_of_time(plan: Plan) -> Ended:
    return Ended(outcomes.TIME, f"out of time: the limit is {plan.seconds:g} seconds")


def _cause(text: str) -> str:
    """What went wrong, without the addresses of the stack."""
    lines = [line.strip() for line in text.rpartition("Caused by:")[2].splitlines()]
    found = [_NUMBER.sub("", line) for line in lines if line and not line.startswith("note:")]
    # causes are listed from the outermost to the innermost, which says most
    return found[-1] if "Caused by:" in text and found else "; ".join(found)


def _places(trap: Trap) -> str:
    """Where it went wrong, as far as functions have names."""
    names = [frame.func_name for frame in trap.frames[:MAX_FRAMES]]
    called = [name for name in names if name]
    return f" (in {', called by '.join(called)})" if called else ""
