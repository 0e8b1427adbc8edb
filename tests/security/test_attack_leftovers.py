"""What a process that was killed has left in the place for temporary files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from corral.cluster.up.cluster import down
from corral.cluster.up.folder import DataFolder
from corral.files.temporary import sweep, temporary

MAKE = """
import os, sys
from pathlib import Path
from corral.files.temporary import temporary
made = temporary("ssh", Path(sys.argv[1]))
(Path(made.name) / "key").write_text("secret")
print(made.name, flush=True)
sys.stdin.read()
"""


@pytest.mark.attack(
    "disk",
    "kills the operator while it has the key of a machine, or data of a pod, in a file in /tmp",
    "the next one, or `corral down`, removes it",
)
@pytest.mark.parametrize("by", ["sweep", "down"])
def test_folders_of_the_dead(by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    process = subprocess.Popen(
        [sys.executable, "-c", MAKE, str(tmp_path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    left = Path(process.stdout.readline().strip())
    assert (left / "key").exists() and left.stat().st_mode & 0o077 == 0
    sweep(tmp_path)
    assert left.exists()  # its process runs
    process.kill()
    process.communicate()
    with temporary("backup", tmp_path) as own:
        if by == "sweep":
            sweep()
        else:
            assert not down(DataFolder(tmp_path / "none"), timeout=1)
        assert Path(own).exists()
    assert list(tmp_path.iterdir()) == []
