"""Applying what the expressions of mutations evaluate to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from corral.cluster.apiserver.apply.merge import merge
from corral.cluster.apiserver.apply.types import LEAF, Type, TypeSchema, UntypableError
from corral.cluster.apiserver.apply.validate import problems
from corral.cluster.apiserver.cel.patch_types import TYPE_KEY, TypeMismatch, plain_object
from corral.cluster.apiserver.patch import apply_json_patch
from corral.kube import errors
from corral.kube.types import Obj

__all__ = ["Unpatchable", "apply_configuration", "apply_operations"]


class Unpatchable(Exception):
    """A mutation that cannot be applied."""


def apply_configuration(schema: TypeSchema, live: Obj, value: Any) -> Obj:
    """``live`` with everything an apply configuration mentions; nothing is removed by it."""
    try:
        config = plain_object(value)
    except TypeMismatch as why:
        raise Unpatchable(f"type mismatch: {why}") from None
    config |= {"apiVersion": live.get("apiVersion"), "kind": live.get("kind")}
    found = list(problems(schema.root, config))
    if found:
        text = found[0] if len(found) == 1 else "\n".join(["errors:", *(f"  {p}" for p in found)])
        raise Unpatchable(
            f"error applying patch: failed to convert patch object to typed object: {text}"
        )
    atomic = list(_atomics(schema.root, config))
    if atomic:
        listed = ", ".join(atomic)
        raise Unpatchable(
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, "
            f"maps or structs: {listed}"
        )
    try:
        merged: Obj = merge(schema.root, live, config)
    except UntypableError as why:
        raise Unpatchable(f"error applying patch: failed to merge patch: {why}") from None
    return merged


def _atomics(type_: Type, value: Any, path: str = "") -> Iterator[str]:
    """Paths of lists and maps that can only be replaced whole."""
    if not isinstance(value, dict | list):
        return
    if type_.kind == LEAF and type_.shape in ("list", "map"):
        yield path
    if isinstance(value, list):
        if type_.elem is not None:
            for index, item in enumerate(value):
                yield from _atomics(type_.elem, item, f"{path}[{index}]")
        return
    for name, item in value.items():
        field = type_.fields.get(name)
        if field is not None:
            yield from _atomics(field[1], item, f"{path}.{name}")


_TEST_FAILED = "testing value "


def apply_operations(live: Obj, value: Any) -> Obj:
    """``live`` after a JSON patch; unchanged where a ``test`` of the patch does not hold."""
    body = orjson.dumps([_operation(item) for item in value])
    try:
        return apply_json_patch(orjson.loads(orjson.dumps(live)), body)
    except errors.ApiError as why:
        text = str(why.__cause__ or why.message)
        if text.startswith(_TEST_FAILED):
            return live
        raise Unpatchable(f"JSON Patch: {text}") from None


def _operation(value: Any) -> Obj:
    """An operation as JSON patches have it; ``from`` only where it says something."""
    out: Obj = {"op": value.get("op", ""), "path": value.get("path", "")}
    if value.get("from"):
        out["from"] = value["from"]
    if "value" in value:
        given = value["value"]
        root = given.get(TYPE_KEY, "") if isinstance(given, dict) else ""
        try:
            out["value"] = plain_object(given, root)
        except TypeMismatch as why:
            raise Unpatchable(f"type mismatch: {why}") from None
    return out
