"""Updating an object keeps, drops and counts what a real API server does.

Each vector is a stored object, a PUT of it (of the object or of a subresource) and the answer of
kube-apiserver 1.37.1, without managedFields and resourceVersion.
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
    allocate_update,
    claims,
)
from corral.cluster.apiserver.builtin.strategy.conversion import convert

VECTORS = json.loads((Path(__file__).parent / "data" / "update_vectors.json").read_text())
PREPARE = {
    "": "prepare_update",
    "status": "prepare_status_update",
    "ephemeralcontainers": "prepare_ephemeral_containers",
    "resize": "prepare_resize",
    "approval": "prepare_approval",
}


def updated(vector: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    new, old = copy.deepcopy(vector["new"]), copy.deepcopy(vector["old"])
    api_version, hub = new["apiVersion"], new["apiVersion"]
    apply_defaults(vector["group"], vector["version"], vector["kind"], new)
    if api_version == "autoscaling/v1":
        hub = "autoscaling/v2"
        new, old = convert(new, api_version, hub), convert(old, api_version, hub)
    strategy = strategy_for(vector["group"], vector["kind"])
    getattr(strategy, PREPARE[vector["subresource"]])(new, old)
    if vector["kind"] == "Service" and not vector["subresource"]:
        addresses, ports = claims(old)
        allocate_update(new, old, Taken(addresses, ports), ServiceNetwork(rng=random.Random(1)))
    warnings = [] if vector["subresource"] else strategy.warnings_update(new, old)
    assert old == convert(copy.deepcopy(vector["old"]), api_version, hub), "old was changed"
    return convert(new, hub, api_version), warnings


def comparable(vector: dict[str, Any], obj: dict[str, Any]) -> dict[str, Any]:
    obj = copy.deepcopy(obj)
    if vector["name"] == "svc-external-to-cluster":
        obj["spec"]["clusterIP"], obj["spec"]["clusterIPs"] = "IP", ["IP"]
    for condition in (obj.get("status") or {}).get("conditions") or ():
        condition.pop("lastTransitionTime", None)
        condition.pop("lastUpdateTime", None)
    return obj


@pytest.mark.parametrize("vector", VECTORS, ids=[v["name"] for v in VECTORS])
def test_updated_object_equals_the_real_one(vector: dict[str, Any]) -> None:
    obj, _ = updated(vector)
    assert comparable(vector, obj) == comparable(vector, vector["expected"])


@pytest.mark.parametrize("vector", VECTORS, ids=[v["name"] for v in VECTORS])
def test_warnings_equal_the_real_ones(vector: dict[str, Any]) -> None:
    _, warnings = updated(vector)
    assert warnings == vector["warnings"]
