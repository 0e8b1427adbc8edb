from __future__ import annotations

import os
import select
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from corral.cluster.node.container.images import Image
from corral.cluster.node.container.view import machine_view
from corral.cluster.node.shim import calls, kernel
from corral.cluster.node.shim.users import SIZE, Users, can_map


def test_what_programs_need_is_shown(tmp_path: Path) -> None:
    view = machine_view(tmp_path)
    shown = [Path(path) for path in view.shown]
    for needed in (Path("/usr"), Path(sys.prefix), Path(sys.base_prefix)):
        assert any(needed.is_relative_to(path) for path in shown)
    assert not {Path("/"), Path("/root"), Path("/home"), Path.home()} & set(shown)


def test_no_more_of_etc_than_needed(tmp_path: Path) -> None:
    etc = Path(machine_view(tmp_path).etc)
    assert (etc / "passwd").read_text().startswith("root:x:0:0:")
    for name in ("shadow", "gshadow", "ssh", "ssl/private", "sudoers", "machine-id"):
        assert not (etc / name).exists()


def test_the_same_etc_is_made_once(tmp_path: Path) -> None:
    assert machine_view(tmp_path).etc == machine_view(tmp_path).etc
    assert len(list(tmp_path.iterdir())) == 1


def test_exposed_paths_and_pythons_of_images(tmp_path: Path) -> None:
    for name in ("one", "env/bin", "env/lib"):
        (tmp_path / name).mkdir(parents=True)
    images = [Image(pattern="x", python=str(tmp_path / "env" / "bin" / "python"))]
    shown = machine_view(tmp_path / "v", images=images, expose=[tmp_path / "one"]).shown
    assert {str(tmp_path / "one"), str(tmp_path / "env")} <= set(shown)


def test_the_filter_is_whole() -> None:
    """Every jump leads to an instruction, and the last one returns."""
    for capabilities in (frozenset[str](), frozenset({"SYS_ADMIN", "SYS_PTRACE"})):
        for machine in ("x86_64", "aarch64"):
            code = calls.program(capabilities, machine)
            steps = [struct.unpack_from("=HBBI", code, at) for at in range(0, len(code), 8)]
            assert steps[-1][0] == 0x06 and len(steps) < 4096
            for number, (_, true, false, _) in enumerate(steps):
                assert number + 1 + max(true, false) < len(steps) or steps[number][0] == 0x06
    with pytest.raises(OSError, match="riscv64"):
        calls.program(frozenset(), "riscv64")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give ids away")
def test_ranges_of_users_never_meet(tmp_path: Path) -> None:
    folder = str(tmp_path / "of" / "users")
    one, two = Users(folder), Users(folder)
    bases = [one.take("a")[1], one.take("b")[1], two.take("a")[1]]
    assert len({base // SIZE for base in bases}) == 3
    assert one.take("a")[1] == bases[0]
    one.release("a")
    assert one.take("c")[1] != bases[0]
    one.release("a")
    assert one.take("d")[1] == bases[0]


MADE = """
import os, sys, threading
from corral.cluster.node.shim.users import Users, own_users
def handler():
    threading.Thread(target=threading.Event().wait, daemon=True).start()
{before}
try:
    Users(sys.argv[1]).take("pod")
    print("made")
except OSError as err:
    print(err)
"""


def made_after(before: str, folder: Path) -> str:
    """What comes of a range of users in a process that did something before."""
    command = [sys.executable, "-c", MADE.format(before=before), str(folder / "users")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give ids away")
def test_libraries_that_start_threads_in_children_do_no_harm(tmp_path: Path) -> None:
    """As gRPC does; and a process with threads may make no user namespace."""
    assert made_after("os.register_at_fork(after_in_child=handler)", tmp_path) == "made"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give ids away")
def test_why_there_is_no_user_namespace(tmp_path: Path) -> None:
    limit = "own_users(uid=0, gid=0); open('/proc/sys/user/max_user_namespaces', 'w').write('0')"
    said = made_after(limit, tmp_path)
    assert "No space left on device" in said and "raise user.max_user_namespaces" in said


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give ids away")
def test_no_process_is_left_of_making_a_user_namespace() -> None:
    """One that lived would hold what the maker has open, also when that is killed just then."""
    pid = kernel.ended_child(kernel.NEWUSER)
    try:
        handle = os.pidfd_open(pid)
        assert select.select([handle], [], [], 30)[0]  # it has ended
        os.close(handle)
    finally:
        kernel.reap(pid)
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give ids away")
def test_where_ids_can_be_mapped() -> None:
    assert not can_map("/proc")  # as on every file system that cannot
    assert can_map("/dev/shm") or tuple(map(int, os.uname().release.split(".")[:2])) < (6, 3)
