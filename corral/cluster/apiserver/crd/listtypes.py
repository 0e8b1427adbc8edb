"""Uniqueness in lists of type set and map, compiled to closures."""

from __future__ import annotations

from typing import Any

import orjson

from corral.cluster.apiserver.crd.types import Errors, Validator
from corral.cluster.apiserver.errors import duplicate, invalid_value
from corral.kube.types import Obj

__all__ = ["compile_listtypes"]


def compile_listtypes(schema: Obj) -> Validator | None:
    """The uniqueness check of a node; None where no list below it needs one."""
    parts = [part for part in (_object(schema), _list(schema)) if part is not None]
    if len(parts) < 2:
        return parts[0] if parts else None

    def validate(value: Any, path: str, out: Errors, old: Any) -> None:
        for part in parts:
            part(value, path, out, old)

    return validate


def _object(schema: Obj) -> Validator | None:
    children = {
        name: check
        for name, sub in (schema.get("properties") or {}).items()
        if (check := compile_listtypes(sub)) is not None
    }
    more = schema.get("additionalProperties")
    extra = compile_listtypes(more) if isinstance(more, dict) else None
    if not children and extra is None:
        return None

    def validate(value: Any, path: str, out: Errors, old: Any) -> None:
        if type(value) is not dict:
            return
        for name, check in children.items():
            if name in value:
                check(value[name], f"{path}.{name}" if path else name, out, old)
        if extra is not None:
            for name, item in value.items():
                extra(item, f"{path}[{name}]", out, old)

    return validate


def _list(schema: Obj) -> Validator | None:
    kind = schema.get("x-kubernetes-list-type")
    keys: list[str] = schema.get("x-kubernetes-list-map-keys") or []
    item = schema.get("items")
    inner = compile_listtypes(item) if isinstance(item, dict) else None
    if inner is None and kind not in ("set", "map"):
        return None

    def validate(value: Any, path: str, out: Errors, old: Any) -> None:
        if type(value) is not list:
            return
        if kind == "set":
            _check_unique(value, path, out)
        elif kind == "map":
            _check_map(value, keys, path, out)
        if inner is not None:
            for i, element in enumerate(value):
                inner(element, f"{path}[{i}]", out, old)

    return validate


def _check_map(value: list[Any], keys: list[str], path: str, out: Errors) -> None:
    for i, element in enumerate(value):
        if element is not None and type(element) is not dict:
            why = "must be an object for an array of list-type map"
            out.append(invalid_value(f"{path}[{i}]", element, why))
            return
    if len(value) < 2:
        return
    if len(keys) == 1:
        key = keys[0]
        names = {(element or {}).get(key) for element in value if _is_simple(element, key)}
        if len(names) == len(value):
            return
    _check_unique([{k: e[k] for k in keys if k in e} if e else {} for e in value], path, out)


def _is_simple(element: Any, key: str) -> bool:
    return element is not None and type(element.get(key)) in (str, int)


def _check_unique(value: list[Any], path: str, out: Errors) -> None:
    """Report the second appearance of each repeated value, once."""
    seen: dict[Any, int] = {}
    for i, element in enumerate(value):
        if isinstance(element, (dict, list)):
            key: Any = orjson.dumps(element, option=orjson.OPT_SORT_KEYS)
        else:
            key = (type(element), element)
        seen[key] = seen.get(key, 0) + 1
        if seen[key] == 2:
            out.append(duplicate(f"{path}[{i}]", element))
