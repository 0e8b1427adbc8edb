"""Versions of one object read the same as from kube-apiserver 1.37.1, in both directions."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from corral.cluster.apiserver.builtin.strategy.conversion import convert

VECTORS = json.loads((Path(__file__).parent / "data" / "conversion_vectors.json").read_text())
IDS = [v["name"] for v in VECTORS]


@pytest.mark.parametrize("vector", VECTORS, ids=IDS)
def test_stored_version_converts_to_the_other(vector: dict[str, Any]) -> None:
    before = copy.deepcopy(vector["one"])
    assert convert(vector["one"], vector["from"], vector["to"]) == vector["other"]
    assert vector["one"] == before


@pytest.mark.parametrize("vector", VECTORS, ids=IDS)
def test_other_version_converts_back_without_loss(vector: dict[str, Any]) -> None:
    back = convert(vector["other"], vector["to"], vector["from"])
    if vector["name"].startswith("hpa"):
        # Version 1 keeps a CPU target apart from other metrics, so that it comes last.
        for obj in (back, vector["one"]):
            obj["spec"]["metrics"].sort(key=json.dumps)
    assert back == vector["one"]


def test_spoiled_annotations_are_dropped() -> None:
    annotations = {
        "autoscaling.alpha.kubernetes.io/metrics": "{",
        "autoscaling.alpha.kubernetes.io/behavior": "[",
        "autoscaling.alpha.kubernetes.io/conditions": '"x"',
    }
    obj = {"apiVersion": "autoscaling/v1", "metadata": {"annotations": annotations}, "spec": {}}
    converted = convert(obj, "autoscaling/v1", "autoscaling/v2")
    assert converted["metadata"] == {}
    target = {"type": "Utilization", "averageUtilization": 80}
    assert converted["spec"] == {
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    }


def test_unknown_pair_is_refused() -> None:
    with pytest.raises(LookupError):
        convert({}, "v1", "apps/v1")


def test_same_version_is_the_same_object() -> None:
    obj: dict[str, Any] = {}
    assert convert(obj, "v1", "v1") is obj
