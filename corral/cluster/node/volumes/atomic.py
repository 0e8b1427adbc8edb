"""A folder whose files all change at once.

Files lie in a hidden folder with a time for its name; ``..data`` points to it and what is seen are
links through ``..data``. A reader finds the old files or the new ones, never some of each.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from corral.cluster.node.volumes.payloads import Payload
from corral.files.private import make_folders

_DATA: Final = "..data"


def write(folder: Path, payload: Payload, *, gid: int | None = None) -> bool:
    """Make ``folder`` hold exactly ``payload``; False when it did already."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)  # whoever the pod runs as; nobody else passes through the folders above
    old = _current(folder)
    if old is not None and _holds(old, payload):
        _link(folder, payload)
        return False
    stamp = datetime.now(UTC).strftime("..%Y_%m_%d_%H_%M_%S.")
    new = Path(tempfile.mkdtemp(prefix=stamp, dir=folder))
    new.chmod(0o755)
    for name, file in payload.items():
        path = new / name
        make_folders(path.parent, mode=0o755)
        path.write_bytes(file.data)
        if gid is not None:
            os.chown(path, -1, gid)
        path.chmod(file.mode | (0o040 if gid is not None else 0))
    fresh = folder / "..data_tmp"
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(new.name)
    fresh.rename(folder / _DATA)
    _link(folder, payload)
    for entry in folder.iterdir():
        if entry.name.startswith("..2") and entry != new:
            shutil.rmtree(entry)
    return True


def _current(folder: Path) -> Path | None:
    try:
        return folder / os.readlink(folder / _DATA)
    except FileNotFoundError:
        return None


def _holds(folder: Path, payload: Payload) -> bool:
    found = {
        str(path.relative_to(folder)): path
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }
    if found.keys() != payload.keys():
        return False
    return all(
        path.read_bytes() == payload[name].data
        and path.stat().st_mode & 0o7737 == payload[name].mode & 0o7737
        for name, path in found.items()
    )


def _link(folder: Path, payload: Payload) -> None:
    """One link for each first part of a path; none for what is no more."""
    wanted = {name.split("/")[0] for name in payload}
    for name in wanted:
        path = folder / name
        if not path.is_symlink():
            path.symlink_to(f"{_DATA}/{name}")
    for entry in folder.iterdir():
        if entry.is_symlink() and entry.name not in wanted and not entry.name.startswith(".."):
            entry.unlink()
