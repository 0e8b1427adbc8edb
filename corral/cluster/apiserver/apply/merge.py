"""Merging an applied configuration into an object, and taking fields out of one.

Results share parts with their inputs; inputs are not changed.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from corral.cluster.apiserver.apply.fields import Fields, is_member
from corral.cluster.apiserver.apply.types import ANY, DEDUCED, LEAF, MAP_LIST, STRUCT, Type
from corral.cluster.apiserver.apply.walk import Duplicates, index_list


def merge(type_: Type, old: Any, new: Any) -> Any:
    """``old`` with everything ``new`` mentions; nothing is removed."""
    kind = type_.kind
    if kind == LEAF or not (old or new):
        return new
    if kind == STRUCT or kind == ANY:
        if kind == ANY and new is not None and not (type(old) is dict and type(new) is dict):
            return new
        if kind == ANY and type(old) is not dict:
            return new
        return _merge_structs(type_, old or {}, new or {})
    return _merge_lists(type_, old or [], new or [])


def _merge_structs(type_: Type, old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    out = dict(old)
    fields, elem = type_.fields, type_.elem or DEDUCED
    for name, value in new.items():
        if name in old:
            field = fields.get(name)
            out[name] = merge(elem if field is None else field[1], old[name], value)
        else:
            out[name] = value
    return out


def _merge_lists(type_: Type, old: list[Any], new: list[Any]) -> list[Any]:
    """Keep the order of ``new`` for what it mentions and of ``old`` for the rest."""
    elem = type_.elem or DEDUCED
    key_of = type_.item_key if type_.kind == MAP_LIST else type_.set_key
    old_keys = [key_of(item) for item in old]
    before, after = index_list(type_, old), index_list(type_, new)
    pending = list(after)
    shared = deque(key for key in pending if key in before)
    done: set[str] = set()
    out: list[Any] = []

    def take(key: str) -> None:
        done.add(key)
        was = before.get(key)
        fresh = was is None or type(was) is Duplicates
        out.append(after[key] if fresh else merge(elem, was, after[key]))
        if shared and shared[0] == key:
            shared.popleft()

    left = right = 0
    while left < len(old_keys) or right < len(pending):
        if left < len(old_keys):
            key = old_keys[left]
            if right < len(pending):
                if key == pending[right]:
                    take(key)
                    left, right = left + 1, right + 1
                    continue
                if key in after and shared and shared[0] != key:
                    left += 1  # comes later, at its place in ``new``
                    continue
            if key not in after:
                out.append(old[left])
                left += 1
                continue
            if key in done:
                left += 1
        if right < len(pending):
            take(pending[right])
            right += 1
    return out


def remove(type_: Type, value: Any, fields: Fields) -> Any:
    """``value`` less the members of ``fields`` and all that is in them; None if nothing is left."""
    kind = type_.kind
    if type(value) is dict:
        if kind == LEAF:
            return None if type_.shape in ("map", "any") else value
        return _remove_from_struct(type_, value, fields)
    if type(value) is list:
        if kind in (LEAF, ANY, STRUCT):
            return None
        return _remove_from_list(type_, value, fields)
    return value


def _remove_from_struct(type_: Type, value: dict[str, Any], fields: Fields) -> Any:
    out: dict[str, Any] = {}
    declared, elem = type_.fields, type_.elem or DEDUCED
    for name, item in value.items():
        node = fields.get("f:" + name)
        if node is None:
            out[name] = item
        elif not is_member(node):
            field = declared.get(name)
            out[name] = remove(elem if field is None else field[1], item, node)
    return out or None


def _remove_from_list(type_: Type, value: list[Any], fields: Fields) -> Any:
    key_of = type_.item_key if type_.kind == MAP_LIST else type_.set_key
    elem = type_.elem or DEDUCED
    out = []
    for item in value:
        node = fields.get(key_of(item))
        if node is None:
            out.append(item)
        elif not is_member(node):
            out.append(remove(elem, item, node))
    return out or None
