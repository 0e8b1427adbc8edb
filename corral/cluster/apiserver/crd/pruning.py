"""Dropping what the schema does not know, compiled to closures.

Each closure mutates its value and returns the paths it dropped, relative to the value, or None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from corral.kube.types import Obj

__all__ = ["Pruner", "compile_pruning"]

Pruner = Callable[[Any], list[str] | None]
_META = frozenset(("apiVersion", "kind", "metadata"))


def compile_pruning(schema: Obj | None, *, root: bool = False) -> Pruner:
    """The pruner of a node; without a schema everything inside objects goes."""
    if schema is None:
        return _drop_all
    keep = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    return _compile(schema, keep=keep, root=root)


def _compile(schema: Obj, *, keep: bool, root: bool = False) -> Pruner:
    meta = _META if root or schema.get("x-kubernetes-embedded-resource") else frozenset()
    children: dict[str, Pruner | None] = {
        name: None if name in meta else _child(sub)
        for name, sub in (schema.get("properties") or {}).items()
    }
    more = schema.get("additionalProperties")
    extra: Pruner | None = _child(more) if isinstance(more, dict) else None
    open_ = more is not None and more is not False
    if open_ and extra is None and not isinstance(more, dict):
        extra = _drop_all  # additionalProperties: true names no schema for the values
    item = _items(schema, keep=keep)

    def prune(value: Any) -> list[str] | None:
        if type(value) is dict:
            return _prune_object(value, children, extra, meta, keep or open_)
        if type(value) is list and item is not None:
            return _prune_list(value, item)
        return None

    return prune


def _child(schema: Obj) -> Pruner | None:
    """None for scalars: there is nothing inside to prune."""
    kind = schema.get("type")
    if kind in ("string", "integer", "number", "boolean"):
        return None
    return compile_pruning(schema)


def _items(schema: Obj, *, keep: bool) -> Pruner | None:
    item = schema.get("items")
    if isinstance(item, dict):
        # Inside a preserved list items are preserved too.
        return _compile(item, keep=True) if keep else _child(item)
    return None if keep else _drop_all


def _prune_object(
    value: dict[str, Any],
    children: dict[str, Pruner | None],
    extra: Pruner | None,
    meta: frozenset[str],
    keep: bool,
) -> list[str] | None:
    dropped: list[str] | None = None
    unknown: list[str] | None = None
    for name, item in value.items():
        if name in children:
            inner = children[name]
        elif name in meta:
            continue
        elif keep:
            inner = extra
        else:
            unknown = [name] if unknown is None else [*unknown, name]
            continue
        if inner is not None and (type(item) is dict or type(item) is list):
            below = inner(item)
            if below:
                dropped = dropped or []
                dropped += [_join(name, path) for path in below]
    if unknown is not None:
        for name in unknown:
            del value[name]
        return unknown + (dropped or [])
    return dropped


def _prune_list(value: list[Any], item: Pruner) -> list[str] | None:
    dropped: list[str] = []
    for i, element in enumerate(value):
        if type(element) is dict or type(element) is list:
            below = item(element)
            if below:
                dropped += [_join(f"[{i}]", path) for path in below]
    return dropped or None


def _drop_all(value: Any) -> list[str] | None:
    if type(value) is dict:
        names = list(value)
        value.clear()
        return names
    if type(value) is list:
        return _prune_list(value, _drop_all)
    return None


def _join(head: str, tail: str) -> str:
    return f"{head}{tail}" if tail.startswith("[") else f"{head}.{tail}"
