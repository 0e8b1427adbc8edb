"""Model code against the files of the machine."""

from __future__ import annotations

import json
import os
import resource
import shutil
import stat
from pathlib import Path

import pytest

from corral.podtools.confine import run
from tests.security.model_code import Jail, jail

__all__ = ["jail"]

HERE = Path(__file__).resolve().parent


def _state(path: os.PathLike[str]) -> tuple[int, int, int, float]:
    info = os.stat(path)
    return info.st_mode, info.st_uid, info.st_nlink, info.st_mtime


@pytest.mark.attack(
    "model code",
    "changes the mode of a file that it may read",
    "the call is refused and the file is as before",
)
def test_model_code_chmod(jail: Jail) -> None:
    before = _state(jail.given)
    jail.refuses("chmod", jail.given)
    jail.refuses("chmod", jail.host)
    assert _state(jail.given) == before
    assert "user.mark" not in os.listxattr(jail.given)


@pytest.mark.attack(
    "model code",
    "changes the mode of an open file",
    "the call is refused and the file is as before",
)
def test_model_code_fchmod(jail: Jail) -> None:
    before = _state(jail.given)
    jail.refuses("fchmod", jail.given)
    jail.refuses("fchmod", jail.host)
    assert _state(jail.given) == before
    assert "user.mark" not in os.listxattr(jail.given)


@pytest.mark.attack(
    "model code",
    "takes a file that it may read",
    "the call is refused and the file is as before",
)
def test_model_code_chown(jail: Jail) -> None:
    before = _state(jail.given)
    jail.refuses("chown", jail.given)
    jail.refuses("chown", jail.host)
    assert _state(jail.given) == before
    assert "user.mark" not in os.listxattr(jail.given)


@pytest.mark.attack(
    "model code",
    "changes the times of a file",
    "the call is refused and the file is as before",
)
def test_model_code_utime(jail: Jail) -> None:
    before = _state(jail.given)
    jail.refuses("utime", jail.given)
    jail.refuses("utime", jail.host)
    assert _state(jail.given) == before
    assert "user.mark" not in os.listxattr(jail.given)


@pytest.mark.attack(
    "model code",
    "writes an extended attribute of a file",
    "the call is refused and the file is as before",
)
def test_model_code_setxattr(jail: Jail) -> None:
    before = _state(jail.given)
    jail.refuses("setxattr", jail.given)
    jail.refuses("setxattr", jail.host)
    assert _state(jail.given) == before
    assert "user.mark" not in os.listxattr(jail.given)


@pytest.mark.attack(
    "model code",
    "removes an extended attribute of a file",
    "the call is refused and the file is as before",
)
def test_model_code_removexattr(jail: Jail) -> None:
    before = _state(jail.given)
    jail.refuses("removexattr", jail.given)
    jail.refuses("removexattr", jail.host)
    assert _state(jail.given) == before
    assert "user.mark" not in os.listxattr(jail.given)


@pytest.mark.attack(
    "model code",
    "writes to, truncates, removes or moves a file that it may read",
    "all are refused",
)
def test_model_code_rewrites_what_it_reads(jail: Jail) -> None:
    jail.refuses("rewrite", jail.given)
    jail.refuses("truncate_file", jail.given)
    jail.refuses("unlink", jail.given)
    jail.refuses("rename", jail.given, jail.out)
    assert jail.given.read_text() == "s3cret"


@pytest.mark.attack(
    "model code",
    "reads a file of the machine, and asks whether it is there",
    "it is not there",
)
def test_model_code_reads_the_machine(jail: Jail) -> None:
    jail.refuses("read", jail.host)
    jail.refuses("read", "/etc/passwd")
    jail.refuses("read", "/proc/self/environ")
    if "namespaces" not in jail.missing:
        jail.refuses("seen", jail.host)
        jail.refuses("seen", "/etc/shadow")


@pytest.mark.attack(
    "model code",
    "opens a file by its handle, past every path",
    "the calls are refused",
)
def test_model_code_handles(jail: Jail) -> None:
    jail.refuses("handle", jail.given)
    jail.refuses("raw", "open_by_handle_at", -100, 0, 0)


@pytest.mark.attack(
    "model code",
    "leaves links in its folder that lead out of it",
    "links, hard links and pipes are refused",
)
def test_model_code_links(jail: Jail) -> None:
    jail.refuses("symlink", jail.out)
    jail.refuses("link", jail.given, jail.out)
    jail.refuses("fifo", jail.out)
    assert not list(jail.out.iterdir())


@pytest.mark.attack(
    "model code",
    "locks a file of the machine, so that others wait",
    "locks of files, of records and leases are refused",
)
def test_model_code_locks(jail: Jail) -> None:
    jail.refuses("hold_lock", jail.given)
    jail.refuses("record_lock", jail.given)
    jail.refuses("open_file_lock", jail.given)
    jail.refuses("lease", jail.given)


@pytest.mark.attack("model code", "lists the folders of the machine", "it is refused")
def test_model_code_folders(jail: Jail) -> None:
    for folder in ("/", "/tmp", "/home", "/root", "/dev/shm", "/proc", jail.folder):
        jail.refuses("listdir", folder)


@pytest.mark.attack(
    "model code",
    "reads secrets in the environment of whoever runs it",
    "it has an environment of its own",
)
def test_model_code_environment(jail: Jail) -> None:
    found = jail.tries("environment")
    assert found.startswith("done: ")
    assert "s3cret" not in found


@pytest.mark.attack(
    "model code",
    "uses descriptors that it inherited",
    "it has its own channel and nothing else",
)
def test_model_code_descriptors(jail: Jail) -> None:
    found = json.loads(jail.tries("descriptors").removeprefix("done: "))
    assert len(found) == 2, found
    assert all(stat.S_ISFIFO(mode) for _, mode in found)


@pytest.mark.attack(
    "model code",
    "uses the line to its parent, who has thousands of files open, so that it has a high number",
    "it has no descriptor of whatever number",
)
def test_model_code_high_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    most = 5000
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[1] < most:
        pytest.skip("this process may not have so many files open")
    monkeypatch.syspath_prepend(str(HERE))
    opened: list[int] = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, limits[1]))
        while not opened or opened[-1] < 4200:
            opened.append(os.open(os.devnull, os.O_RDONLY))
        ended = run("model_code_attacks:print_descriptors", [str(most)], readable=[HERE])
    finally:
        for fd in opened:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert (ended.code, json.loads(ended.output)) == (0, [])


@pytest.mark.attack(
    "model code",
    "cuts, or sets, what its standard error is shared with: a log, a terminal",
    "it has a pipe of its own",
)
def test_model_code_standard_error(jail: Jail) -> None:
    mode, *found = json.loads(jail.tries("standard_error").removeprefix("done: "))
    theirs = os.stat(f"/proc/{jail.process.pid}/fd/2")
    assert stat.S_ISFIFO(mode)
    assert found != [theirs.st_dev, theirs.st_ino]


@pytest.mark.attack(
    "model code",
    "leaves a folder where it left a file, and the other way round",
    "that request has no answer, the next one has",
)
def test_model_code_exchanges_what_it_left(jail: Jail) -> None:
    for kind in ("file", "folder", "file"):
        jail.tries("leave", jail.out / "either", kind)
    assert jail.tries("send_in_pair") == "done: inside"
    shutil.rmtree(jail.out / "either", ignore_errors=True)
    (jail.out / "either").unlink(missing_ok=True)
