"""What a Kubernetes 1.37 API server answered to bad objects, replayed against our validation.

Creations start from a defaulted object (``bases``) and change a few fields; updates start from
the stored object. Messages that end in a diff are kept up to their first line.
"""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import pytest

from corral.cluster.apiserver.builtin.validation import (
    validate_create,
    validate_status_update,
    validate_update,
)

DATA = Path(__file__).parent / "data" / "validation_vectors.json"


@cache
def vectors() -> dict[str, Any]:
    return orjson.loads(DATA.read_bytes())


def change(obj: Any, path: str, *value: Any) -> None:
    """Set (or, without a value, remove) the field at a dotted path."""
    *parents, last = path.split(".")
    for key in parents:
        obj = obj[int(key)] if isinstance(obj, list) else obj.setdefault(key, {})
    if not value:
        obj.pop(last, None)
    else:
        obj[int(last) if isinstance(obj, list) else last] = copy.deepcopy(value[0])


def changed(obj: dict[str, Any], changes: list[Any]) -> dict[str, Any]:
    obj = copy.deepcopy(obj)
    for item in changes:
        change(obj, *item)
    return obj


def listed(problems: list[Any]) -> list[list[str]]:
    return [[p.field, p.type, p.body.partition("\n")[0]] for p in problems]


def wanted(case: dict[str, Any]) -> list[list[str]]:
    """The causes of the answer; the same cause twice says nothing new."""
    return [list(c) for c in dict.fromkeys(map(tuple, case["expected"]))]


def named(kind: str) -> list[Any]:
    return [pytest.param(case, id=case["name"]) for case in vectors()[kind]]


@pytest.mark.parametrize("case", named("create"))
def test_creation(case: dict[str, Any]) -> None:
    base = vectors()["bases"][case["base"]]
    obj = changed(base["object"], case["set"])
    found = validate_create(base["group"], base["version"], base["kind"], obj)
    assert listed(found) == wanted(case)


@pytest.mark.parametrize("case", named("update"))
def test_update(case: dict[str, Any]) -> None:
    new = changed(case["old"], case["set"])
    found = validate_update(case["group"], case["version"], case["kind"], new, case["old"])
    assert listed(found) == wanted(case)


@pytest.mark.parametrize("case", named("status"))
def test_status_update(case: dict[str, Any]) -> None:
    new = changed(case["old"], case["set"])
    found = validate_status_update(case["group"], case["version"], case["kind"], new, case["old"])
    assert listed(found) == wanted(case)


def test_validation_leaves_its_input_alone() -> None:
    for base in vectors()["bases"].values():
        obj = copy.deepcopy(base["object"])
        validate_create(base["group"], base["version"], base["kind"], obj)
        assert obj == base["object"]
