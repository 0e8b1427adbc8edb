"""Whether a schema's defaults are values the schema accepts."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from time import thread_time
from typing import Any

from corral.cluster.apiserver.crd.metadata import compile_embedded
from corral.cluster.apiserver.crd.problems import NO_PATH
from corral.cluster.apiserver.crd.pruning import compile_pruning
from corral.cluster.apiserver.crd.rules import SECONDS_PER_OBJECT, compile_rules
from corral.cluster.apiserver.crd.types import MISSING, Errors
from corral.cluster.apiserver.crd.values import compile_values
from corral.cluster.apiserver.errors import FieldError, invalid_value
from corral.kube.types import Obj

__all__ = ["default_problems"]


def default_problems(schema: Obj, path: str) -> Iterator[FieldError]:
    """What is wrong with the defaults at this node and below."""
    if schema.get("default") is not None:
        yield from _check(schema, schema["default"], f"{path}.default")
    if isinstance(schema.get("items"), dict):
        yield from default_problems(schema["items"], f"{path}.items")
    for name, sub in (schema.get("properties") or {}).items():
        yield from default_problems(sub, f"{path}.properties[{name}]")


def _check(schema: Obj, value: Any, path: str) -> Errors:
    out: Errors = []
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    if compile_pruning(schema, root=embedded)(deepcopy(value)):
        out.append(invalid_value(path, value, "must not have unknown fields"))
    found: Errors = []
    check = compile_embedded({"properties": {"default": schema}})
    if check is not None:
        check({"default": value}, "", found, MISSING)
        found = [FieldError(p.type, _under(path, p.field[8:]), p.body) for p in found]
    if not found:
        compile_values(schema)(value, "", found, MISSING)
        found = [FieldError(p.type, _under(path, p.field), p.body) for p in found]
    if not found:
        rules = compile_rules(schema)
        if rules is not None:
            deadline = thread_time() + SECONDS_PER_OBJECT
            rules(value, value, path, None, found, deadline)
            if not found:  # the default must also hold where nothing was before
                rules(value, MISSING, path, None, found, deadline)
    return out + found


def _under(path: str, field: str) -> str:
    if field in ("", NO_PATH):
        return path
    return f"{path}{field}" if field.startswith(("[", ".")) else f"{path}.{field}"
