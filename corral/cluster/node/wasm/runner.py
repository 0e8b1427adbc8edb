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
from corral.cluster.node.wasm.confinement import confine_host
from corral.cluster.node.wasm.loading import (
    Cached,
    CannotRun,
    compile_module,
    open_folders,
    read_module,
    settings,
)
from corral.cluster.node.wasm.plan import Plan, from_environment
from corral.podtools.confine import ConfineError

__all__ = ["Ended", "main", "run"]

GRACE: Final = 1.0
"""Seconds that a module has to come back from a call to the machine when its time is over."""
COMPILING: Final = 300.0
"""Seconds that compiling may take where the module has no limit of its own."""
MAX_TABLES: Final = 8
MAX_ELEMENTS: Final = 1_000_000
"""Of each table: what a module has there is not in its memory, but in the host's."""
MAX_MESSAGE: Final = 4096
MAX_FRAMES: Final = 8
_NUMBER: Final = re.compile(r"^\d+: ")


@dataclass(frozen=True, slots=True)
class Ended:
    """How it ended; ``why`` is empty where the module ended by itself."""

    code: int
    why: str = ""


def main() -> NoReturn:
    """Run the module of the plan in the environment, and end as it ends."""
    plan = from_environment(os.environ)
    ended = run(plan)
    _leave(plan, ended)


def run(plan: Plan) -> Ended:
    """Run a module to its end; this process is confined from then on."""
    try:
        content = read_module(plan)
        cached = Cached(plan, content)
        plan = open_folders(plan)
        _confine(plan)
        engine = Engine(settings(plan))
        alarm = _Alarm(plan, engine)
        try:
            return _execute(plan, engine, _compiled(plan, engine, content, cached))
        finally:
            alarm.cancel()
    except CannotRun as error:
        return Ended(error.code, str(error))


def _compiled(plan: Plan, engine: Engine, content: bytes, cached: Cached) -> Module:
    why = f"compiling takes more than {COMPILING:g} seconds"
    timer = threading.Timer(COMPILING, _leave, [plan, Ended(outcomes.TIME, why)])
    timer.daemon = True
    timer.start()
    try:
        return compile_module(plan, engine, content, cached)
    finally:
        timer.cancel()


def _confine(plan: Plan) -> None:
    """Give up all that is not needed; a machine that cannot hold to it is named in the log."""
    try:
        confine_host(plan)
    except ConfineError as err:
        os.write(2, f"the host of this module is not confined: {err}\n".encode())


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


# --- running it ----------------------------------------------------------------------------------


def _execute(plan: Plan, engine: Engine, module: Module) -> Ended:
    store = Store(engine)
    store.set_limits(
        memory_size=-1 if plan.memory is None else plan.memory,
        table_elements=MAX_ELEMENTS,
        tables=MAX_TABLES,
        instances=1,
        memories=1,
    )
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
            raise CannotRun(outcomes.BROKEN, f"{folder.target}: the volume cannot be used") from err
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
