"""Archives (tar) that somebody else wrote, read without trust. Standard library only.

What stands before a member (its long name, its attributes) is read at once and searched in ways
that take its length squared on some versions of Python, while no other thread runs. So it must be
short, whatever its archive says.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from typing import Final, Self

__all__ = ["ShortInfo", "each_member"]

_BEFORE: Final = frozenset((
    tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
))  # fmt: skip
_LONGEST: Final = 10 << 10
"""Bytes: the longest name, what the longest link leads to, and a little more."""


class ShortInfo(tarfile.TarInfo):
    """A member as ``tarfile.open(..., tarinfo=ShortInfo)`` reads it."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Raises ReadError: its size is none, or what stands before a member is long."""
        found = super().frombuf(buf, encoding, errors)
        if found.size < 0 or (found.type in _BEFORE and found.size > _LONGEST):
            raise tarfile.ReadError(
                f"what is said of a member has {found.size} bytes, and may have {_LONGEST}"
            )
        return found


def each_member(tar: tarfile.TarFile, *written: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The members of an archive that is read as a stream; none is kept, nor of those ``written``.

    Raises TarError, ValueError.
    """
    while (member := tar.next()) is not None:
        for archive in (tar, *written):
            vars(archive)["members"] = []
        yield member
