"""The folders of claims on disk. Blocking: call it in a thread."""

from __future__ import annotations

from pathlib import Path

from corral.files.private import private_folder
from corral.files.removal import remove_tree

__all__ = ["make_folder", "remove_folder"]


def make_folder(path: Path) -> None:
    """Make a folder that every pod may write to that has it mounted, whoever it runs as.

    Nobody else gets there: the folder above, which holds all claims, is closed to others.

    Raises:
        OSError: it is not there afterwards.
    """
    private_folder(path.parent)
    private_folder(path, mode=0o777)


def remove_folder(path: Path) -> None:
    """Remove a folder with all that is in it; what is not there is removed already.

    Links are removed, never followed; subfolders that forbid removal are opened first.

    Raises:
        OSError: something could not be removed.
    """
    remove_tree(path)
