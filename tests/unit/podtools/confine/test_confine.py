from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.podtools.confine import ConfineError, Ended, Limits, run
from corral.podtools.confine.filters import program

QUICK = Limits(seconds=20, memory=2**30, file=2**20)


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text("s3cret")
    return path


@pytest.fixture
def work(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    path.mkdir()
    return path


def attempt(*words: str, work: Path, limits: Limits = QUICK) -> Ended:
    return run(
        "hostile:attempt", words, readable=[Path(__file__).parent], writable=[work], limits=limits
    )


@pytest.mark.parametrize("umask", [0o022, 0o077], ids="umask-{:03o}".format)
def test_it_computes(umask: int, work: Path, tmp_path: Path) -> None:
    os.umask(umask)
    given = tmp_path / "given"
    given.write_text("data")
    ended = run(
        "hostile:compute", [str(work), str(given)],
        readable=[Path(__file__).parent, given], writable=[work], limits=QUICK,
    )  # fmt: skip
    assert (ended.code, ended.why) == (0, ""), ended.output
    assert (work / "answer").read_text() == "10.0 data"


@pytest.mark.parametrize("path", ["/etc/passwd", "/proc/1/environ", "/proc/self/environ"])
def test_it_reads_no_files_of_the_machine(path: str, work: Path) -> None:
    ended = attempt("read", path, work=work)
    assert ended.code == 1, ended.output
    assert "PermissionError" in ended.why or "FileNotFoundError" in ended.why


@pytest.mark.parametrize("folder", ["/", "/etc", "/tmp", "/home", "/root", "/dev/shm"])
def test_it_lists_no_folders_of_the_machine(folder: str, work: Path) -> None:
    assert attempt("list", folder, work=work).code == 1


@pytest.mark.parametrize("trick", ["link", "hard_link", "up"])
def test_no_way_around(trick: str, work: Path, secret: Path) -> None:
    ended = attempt(trick, str(work), str(secret), work=work)
    assert ended.code == 1, ended.output
    assert "s3cret" not in ended.output


def test_it_writes_nowhere_else(work: Path, tmp_path: Path) -> None:
    assert attempt("write", str(tmp_path / "made"), work=work).code == 1
    assert not (tmp_path / "made").exists()
    assert attempt("write", os.path.join(sys.prefix, "made"), work=work).code == 1


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_it_opens_no_sockets(work: Path, tmp_path: Path, port: int) -> None:
    assert "PermissionError" in attempt("connect", "127.0.0.1", str(port), work=work).why
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        assert attempt("unix", path, work=work).code == 1
    assert attempt("uring", work=work).code == 1


def test_it_starts_no_processes_and_reaches_none(work: Path) -> None:
    assert attempt("execute", work=work).code == 1
    assert attempt("fork", work=work).code == 1
    assert attempt("kill", str(os.getpid()), work=work).code == 1


def test_its_limits_hold(work: Path) -> None:
    assert "MemoryError" in attempt("memory", work=work).why
    assert attempt("file", str(work), work=work).code != 0
    assert attempt("limits", work=work).code == 1


@pytest.mark.parametrize("what", ["forever", "spin"])
def test_it_ends_when_its_time_is_over(what: str, work: Path) -> None:
    ended = attempt(what, work=work, limits=Limits(seconds=3))
    assert ended.code < 0
    assert ended.why in ("its time was over", "it used more processor time or memory than it may")


def test_it_knows_nothing_of_whoever_runs_it(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONFINED_SECRET", "s3cret")
    assert attempt("environment", work=work).code == 1


def test_a_machine_that_is_not_known_is_refused() -> None:
    with pytest.raises(ConfineError, match="riscv64"):
        program("riscv64", 1)


def test_the_filters_of_both_machines_differ() -> None:
    one, other = program("x86_64", 1), program("aarch64", 1)
    assert len(one) % 8 == len(other) % 8 == 0
    assert one != other
