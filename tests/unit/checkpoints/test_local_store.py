"""The local store: what is on the disk when, and what is refused."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corral.checkpoints import (
    AlreadyExists,
    InvalidPath,
    LocalStore,
    NotFound,
    PermissionDenied,
    Repository,
    StoreError,
    StoreUnavailable,
    collect,
    load_state,
)


def recorded(monkeypatch: pytest.MonkeyPatch, *names: str) -> list[str]:
    """Calls of these functions of the system, with what they were called for."""
    calls: list[str] = []
    for name in names:
        original: Callable[..., Any] = getattr(os, name)

        def call(*given: Any, _name: str = name, _original: Any = original, **more: Any) -> Any:
            target = given[-1] if _name != "fsync" else os.readlink(f"/proc/self/fd/{given[0]}")
            calls.append(f"{_name} {Path(target).name}")
            return _original(*given, **more)

        monkeypatch.setattr(os, name, call)
    return calls


def test_synced_before_it_has_its_name_and_the_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path / "root")
    store.write("f/first", [b""])
    calls = recorded(monkeypatch, "fsync", "link", "replace")
    store.create("f/mark", b"1")
    store.write("f/data", [b"2"])
    shown = [
        call if ".tmp-" not in call else call.split(".tmp-")[0] + "temporary" for call in calls
    ]
    assert shown == [
        "fsync temporary",
        "link mark",
        "fsync f",
        "fsync temporary",
        "replace data",
        "fsync f",
    ]


def test_new_folders_are_synced_into_their_parents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path)
    calls = recorded(monkeypatch, "fsync")
    store.write("a/b/c", [b""])
    assert f"fsync {tmp_path.name}" in calls
    assert "fsync a" in calls
    assert calls[-1] == "fsync b"


def test_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **options: object) -> None:
        raise OSError(errno.EPERM, "no hard links here")

    monkeypatch.setattr(os, "link", refuse)
    store = LocalStore(tmp_path)
    store.create("mark", b"1")
    with pytest.raises(AlreadyExists):
        store.create("mark", b"2")
    assert store.read("mark").data == b"1"


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", "a\0b", ""])
def test_paths_that_leave_the_root(tmp_path: Path, path: str) -> None:
    with pytest.raises(InvalidPath):
        LocalStore(tmp_path).read(path)


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_bytes(b"secret")
    root = tmp_path / "root"
    root.mkdir()
    (root / "file").symlink_to(tmp_path / "outside/secret")
    (root / "folder").symlink_to(tmp_path / "outside")
    store = LocalStore(root)
    with pytest.raises(NotFound):
        store.read("file")
    with pytest.raises(NotFound):
        store.stat("file")
    with pytest.raises(InvalidPath, match="symbolic link"):
        store.read("folder/secret")
    with pytest.raises(InvalidPath):
        store.write("folder/new", [b""])
    with pytest.raises(InvalidPath):
        store.delete(["folder/secret"])
    assert [stat.path for stat in store.walk("")] == []
    os.mkfifo(root / "pipe")
    with pytest.raises(NotFound, match="regular"):
        store.read("pipe")


@pytest.mark.parametrize(
    ("number", "kind", "advice"),
    [
        (errno.ENOSPC, StoreError, "enlarge the volume"),
        (errno.EDQUOT, StoreError, "enlarge the volume"),
        (errno.EACCES, PermissionDenied, "fsGroup"),
        (errno.EIO, StoreUnavailable, "mounted"),
        (errno.ENAMETOOLONG, StoreError, "too long"),
    ],
)
def test_errors_say_what_to_do(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    kind: type[Exception],
    advice: str,
) -> None:
    def fail(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    store = LocalStore(tmp_path)
    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(kind, match=advice):
        store.write("a", [b"1"])
    monkeypatch.undo()
    assert os.listdir(tmp_path) == []


def test_sweep_removes_what_dead_writers_left(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.write("a/good", [b"1"])
    (tmp_path / "a/.tmp-dead").write_bytes(b"half")
    (tmp_path / "b").mkdir()
    (tmp_path / "b/.tmp-dead").write_bytes(b"half")
    assert store.entries("a") == ([], ["good"])
    assert store.sweep("", before=0.0) == 0
    assert store.sweep("", before=1e12) == 2
    assert sorted(os.listdir(tmp_path)) == ["a"]


WRITER = """
import sys
from corral.checkpoints import LocalStore, Repository, Retention, Saver, prune
repository = Repository(LocalStore(sys.argv[1]))
first = int(sys.argv[2])
with Saver(repository, shard_size=1 << 18) as saver:
    for step in range(first, first + 100000):
        saver.save({"w": bytes([step % 256]) * (1 << 20), "step": step}, step)
        saver.wait()
        print(step, flush=True)
        prune(repository, Retention(keep_last=2))
"""


def newest_folder(root: Path) -> Path | None:
    folders = sorted(root.glob("step-*"))
    return folders[-1] if folders else None


PHASES: dict[str, Callable[[Path], bool]] = {
    "after a commit": lambda folder: (folder / "MANIFEST.json").exists(),
    "while writing": lambda folder: any(folder.rglob(".tmp-*")),
    "between files": lambda folder: len(list(folder.glob("data/0*"))) in (1, 2),
    "before the manifest": lambda folder: (
        (folder / "index.json").exists() and not (folder / "MANIFEST.json").exists()
    ),
    "while deleting": lambda folder: any(folder.parent.glob("step-*/DELETED.json")),
}


@pytest.mark.parametrize("phase", PHASES)
def test_kill_9(tmp_path: Path, phase: str) -> None:
    first = 1
    for _ in range(2):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(first)], stdout=subprocess.PIPE
        )
        assert writer.stdout is not None
        try:
            for _ in range(4):
                committed = int(writer.stdout.readline())
            while (folder := newest_folder(tmp_path)) is None or not PHASES[phase](folder):
                assert writer.poll() is None
        finally:
            writer.kill()
            rest = writer.communicate()[0].split()
        committed = int(rest[-1]) if rest else committed
        repository = Repository(LocalStore(tmp_path))
        restored = load_state(repository)
        step = restored.value["step"]
        assert restored.findings == ()
        assert committed <= step <= committed + 1
        assert restored.value["w"] == bytes([step % 256]) * (1 << 20)
        assert all(repository.verify(m) == [] for m in repository.scan().manifests)
        first = step + 1
    collect(repository, orphan_grace=-60.0)
    assert repository.scan().findings == ()
    assert not list(tmp_path.rglob(".tmp-*"))
