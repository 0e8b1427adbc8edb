"""Walking values together with their types: which fields a value has, how two values differ.

These are the hot paths: tracking ownership does one ``compare`` on every write.
"""

from __future__ import annotations

from typing import Any

from corral.cluster.apiserver.apply.fields import MEMBER, Fields
from corral.cluster.apiserver.apply.types import (
    ANY,
    DEDUCED,
    LEAF,
    MAP_LIST,
    SET,
    STRUCT,
    Type,
    reaches_atomic,
)

_MISSING: Any = object()


class Duplicates(list[Any]):
    """Items of one list that have the same key; owned together, as one leaf."""


def index_list(type_: Type, items: list[Any]) -> dict[str, Any]:
    """The items of a set or map list by path element."""
    key_of = type_.item_key if type_.kind == MAP_LIST else type_.set_key
    out: dict[str, Any] = {}
    for item in items:
        key = key_of(item)
        seen = out.get(key, _MISSING)
        if seen is _MISSING:
            out[key] = item
        elif type(seen) is Duplicates:
            seen.append(item)
        else:
            out[key] = Duplicates((seen, item))
    return out


def every_field(type_: Type, value: Any) -> Fields:
    """All fields of a value that is wholly new (or wholly gone), the value itself included."""
    kind = type_.kind
    if kind == LEAF or not value:
        return MEMBER
    out: Fields = {".": MEMBER}
    if kind == STRUCT or kind == ANY:
        if type(value) is not dict:
            return MEMBER
        fields, elem = type_.fields, type_.elem or DEDUCED
        for name, item in value.items():
            field = fields.get(name)
            if field is None:
                out["f:" + name] = MEMBER if elem.kind == LEAF else every_field(elem, item)
            else:
                sub = field[1]
                out[field[0]] = MEMBER if sub.kind == LEAF else every_field(sub, item)
        return out
    if type(value) is not list:
        return MEMBER
    elem = type_.elem or DEDUCED
    for key, item in index_list(type_, value).items():
        out[key] = MEMBER if type(item) is Duplicates else every_field(elem, item)
    return out


def compare_structs(type_: Type, old: Any, new: Any, changed: Fields, removed: Fields) -> None:
    """Put what ``new`` added or modified into ``changed`` and what it lacks into ``removed``."""
    fields, elem = type_.fields, type_.elem or DEDUCED
    shared = 0
    for name, value in new.items():
        before = old.get(name, _MISSING)
        if before is not _MISSING:
            shared += 1
            if before is value or before == value:
                continue
        field = fields.get(name)
        key, sub = ("f:" + name, elem) if field is None else field
        if sub.kind == LEAF:
            changed[key] = MEMBER
        elif before is _MISSING:
            changed[key] = every_field(sub, value)
        else:
            _compare(sub, key, before, value, changed, removed)
    if shared != len(old):
        for name, before in old.items():
            if name not in new:
                field = fields.get(name)
                key, sub = ("f:" + name, elem) if field is None else field
                removed[key] = every_field(sub, before)


def _compare(type_: Type, key: str, old: Any, new: Any, changed: Fields, removed: Fields) -> None:
    """Compare two values that are both there and differ."""
    kind = type_.kind
    if kind == LEAF or not (old or new):
        changed[key] = MEMBER
        return
    more: Fields = {}
    less: Fields = {}
    if kind == STRUCT or kind == ANY:
        was, now = type(old) is dict, type(new) is dict
        if kind == ANY and was is not now and (old is not None and new is not None):
            more["."] = MEMBER
        if not was and not now:
            changed[key] = MEMBER
            return
        compare_structs(type_, old if was else {}, new if now else {}, more, less)
    else:
        _compare_lists(type_, old or [], new or [], more, less)
    if more:
        changed[key] = MEMBER if len(more) == 1 and "." in more else more
    if less:
        removed[key] = less


def _compare_lists(
    type_: Type, old: list[Any], new: list[Any], changed: Fields, removed: Fields
) -> None:
    elem = type_.elem or DEDUCED
    before, after = index_list(type_, old), index_list(type_, new)
    for key, item in after.items():
        was = before.get(key, _MISSING)
        many = type(item) is Duplicates
        if was is _MISSING:
            changed[key] = MEMBER if many else every_field(elem, item)
        elif many is (type(was) is Duplicates):
            if was == item:
                continue
            if many:
                changed[key] = MEMBER
            else:
                _compare(elem, key, was, item, changed, removed)
        elif many:
            removed[key] = every_field(elem, was)
            changed[key] = MEMBER
        else:
            changed[key] = every_field(elem, item)
            removed[key] = MEMBER
    for key, was in before.items():
        if key not in after:
            removed[key] = MEMBER if type(was) is Duplicates else every_field(elem, was)


def compare(type_: Type, old: Any, new: Any) -> tuple[Fields, Fields]:
    """(changed, removed) between two objects of one kind."""
    changed: Fields = {}
    removed: Fields = {}
    compare_structs(type_, old, new, changed, removed)
    return changed, removed


def mentioned_fields(type_: Type, value: Any) -> Fields:
    """The fields an applied configuration mentions.

    Unlike ``every_field`` a declared field that only holds other fields is not itself a member.
    """
    return _mentioned(type_, value) or {}


def _mentioned(type_: Type, value: Any) -> Fields | None:
    """Members below a value; None where the value itself is the leaf."""
    kind = type_.kind
    if kind == LEAF:
        return None
    if kind == STRUCT or kind == ANY:
        if type(value) is not dict:
            return {} if value is None or kind == STRUCT else None
        return _mentioned_struct(type_, value)
    out: Fields = {}
    elem = type_.elem or DEDUCED
    for key, item in index_list(type_, value or []).items():
        below = None if type(item) is Duplicates or kind == SET else _mentioned(elem, item)
        out[key] = {".": MEMBER, **below} if below else MEMBER
    return out


def _mentioned_struct(type_: Type, value: dict[str, Any]) -> Fields:
    out: Fields = {}
    fields, elem = type_.fields, type_.elem or DEDUCED
    for name, item in value.items():
        field = fields.get(name)
        key, sub = ("f:" + name, elem) if field is None else field
        below = _mentioned(sub, item)
        if below is None or field is None or item is None or item == {}:
            out[key] = {".": MEMBER, **below} if below else MEMBER
        elif below:
            out[key] = below
    return out


def with_named_parents(type_: Type | None, fields: Fields) -> Fields:
    """The set and every declared field on the way to its members."""
    out: Fields = {}
    for key, node in fields.items():
        if not node:
            out[key] = node
            continue
        field = type_.fields.get(key[2:]) if type_ is not None and key[0] == "f" else None
        sub: Type | None = None
        if field is not None:
            sub = field[1]
        elif type_ is not None and (key[0] == "f") is (type_.kind < SET):
            sub = type_.elem
        below = with_named_parents(sub, node)
        out[key] = {".": MEMBER, **below} if field is not None else below
    return out


def at_atomic_roots(type_: Type, fields: Fields) -> Fields:
    """Ownership below what is now atomic, moved up to the atomic value itself."""
    out: Fields | None = None
    for key, node in fields.items():
        if not node:
            continue
        field = type_.fields.get(key[2:]) if key[0] == "f" else None
        sub = field[1] if field is not None else type_.elem
        if sub is None or sub is DEDUCED:
            continue
        if sub.kind == LEAF:
            moved = MEMBER if sub.shape in ("list", "map") else node
        elif reaches_atomic(sub):
            moved = at_atomic_roots(sub, node)
        else:
            continue
        if moved is not node:
            out = dict(fields) if out is None else out
            out[key] = moved
    return fields if out is None else out
