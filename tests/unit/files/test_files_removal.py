from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from corral.files.removal import remove_tree


def test_everything_goes_and_links_lead_nowhere(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    outside.chmod(0o500)
    tree = tmp_path / "tree"
    (tree / "a/b").mkdir(parents=True)
    (tree / "a/file").write_text("x")
    (tree / "a/link").symlink_to(outside)
    (tree / "link").symlink_to(outside / "kept")
    os.mkfifo(tree / "a/b/pipe")
    os.link(outside / "kept", tree / "a/second name")
    (tree / "a/b").chmod(0)
    (tree / "a").chmod(0o500)
    remove_tree(tree)
    remove_tree(tree)
    assert not tree.exists()
    assert (outside / "kept").read_text() == "x" and outside.stat().st_mode & 0o777 == 0o500


def test_a_link_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "tree").symlink_to("outside")
    with pytest.raises(OSError, match="is a link"):
        remove_tree(tmp_path / "tree")
    assert (tmp_path / "outside").is_dir()


def test_folders_deeper_than_paths_can_be() -> None:
    tree = Path(tempfile.mkdtemp(dir="/dev/shm"))
    here = os.open(tree, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d" * 20, dir_fd=here)
        below = os.open("d" * 20, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    remove_tree(tree)
    assert not tree.exists()
