"""The JSON patch (RFC 6902) that makes one value of another.

Applying it to ``before`` gives exactly ``after``, types included: 1, 1.0 and true differ. It is
small: what is equal is not named, and in lists the common beginning and end are left alone.
"""

from __future__ import annotations

from typing import Any

from corral.kube.types import Obj

__all__ = ["json_patch", "same"]


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same, types included."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(v, other[k]) for k, v in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def json_patch(before: Any, after: Any) -> list[Obj]:
    """The operations that lead from ``before`` to ``after``; none if they are the same."""
    return _difference(before, after, "")


def _difference(before: Any, after: Any, path: str) -> list[Obj]:
    if same(before, after):
        return []
    if isinstance(before, dict) and isinstance(after, dict):
        return _objects(before, after, path)
    if isinstance(before, list) and isinstance(after, list):
        return _lists(before, after, path)
    return [{"op": "replace", "path": path, "value": after}]


def _objects(before: Obj, after: Obj, path: str) -> list[Obj]:
    out: list[Obj] = [
        {"op": "remove", "path": f"{path}/{_escaped(key)}"} for key in before if key not in after
    ]
    for key, value in after.items():
        inner = f"{path}/{_escaped(key)}"
        if key in before:
            out += _difference(before[key], value, inner)
        else:
            out.append({"op": "add", "path": inner, "value": value})
    return out


def _lists(before: list[Any], after: list[Any], path: str) -> list[Obj]:
    shortest = min(len(before), len(after))
    start = 0
    while start < shortest and same(before[start], after[start]):
        start += 1
    end = 0
    while end < shortest - start and same(before[-1 - end], after[-1 - end]):
        end += 1
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    both = min(len(old), len(new))
    out: list[Obj] = []
    for i in range(both):
        out += _difference(old[i], new[i], f"{path}/{start + i}")
    # From the back, so that what is removed does not move what is still to be.
    for i in range(len(old) - 1, both - 1, -1):
        out.append({"op": "remove", "path": f"{path}/{start + i}"})
    for i in range(both, len(new)):
        out.append({"op": "add", "path": f"{path}/{start + i}", "value": new[i]})
    return out


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
