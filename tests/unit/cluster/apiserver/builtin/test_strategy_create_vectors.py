"""Creating an object gives what a real API server stores, for one input of every kind and shape.

The expected objects were read from kube-apiserver 1.37.1 (``dryRun=All``), without what other
parts do: uid, times, managedFields, and what admission plugins add to pods, volumes and nodes.
"""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest

from corral.cluster.apiserver.builtin.defaults import apply_defaults
from corral.cluster.apiserver.builtin.strategy import strategy_for
from corral.cluster.apiserver.builtin.strategy.allocation import (
    ServiceNetwork,
    Taken,
    allocate_create,
)
from corral.cluster.apiserver.builtin.strategy.cluster import SigningRequestStrategy
from corral.cluster.apiserver.builtin.strategy.conversion import convert

VECTORS = json.loads((Path(__file__).parent / "data" / "create_vectors.json").read_text())


def created(vector: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    obj = copy.deepcopy(vector["input"])
    group, version, kind = vector["group"], vector["version"], vector["kind"]
    obj["metadata"]["uid"] = "UID"
    api_version = obj["apiVersion"]
    apply_defaults(group, version, kind, obj)
    if api_version == "autoscaling/v1":
        obj = convert(obj, api_version, "autoscaling/v2")
    if api_version == "events.k8s.io/v1":
        obj = convert(obj, api_version, "v1")
    strategy = strategy_for(group, kind)
    warnings = list(strategy.prepare_create(obj))
    if isinstance(strategy, SigningRequestStrategy):
        strategy.record_requester(obj, vector["expected"]["spec"])
    if kind == "Service":
        allocate_create(obj, Taken(), ServiceNetwork(rng=random.Random(1)))
    warnings += strategy.warnings_create(obj)
    if strategy.deprecation:
        warnings.insert(0, strategy.deprecation)
    return convert(obj, obj["apiVersion"], api_version), warnings


def comparable(obj: dict[str, Any]) -> dict[str, Any]:
    """Leave out what differs from run to run: allocated addresses, random ports and times."""
    obj = copy.deepcopy(obj)
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if obj["kind"] == "Service":
        if spec.get("clusterIP") not in (None, "None"):
            spec["clusterIP"], spec["clusterIPs"] = "IP", ["IP"] * len(spec["clusterIPs"])
        if obj["metadata"]["name"] == "svc-nodeport":
            assert len({port["nodePort"] for port in spec["ports"]}) == 1
    for condition in status.get("conditions") or ():
        condition["lastTransitionTime"] = "NOW"
    status.pop("lastPhaseTransitionTime", None)
    return obj


@pytest.mark.parametrize("vector", VECTORS, ids=[v["name"] for v in VECTORS])
def test_created_object_equals_the_real_one(vector: dict[str, Any]) -> None:
    obj, _ = created(vector)
    assert comparable(obj) == comparable(vector["expected"])


@pytest.mark.parametrize("vector", VECTORS, ids=[v["name"] for v in VECTORS])
def test_warnings_equal_the_real_ones(vector: dict[str, Any]) -> None:
    _, warnings = created(vector)
    assert warnings == vector["warnings"]


@pytest.mark.parametrize("vector", VECTORS, ids=[v["name"] for v in VECTORS])
def test_defaulting_again_changes_nothing(vector: dict[str, Any]) -> None:
    stored = copy.deepcopy(vector["expected"])
    apply_defaults(vector["group"], vector["version"], vector["kind"], stored)
    assert stored == vector["expected"]
