"""Who may log in, durable: salted keys, no passwords."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from corral.cluster.broker.errors import BrokerError, DataError, ErrorCode
from corral.cluster.broker.scram import MECHANISMS, Credential, derive
from corral.cluster.broker.storage.files import replace_file

__all__ = ["Users"]


class Users:
    """By mechanism and name."""

    def __init__(self, path: Path, limit: int) -> None:
        self._path = path
        self._limit = limit
        self.secret = os.urandom(32)
        self._known: dict[str, dict[str, Credential]] = {name: {} for name in MECHANISMS}
        try:
            self._load(orjson.loads(path.read_bytes()))
        except FileNotFoundError:
            self._known = {name: {} for name in MECHANISMS}
        except (ValueError, KeyError, TypeError) as err:
            raise DataError(f"{path} is damaged ({err}): restore it from a copy") from err

    def _load(self, stored: Mapping[str, Any]) -> None:
        for mechanism, rows in stored.items():
            for name, (salt, iterations, key, server) in rows.items():
                parts = [base64.b64decode(part) for part in (salt, key, server)]
                credential = Credential(parts[0], int(iterations), parts[1], parts[2])
                self._known[mechanism][name] = credential

    def add_from(self, path: Path) -> None:
        """Have the users of a file: lines ``name:password``. Raises DataError."""
        try:
            lines = path.read_text().splitlines()
        except OSError as err:
            raise DataError(f"cannot read {path}: {err.strerror}") from err
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.startswith("#"):
                continue
            name, colon, password = line.partition(":")
            if not (name and colon and password):
                raise DataError(f"{path}, line {number}: expected name:password")
            for mechanism in MECHANISMS:
                self._add(mechanism, name, password)
        self._write()

    def _add(self, mechanism: str, name: str, password: str) -> None:
        """One whose password is the same keeps its salt."""
        old = self._known[mechanism].get(name)
        if old is None or old != derive(
            mechanism, password, salt=old.salt, iterations=old.iterations
        ):
            self._known[mechanism][name] = derive(mechanism, password)

    def of(self, mechanism: str) -> Mapping[str, Credential]:
        return self._known[mechanism]

    def owner(self, user: str) -> str:
        """All of them share everything."""
        return ""

    def names(self) -> list[str]:
        return sorted({name for rows in self._known.values() for name in rows})

    def change(self, name: str, *, put: Mapping[str, Credential], remove: list[str]) -> None:
        """Raises BrokerError."""
        if not name or len(name) > 255:
            raise BrokerError(ErrorCode.unacceptable_credential, "a name has 1 to 255 characters")
        for mechanism in remove:
            if name not in self._known[mechanism]:
                raise BrokerError(ErrorCode.resource_not_found, f"{name} has no {mechanism}")
        if put and name not in self.names() and len(self.names()) >= self._limit:
            raise BrokerError(ErrorCode.policy_violation, "there are too many users")
        for mechanism in remove:
            del self._known[mechanism][name]
        for mechanism, credential in put.items():
            self._known[mechanism][name] = credential
        self._write()

    def _write(self) -> None:
        def text(data: bytes) -> str:
            return base64.b64encode(data).decode()

        rows = {
            mechanism: {
                name: [text(c.salt), c.iterations, text(c.stored_key), text(c.server_key)]
                for name, c in known.items()
            }
            for mechanism, known in self._known.items()
        }
        replace_file(self._path, orjson.dumps(rows))
