"""What an operator that schedules gangs says: about jobs, and where there is no such scheduler."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from corral.api.mpi.kinds import MPIJOBS
from corral.kube.client import KubeClient
from corral.kube.connection.config import ClusterConfig
from corral.kube.errors import NotFound
from corral.kube.resources import Resource
from corral.operator.process import (
    DefinitionsMissing,
    OperatorProcess,
    all_hooks,
    operator_client,
)
from corral.operator.settings import ProcessSettings
from corral.runtime.webhooks import AdmissionRequest
from tests.unit.families.mpijob.mpijob_cases import edited, job

Obj = dict[str, Any]
PATH = "spec.runPolicy.schedulingPolicy"


class Cluster:
    """Has namespaces, and nothing else."""

    async def get(self, resource: Resource, name: str) -> Obj:
        return {"metadata": {"name": name}}

    async def list(self, resource: Resource, namespace: str | None) -> AsyncIterator[Obj]:
        nothing: list[Obj] = []
        for obj in nothing:
            yield obj


async def warnings(scheduler: str, obj: Obj) -> list[str]:
    client = cast(KubeClient, Cluster())
    hooks = all_hooks(client, ProcessSettings(gang_scheduler=scheduler))
    request = AdmissionRequest(
        uid="1",
        group=MPIJOBS.group,
        version=MPIJOBS.version,
        kind=MPIJOBS.kind,
        resource=MPIJOBS.plural,
        operation="CREATE",
        name="foo",
        namespace="bar",
        object=obj,
    )
    review = await hooks.admission[f"/validate/{MPIJOBS.qualified}"].answer(request)
    assert review["response"]["allowed"]
    said: list[str] = review["response"].get("warnings") or []
    return [text.removeprefix(PATH) for text in said if PATH in text or "schedulerName" in text]


POLICY = {"queue": "night", "minAvailable": 2, "scheduleTimeoutSeconds": 9}


@pytest.mark.parametrize(
    ("scheduler", "words"),
    [
        ("volcano", [".scheduleTimeoutSeconds: is not used by volcano"]),
        ("coscheduling", [".queue: is not used by coscheduling"]),
        (
            "",
            [
                ".queue: is not used without gang scheduling",
                ".scheduleTimeoutSeconds: is not used without gang scheduling",
                ".minAvailable: is not used without gang scheduling",
            ],
        ),
    ],
)
async def test_what_the_scheduler_does_not_heed(scheduler: str, words: list[str]) -> None:
    asked = edited(job(), {"run|schedulingPolicy": POLICY})
    assert await warnings(scheduler, asked) == words


async def test_a_scheduler_that_is_replaced() -> None:
    asked = edited(job(), {"WP|schedulerName": "mine"})
    (said,) = await warnings("volcano", asked)
    assert "is replaced by volcano" in said
    assert await warnings("", asked) == []


class Answers:
    """An API server's discovery."""

    def __init__(self, *missing: str) -> None:
        self.missing = missing

    async def request(self, method: str, path: str) -> None:
        if path.removeprefix("/apis/") in self.missing:
            raise NotFound(path)


@pytest.mark.parametrize(
    ("scheduler", "group"),
    [("volcano", "scheduling.volcano.sh/v1beta1"), ("mine", "scheduling.x-k8s.io/v1alpha1")],
)
async def test_pod_groups_that_nobody_knows(
    scheduler: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = operator_client(ClusterConfig("https://127.0.0.1:1"))
    monkeypatch.setattr(client, "request", Answers(group).request)
    process = OperatorProcess(client, ProcessSettings(gang_scheduler=scheduler))
    with pytest.raises(DefinitionsMissing, match=f"PodGroups of {group}: install {scheduler}"):
        await process.prepare()
    other = OperatorProcess(
        operator_client(ClusterConfig("https://127.0.0.1:1")),
        ProcessSettings(gang_scheduler=scheduler),
    )
    monkeypatch.setattr(other._client, "request", Answers("kubeflow.org/v2beta1").request)
    with pytest.raises(DefinitionsMissing, match=r"does not know kubeflow.org/v2beta1: install"):
        await other.prepare()
