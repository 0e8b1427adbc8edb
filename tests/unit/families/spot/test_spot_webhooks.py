"""What the API server is told about spot jobs, machines and backups."""

from __future__ import annotations

import base64
from copy import deepcopy
from typing import Any

import orjson
import pytest

from corral.api.kind import Kind
from corral.api.spot.kinds import KINDS, CheckpointBackup, SpotInstanceJob, SpotInstanceVM
from corral.families.spot.webhooks import register_hooks
from corral.runtime.webhooks import AdmissionRequest, Hooks

Obj = dict[str, Any]
JOB: Obj = {
    "jobTemplate": {"spec": {"template": {"spec": {"containers": [{"name": "a"}]}}}},
    "checkpointConfig": {"checkpointImageRepo": "r.io/c", "checkpointInterval": "30m"},
    "spotInstanceVMRef": {"name": "gpu"},
}


def made(kind: type[Kind], spec: Obj, **status: Any) -> Obj:
    names = kind.names
    return {
        "apiVersion": f"{names.group}/{names.version}",
        "kind": names.kind,
        "metadata": {"name": "digits", "namespace": "bar"},
        "spec": deepcopy(spec),
        "status": status,
    }


async def answer(verb: str, kind: type[Kind], obj: Obj, old: Obj | None = None) -> Obj:
    hooks = Hooks()
    register_hooks(hooks)
    resource = kind.resource()
    request = AdmissionRequest(
        uid="1",
        group=resource.group,
        version=resource.version,
        kind=resource.kind,
        resource=resource.plural,
        operation="UPDATE" if old is not None else "CREATE",
        name="digits",
        namespace="bar",
        object=deepcopy(obj),
        old=old,
    )
    review = await hooks.admission[f"/{verb}/{resource.qualified}"].answer(request)
    response: Obj = review["response"]
    return response


def patched(response: Obj) -> list[Obj]:
    if "patch" not in response:
        return []
    patch: list[Obj] = orjson.loads(base64.b64decode(response["patch"]))
    return patch


def test_every_kind_is_asked_about() -> None:
    hooks = Hooks()
    register_hooks(hooks)
    paths = {f"/{verb}/{k.resource().qualified}" for k in KINDS for verb in ("mutate", "validate")}
    assert paths <= set(hooks.admission)


async def test_a_new_job_gets_its_defaults() -> None:
    response = await answer("mutate", SpotInstanceJob, made(SpotInstanceJob, JOB))
    assert response["allowed"] is True
    values = {change["path"]: change.get("value") for change in patched(response)}
    assert values["/spec/replicas"] == 2


async def test_either_shape_of_a_backup_is_completed() -> None:
    flat = made(CheckpointBackup, {"podName": "p", "immediate": True})
    response = await answer("mutate", CheckpointBackup, flat)
    values = {change["path"]: change.get("value") for change in patched(response)}
    assert values["/spec/podRef"] == {"name": "p"}
    assert values["/spec/schedule"] == "immediately"


@pytest.mark.parametrize("verb", ["mutate", "validate"])
async def test_a_wrong_job_is_refused_with_every_mistake(verb: str) -> None:
    wrong = deepcopy(JOB)
    wrong["checkpointConfig"]["checkpointInterval"] = "soon"
    wrong["spotInstanceVMRef"] = {}
    response = await answer(verb, SpotInstanceJob, made(SpotInstanceJob, wrong))
    assert response["allowed"] is False
    message = response["status"]["message"]
    assert "checkpointInterval" in message
    assert "spotInstanceVMRef.name" in message


async def test_changes_that_come_too_late_are_warned_about() -> None:
    changed = {**JOB, "jobTemplate": {"spec": {"template": {"spec": {"containers": [{}]}}}}}
    new = made(SpotInstanceJob, changed)
    running = await answer("validate", SpotInstanceJob, new, made(SpotInstanceJob, JOB))
    assert any("placed anew" in text for text in running["warnings"])
    over = made(SpotInstanceJob, JOB, phase="Succeeded")
    done = await answer("validate", SpotInstanceJob, new, over)
    assert any("nothing comes of this change" in text for text in done["warnings"])


async def test_machines_that_are_there_stay_as_they_are() -> None:
    old = made(SpotInstanceVM, {"local": {}}, provisionedInstances=[{"name": "a"}])
    new = made(SpotInstanceVM, {"local": {"zone": "local-b"}})
    response = await answer("validate", SpotInstanceVM, new, old)
    assert response["allowed"] is True
    assert any("stay as they are" in text for text in response["warnings"])


async def test_a_backup_that_is_over_is_not_made_again() -> None:
    old = made(CheckpointBackup, {"podName": "p"}, phase="Completed")
    new = made(CheckpointBackup, {"podName": "p", "stopPod": True})
    response = await answer("validate", CheckpointBackup, new, old)
    assert any("make a new one" in text for text in response["warnings"])
    moved = made(CheckpointBackup, {"podName": "q"})
    refused = await answer("validate", CheckpointBackup, moved, old)
    assert refused["allowed"] is False
