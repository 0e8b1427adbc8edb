"""Folders for a while: those of the dead are removed, nobody else's are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from corral.files.temporary import sweep


def test_what_is_not_ours(tmp_path: Path) -> None:
    """Anybody may make such names, as deep or as strange as they like."""
    dead = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], check=True, capture_output=True,
        text=True,
    ).stdout.strip()  # fmt: skip
    target = tmp_path / "target"
    target.mkdir()
    (tmp_path / f"corral-ssh-{dead}-link").symlink_to(target)
    (tmp_path / f"corral-ssh-{dead}-file").touch()
    open_to_all = tmp_path / f"corral-ssh-{dead}-open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    (tmp_path / f"corral-ssh-{'9' * 30}-x").mkdir()
    (tmp_path / f"corral-ssh-{os.getppid()}-x").mkdir()
    deep = tmp_path / f"corral-ssh-{dead}-deep"
    deep.mkdir()
    fd = os.open(deep, os.O_RDONLY)
    for _ in range(2000):
        os.mkdir("d", dir_fd=fd)
        inner = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)
    before = {path.name for path in tmp_path.iterdir()}
    sweep(tmp_path)
    assert before - {path.name for path in tmp_path.iterdir()} == {deep.name}
    sweep(tmp_path / "nowhere")
