"""What an object's type says about ownership: which values are merged and which are one leaf.

A ``Type`` is a node of a compiled schema. Field ownership only cares about four shapes: a *leaf*
(scalars, atomic lists and maps), a *struct* (named fields and/or free keys), a *set* (list of
scalars) and a *map list* (list of objects told apart by key fields). ``ANY`` is a struct where the
value is an object and a leaf otherwise.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from corral.kube.types import Obj

LEAF: Final = 0
STRUCT: Final = 1
ANY: Final = 2
SET: Final = 3
MAP_LIST: Final = 4


class UntypableError(Exception):
    """A value does not have the shape its type asks for, so its fields cannot be named."""


class Type:
    """One node of a compiled schema. Filled while compiling, read-only afterwards."""

    __slots__ = ("atomic_below", "defaults", "elem", "fields", "keys", "kind", "shape")

    def __init__(self, kind: int, shape: str) -> None:
        self.kind = kind
        self.shape = shape
        """What a valid value is: string, numeric, boolean, untyped, list, map or any."""
        self.fields: dict[str, tuple[str, Type]] = {}
        """Declared fields: name → (name as path element, type)."""
        self.elem: Type | None = None
        """Type of list items, or of keys that are not declared; None = there may be none."""
        self.keys: tuple[str, ...] = ()
        """Key fields of a map list, sorted."""
        self.defaults: dict[str, Any] = {}
        """Key fields that count as present with this value when an item leaves them out."""
        self.atomic_below: bool | None = None
        """Whether an atomic list or map is reachable; None until asked for the first time."""

    def atomic_copy(self) -> Type:
        """The same type as one leaf."""
        copy = Type(LEAF, self.shape)
        copy.fields, copy.elem = self.fields, self.elem
        return copy

    def item_key(self, item: Any) -> str:
        """The path element of one item of a map list."""
        if not isinstance(item, dict):
            kind = "a null element" if item is None else "non-map elements"
            raise UntypableError(f"associative list with keys may not have {kind}")
        found = {}
        for name in self.keys:
            value = item.get(name)
            if value is None and name not in item:
                value = self.defaults.get(name)
                if value is None:
                    continue
            found[name] = value
        if not found:
            names = " ".join(f'"{k}"' for k in self.keys)
            raise UntypableError(
                f"associative list with keys has an element that omits all key fields [{names}] "
                "(and doesn't have default values for any key fields)"
            )
        return "k:" + _json(found)

    def set_key(self, item: Any) -> str:
        """The path element of one item of a set."""
        if item is None:
            raise UntypableError(
                "associative list without keys has an element that's an explicit null"
            )
        if isinstance(item, dict):
            raise UntypableError("associative list without keys has an element that's a map type")
        if isinstance(item, list):
            raise UntypableError("not supported: associative list with lists as elements")
        return "v:" + _json(item)


_ESCAPES = str.maketrans(
    {c: f"\\u{ord(c):04x}" for c in ("<", ">", "&", "\u2028", "\u2029")}
)  # as Go's encoding/json writes them


def _json(value: Any) -> str:
    text = orjson.dumps(value).decode()
    if "<" in text or ">" in text or "&" in text or not text.isascii():
        return text.translate(_ESCAPES)
    return text


def scalar(shape: str) -> Type:
    return Type(LEAF, shape)


UNTYPED_ATOMIC: Final = Type(LEAF, "any")
UNTYPED_ATOMIC.elem = UNTYPED_ATOMIC

DEDUCED: Final = Type(ANY, "any")
"""No schema: objects are merged key by key, everything else is a leaf."""
DEDUCED.elem = DEDUCED


class TypeSchema:
    """A compiled schema of one kind."""

    __slots__ = ("kind", "may_change", "root", "zero")

    def __init__(self, root: Type, *, kind: str = "", zero: Obj | None = None) -> None:
        self.root = root
        self.kind = kind
        self.zero: Obj = zero if zero is not None else {}
        """What an object without any field looks like: what creates are compared with."""
        self.may_change = zero is None
        """Whether stored ownership may have been written under another schema."""


def reaches_atomic(type_: Type) -> bool:
    """Whether ownership below a value of this type can be affected by an atomic list or map."""
    if type_.atomic_below is None:
        type_.atomic_below = False  # ends recursion; corrected below
        below = [t for _, t in type_.fields.values()]
        if type_.elem is not None:
            below.append(type_.elem)
        type_.atomic_below = any(
            (t.kind == LEAF and t.shape in ("list", "map")) or reaches_atomic(t) for t in below
        )
    return type_.atomic_below
