from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.files import beneath
from corral.files.beneath import LedOut, make_beneath, open_beneath, opened_beneath

Way = Callable[..., int]


@pytest.fixture(params=["kernel", "parts"])
def way(request: pytest.FixtureRequest) -> Way:
    """Both ways of following a path."""

    def follow(root: Path, relative: str, flags: int = os.O_RDONLY, *, links: bool = True) -> int:
        home = os.open(root, os.O_PATH | os.O_DIRECTORY)
        one = beneath._by_kernel if request.param == "kernel" else beneath._by_parts
        try:
            return one(home, relative or ".", flags | os.O_CLOEXEC, 0o600, links=links)
        finally:
            os.close(home)

    return follow


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("secret")
    root = tmp_path / "root"
    (root / "a/b").mkdir(parents=True)
    (root / "a/b/file").write_text("inside")
    (root / "to-file").symlink_to("a/b/file")
    (root / "a/up").symlink_to("../a/b")
    (root / "out").symlink_to("../secret")
    (root / "absolute").symlink_to("/etc/passwd")
    (root / "far").symlink_to(tmp_path)
    (root / "round").symlink_to("round")
    (root / "a/way-out").symlink_to("../../secret")
    return root


@pytest.mark.parametrize(
    "path", ["a/b/file", "./a//b/./file", "to-file", "a/up/file", "a/../to-file"]
)
def test_what_is_inside_is_opened(root: Path, way: Way, path: str) -> None:
    with open(way(root, path)) as file:
        assert file.read() == "inside"


@pytest.mark.parametrize(
    "path",
    ["..", "../secret", "a/../../secret", "out", "absolute", "far", "far/secret", "a/way-out",
     "/etc/passwd", "a/up/../../../secret"],
)  # fmt: skip
def test_nothing_leads_out(root: Path, way: Way, path: str) -> None:
    with pytest.raises(LedOut):
        way(root, path)


@pytest.mark.parametrize("path", ["to-file", "a/up/file", "out"])
def test_no_links_at_all(root: Path, way: Way, path: str) -> None:
    with pytest.raises(LedOut):
        way(root, path, links=False)


def test_a_link_to_itself_and_what_is_not_there(root: Path, way: Way) -> None:
    with pytest.raises(OSError, match="Too many levels"):
        way(root, "round")
    with pytest.raises(FileNotFoundError):
        way(root, "a/none")
    with pytest.raises(NotADirectoryError):
        way(root, "a/b/file/more")


def test_the_folder_itself_and_files_that_are_made(root: Path, way: Way) -> None:
    fd = way(root, "", os.O_RDONLY | os.O_DIRECTORY)
    assert os.listdir(fd) == os.listdir(root)
    os.close(fd)
    os.close(way(root, "a/new", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    assert (root / "a/new").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("path", ["out/x", "far/x", "absolute/x", "a/way-out/x", "../x"])
def test_folders_are_made_only_inside(root: Path, path: str) -> None:
    with pytest.raises(OSError):
        make_beneath(root, path, mode=0o755)
    assert sorted(entry.name for entry in root.parent.iterdir()) == ["root", "secret"]


def test_folders_have_the_mode_that_was_asked_for(root: Path) -> None:
    before = os.umask(0o077)
    try:
        make_beneath(root, "x/y/z", mode=0o2775)
    finally:
        os.umask(before)
    for name in ("x", "x/y", "x/y/z"):
        assert (root / name).stat().st_mode & 0o7777 == 0o2775
    make_beneath(root, "a/up/deeper", mode=0o700)
    assert (root / "a/b/deeper").is_dir()


def test_an_exchange_while_it_is_followed(root: Path, way: Way) -> None:
    """A folder and a link that change places all the time: inside, or nothing, never outside."""
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "file").write_text("secret")
    (root / "swap").mkdir()
    (root / "swap/file").write_text("inside")
    (root / "other").symlink_to("../outside")
    done = threading.Event()

    def exchange() -> None:
        while not done.is_set():
            for one, two in (
                ("swap", "kept"),
                ("other", "swap"),
                ("swap", "other"),
                ("kept", "swap"),
            ):
                os.rename(root / one, root / two)

    thread = threading.Thread(target=exchange)
    thread.start()
    try:
        found = set()
        for _ in range(2000):
            try:
                with open(way(root, "swap/file")) as file:
                    found.add(file.read())
            except (LedOut, FileNotFoundError, NotADirectoryError):
                found.add("nothing")
    finally:
        done.set()
        thread.join()
    assert "secret" not in found


def test_by_path_and_descriptor(root: Path) -> None:
    with opened_beneath(root, "a", os.O_RDONLY | os.O_DIRECTORY) as folder:
        assert not os.get_inheritable(folder)
        os.close(open_beneath(folder, "b/file"))
        with pytest.raises(LedOut):
            open_beneath(folder, "../to-file")
