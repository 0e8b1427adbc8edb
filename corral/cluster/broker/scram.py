"""SCRAM (RFC 5802) as a server does it: nobody sends a password, none is kept. No I/O.

Somebody who is not known is asked like everybody else and refused at the end: who is known is
nobody's business.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

__all__ = ["ITERATIONS", "MECHANISMS", "Credential", "Known", "Refused", "ScramServer", "derive"]

MECHANISMS: Final[Mapping[str, str]] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""With the hash of each."""
ITERATIONS: Final = (4096, 16384)
"""Fewest and most."""
_TOKEN: Final = 4096


class Refused(Exception):
    """The exchange ends here."""


@dataclass(frozen=True, slots=True)
class Credential:
    """What is kept about a password."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    @classmethod
    def from_salted(cls, mechanism: str, salted: bytes, salt: bytes, iterations: int) -> Credential:
        name = MECHANISMS[mechanism]
        client = hmac.digest(salted, b"Client Key", name)
        stored = hashlib.new(name, client).digest()
        return cls(salt, iterations, stored, hmac.digest(salted, b"Server Key", name))


def derive(
    mechanism: str, password: str, *, salt: bytes | None = None, iterations: int = ITERATIONS[0]
) -> Credential:
    """The credential of a password."""
    salt = os.urandom(24) if salt is None else salt
    salted = hashlib.pbkdf2_hmac(MECHANISMS[mechanism], password.encode(), salt, iterations)
    return Credential.from_salted(mechanism, salted, salt, iterations)


class Known(Protocol):
    """Who may log in."""

    def get(self, user: str, /) -> Credential | None:
        """What is kept about somebody's password; None about nobody's."""


class ScramServer:
    """One exchange: two messages in, two out."""

    def __init__(self, mechanism: str, users: Known, *, secret: bytes, nonce: str = "") -> None:
        self._hash = MECHANISMS[mechanism]
        self._users = users
        self._secret = secret
        self._nonce = nonce or base64.b64encode(os.urandom(24)).decode()
        self._first = ""
        self._said = ""
        self._header = ""
        self._credential: Credential | None = None
        self._known = False
        self.user = ""
        self.done = False

    def answer(self, token: bytes) -> bytes:
        """The answer to the next message. Raises Refused."""
        if len(token) > _TOKEN or self.done:
            raise Refused("the exchange is over" if self.done else "the message is too long")
        try:
            text = token.decode()
        except UnicodeDecodeError:
            raise Refused("the message is not UTF-8") from None
        return self._begin(text) if self._credential is None else self._finish(text)

    def _begin(self, text: str) -> bytes:
        binding, authorised, bare = _parts(text, 3)
        if binding not in ("n", "y"):
            raise Refused("there is no channel to bind to")
        fields = _fields(bare)
        user, nonce = fields.get("n"), fields.get("r")
        if not user or not nonce or "m" in fields:
            raise Refused("the first message has a name and a nonce")
        self.user = user.replace("=2C", ",").replace("=3D", "=")
        if authorised and authorised != f"a={user}":
            raise Refused("nobody acts for another")
        found = self._users.get(self.user)
        self._known = found is not None
        self._credential = found or self._nobody()
        self._header = f"{binding},{authorised},"
        self._first = bare
        salt = base64.b64encode(self._credential.salt).decode()
        self._nonce = nonce + self._nonce
        self._said = f"r={self._nonce},s={salt},i={self._credential.iterations}"
        return self._said.encode()

    def _nobody(self) -> Credential:
        """The same for the same name, as if there were somebody."""
        salt = hmac.digest(self._secret, self.user.encode(), "sha256")[:24]
        return Credential(salt, ITERATIONS[0], os.urandom(32), os.urandom(32))

    def _finish(self, text: str) -> bytes:
        self.done = True
        credential = self._credential
        assert credential is not None
        bare, _, last = text.rpartition(",p=")
        fields = _fields(bare)
        if fields.get("c") != base64.b64encode(self._header.encode()).decode():
            raise Refused("the channel is another one")
        if fields.get("r") != self._nonce:
            raise Refused("the nonce is another one")
        try:
            proof = base64.b64decode(last, validate=True)
        except binascii.Error:
            raise Refused("the proof is not base64") from None
        said = f"{self._first},{self._said},{bare}".encode()
        signature = hmac.digest(credential.stored_key, said, self._hash)
        if len(proof) != len(signature):
            raise Refused("wrong name or password")
        key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        same = hmac.compare_digest(hashlib.new(self._hash, key).digest(), credential.stored_key)
        if not (same and self._known):
            raise Refused("wrong name or password")
        verifier = hmac.digest(credential.server_key, said, self._hash)
        return b"v=" + base64.b64encode(verifier)


def _parts(text: str, count: int) -> list[str]:
    parts = text.split(",", count - 1)
    if len(parts) != count:
        raise Refused("the message is cut off")
    return parts


def _fields(text: str) -> dict[str, str]:
    return {key: value for key, _, value in (part.partition("=") for part in text.split(","))}
