"""Defaults and nulls, compiled to closures that mutate the value they are given.

A null where the schema allows none is replaced by the default, or dropped where there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from corral.kube.types import Obj

__all__ = ["Defaulter", "compile_defaulting"]

Defaulter = Callable[[Any], None]
_COMPOUND = (dict, list)


def compile_defaulting(schema: Obj, *, drop: bool = True) -> Defaulter | None:
    """The defaulter of a node; None for scalars. ``drop`` False keeps nulls without a default."""
    if schema.get("type") == "array" or "items" in schema:
        return _list(schema, drop)
    if schema.get("properties") or isinstance(schema.get("additionalProperties"), dict):
        return _object(schema, drop)
    return None


def _copier(value: Any) -> Callable[[], Any]:
    if isinstance(value, _COMPOUND):
        return (lambda: deepcopy(value)) if value else type(value)
    return lambda: value


def _object(schema: Obj, drop: bool) -> Defaulter:
    props: Obj = schema.get("properties") or {}
    defaults = {n: _copier(s["default"]) for n, s in props.items() if s.get("default") is not None}
    children = {n: compile_defaulting(s, drop=drop) for n, s in props.items()}
    strict = {n for n, s in props.items() if not s.get("nullable")}
    more = schema.get("additionalProperties")
    extra = compile_defaulting(more, drop=drop) if isinstance(more, dict) else None
    extra_strict = isinstance(more, dict) and not more.get("nullable")
    extra_default = more.get("default") if isinstance(more, dict) else None

    def drop_nulls(value: dict[str, Any]) -> None:
        for name in [n for n, item in value.items() if item is None]:
            known = name in children
            if name in strict or (not known and extra_strict):
                if not known and extra_default is not None:
                    value[name] = deepcopy(extra_default)
                elif drop or name in defaults:
                    del value[name]

    def default(value: Any) -> None:
        if type(value) is not dict:
            return
        if None in value.values():
            drop_nulls(value)
        for name, make in defaults.items():
            if name not in value:
                value[name] = make()
        for name, item in value.items():
            if type(item) is dict or type(item) is list:
                inner = children[name] if name in children else extra
                if inner is not None:
                    inner(item)

    return default


def _list(schema: Obj, drop: bool) -> Defaulter | None:
    item = schema.get("items")
    if not isinstance(item, dict):
        return None
    inner = compile_defaulting(item, drop=drop)
    fallback = item.get("default")
    replace = fallback is not None and not item.get("nullable")
    if inner is None and not replace:
        return None

    def default(value: Any) -> None:
        if type(value) is not list:
            return
        for i, element in enumerate(value):
            if element is None and replace:
                value[i] = element = deepcopy(fallback)
            if inner is not None:
                inner(element)

    return default
