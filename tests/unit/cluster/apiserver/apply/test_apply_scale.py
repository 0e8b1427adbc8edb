"""Ownership across the scale subresource, against what kube-apiserver made of the same writes."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from corral.cluster.apiserver.apply import (
    apply,
    builtin_schema,
    parent_entries,
    scale_entries,
    track_update,
)
from corral.kube.types import Obj

SCALE = builtin_schema("io.k8s.api.autoscaling.v1.Scale")
PATHS = {"apps/v1": ("spec", "replicas")}
STEPS: list[Obj] = orjson.loads((Path(__file__).parent / "apply_scale_vectors.json").read_bytes())


def scale(replicas: int, entries: list[Obj] | None = None) -> Obj:
    """A Scale as served: no replicas means no field."""
    metadata: Obj = {"name": "d", "namespace": "team", "uid": "u"}
    if entries:
        metadata["managedFields"] = entries
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": metadata,
        "spec": {"replicas": replicas} if replicas else {},
        "status": {"replicas": 0, "selector": "app=d"},
    }


@pytest.mark.parametrize("step", STEPS, ids=lambda s: s["name"])
def test_parent_entries_are_those_of_kube_apiserver(step: Obj) -> None:
    live = scale(step["from"], scale_entries(step["before"], replicas_paths=PATHS))
    asked = {
        "manager": step["manager"],
        "api_version": "autoscaling/v1",
        "now": "2100-01-01T00:00:00Z",
        "subresource": "scale",
    }
    if step["op"] == "apply":
        config = {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {"name": "d"},
            "spec": {"replicas": step["to"]},
        }
        written = apply(SCALE, live=live, config=config, force=True, **asked)
    else:
        written = scale(step["to"])
        track_update(SCALE, live=live, new=written, **asked)
    after = parent_entries(
        step["before"],
        written["metadata"].get("managedFields") or [],
        api_version="apps/v1",
        replicas_paths=PATHS,
    )
    assert after == step["after"]


def test_entries_of_unknown_versions_are_dropped_from_the_parent() -> None:
    entry = {
        "manager": "old",
        "operation": "Update",
        "apiVersion": "extensions/v1beta1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:paused": {}}},
    }
    assert parent_entries([entry], [], api_version="apps/v1", replicas_paths=PATHS) == []
    assert scale_entries([entry], replicas_paths=PATHS) == []
