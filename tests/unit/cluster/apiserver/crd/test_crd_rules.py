"""CEL rules of a CRD: what kube-apiserver 1.37 answered to the same writes (data/rules.json)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from corral.cluster.apiserver.crd import rules
from corral.cluster.apiserver.crd.structural import compile_version

DATA = json.loads((Path(__file__).parent / "data" / "rules.json").read_text())
VERSION = compile_version(DATA["crd"], "v1")


@pytest.mark.parametrize("case", DATA["cases"], ids=lambda case: case["name"])
def test_rules_as_the_real_server_sees_them(case: dict[str, Any]) -> None:
    found = VERSION.validate(case["new"], case["old"])
    assert [[p.type, p.field, p.body] for p in found] == case["errors"]


def rule(spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "t1"}, "spec": spec}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param({"s": "bad"}, {"s": "bad", "n": 1}, [], id="unchanged-value"),
        pytest.param({"a": 3, "b": 2}, {"a": 3, "b": 2, "n": 1}, ["spec"], id="changed-object"),
        pytest.param({"m": {"k": 0}}, {"m": {"k": 0, "j": 0}}, ["spec.m[j]"], id="map-entry"),
    ],
)
def test_ratcheting(old: dict[str, Any], new: dict[str, Any], expected: list[str]) -> None:
    assert [p.field for p in VERSION.validate(rule(new), rule(old))] == expected


def test_rules_stop_when_time_is_up() -> None:
    walk = rules.compile_rules({"type": "integer", "x-kubernetes-validations": [{"rule": "true"}]})
    assert walk is not None
    found: list[Any] = []
    walk(1, 1, "spec", None, found, 0.0)
    assert [str(p) for p in found] == [
        'spec: Invalid value: "integer": validation failed due to running out of cost budget, no '
        "further validation rules will be run"
    ]


def test_message_expression_that_fails_falls_back_to_the_message() -> None:
    schema = {
        "type": "object",
        "x-kubernetes-validations": [
            {"rule": "false", "message": "said", "messageExpression": "self.missing"}
        ],
    }
    walk = rules.compile_rules(schema)
    assert walk is not None
    found: list[Any] = []
    walk({}, {"other": 1}, "spec", None, found, float("inf"))
    assert [str(p) for p in found] == ["spec: Invalid value: said"]
