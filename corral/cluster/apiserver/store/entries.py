"""What is stored: versions of objects, and the events that led to them."""

from __future__ import annotations

from collections.abc import Callable

import orjson

from corral.kube.types import Obj

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"
_NO_LABELS: dict[str, str] = {}


class Entry:
    """One version of one object; immutable apart from the lazily filled caches."""

    __slots__ = (
        "create_rv",
        "deleting",
        "key",
        "known",
        "labels",
        "name",
        "namespace",
        "owners",
        "resource",
        "rv",
        "uid",
        "value",
    )

    def __init__(
        self, resource: str, key: str, value: bytes, *, rv: int, create_rv: int, meta: Obj
    ) -> None:
        self.resource = resource
        self.key = key
        self.value = value
        self.rv = rv
        self.create_rv = create_rv
        self.name: str = meta.get("name", "")
        self.namespace: str = meta.get("namespace", "")
        self.uid: str = meta.get("uid", "")
        self.labels: dict[str, str] = meta.get("labels") or _NO_LABELS
        references = meta.get("ownerReferences")
        self.owners: tuple[str, ...] = (
            tuple(r.get("uid", "") for r in references) if references else ()
        )
        self.deleting = "deletionTimestamp" in meta
        self.known: tuple[Callable[[Obj], dict[str, str]], dict[str, str]] | None = None

    def decode(self) -> Obj:
        """A fresh copy of the object."""
        obj: Obj = orjson.loads(self.value)
        return obj

    def know(self, extract: Callable[[Obj], dict[str, str]], obj: Obj) -> None:
        """Keep the selectable fields of the object while it is at hand."""
        self.known = extract, extract(obj)

    def fields(self, extract: Callable[[Obj], dict[str, str]]) -> dict[str, str]:
        """Values of the selectable fields; those of the last ``extract`` are kept.

        Versions of a kind share the entry and have selectable fields of their own.
        """
        if self.known is None or self.known[0] != extract:
            self.known = extract, extract(self.decode())
        return self.known[1]


class Event:
    """One committed change. ``prev`` is None for the first version of an object."""

    __slots__ = ("entry", "prev", "rv", "type")

    def __init__(self, type_: str, entry: Entry, prev: Entry | None) -> None:
        self.type = type_
        self.entry = entry
        self.prev = prev
        self.rv = entry.rv
