from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from corral.files.private import (
    NotPrivate,
    data_folder,
    is_own,
    is_safe,
    make_folders,
    private_folder,
)

NOBODY = 65534
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def test_made_and_closed(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        private_folder(tmp_path / "a/b")
        make_folders(tmp_path / "c/d", mode=0o711)
    finally:
        os.umask(before)
    assert [mode(tmp_path / name) for name in ("a", "a/b", "c", "c/d")] == [0o700] * 2 + [0o711] * 2
    (tmp_path / "a/b").chmod(0o755)
    private_folder(tmp_path / "a/b")
    assert mode(tmp_path / "a/b") == 0o700 and is_own(tmp_path / "a/b")
    (tmp_path / "a/b").chmod(0o777)
    assert not is_own(tmp_path / "a/b")


def test_a_link_or_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "file").touch()
    (tmp_path / "nowhere").symlink_to("none")
    for name, words in (("link", "a link"), ("file", "no folder"), ("nowhere", "a link")):
        with pytest.raises(NotPrivate, match=words):
            private_folder(tmp_path / name)
        assert not is_own(tmp_path / name)
    data_folder(tmp_path / "link")  # the user may name a link


@root_only
def test_what_is_somebody_elses_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    os.chown(tmp_path / "other", NOBODY, NOBODY)
    for take in (private_folder, data_folder):
        with pytest.raises(NotPrivate, match=r"of user nobody \(65534\), and this is user root"):
            take(tmp_path / "other")
    assert not is_own(tmp_path / "other")


def test_a_data_folder_with_other_things_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used").chmod(0o755)
    (tmp_path / "used/letter").touch()
    data_folder(tmp_path / "used")
    assert mode(tmp_path / "used") == 0o755
    (tmp_path / "used/agent.lock").touch()
    data_folder(tmp_path / "used")
    assert mode(tmp_path / "used") == 0o700
    (tmp_path / "used").chmod(0o1777)
    with pytest.raises(NotPrivate, match="by everybody"):
        data_folder(tmp_path / "used")


def test_the_way_to_a_data_folder(tmp_path: Path) -> None:
    (tmp_path / "real/above").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real/../real")
    (tmp_path / "absolute").symlink_to(tmp_path / "link")
    real = tmp_path.resolve() / "real"
    assert data_folder(tmp_path / "absolute/above/new/data") == real / "above/new/data"
    assert data_folder(tmp_path / "real/above/../above") == real / "above"
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(OSError, match="symbolic links"):
        data_folder(tmp_path / "round/data")
    for bits, safe in ((0o755, True), (0o1777, True), (0o777, False)):
        (tmp_path / "real/above").chmod(bits)
        assert is_safe((tmp_path / "real/above").stat()) == safe
    with pytest.raises(NotPrivate, match=r"can be written to by others.*chmod go-w"):
        data_folder(tmp_path / "link/above/new/data")


@root_only
def test_whose_the_way_is(tmp_path: Path) -> None:
    above = tmp_path / "above"
    above.mkdir()
    for user, group, bits, safe in (
        (0, 0, 0o775, True),  # root's own group
        (0, NOBODY, 0o775, False),
        (0, NOBODY, 0o1775, True),
        (NOBODY, 0, 0o755, False),
        (NOBODY, 0, 0o1777, False),  # who owns it moves what he likes
    ):
        os.chown(above, user, group)
        above.chmod(bits)
        assert is_safe(above.stat()) == safe, (user, group, oct(bits))
    with pytest.raises(NotPrivate, match=r"folder of user nobody \(65534\), and this is user root"):
        data_folder(above / "data")
    assert not (above / "data").exists()


CODE = """
import os, sys
from corral.files.private import private_umask
private_umask()
private_umask()
sys.path.insert(0, sys.argv[1])
import shown, hidden
open(sys.argv[1] + "/written", "w").close()
"""


def test_umask(tmp_path: Path) -> None:
    """All that is written is private but compiled modules, which are as their source."""
    for name, bits in (("shown.py", 0o644), ("hidden.py", 0o600)):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(bits)
    env = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, "-c", CODE, str(tmp_path)], check=True, env=env)
    (shown,) = (tmp_path / "__pycache__").glob("shown*")
    (hidden,) = (tmp_path / "__pycache__").glob("hidden*")
    found = [mode(path) for path in (tmp_path / "written", tmp_path / "__pycache__", shown, hidden)]
    assert found == [0o600, 0o755, 0o644, 0o600]
