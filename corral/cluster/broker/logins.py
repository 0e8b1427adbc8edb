"""Who namespaces are to the broker of a cluster; light, for whoever hands that out.

A namespace's name and password follow from a key that the broker alone knows: nothing is kept
about them, and there is nothing to keep in step. The name has the namespace's uid, so one that is
made anew under an old name is another one, and a tag, so that a name that we did not give costs
nothing to refuse.
"""

from __future__ import annotations

import base64
import hmac
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

__all__ = [
    "MECHANISM",
    "SECRET",
    "Login",
    "load_key",
    "login_of",
    "namespace_of",
    "owner_named",
    "owner_of",
    "password_of",
]

SECRET: Final = "corral-kafka"
"""The Secret with its login that every namespace has."""
MECHANISM: Final = "SCRAM-SHA-256"
_KEY: Final = 32
_TAG: Final = 16


@dataclass(frozen=True, slots=True)
class Login:
    """A name and a password."""

    username: str
    password: str = field(repr=False)


def load_key(path: Path) -> bytes:
    """The key in a file, made if there is none. Raises OSError, ValueError."""
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        key = _make(path)
    if len(key) != _KEY:
        raise ValueError(f"{path} has {len(key)} bytes, not {_KEY}: remove it to have a new one")
    return key


def _make(path: Path) -> bytes:
    """It is there whole or not at all, and never twice."""
    new = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(secrets.token_bytes(_KEY))
            file.flush()
            os.fsync(file.fileno())
        os.link(new, path)
    except FileExistsError:
        return path.read_bytes()
    finally:
        new.unlink()
    return path.read_bytes()


def login_of(key: bytes, namespace: str, uid: str) -> Login:
    """What a namespace logs in with."""
    owner = owner_named(namespace, uid)
    username = f"{owner}.{_tag(key, owner)}"
    return Login(username, password_of(key, username))


def password_of(key: bytes, username: str) -> str:
    """That of a name that we gave."""
    digest = hmac.digest(key, f"password {username}".encode(), "sha256")
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def owner_of(key: bytes, username: str) -> str | None:
    """``NAMESPACE.UID`` of a name that we gave; None of any other."""
    owner, _, tag = username.rpartition(".")
    if not owner or not hmac.compare_digest(tag.encode(), _tag(key, owner).encode()):
        return None
    return owner


def owner_named(namespace: str, uid: str) -> str:
    """Whose topics and groups those of a namespace are."""
    return f"{namespace}.{uid}"


def namespace_of(owner: str) -> str:
    """As people call it."""
    return owner.rpartition(".")[0]


def _tag(key: bytes, owner: str) -> str:
    return hmac.digest(key, f"name {owner}".encode(), "sha256").hex()[:_TAG]
