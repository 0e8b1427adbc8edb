"""Folders of the machine that controllers keep for jobs: FOLDER/<namespace>/<job>/<uid>. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

__all__ = ["job_root"]

_DEPTH: Final = 3


def job_root(path: Path, namespace: str, folders: Sequence[Path]) -> Path | None:
    """The one of ``folders`` in which a path is that of a job of the namespace; else None.

    What lies deeper is not: pods write there, and may put links in place of folders.
    """
    if ".." in path.parts:
        return None
    for root in folders:
        if path.is_relative_to(root):
            parts = path.relative_to(root).parts
            if parts[:1] == (namespace,) and len(parts) == _DEPTH:
                return root
    return None
