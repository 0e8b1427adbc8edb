"""Model code against its limits: memory that is not counted, threads, disk, and its own end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.objects import eventually
from tests.security.model_code import DRIVER, Jail, jail
from tests.support.matrix import matrix

__all__ = ["jail"]

GIB = 1 << 30


@pytest.mark.attack(
    "model code", "maps 2.5 GiB of shared memory under a limit of 1 GiB", "the mapping is refused"
)
def test_model_code_shared_mappings(jail: Jail) -> None:
    jail.refuses("shared_mapping", 5 * GIB // 2)
    jail.refuses("shared_mapping", 4096)


@pytest.mark.attack(
    "model code", "maps memory as a stack, which no limit counts", "the mapping is refused"
)
def test_model_code_stack_mappings(jail: Jail) -> None:
    jail.refuses("stack_mapping", 5 * GIB // 2)


@pytest.mark.attack("model code", "maps huge pages and /dev/zero", "both are refused")
def test_model_code_other_mappings(jail: Jail) -> None:
    jail.refuses("huge_mapping")
    jail.refuses("zero_mapping")


@pytest.mark.attack(
    "model code", "keeps memory in files of memory and in /dev/shm", "neither can be made"
)
def test_model_code_memory_files(jail: Jail) -> None:
    jail.refuses("memory_file", 5 * GIB // 2)
    jail.refuses("shared_object")


@pytest.mark.attack("model code", "keeps memory in pipes of a larger size", "they keep their size")
def test_model_code_pipes(jail: Jail) -> None:
    jail.refuses("large_pipe")


@pytest.mark.attack("model code", "uses more memory of its own than its limit", "it gets no more")
def test_model_code_memory(jail: Jail) -> None:
    jail.refuses("private_memory", 2 * GIB)


@pytest.mark.attack(
    "model code",
    "fills its memory and its files in memory, each within its limit",
    "both count together, and the process is ended with that reason",
)
def test_model_code_memory_and_files(jail: Jail) -> None:
    if "scratch" in jail.missing:
        pytest.skip("files are on a disk here, and count as such")
    found = jail.once("fill_and_map", GIB // 4, memory=GIB // 4)
    assert found["why"] == "it used more memory than it may, with its files"


@pytest.mark.attack("model code", "starts 3,000 threads under a limit of 512", "it has 512 at most")
def test_model_code_threads(jail: Jail) -> None:
    found = jail.once("threads", 3000)
    assert "done" not in found["output"], found
    if found["code"]:
        assert found["why"] == "it had more threads than it may"


@pytest.mark.attack("model code", "fills the disk", "its files have a size in all")
def test_model_code_disk(jail: Jail) -> None:
    for folder in ("", jail.out):
        found = jail.once("fill", folder, 256 << 20, disk=32 << 20)
        assert "done" not in found["output"], found
        if found["code"]:
            assert found["why"] == "it wrote more than it may"


@pytest.mark.attack(
    "model code",
    "leaves files of holes, which are bytes where they are taken to",
    "nothing is taken that is larger than its disk",
)
def test_model_code_holes(jail: Jail) -> None:
    found = jail.once("holes", jail.out, 4, 64 << 20, file=64 << 20, disk=32 << 20)
    left = list(jail.out.glob("hole-*"))
    taken = sum(path.stat().st_blocks * 512 for path in left)
    for path in left:
        path.unlink()
    assert taken <= 32 << 20
    if "scratch" not in jail.missing:
        assert found["why"] == f"it left more than {32 << 20} bytes"


@pytest.mark.attack("model code", "makes so many files that there are no inodes", "it has 16,384")
def test_model_code_inodes(jail: Jail) -> None:
    found = jail.once("many_files", 40_000)
    assert "done" not in found["output"], found


@pytest.mark.attack("model code", "crashes", "it costs that process only")
def test_model_code_crashes(jail: Jail) -> None:
    assert jail.once("crash")["why"] == "it was ended by SIGSEGV"
    assert jail.tries("send_in_pair") == "done: inside"


@pytest.mark.attack(
    "model code",
    "outlives whoever runs it, and leaves files",
    "it ends at once, and nothing of it is left",
)
@pytest.mark.parametrize("mode", matrix("root", "plain", full=["user"]))
def test_model_code_is_not_left_behind(mode: str, tmp_path: Path) -> None:
    for name in ("given", "out"):
        (tmp_path / name).mkdir()
    (tmp_path / "secret").write_text("s3cret")
    words = [sys.executable, str(DRIVER), mode, str(tmp_path / "given"), str(tmp_path / "out")]
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "TMPDIR": str(tmp_path),
    }
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
    ) as driver:
        assert driver.stdin is not None and driver.stdout is not None
        driver.stdin.write('{"ask": ["send_in_pair"]}\n')
        driver.stdin.flush()
        found = json.loads(driver.stdout.readline())
        assert found["answer"] == "done: inside"
        homes = list(tmp_path.glob("corral-confined-*"))
        assert len(homes) == ("scratch" in found["missing"])
        children = _descendants(driver.pid)
        assert children
        os.kill(driver.pid, signal.SIGKILL)
    eventually(lambda: not any(_alive(pid) for pid in children))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["given", "out", "secret"]


def _descendants(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *_descendants(int(child))]
    return found


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
