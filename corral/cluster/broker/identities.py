"""Numbers that must never be given twice: of the cluster, and of idempotent producers."""

from __future__ import annotations

import base64
import uuid
from pathlib import Path
from typing import Final

import orjson

from corral.cluster.broker.errors import DataError
from corral.cluster.broker.storage.files import replace_file

__all__ = ["Identities"]

_BLOCK: Final = 1000
"""Producer numbers that are written off at once; a start begins a new block."""


class Identities:
    """On disk before they are given away."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            stored = orjson.loads(path.read_bytes())
            self.cluster = str(stored["cluster"])
            self._next = self._taken = int(stored["producers"])
        except FileNotFoundError:
            self.cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes)[:22].decode()
            self._next = self._taken = 0
            self._write(0)
        except (ValueError, KeyError, TypeError) as err:
            raise DataError(f"{path} is damaged ({err}): restore it from a copy") from err

    def producer(self) -> int:
        """A number that no producer had before. Raises OSError, and then none is given."""
        if self._next >= self._taken:
            self._write(self._taken + _BLOCK)
            self._taken += _BLOCK
        self._next += 1
        return self._next - 1

    def _write(self, taken: int) -> None:
        data = {"cluster": self.cluster, "producers": taken}
        replace_file(self._path, orjson.dumps(data))
