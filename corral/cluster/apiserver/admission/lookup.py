"""Stored objects that plugins ask for again and again, parsed once per version.

A version of an object is an ``Entry``, and entries are immutable, so what was made of one stays
right for as long as the store gives back the same entry. Nothing has to be told about changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from corral.cluster.apiserver.store import Entry, Store
from corral.kube.types import Obj

__all__ = ["Parsed"]

T = TypeVar("T")
_SPARE = 64


class Parsed(Generic[T]):
    """The objects of one table, as ``build`` sees them."""

    __slots__ = ("_build", "_known", "_store", "_table")

    def __init__(self, store: Store, table: str, build: Callable[[Obj], T]) -> None:
        self._store = store
        self._table = table
        self._build = build
        self._known: dict[str, tuple[Entry, T]] = {}

    def get(self, key: str) -> T | None:
        """The newest version, durable or not."""
        entry = self._store.head(self._table, key)
        return None if entry is None else self._of(entry)

    def scan(self, prefix: str = "") -> list[T]:
        """All durable objects in key order."""
        if not self._store.count(self._table):
            return []
        return [self._of(entry) for entry in self._store.scan(self._table, prefix)]

    def any(self) -> bool:
        """Whether the table has objects at all; the cheapest early out."""
        return self._store.count(self._table) > 0

    def _of(self, entry: Entry) -> T:
        known = self._known.get(entry.key)
        if known is not None and known[0] is entry:
            return known[1]
        if len(self._known) > 2 * self._store.count(self._table) + _SPARE:
            self._known.clear()
        made = self._build(entry.decode())
        self._known[entry.key] = (entry, made)
        return made
