"""Hostile WebAssembly modules against their host: limits that are not those of their memory."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import wasmtime

from corral.cluster.node.container.processes import Mount
from corral.cluster.node.wasm import cache, outcomes, wasm_command
from tests.cluster.objects import eventually

WASI = "wasi_snapshot_preview1"
EXIT = f'(import "{WASI}" "proc_exit" (func $exit (param i32)))'
SPIN = '(module (memory (export "memory") 1) (func (export "_start") (loop $l (br $l))))'
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def code(tmp_path: Path) -> Path:
    for name in ("code", "data"):
        (tmp_path / name).mkdir()
    return tmp_path / "code"


@pytest.fixture
def start(code: Path) -> Iterator[Start]:
    """Starts the host of /code/app.wasm, as a node does."""
    started: list[subprocess.Popen[str]] = []

    def begin(wat: str | None = None, *, memory: str = "64Mi", **notes: str) -> Any:
        if wat is not None:
            (code / "app.wasm").write_bytes(wasmtime.wat2wasm(wat))
        launch = wasm_command(
            {"name": "main", "resources": {"limits": {"memory": memory}}},
            {"metadata": {"annotations": {f"wasm.corral.dev/{k}": v for k, v in notes.items()}}},
            ["/code/app.wasm"],
            mounts=[
                Mount(source=str(code), target="/code", read_only=True),
                Mount(source=str(code.parent / "data"), target="/data"),
            ],
            env={},
            cache=str(code.parent / "cache"),
        )
        process = subprocess.Popen(
            launch.argv,
            env=dict(launch.env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    text, _ = process.communicate(timeout=60)
    return process.returncode, text


def status(pid: int) -> dict[str, str]:
    rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (row.partition(":") for row in rows)}


@pytest.mark.attack(
    "wasm module", "runs while its host has the rights of root", "the host is confined by then"
)
def test_wasm_module_host_is_confined(start: Start) -> None:
    process = start(SPIN)
    eventually(lambda: status(process.pid)["Seccomp"] == "2")
    found = status(process.pid)
    assert found["NoNewPrivs"] == "1"
    assert int(found["CapEff"], 16) in (0, 2)
    for task in Path(f"/proc/{process.pid}/task").iterdir():
        assert "Seccomp:\t2" in (task / "status").read_text()


@pytest.mark.attack("wasm module", "grows a table without an end", "it is refused a million more")
def test_wasm_module_grows_tables(start: Start) -> None:
    wat = f"""(module {EXIT} (table $t 0 funcref) (memory (export "memory") 1)
      (func (export "_start")
        (drop (table.grow $t (ref.null func) (i32.const 1000000)))
        (call $exit (i32.eq (table.grow $t (ref.null func) (i32.const 1000000))
                            (i32.const -1)))))"""
    assert ended(start(wat))[0] == 1


@pytest.mark.attack("wasm module", "begins with huge or many tables", "it is not started")
@pytest.mark.parametrize("tables", ["(table 100000000 funcref)", "(table 10 funcref)" * 20])
def test_wasm_module_has_large_tables(tables: str, start: Start) -> None:
    code, text = ended(
        start(f'(module {tables} (memory (export "memory") 1) (func (export "_start")))')
    )
    assert code == outcomes.BROKEN, text


@pytest.mark.attack("wasm module", "takes more memory than its limit", "it is refused")
def test_wasm_module_grows_memory(start: Start) -> None:
    wat = f"""(module {EXIT} (memory (export "memory") 1) (func (export "_start")
      (call $exit (i32.eq (memory.grow (i32.const 2000)) (i32.const -1)))))"""
    assert ended(start(wat))[0] == 1


@pytest.mark.attack(
    "wasm module", "has several memories, or one of 64 bits, past the limit", "it is not started"
)
@pytest.mark.parametrize(
    "memories", ["(memory 1) (memory 1)", "(memory i64 1)", "(memory 1 2 shared)"]
)
def test_wasm_module_has_other_memories(memories: str, start: Start) -> None:
    code, text = ended(start(f'(module {memories} (func (export "_start")))'))
    assert code == outcomes.BROKEN, text


@pytest.mark.attack("wasm module", "calls itself without an end", "it traps; its host does not die")
def test_wasm_module_recurses(start: Start) -> None:
    wat = '(module (memory (export "memory") 1) (func $f (export "_start") (call $f)))'
    code, text = ended(start(wat))
    assert code == outcomes.TRAP, text
    assert "exhausted" in text


def _leb(number: int) -> bytes:
    out = bytearray()
    while True:
        number, low = number >> 7, number & 0x7F
        out.append(low | (0x80 if number else 0))
        if not number:
            return bytes(out)


def _section(kind: int, data: bytes) -> bytes:
    return bytes([kind]) + _leb(len(data)) + data


def bomb(functions: int, operations: int) -> bytes:
    """A module that takes long to compile."""
    body = b"\x00" + b"\x41\x01" + b"\x41\x03\x6a\x41\x05\x6c" * operations + b"\x1a\x0b"
    one = _leb(len(body)) + body
    return (
        b"\0asm\x01\0\0\0"
        + _section(1, b"\x01\x60\x00\x00")
        + _section(3, _leb(functions) + b"\x00" * functions)
        + _section(7, b"\x01\x06_start\x00\x00")
        + _section(10, _leb(functions) + one * functions)
    )


@pytest.mark.attack(
    "wasm module", "takes for ever to be compiled", "compiling counts for its time, and is ended"
)
def test_wasm_module_compile_bomb(start: Start, code: Path) -> None:
    (code / "app.wasm").write_bytes(bomb(4000, 3000))
    found, text = ended(start(**{"timeout-seconds": "1"}))
    assert found == outcomes.TIME, text


@pytest.mark.attack("wasm module", "is larger than any module", "it is not read")
def test_wasm_module_is_large(start: Start, code: Path) -> None:
    with (code / "app.wasm").open("wb") as file:
        file.write(b"\0asm\x01\0\0\0")
        file.truncate(300 << 20)
    found, text = ended(start())
    assert found == outcomes.BROKEN
    assert "may have" in text


@pytest.mark.attack("wasm module", "is a pipe that nobody writes to", "it is refused at once")
def test_wasm_module_is_a_pipe(start: Start, code: Path) -> None:
    os.mkfifo(code / "app.wasm")
    found, text = ended(start())
    assert found == outcomes.BROKEN
    assert "not a file" in text


@pytest.mark.attack(
    "wasm module", "is a link to a file of the machine", "it is refused, and not shown"
)
@pytest.mark.parametrize("target", ["/etc/passwd", "/proc/self/environ", "../secret.wasm"])
def test_wasm_module_is_a_link(target: str, start: Start, code: Path) -> None:
    (code.parent / "secret.wasm").write_bytes(wasmtime.wat2wasm(SPIN))
    (code / "app.wasm").symlink_to(target)
    found, text = ended(start())
    assert found == outcomes.MISSING
    assert "root:" not in text and "CORRAL_WASM" not in text


@pytest.mark.attack(
    "wasm module", "leaves its volume by links and dots", "nothing outside is opened"
)
@pytest.mark.parametrize("path", ["out/passwd", "../secret", "/etc/passwd", "inner/../../secret"])
def test_wasm_module_leaves_its_volume(path: str, start: Start, code: Path) -> None:
    data = code.parent / "data"
    (data / "out").symlink_to("/etc")
    (data / "inner").mkdir()
    (code.parent / "secret").write_text("s3cret")
    wat = f"""(module {EXIT}
      (import "{WASI}" "path_open" (func $open
        (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
      (memory (export "memory") 1) (data (i32.const 64) "{path}")
      (func (export "_start")
        (call $exit (i32.ne (i32.const 0)
          (call $open (i32.const 4) (i32.const 1) (i32.const 64) (i32.const {len(path)})
            (i32.const 0) (i64.const 2) (i64.const 2) (i32.const 0) (i32.const 8))))))"""
    assert ended(start(wat))[0] == 1


@pytest.mark.attack(
    "wasm module",
    "has a subPath that is a link out of its volume, put there after it was looked at",
    "it is not started",
)
@pytest.mark.parametrize("where", ["../outside", "/etc", "inner/../../outside"])
def test_wasm_module_has_a_volume_that_is_a_link(where: str, code: Path) -> None:
    data = code.parent / "data"
    for folder in (code.parent / "outside", data / "inner"):
        folder.mkdir()
    (data / "sub").symlink_to(where)
    (code / "app.wasm").write_bytes(wasmtime.wat2wasm('(module (func (export "_start")))'))
    launch = wasm_command(
        {"name": "main"},
        {"metadata": {}},
        ["/code/app.wasm"],
        mounts=[
            Mount(source=str(code), target="/code", read_only=True),
            Mount(source=str(data / "sub"), target="/data", within=str(data)),
        ],
        env={},
    )
    done = subprocess.run(
        launch.argv, env=dict(launch.env), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == outcomes.BROKEN, done
    assert "/data: the volume cannot be used" in done.stderr


@pytest.mark.attack(
    "wasm module", "opens files until its host has no descriptors", "its host goes on"
)
def test_wasm_module_opens_many_files(start: Start, code: Path) -> None:
    (code.parent / "data" / "f").write_text("x")
    wat = f"""(module {EXIT}
      (import "{WASI}" "path_open" (func $open
        (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
      (memory (export "memory") 1) (data (i32.const 64) "f")
      (func (export "_start") (local $n i32)
        (loop $l
          (local.set $n (i32.add (local.get $n) (i32.const 1)))
          (br_if $l (i32.eqz (call $open (i32.const 4) (i32.const 0) (i32.const 64) (i32.const 1)
            (i32.const 0) (i64.const 2) (i64.const 2) (i32.const 0) (i32.const 8)))))
        (call $exit (i32.lt_u (local.get $n) (i32.const 1100)))))"""
    assert ended(start(wat))[0] == 1


@pytest.mark.attack("wasm module", "brings its host down", "it costs that task only")
def test_wasm_module_crashes_its_host(start: Start) -> None:
    victim = start(SPIN, **{"timeout-seconds": "3"})
    process = start(SPIN)
    for one in (victim, process):
        eventually(lambda one=one: status(one.pid)["Seccomp"] == "2")
    process.send_signal(signal.SIGABRT)
    assert ended(process)[0] == -signal.SIGABRT
    assert ended(victim)[0] == outcomes.TIME


@pytest.mark.attack(
    "wasm module", "has its compiled code kept before it was whole", "only whole modules are kept"
)
def test_wasm_module_cache_is_whole(start: Start, code: Path) -> None:
    (code / "app.wasm").write_bytes(bomb(4000, 3000))
    ended(start(**{"timeout-seconds": "1"}))
    assert not list((code.parent / "cache").iterdir())
    assert ended(start(f'(module {EXIT} (memory (export "memory") 1) (func (export "_start")))'))
    (kept,) = (code.parent / "cache").iterdir()
    assert kept.stat().st_mode & 0o077 == 0


@pytest.mark.attack(
    "wasm module",
    "fills the disk of the node with what its modules are compiled to",
    "all together have a size",
)
def test_wasm_module_cache_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MAX_FILE", 1000)
    monkeypatch.setattr(cache, "MAX_BYTES", 3000)
    folder = cache.CompileCache(tmp_path / "cache")
    for number in range(10):
        folder.store(f"{number}", bytes(900))
        os.utime(tmp_path / "cache" / f"{number}", (number, number))
    folder.store("large", bytes(1001))
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["7", "8", "9"]
