"""What storing does to an object beside keeping it.

Built-in kinds go through protobuf on their way to the store, where an empty list or map is no list
at all: one that is always printed comes back as null. Until then the empty value counts, in who
owns it for one. ``emptied(message)`` compiles a message into a function that does this in place,
or None where a message has no such field.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from corral.cluster.apiserver.codec.types import Message, Type, message

__all__ = ["emptied"]

Emptier = Callable[[Any], None]

# Kept as JSON, where an empty list is not a missing one.
_JSON_STORED = frozenset({
    "admission/v1", "apidiscovery/v2", "apiextensions/v1", "apiregistration/v1",
    "authentication/v1", "authorization/v1", "meta/v1", "metrics/v1beta1",
})  # fmt: skip


@cache
def emptied(msg: Message) -> Emptier | None:
    """The compiled function of ``msg``."""
    return _struct(msg, frozenset())


def _struct(msg: Message, above: frozenset[str]) -> Emptier | None:
    package = msg.name.rpartition(".")[0]
    if package in _JSON_STORED or msg.name in above:
        return None
    above |= {msg.name}
    always = tuple(
        f.name for f in msg.fields if not f.omitempty and f.type.shape in ("list", "map")
    )
    inner = tuple(
        (f.name, below) for f in msg.fields if (below := _type(f.type, above)) is not None
    )
    if not always and not inner:
        return None

    def empty(value: Any) -> None:
        for name in always:
            if not value.get(name):
                value[name] = None
        for name, below in inner:
            item = value.get(name)
            if item:
                below(item)

    return empty


def _type(kind: Type, above: frozenset[str]) -> Emptier | None:
    if kind.shape == "struct":
        return _struct(message(kind.text), above)
    if kind.elem is None:
        return None
    below = _type(kind.elem, above)
    if below is None or kind.shape == "pointer":
        return below
    if kind.shape == "list":
        return _each(below, lambda value: value)
    return _each(below, dict.values)


def _each(below: Emptier, items: Callable[[Any], Any]) -> Emptier:
    def empty(value: Any) -> None:
        for item in items(value):
            if item:
                below(item)

    return empty
