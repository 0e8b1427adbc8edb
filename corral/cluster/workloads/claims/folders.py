"""The folders of claims on disk. Blocking: call it in a thread."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

__all__ = ["make_folder", "remove_folder"]


def make_folder(path: Path) -> None:
    """Make a folder that everybody may write to, as pods run under all kinds of users.

    Raises:
        OSError: it is not there afterwards.
    """
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o777)


def remove_folder(path: Path) -> None:
    """Remove a folder with all that is in it; what is not there is removed already.

    Links are removed, never followed; subfolders that forbid removal are opened first.

    Raises:
        OSError: something could not be removed.
    """
    if not os.path.lexists(path):
        return
    if path.is_symlink():
        raise OSError(f"{path} is a link")
    _open(str(path))
    for parent, folders, _ in os.walk(path):
        for name in folders:
            _open(os.path.join(parent, name))
    shutil.rmtree(path)


def _open(folder: str) -> None:
    if not os.path.islink(folder) and not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        os.chmod(folder, 0o700)
