"""Sets of fields, in the JSON shape in which managedFields carries them (FieldsV1).

A set is a dict from path element (``f:name``, ``k:{"name":"x"}``, ``v:"x"``, ``i:0``) to the set
below it. An empty dict is a member without members below; ``"."`` marks a member that has some.
Sets are never changed in place, so they may share parts with each other and with stored objects;
every operation returns its input where nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, Final, TypeAlias

import orjson

Fields: TypeAlias = dict[str, Any]

MEMBER: Final[Fields] = {}
"""A member with nothing below it."""


def is_member(node: Fields) -> bool:
    return not node or "." in node


def union(a: Fields, b: Fields) -> Fields:
    """What is in either."""
    if not a or not b:
        return a or b
    out: Fields | None = None
    for key, theirs in b.items():
        mine = a.get(key)
        if mine is None:
            merged = theirs
        elif mine is theirs or mine == theirs:
            continue
        elif not mine:
            merged = theirs if "." in theirs else {".": MEMBER, **theirs}
        elif not theirs:
            if "." in mine:
                continue
            merged = {".": MEMBER, **mine}
        else:
            merged = union(mine, theirs)
            if merged is mine:
                continue
        if out is None:
            out = dict(a)
        out[key] = merged
    return a if out is None else out


def union_of(sets: Iterable[Fields]) -> Fields:
    """What is in any of many sets: merged by twos, so that none is copied again and again."""
    left = list(sets)
    while len(left) > 1:
        left = [union(a, b) for a, b in zip_longest(left[::2], left[1::2], fillvalue=MEMBER)]
    return left[0] if left else {}


def subtract(a: Fields, b: Fields) -> Fields:
    """What is in ``a`` and not in ``b``; a member of ``b`` does not take what is below it."""
    out: Fields | None = None
    for key in b if len(b) <= len(a) else a:
        mine, theirs = a.get(key), b.get(key)
        if mine is None or theirs is None:
            continue
        if not mine:
            if not is_member(theirs):
                continue
            left = None
        else:
            left = _subtract_below(mine, theirs)
            if left is mine:
                continue
        if out is None:
            out = dict(a)
        if left:
            out[key] = MEMBER if len(left) == 1 and "." in left else left
        else:
            del out[key]
    return a if out is None else out


def _subtract_below(mine: Fields, theirs: Fields) -> Fields:
    if theirs:
        return subtract(mine, theirs)
    if "." in mine:
        return {k: v for k, v in mine.items() if k != "."}
    return mine


def intersect(a: Fields, b: Fields) -> Fields:
    """What is in both."""
    out: Fields = {}
    small, large = (a, b) if len(a) <= len(b) else (b, a)
    for key, x in small.items():
        y = large.get(key)
        if y is None:
            continue
        if not x or not y:
            if is_member(x) and is_member(y):
                out[key] = MEMBER
            continue
        both = intersect(x, y)
        if both:
            out[key] = MEMBER if len(both) == 1 and "." in both else both
    return out


def without_path(fields: Fields, path: Sequence[str]) -> Fields:
    """The set less the field at ``path`` (names) and everything below it."""
    key = "f:" + path[0]
    node = fields.get(key)
    if node is None:
        return fields
    if len(path) > 1:
        left = without_path(node, path[1:])
        if left is node:
            return fields
        if left:
            if len(left) == 1 and "." in left:
                left = MEMBER
            return {**fields, key: left}
    out = dict(fields)
    del out[key]
    return out


def has_path(fields: Fields, path: Sequence[str]) -> bool:
    """Whether the field at ``path`` (names) is a member."""
    for name in path:
        node = fields.get("f:" + name)
        if node is None:
            return False
        fields = node
    return is_member(fields)


def from_path(path: Sequence[str]) -> Fields:
    """The set of one field."""
    out = MEMBER
    for name in reversed(path):
        out = {"f:" + name: out}
    return out


def has(fields: Fields, path: Sequence[str]) -> bool:
    """Whether ``path`` (path elements) is a member."""
    for element in path:
        node = fields.get(element)
        if node is None:
            return False
        fields = node
    return is_member(fields)


def paths(fields: Fields, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """All members as tuples of path elements: those of a level first, then those below."""
    ordered = sorted(fields.items(), key=_order)
    for key, node in ordered:
        if key != "." and is_member(node):
            yield (*prefix, key)
    for key, node in ordered:
        if node:
            yield from paths(node, (*prefix, key))


def show_path(path: Sequence[str]) -> str:
    """A path as messages print it: ``.spec.containers[name="a"].image``."""
    return "".join(show_element(element) for element in path)


def show_element(element: str) -> str:
    kind, text = element[:2], element[2:]
    if kind == "f:":
        return "." + text
    if kind == "k:":
        shown = (f"{name}={show_value(v)}" for name, v in orjson.loads(text).items())
        return f"[{','.join(shown)}]"
    if kind == "v:":
        return f"[={show_value(orjson.loads(text))}]"
    return f"[{text}]"


def show_value(value: Any) -> str:
    return orjson.dumps(value).decode()


def in_order(fields: Fields) -> Fields:
    """The same set with its elements in the order in which the API server writes them."""
    if len(fields) == 1:
        ((key, node),) = fields.items()
        return {key: in_order(node)} if node else fields
    for key in fields:
        if key[0] == "k" or key[0] == "v":
            items = sorted(fields.items(), key=_order)
            break
    else:
        items = sorted(fields.items())
    return {key: in_order(node) if node else node for key, node in items}


_KINDS = {".": 0, "f": 1, "k": 2, "v": 3, "i": 4}


def _order(item: tuple[str, Fields]) -> tuple[Any, ...]:
    key = item[0]
    kind = _KINDS.get(key[0], 5)
    if kind == 2:
        found = orjson.loads(key[2:]).items()
        return kind, [(name, _rank(value), value) for name, value in found]
    if kind == 3:
        value = orjson.loads(key[2:])
        return kind, [("", _rank(value), value)]
    if kind == 4:
        return kind, [("", 0, int(key[2:]))]
    return kind, [(key, 0, 0)]


def _rank(value: Any) -> int:
    if isinstance(value, bool):
        return 2
    return 0 if isinstance(value, int | float) else 1
