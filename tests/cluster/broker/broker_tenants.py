"""A broker that namespaces log in to, and clients of theirs that say what a case wants said."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import struct
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import timedelta
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

from kio.index import load_request_schema

from corral.cluster.broker.logins import Login, load_key, login_of
from tests.cluster.broker.broker_servers import OwnBroker
from tests.cluster.broker.broker_wire import Wire

UID = "11111111-2222-3333-4444-{:012d}"
SOON = timedelta(seconds=5)


def said(api: int, version: int, /, **values: Any) -> Any:
    """A request, of plain values."""
    return _entity(load_request_schema(api, version), values)


def _entity(kind: Any, values: Mapping[str, Any]) -> Any:
    out = {}
    for field in fields(kind):
        value = values.get(field.name, field.default)
        assert value is not MISSING, f"{kind.__name__} has no {field.name}"
        inner = _inner(field.type)
        if inner is not None and isinstance(value, list | tuple):
            value = tuple(_entity(inner, row) if isinstance(row, Mapping) else row for row in value)
        out[field.name] = tuple(value) if isinstance(value, list) else value
    return kind(**out)


def _inner(hint: Any) -> Any:
    if get_origin(hint) is UnionType:
        hint = next(part for part in get_args(hint) if part is not NoneType)
    if get_origin(hint) is tuple:
        hint = get_args(hint)[0]
    return hint if is_dataclass(hint) else None


class GuardedBroker(OwnBroker):
    """``corral broker`` as `corral up` runs it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.key = load_key(folder / "key")

    def command(self) -> list[str]:
        return [*super().command(), "--namespace-key", str(self.folder / "key")]

    def login(self, namespace: str, number: int = 1) -> Login:
        return login_of(self.key, namespace, UID.format(number))

    def told(self, namespace: str) -> dict[str, object]:
        """What a client of librdkafka is told."""
        login = self.login(namespace)
        return {
            **self.client,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": login.username,
            "sasl.password": login.password,
        }

    def wire(self, namespace: str) -> Wire:
        """A connection that has logged in. Raises ConnectionError where it is let go."""
        wire = Wire(self.port)
        try:
            answer = Scram(self.login(namespace)).run(wire)
        except ConnectionError:
            wire.sock.close()
            raise
        assert answer.error_code.name == "none", answer
        return wire

    def memory(self) -> int:
        """Bytes."""
        assert self.process is not None
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) * 1024
        raise AssertionError("it has ended")


class Scram:
    """The client's half of SCRAM-SHA-256, a message at a time."""

    def __init__(self, login: Login, *, acts_for: str = "") -> None:
        self.login = login
        self.header = f"n,{f'a={acts_for}' if acts_for else ''},"
        self.bare = f"n={login.username},r={base64.b64encode(os.urandom(18)).decode()}"

    @property
    def first(self) -> bytes:
        return f"{self.header}{self.bare}".encode()

    def final(self, answered: bytes) -> bytes:
        parts = dict(part.split("=", 1) for part in answered.decode().split(","))
        salted = hashlib.pbkdf2_hmac(
            "sha256", self.login.password.encode(), base64.b64decode(parts["s"]), int(parts["i"])
        )
        key = hmac.digest(salted, b"Client Key", "sha256")
        bare = f"c={base64.b64encode(self.header.encode()).decode()},r={parts['r']}"
        signed = f"{self.bare},{answered.decode()},{bare}".encode()
        signature = hmac.digest(hashlib.sha256(key).digest(), signed, "sha256")
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        return f"{bare},p={base64.b64encode(proof).decode()}".encode()

    def run(self, wire: Wire) -> Any:
        """The last answer."""
        wire.ask(said(17, 1, mechanism="SCRAM-SHA-256"))
        answer = wire.ask(said(36, 0, auth_bytes=self.first))
        if answer.error_code.name != "none":
            return answer
        return wire.ask(said(36, 0, auth_bytes=self.final(answer.auth_bytes)))


def half_sent(size: int, there: int = 100) -> bytes:
    """The beginning of a Produce that never ends."""
    head = struct.pack(">ihhih", size, 0, 9, 1, -1)
    return head + b"\0" * (there - len(head) + 4)
