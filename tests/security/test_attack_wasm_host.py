"""Whoever breaks out of wasmtime is in a process that can do next to nothing."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.security.model_code import listening

HOST = Path(__file__).with_name("wasm_host.py")
Attempts = Callable[..., list[str]]


@pytest.fixture
def volumes(tmp_path: Path) -> Path:
    for name in ("data", "config", "cache"):
        (tmp_path / name).mkdir()
    (tmp_path / "data" / "file").write_text("mine")
    (tmp_path / "config" / "file").write_text("given")
    (tmp_path / "secret").write_text("s3cret")
    return tmp_path


@pytest.fixture
def broken_out(volumes: Path) -> Attempts:
    """Makes attempts in the confined host of a module with two volumes."""
    plan = {
        "module": "/code/app.wasm",
        "memory": 1 << 28,
        "cache": str(volumes / "cache"),
        "message": str(volumes / "message"),
        "folders": [
            {"source": str(volumes / "data"), "target": "/data"},
            {"source": str(volumes / "config"), "target": "/config", "read_only": True},
        ],
    }

    def attempts(*words: tuple[object, ...]) -> list[str]:
        env = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        text = json.dumps([[str(word) for word in attempt] for attempt in words])
        done = subprocess.run(
            [sys.executable, str(HOST), json.dumps(plan), text],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return attempts


def refused(found: list[str]) -> None:
    assert found
    for answer in found:
        assert answer.startswith("refused: "), found


@pytest.mark.attack(
    "wasm host", "reads the machine's files and the environment of others", "it has its volumes"
)
def test_wasm_host_reads(broken_out: Attempts, volumes: Path) -> None:
    parent = os.getpid()
    paths = (volumes / "secret", "/etc/passwd", f"/proc/{parent}/environ", f"/proc/{parent}/mem")
    refused(broken_out(*(("read", path) for path in paths), ("listdir", "/"), ("listdir", "/root")))
    assert broken_out(("read", volumes / "data" / "file")) == ["done: mine"]


@pytest.mark.attack(
    "wasm host", "replaces compiled modules that other tasks would run", "the cache is closed to it"
)
@pytest.mark.route("compiled modules")
def test_wasm_host_cache(broken_out: Attempts, volumes: Path) -> None:
    refused(broken_out(("rewrite", volumes / "cache" / "x"), ("listdir", volumes / "cache")))


@pytest.mark.attack("wasm host", "writes to a volume that is read-only", "it is refused")
def test_wasm_host_read_only(broken_out: Attempts, volumes: Path) -> None:
    file = volumes / "config" / "file"
    refused(broken_out(("rewrite", file), ("unlink", file), ("truncate_file", file)))
    assert file.read_text() == "given"


@pytest.mark.attack(
    "wasm host", "changes mode, owner, times and attributes of files", "the calls are refused"
)
def test_wasm_host_metadata(broken_out: Attempts, volumes: Path) -> None:
    names = ("chmod", "fchmod", "chown", "utime", "setxattr")
    refused(broken_out(*((name, volumes / "data" / "file") for name in names)))


@pytest.mark.attack("wasm host", "opens sockets, and sends to named ones", "it has none")
def test_wasm_host_sockets(broken_out: Attempts, volumes: Path) -> None:
    name = str(volumes / "data" / "socket")
    with listening(name) as server, socket.create_server(("127.0.0.1", 0)) as port:
        refused(
            broken_out(
                ("datagram", name),
                ("descriptor", name, volumes / "data" / "file"),
                ("connect_unix", name),
                ("connect_tcp", port.getsockname()[1]),
                ("open_socket", 16, 3),
                ("open_socket", 40, 1),
            )
        )
        with pytest.raises(BlockingIOError):
            server.recv(10)


@pytest.mark.attack("wasm host", "executes programs and makes processes", "the calls are refused")
def test_wasm_host_programs(broken_out: Attempts) -> None:
    refused(
        broken_out(
            ("fork",), ("execute_memory",), ("execute_library",), ("new_process", 0x10000011),
            ("raw", "unshare", 0x10000000), ("raw", "execveat", 0, 0, 0, 0, 0x1000),
        )
    )  # fmt: skip


@pytest.mark.attack(
    "wasm host", "signals, traces, binds or slows down other processes", "it reaches only itself"
)
def test_wasm_host_processes(broken_out: Attempts) -> None:
    pid = os.getpid()
    names = ("kill", "parent_affinity", "parent_priority", "parent_limits", "parent_memory")
    refused(
        broken_out(
            *((name, pid) for name in names), ("raw", "ptrace", 16, pid, 0, 0), ("setsid",),
            ("signal_by_descriptor", pid), ("raw", "pidfd_open", pid, 0),
        )
    )  # fmt: skip


@pytest.mark.attack(
    "wasm host", "uses io_uring, bpf, mounts, keys and the rest", "the calls are refused"
)
def test_wasm_host_kernel(broken_out: Attempts) -> None:
    names = (
        "io_uring_setup", "bpf", "perf_event_open", "userfaultfd", "keyctl", "mount", "fsopen",
        "open_tree", "chroot", "setns", "personality", "kexec_load", "memfd_create", "shmget",
        "name_to_handle_at", "open_by_handle_at", "process_vm_writev", "inotify_init1",
    )  # fmt: skip
    refused(broken_out(*(("raw", name, 0, 0, 0, 0, 0) for name in names)))


@pytest.mark.attack(
    "wasm host", "uses the capabilities of root", "it has none but for files of its volumes"
)
def test_wasm_host_capabilities(broken_out: Attempts) -> None:
    (found,) = broken_out(("identity",))
    effective, permitted, inheritable, *rest = json.loads(found.removeprefix("done: "))[
        "capabilities"
    ]
    assert effective in (0, 2) and permitted == effective
    assert not inheritable and not any(rest)


@pytest.mark.attack(
    "wasm host", "takes the machine's memory for itself", "it has that of its module and 1 GiB"
)
def test_wasm_host_memory(broken_out: Attempts) -> None:
    refused(
        broken_out(
            ("shared_mapping", 1 << 31), ("stack_mapping", 1 << 31), ("private_memory", 1 << 31)
        )
    )


UNLOCKED = """
import ctypes, socket, struct, sys
library = ctypes.CDLL(None, use_errno=True)
# as on a kernel without Landlock: landlock_create_ruleset is no call
rows = [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (6, 0, 0, 0x50026), (6, 0, 0, 0x7FFF0000)]
buffer = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *row) for row in rows))
assert library.prctl(38, 1, 0, 0, 0) == 0
filter_ = struct.pack("=HxxxxxxQ", len(rows), ctypes.addressof(buffer))
assert library.prctl(22, 2, filter_, 0, 0) == 0
from corral.cluster.node.wasm.plan import Plan
from corral.cluster.node.wasm.runner import _confine
_confine(Plan(module="/code/app.wasm"))
try:
    socket.socket()
    print("done")
except PermissionError:
    print("refused")
"""


@pytest.mark.attack(
    "wasm host",
    "opens a socket where the kernel has no Landlock",
    "the log names what is missing, and the other protections hold",
)
def test_wasm_host_without_landlock() -> None:
    env = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, "-c", UNLOCKED], env=env, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "refused\n", done.stderr
    assert "the host of this module is not confined" in done.stderr
    assert "no Landlock" in done.stderr
