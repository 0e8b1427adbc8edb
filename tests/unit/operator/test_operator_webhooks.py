"""What the webhooks of TrainingJobs and Checkpoints answer."""

from __future__ import annotations

import base64
from copy import deepcopy
from typing import Any

import orjson
import pytest

from corral.families.trainingjob.webhooks import change_remarks
from corral.operator.process import all_hooks
from corral.runtime.webhooks import AdmissionRequest

Obj = dict[str, Any]
JOB = "trainingjobs.training.corral.dev"


def job(**spec: Any) -> Obj:
    return {
        "apiVersion": "training.corral.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "mnist", "namespace": "a"},
        "spec": {"framework": "jax", "replicas": 2, "image": "python:3.12", **spec},
    }


async def ask(path: str, new: Obj, old: Obj | None = None) -> Obj:
    request = AdmissionRequest(
        uid="u",
        group="training.corral.dev",
        version="v1alpha1",
        kind=new["kind"],
        resource="",
        operation="UPDATE" if old else "CREATE",
        object=new,
        old=old,
    )
    answer = await all_hooks().admission[path].answer(request)
    response: Obj = answer["response"]
    return response


async def test_every_mistake_at_once() -> None:
    wrong = job(framework="caffe", replicas=-1, checkpoint={"interval": "soon", "storage": {}})
    answer = await ask(f"/validate/{JOB}", wrong)
    assert answer["allowed"] is False
    fields = {cause["field"] for cause in answer["status"]["details"]["causes"]}
    assert {
        "spec.framework",
        "spec.replicas",
        "spec.checkpoint.interval",
        "spec.checkpoint.storage",
    } <= fields


async def test_defaults_are_a_patch() -> None:
    answer = await ask(f"/mutate/{JOB}", job())
    patch = orjson.loads(base64.b64decode(answer["patch"]))
    assert any(step["path"].startswith("/spec/runPolicy") for step in patch)


async def test_what_never_changes() -> None:
    answer = await ask(f"/validate/{JOB}", job(framework="pytorch"), job())
    assert [c["field"] for c in answer["status"]["details"]["causes"]] == ["spec.framework"]


async def test_checkpoints_stay_where_they_are() -> None:
    old = {
        "apiVersion": "training.corral.dev/v1alpha1",
        "kind": "Checkpoint",
        "metadata": {"name": "mnist-000001", "namespace": "a"},
        "spec": {"jobRef": {"name": "mnist"}, "step": 1, "uri": "s3://b/p"},
    }
    new = deepcopy(old)
    new["spec"] |= {"step": 2, "uri": "s3://b/q"}  # type: ignore[operator]
    answer = await ask("/validate/checkpoints.training.corral.dev", new, old)
    fields = [c["field"] for c in answer["status"]["details"]["causes"]]
    assert fields == ["spec.step", "spec.uri"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (job(), job(), []),
        (job(), job(runPolicy={"suspend": True}), ["spec.runPolicy.suspend: without"]),
        (job(), job(runPolicy={"suspend": True}, checkpoint={"interval": "1m"}), []),
        (job(), job(replicas=3), ["spec.replicas: all replicas are restarted"]),
        (job(runPolicy={"suspend": True}), job(runPolicy={"suspend": True}, replicas=3), []),
        ({**job(), "status": {"phase": "Failed"}}, job(replicas=3), ["has failed already"]),
        ({"metadata": {}}, {"spec": 3}, []),
    ],
)
def test_what_depends_on_the_change(old: Obj, new: Obj, words: list[str]) -> None:
    said = list(change_remarks(new, old))
    assert len(said) == len(words)
    for text, word in zip(said, words, strict=True):
        assert word in text


async def test_warnings_come_with_the_answer() -> None:
    answer = await ask(f"/validate/{JOB}", job(runPolicy={"suspend": True}), job())
    assert answer["allowed"] is True
    assert any("begins anew" in warning for warning in answer["warnings"])
