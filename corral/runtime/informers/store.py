"""The local copy of a collection, with indexes. No I/O.

Objects are shared by everybody who reads them: treat them as immutable and copy before a change.
An index maps a value to the keys of the objects that have it; it is kept by the difference between
the old and the new values of an object, and a value that nobody has any more takes no memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from corral.kube.selectors import Selector
from corral.kube.types import Obj
from corral.runtime.keys import key_of

__all__ = ["IndexFunction", "Store"]

IndexFunction = Callable[[Obj], Iterable[str]]
"""The values under which an object is to be found."""

NAMESPACE_INDEX = "namespace"


def _by_namespace(obj: Obj) -> tuple[str, ...]:
    return (obj["metadata"].get("namespace") or "",)


class _Index:
    """One index: ``keys[value]`` is never empty, and holds exactly the keys with this value."""

    def __init__(self, function: IndexFunction) -> None:
        self.function = function
        self.keys: dict[str, dict[str, None]] = {}
        """Value → keys; a dict instead of a set keeps the order of insertion."""

    def change(self, key: str, old: Obj | None, new: Obj | None) -> None:
        before = tuple(self.function(old)) if old is not None else ()
        after = tuple(self.function(new)) if new is not None else ()
        if before == after:
            return
        for value in before:
            if value not in after:
                self._remove(value, key)
        for value in after:
            if value not in before:
                self.keys.setdefault(value, {})[key] = None

    def _remove(self, value: str, key: str) -> None:
        keys = self.keys.get(value)
        if keys is None:
            return
        keys.pop(key, None)
        if not keys:
            del self.keys[value]


class Store:
    """Objects by key."""

    def __init__(self, **indexes: IndexFunction) -> None:
        self._objects: dict[str, Obj] = {}
        self._indexes = {NAMESPACE_INDEX: _Index(_by_namespace)}
        for name, function in indexes.items():
            self.add_index(name, function)

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: str) -> bool:
        return key in self._objects

    def __iter__(self) -> Iterator[Obj]:
        """All objects, as they are now; changes while iterating do no harm."""
        return iter(list(self._objects.values()))

    def keys(self) -> list[str]:
        return list(self._objects)

    def get(self, key: str) -> Obj | None:
        return self._objects.get(key)

    def objects(
        self, namespace: str | None = None, *, selector: Selector | None = None
    ) -> list[Obj]:
        """The objects of a namespace (``None`` = of all), those whose labels match."""
        found = (
            list(self._objects.values())
            if namespace is None
            else self.by_index(NAMESPACE_INDEX, namespace)
        )
        if selector is None:
            return found
        return [obj for obj in found if selector.matches(obj["metadata"].get("labels") or {})]

    # --- indexes ---------------------------------------------------------------------------------

    def add_index(self, name: str, function: IndexFunction) -> None:
        """Keep an index from now on; what is in the store already is indexed at once.

        The same function under the same name may be added again, so that several controllers can
        ask for the index they need.

        Raises:
            ValueError: the name is taken by another function.
        """
        known = self._indexes.get(name)
        if known is not None:
            if known.function is function:
                return
            raise ValueError(f"there is another index named {name!r} already")
        index = self._indexes[name] = _Index(function)
        for key, obj in self._objects.items():
            index.change(key, None, obj)

    def by_index(self, name: str, value: str) -> list[Obj]:
        """The objects that have this value."""
        objects = self._objects
        return [objects[key] for key in self._indexes[name].keys.get(value, ())]

    def keys_by_index(self, name: str, value: str) -> list[str]:
        return list(self._indexes[name].keys.get(value, ()))

    def index_values(self, name: str) -> list[str]:
        """Every value that some object has."""
        return list(self._indexes[name].keys)

    # --- changes ---------------------------------------------------------------------------------

    def put(self, obj: Obj, key: str = "") -> Obj | None:
        """Add or replace an object; gives the one it replaced."""
        key = key or key_of(obj)
        old = self._objects.get(key)
        self._objects[key] = obj
        for index in self._indexes.values():
            index.change(key, old, obj)
        return old

    def remove(self, key: str) -> Obj | None:
        """Remove an object; gives the last known state of it."""
        old = self._objects.pop(key, None)
        if old is not None:
            for index in self._indexes.values():
                index.change(key, old, None)
        return old
