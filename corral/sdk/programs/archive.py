"""Source code as one compressed archive. Pure but for reading the files.

Equal files make equal bytes: names are sorted, times and owners left out. What no program needs
(`SKIPPED`, and what ``.gitignore`` and ``.corralignore`` name) stays at home; a link that leads out
of the folder is refused, because it would lead nowhere in the pod.
"""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from corral.sdk.errors import CannotShip
from corral.sdk.programs.ignore import walk

__all__ = ["IGNORE_FILE", "SKIPPED", "pack", "pack_files", "readable"]

IGNORE_FILE: Final = ".corralignore"
SKIPPED: Final = (
    ".git", ".hg", ".svn", ".venv", "venv", ".env", "__pycache__", "*.pyc", ".mypy_cache",
    ".ruff_cache", ".pytest_cache", ".ipynb_checkpoints", ".tox", ".idea", ".vscode",
    "node_modules", ".DS_Store", "*.egg-info",
)  # fmt: skip
"""Names that are left out wherever they are, unless a rule with ``!`` takes them back."""
_MOST_FILES: Final = 20_000
_MOST_BYTES: Final = 256 << 20
"""More than this is no source code; the limit on the archive comes later."""


def pack(source: Path) -> bytes:
    """A folder's content, or one file. Raises CannotShip."""
    source = source.expanduser()
    if source.is_file():
        return pack_files({source.name: readable(source)})
    if not source.is_dir():
        raise CannotShip(f"there is no file or folder {source}")
    return _packed(_folder(source))


def pack_files(files: Mapping[str, bytes]) -> bytes:
    """Files by their path in the archive."""
    members = []
    for name, data in sorted(files.items()):
        info = tarfile.TarInfo(name)
        info.size, info.mode = len(data), 0o644
        members.append((info, data))
    return _packed(iter(members))


def readable(path: Path) -> bytes:
    """A file's content. Raises CannotShip."""
    try:
        return path.read_bytes()
    except OSError as err:
        raise CannotShip(f"cannot read {path}: {err.strerror}") from err


_Member = tuple[tarfile.TarInfo, bytes]


def _packed(members: Iterator[_Member]) -> bytes:
    raw, files, size = io.BytesIO(), 0, 0
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for info, data in members:
            files, size = files + 1, size + len(data)
            if files > _MOST_FILES or size > _MOST_BYTES:
                raise CannotShip(
                    f"the folder holds more than {_MOST_FILES} files or {_MOST_BYTES >> 20} MiB: "
                    f"name what the program does not need in {IGNORE_FILE}, "
                    "and put data into a volume or a bucket"
                )
            tar.addfile(info, io.BytesIO(data))
    return gzip.compress(raw.getvalue(), mtime=0)


def _folder(root: Path) -> Iterator[_Member]:
    for path in walk(root, SKIPPED):
        if path.name != IGNORE_FILE:
            yield from _member(root, Path(path))


def _member(root: Path, path: Path) -> Iterator[_Member]:
    whole, info = root / path, tarfile.TarInfo(path.as_posix())
    if whole.is_symlink():
        info.type, info.linkname = tarfile.SYMTYPE, _inside(root, whole)
        yield info, b""
    elif whole.is_file():  # sockets and pipes are no source code
        data = readable(whole)
        info.size, info.mode = len(data), whole.stat().st_mode & 0o755
        yield info, data


def _inside(root: Path, link: Path) -> str:
    target = os.readlink(link)
    if os.path.isabs(target) or not link.resolve().is_relative_to(root.resolve()):
        raise CannotShip(
            f"{link} is a link to {target}, which is not part of what is shipped: "
            f"copy the file, or name the link in {IGNORE_FILE}"
        )
    return target
