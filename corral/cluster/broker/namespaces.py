"""Namespaces as users: their credentials are made of a key when they log in."""

from __future__ import annotations

import hmac
from collections import OrderedDict
from typing import Final

from corral.cluster.broker import logins
from corral.cluster.broker.scram import MECHANISMS, Credential, derive

__all__ = ["Namespaces"]

_KEPT: Final = 4096
"""Credentials that are remembered: making one takes milliseconds."""


class Namespaces:
    """Everybody whom the key has given a name."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.secret = hmac.digest(key, b"nobody", "sha256")
        self._known = {mechanism: _Derived(key, mechanism) for mechanism in MECHANISMS}

    def of(self, mechanism: str) -> _Derived:
        return self._known[mechanism]

    def owner(self, user: str) -> str:
        """Whose topics somebody who has logged in sees."""
        return logins.owner_of(self._key, user) or ""


class _Derived:
    """By name, for one mechanism."""

    def __init__(self, key: bytes, mechanism: str) -> None:
        self._key, self._mechanism = key, mechanism
        self._made: OrderedDict[str, Credential] = OrderedDict()

    def get(self, user: str) -> Credential | None:
        if logins.owner_of(self._key, user) is None:
            return None
        found = self._made.get(user)
        if found is None:
            salt = hmac.digest(self._key, f"salt {self._mechanism} {user}".encode(), "sha256")
            password = logins.password_of(self._key, user)
            found = self._made[user] = derive(self._mechanism, password, salt=salt[:24])
        self._made.move_to_end(user)
        while len(self._made) > _KEPT:
            self._made.popitem(last=False)
        return found
