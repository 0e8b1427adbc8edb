"""Modules that really run, as containers of the engine."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import wasmtime

from corral.cluster.node.container.processes import Container, ContainerSpec, Engine, Mount, State
from corral.cluster.node.wasm import wasm_command

Obj = dict[str, Any]

WASI = "wasi_snapshot_preview1"
WRITE = f"""
  (import "{WASI}" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "{WASI}" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (func $say (param $fd i32) (param $at i32) (param $length i32)
    (i32.store (i32.const 0) (local.get $at))
    (i32.store (i32.const 4) (local.get $length))
    (drop (call $write (local.get $fd) (i32.const 0) (i32.const 1) (i32.const 8))))
"""
SPIN = '(module (memory (export "memory") 1) (func (export "_start") (loop $l (br $l))))'


def program(body: str, *parts: str, imports: str = "") -> str:
    """A module with what it needs to speak, and a main function."""
    start = f'(func (export "_start") (local $i i32) {body})'
    return f"(module {imports} {WRITE} {' '.join(parts)} {start})"


def failing(body: str) -> str:
    return f'(module (memory (export "memory") 1) (func $main (export "_start") {body}))'


class Modules:
    """Runs modules in containers."""

    def __init__(self, engine: Engine, spec: Callable[..., ContainerSpec], folder: Path) -> None:
        self.engine, self.spec, self.folder = engine, spec, folder
        self.code, self.data = folder / "code", folder / "data"
        self.message = folder / "message"
        self.cache = folder / "cache"
        for place in (self.code, self.data):
            place.mkdir()
        self.message.touch()

    async def start(
        self,
        wat: str | bytes | None,
        *args: str,
        env: dict[str, str] | None = None,
        limits: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
        mounts: list[Mount] | None = None,
        **more: Any,
    ) -> Container:
        if wat is not None:
            content = wasmtime.wat2wasm(wat) if isinstance(wat, str) else wat
            (self.code / "app.wasm").write_bytes(content)
        found = {f"wasm.corral.dev/{key}": value for key, value in (annotations or {}).items()}
        launch = wasm_command(
            {"name": "main", "resources": {"limits": limits or {}}},
            {"metadata": {"annotations": found}},
            ["/code/app.wasm", *args],
            mounts=[
                Mount(source=str(self.code), target="/code", read_only=True),
                Mount(source=str(self.data), target="/data"),
                *(mounts or []),
            ],
            env=env or {},
            message=str(self.message),
            cache=str(self.cache),
        )
        spec = self.spec("", **more)
        # the plan names places of the machine: the folder of the case stays mounted
        mounted = [*launch.mounts, *spec.mounts]
        return await self.engine.start(replace(launch.apply(spec), mounts=mounted))

    async def run(self, wat: str | bytes | None, *args: str, **more: Any) -> State:
        self.last = await self.start(wat, *args, **more)
        return await self.last.wait()

    def said(self, stream: str = "stdout") -> str:
        path = Path(self.last.spec["log"])
        lines = path.read_text().splitlines() if path.exists() else []
        entries = [line.split(" ", 3) for line in lines]
        return "\n".join(text for _, which, _, text in entries if which == stream)


@pytest.fixture
def modules(engine: Engine, spec: Callable[..., ContainerSpec], tmp_path: Path) -> Modules:
    return Modules(engine, spec, tmp_path)


# --- what modules see ----------------------------------------------------------------------------


async def test_streams_and_success(modules: Modules) -> None:
    words = '(data (i32.const 100) "hello\\n") (data (i32.const 200) "oops\\n")'
    body = """(call $say (i32.const 1) (i32.const 100) (i32.const 6))
              (call $say (i32.const 2) (i32.const 200) (i32.const 5))"""
    state = await modules.run(program(body, words))
    assert state.exit_code == 0
    assert (modules.said(), modules.said("stderr")) == ("hello", "oops")
    assert modules.message.read_text() == ""


async def test_arguments_and_variables(modules: Modules) -> None:
    imports = f"""
      (import "{WASI}" "args_sizes_get" (func $arg_sizes (param i32 i32) (result i32)))
      (import "{WASI}" "args_get" (func $args (param i32 i32) (result i32)))
      (import "{WASI}" "environ_sizes_get" (func $env_sizes (param i32 i32) (result i32)))
      (import "{WASI}" "environ_get" (func $env (param i32 i32) (result i32)))"""
    body = """(drop (call $arg_sizes (i32.const 16) (i32.const 20)))
              (drop (call $args (i32.const 1000) (i32.const 2000)))
              (call $say (i32.const 1) (i32.const 2000) (i32.load (i32.const 20)))
              (drop (call $env_sizes (i32.const 16) (i32.const 20)))
              (drop (call $env (i32.const 1000) (i32.const 4000)))
              (call $say (i32.const 1) (i32.const 4000) (i32.load (i32.const 20)))"""
    secret = {"NAME": "value", "LD_PRELOAD": "/nowhere.so", "PYTHONPATH": "/nowhere"}
    await modules.run(program(body, imports=imports), "one", "two words", env=secret)
    seen = modules.said().rstrip("\0").split("\0")
    assert seen[:3] == ["/code/app.wasm", "one", "two words"]
    assert set(seen[3:]) == {f"{key}={value}" for key, value in secret.items()}


async def test_standard_input(modules: Modules) -> None:
    imports = f'(import "{WASI}" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))'
    body = """(i32.store (i32.const 0) (i32.const 1000))
              (i32.store (i32.const 4) (i32.const 100))
              (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
              (call $say (i32.const 1) (i32.const 1000) (i32.load (i32.const 8)))"""
    container = await modules.start(program(body, imports=imports), stdin=True, stdin_once=True)
    modules.last = container
    streams = await container.attach(stdin=True)
    await streams.write(b"typed\n")
    await container.wait()
    await streams.close()
    assert modules.said() == "typed"


OPEN = f"""
  (import "{WASI}" "path_open" (func $open
    (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "{WASI}" "fd_prestat_get" (func $prestat (param i32 i32) (result i32)))"""


def opening(folder: int, path: str, *, flags: int = 0, rights: int = 2) -> str:
    """Exit with what opening a path below a folder (3 is the first) answers; 0 is success."""
    words = f'(data (i32.const 100) "{path}")'
    body = f"""(call $exit (call $open (i32.const {folder}) (i32.const 1) (i32.const 100)
      (i32.const {len(path)}) (i32.const {flags}) (i64.const {rights}) (i64.const 0)
      (i32.const 0) (i32.const 16)))"""
    return program(body, words, imports=OPEN)


READ, WRITE_RIGHT, CREATE = 2, 64, 1
PERMISSION, ABSENT, ACCESS, READ_ONLY = 63, 44, 2, 69


@pytest.mark.parametrize(
    ("wat", "codes"),
    [
        pytest.param(opening(3, "app.wasm"), {0}, id="read"),
        pytest.param(opening(4, "new", flags=CREATE, rights=WRITE_RIGHT), {0}, id="write"),
        pytest.param(opening(3, "new", flags=CREATE, rights=WRITE_RIGHT),
                     {PERMISSION, READ_ONLY}, id="read only"),
        pytest.param(opening(4, "../code/app.wasm"), {PERMISSION}, id="above"),
        pytest.param(opening(4, "/etc/passwd"), {PERMISSION}, id="absolute"),
        pytest.param(opening(4, "link"), {PERMISSION}, id="link"),
        pytest.param(opening(4, "absent"), {ABSENT}, id="absent"),
        pytest.param(opening(5, "x"), {8}, id="no third folder"),
    ],
)  # fmt: skip
async def test_folders(modules: Modules, wat: str, codes: set[int]) -> None:
    (modules.data / "link").symlink_to("/etc/passwd")
    state = await modules.run(wat)
    assert state.exit_code in codes, modules.said("stderr")
    assert (modules.data / "new").exists() == (0 in codes and "new" in wat)


async def test_a_module_through_links(modules: Modules) -> None:
    """As config maps are laid out: the name is a link to a link."""
    content = wasmtime.wat2wasm(program("(call $exit (i32.const 3))"))
    (modules.code / "..v1").mkdir()
    (modules.code / "..v1" / "app.wasm").write_bytes(content)
    (modules.code / "..data").symlink_to("..v1")
    (modules.code / "app.wasm").symlink_to("..data/app.wasm")
    assert (await modules.run(None)).exit_code == 3


async def test_no_sockets(modules: Modules) -> None:
    imports = f'(import "{WASI}" "sock_accept" (func $accept (param i32 i32 i32) (result i32)))'
    body = "(call $exit (call $accept (i32.const 3) (i32.const 0) (i32.const 16)))"
    state = await modules.run(program(body, imports=imports))
    assert state.exit_code != 0


# --- how modules end -----------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 1, 7, 125])
async def test_own_codes(modules: Modules, code: int) -> None:
    state = await modules.run(program(f"(call $exit (i32.const {code}))"))
    assert (state.exit_code, modules.message.read_text()) == (code, "")


GROW = "(loop $l (br_if $l (i32.ne (i32.const -1) (memory.grow (i32.const 1)))))"
ALL = {"annotations": {"fuel": "1000000000", "timeout-seconds": "60"}, "limits": {"memory": "1Mi"}}


@pytest.mark.parametrize(
    ("wat", "more", "code", "message"),
    [
        pytest.param(failing("unreachable"), {}, 134,
                     "wasm trap: wasm `unreachable` instruction executed (in main)", id="abort"),
        pytest.param(failing("(drop (i32.div_u (i32.const 1) (i32.const 0)))"), {}, 134,
                     "wasm trap: integer divide by zero (in main)", id="division"),
        pytest.param(failing("(drop (i32.load (i32.const 70000)))"), {}, 134,
                     "wasm trap: out of bounds memory access (in main)", id="bounds"),
        pytest.param(program("(call $exit (i32.const 200))"), {}, 134,
                     "exit with invalid exit status outside of [0..126)", id="code"),
        pytest.param(SPIN, {"annotations": {"fuel": "5000"}}, 152,
                     "out of fuel: all 5000 units are used up", id="fuel"),
        pytest.param(SPIN, {"annotations": {"timeout-seconds": "0.2"}}, 142,
                     "out of time: the limit is 0.2 seconds", id="time"),
        pytest.param(failing(GROW + " unreachable"), {"limits": {"memory": "1Mi"}}, 137,
                     "out of memory: the limit is 1048576 bytes: "
                     "the module gave up with 1048576 bytes", id="memory"),
        pytest.param('(module (memory (export "memory") 17) (func (export "_start")))',
                     {"limits": {"memory": "1Mi"}}, 137,
                     "out of memory: the limit is 1048576 bytes: "
                     "memory minimum size of 17 pages exceeds memory limits", id="too big"),
        pytest.param(failing("unreachable"), {"limits": {"memory": "64Mi"}}, 134,
                     "wasm trap: wasm `unreachable` instruction executed (in main)",
                     id="abort with memory left"),
        pytest.param(failing(GROW), {"limits": {"memory": "1Mi"}}, 0, "", id="refusal handled"),
        pytest.param(failing("nop"), ALL, 0, "", id="all limits"),
        pytest.param('(module (import "env" "f" (func)) (func (export "_start")))', {}, 126,
                     "/code/app.wasm: unknown import: `env::f` has not been defined",
                     id="import"),
        pytest.param('(module (func (export "run")))', {}, 126,
                     "/code/app.wasm: the module has no function _start: "
                     "it is a library, not a program", id="library"),
        pytest.param(b"#!/bin/sh\n", {}, 126,
                     "/code/app.wasm: not a WebAssembly module", id="script"),
        pytest.param(b"\0asm\x0d\0\x01\0", {}, 126,
                     "/code/app.wasm: a component, and only modules (WASI preview 1) can be run",
                     id="component"),
        pytest.param(None, {}, 127, "/code/app.wasm: no such module", id="absent"),
    ],
)  # fmt: skip
async def test_ends(
    modules: Modules, wat: str | bytes | None, more: Obj, code: int, message: str
) -> None:
    state = await modules.run(wat, **more)
    assert (state.exit_code, modules.message.read_text()) == (code, message)
    assert modules.said("stderr") == message


async def test_a_call_that_makes_no_sense(modules: Modules) -> None:
    body = "(drop (call $write (i32.const 1) (i32.const 3) (i32.const 1) (i32.const 8)))"
    state = await modules.run(program(body))
    assert state.exit_code == 134 and "not aligned" in modules.message.read_text()


async def test_a_broken_module(modules: Modules) -> None:
    state = await modules.run(b"\0asm\x01\0\0\0garbage")
    assert state.exit_code == 126 and "/code/app.wasm: " in modules.message.read_text()


async def test_a_link_that_leads_out(modules: Modules, tmp_path: Path) -> None:
    outside = tmp_path / "outside.wasm"
    outside.write_bytes(wasmtime.wat2wasm(SPIN))
    (modules.code / "app.wasm").symlink_to(outside)
    state = await modules.run(None)
    assert (state.exit_code, modules.message.read_text()) == (
        127, "/code/app.wasm: the link leads out of its volume",
    )  # fmt: skip


async def test_time_that_passes_in_a_call(modules: Modules) -> None:
    """A module that sleeps cannot be interrupted: it is ended."""
    imports = f'(import "{WASI}" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))'
    # a subscription to the clock: 600 s from now
    body = """(i32.store8 (i32.const 112) (i32.const 0))
              (i32.store (i32.const 120) (i32.const 1))
              (i64.store (i32.const 128) (i64.const 600000000000))
              (drop (call $poll (i32.const 104) (i32.const 208) (i32.const 1) (i32.const 304)))"""
    state = await modules.run(
        program(body, imports=imports), annotations={"timeout-seconds": "0.1"}
    )
    assert (state.exit_code, modules.message.read_text()) == (
        142, "out of time: the limit is 0.1 seconds",
    )  # fmt: skip


async def test_a_signal_ends_it(modules: Modules) -> None:
    container = await modules.start(SPIN)
    await container.signal(15)
    state = await container.wait()
    assert (state.exit_code, state.signal) == (143, 15)


# --- compiled modules ----------------------------------------------------------------------------


async def test_compiled_modules_are_kept_and_used(modules: Modules) -> None:
    wat = program("(call $exit (i32.const 5))")
    assert (await modules.run(wat)).exit_code == 5
    (kept,) = modules.cache.iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
    before = kept.stat().st_ino
    assert (await modules.run(wat)).exit_code == 5
    assert kept.stat().st_ino == before  # not written again
    await modules.run(wat, annotations={"fuel": "1000000"})
    assert len(list(modules.cache.iterdir())) == 2  # compiled otherwise


async def test_compiled_modules_of_others_are_not_run(modules: Modules) -> None:
    wat = program("(call $exit (i32.const 5))")
    await modules.run(wat)
    (kept,) = modules.cache.iterdir()
    good = kept.read_bytes()
    # what an attacker would put there: well-formed, for another module
    await modules.run(program("(call $exit (i32.const 66))"))
    (other,) = [path for path in modules.cache.iterdir() if path != kept]
    kept.write_bytes(other.read_bytes())
    kept.chmod(0o666)
    assert (await modules.run(wat)).exit_code == 5
    assert kept.read_bytes() == good and kept.stat().st_mode & 0o022 == 0


async def test_no_cache_where_the_module_could_write(modules: Modules) -> None:
    mount = Mount(source=str(modules.folder), target="/all")
    state = await modules.run(program("(call $exit (i32.const 5))"), mounts=[mount])
    assert state.exit_code == 5 and not list(modules.cache.glob("*"))


def command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


async def test_the_plan_is_not_for_everybody(modules: Modules) -> None:
    container = await modules.start(SPIN, env={"TOKEN": "secret"})
    pid = container.state.pid
    assert b"secret" not in command_line(pid)
    assert os.stat(f"/proc/{pid}/environ").st_mode & 0o077 == 0
    await container.kill()


# --- functions of libraries ----------------------------------------------------------------------

ADD = """(module
  (func (export "add") (param i64 i64) (result i64) (i64.add (local.get 0) (local.get 1))))"""
TWO = """(module
  (func (export "half") (param f64) (result f64) (f64.div (local.get 0) (f64.const 2)))
  (func (export "same") (param i32) (result i32) (local.get 0)))"""


@pytest.mark.parametrize(
    ("wat", "annotations", "output"),
    [
        (ADD, {"inputs": "[2, 40]"}, "42"),
        (ADD, {"inputs": "[18446744073709551615, 3]"}, "2"),
        (TWO, {"inputs": "[5]", "function": "half"}, "2.5"),
        (TWO, {"inputs": "[4294967295]", "function": "same"}, "-1"),
    ],
)
async def test_a_function_is_given_its_inputs(
    modules: Modules, wat: str, annotations: dict[str, str], output: str
) -> None:
    state = await modules.run(wat, annotations=annotations)
    assert state.exit_code == 0
    assert modules.said() == modules.message.read_text() == f'{{"output": {output}}}'


@pytest.mark.parametrize(
    ("wat", "annotations", "code", "why"),
    [
        (TWO, {"inputs": "[5]"}, 126, "(there are: half, same)"),
        (ADD, {"inputs": "[5]"}, 134, "the function takes 2 numbers (i64, i64), there are 1"),
        ("(module)", {"inputs": "[]"}, 126, "(there are: none)"),
    ],
)
async def test_a_function_that_cannot_be_called(
    modules: Modules, wat: str, annotations: dict[str, str], code: int, why: str
) -> None:
    state = await modules.run(wat, annotations=annotations)
    assert state.exit_code == code
    assert why in modules.message.read_text()


async def test_a_program_is_run_whatever_its_inputs(modules: Modules) -> None:
    words = '(data (i32.const 100) "hello\\n")'
    body = "(call $say (i32.const 1) (i32.const 100) (i32.const 6))"
    state = await modules.run(program(body, words), annotations={"inputs": "[1]"})
    assert (state.exit_code, modules.said()) == (0, "hello")
