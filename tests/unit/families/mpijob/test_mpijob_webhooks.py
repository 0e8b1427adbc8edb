"""What the API server is told about MPIJobs."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from copy import deepcopy
from typing import Any

import orjson
import pytest

from corral.api.mpi.kinds import MPIJOBS, MPIJob
from corral.families.mpijob.validation import Context
from corral.families.mpijob.webhooks import (
    ClientContexts,
    context_of,
    in_namespaces,
    register_hooks,
)
from corral.kube.errors import Forbidden
from corral.kube.resources import Resource
from corral.runtime.webhooks import AdmissionRequest, Hooks, by_url, webhook_configurations
from tests.unit.families.mpijob.mpijob_cases import edited, job

Obj = dict[str, Any]


class Fixed:
    """Answers with one context, and says who was asked about."""

    def __init__(self, context: Context) -> None:
        self.context_ = context
        self.asked: list[str] = []

    async def context(self, namespace: str) -> Context:
        self.asked.append(namespace)
        return self.context_


RESTRICTED = Context(policy="restricted")


async def answer(verb: str, obj: Obj, old: Obj | None = None, source: Fixed | None = None) -> Obj:
    hooks = Hooks()
    register_hooks(hooks, source)
    request = AdmissionRequest(
        uid="1",
        group=MPIJOBS.group,
        version=MPIJOBS.version,
        kind=MPIJOBS.kind,
        resource=MPIJOBS.plural,
        operation="UPDATE" if old is not None else "CREATE",
        name=obj["metadata"].get("name", ""),
        namespace="bar",
        object=obj,
        old=old,
    )
    review = await hooks.admission[f"/{verb}/{MPIJOBS.qualified}"].answer(request)
    response: Obj = review["response"]
    return response


def fields(response: Obj) -> list[str]:
    return [cause["field"] for cause in response["status"]["details"]["causes"]]


async def test_defaults_are_filled_in() -> None:
    response = await answer("mutate", edited(job(), {"spec|mpiImplementation": "IntelMPI"}))
    patch = orjson.loads(base64.b64decode(response["patch"]))
    written = {change["path"]: change["value"] for change in patch}
    assert written["/spec/mpiImplementation"] == "Intel"
    assert written["/spec/mpiReplicaSpecs/Launcher/restartPolicy"] == "OnFailure"
    assert response["warnings"] == ["spec.mpiImplementation: IntelMPI is kept as Intel"]


async def finalizers(obj: Obj, old: Obj | None = None) -> list[str] | None:
    """What a job is given, if anything."""
    response = await answer("mutate", obj, old)
    patch = orjson.loads(base64.b64decode(response.get("patch", "W10=")))
    written = {change["path"]: change.get("value") for change in patch}
    if "/metadata/finalizers" in written:
        return list(written["/metadata/finalizers"])
    return [v for path, v in written.items() if path.startswith("/metadata/finalizers/")] or None


async def test_new_jobs_have_the_finalizer() -> None:
    ours = "corral.dev/mpijob-cleanup"
    assert await finalizers(job()) == [ours]
    assert await finalizers(edited(job(), {"metadata|finalizers": ["a"]})) == [ours]
    assert await finalizers(edited(job(), {"metadata|finalizers": [ours]})) is None
    assert await finalizers(job(), old=job()) is None
    assert (await answer("mutate", {**job(), "metadata": {}}))["allowed"]


async def test_jobs_of_other_managers_are_not_held() -> None:
    assert await finalizers(edited(job(), {"run|managedBy": "kubeflow.org/mpi-operator"}))
    theirs = edited(job(), {"run|managedBy": "kueue.x-k8s.io/multikueue"})
    assert await finalizers(theirs) is None


async def test_a_job_on_its_way_out_stays_as_it_is() -> None:
    leaving = edited(job(), {"metadata|deletionTimestamp": "2030-01-01T00:00:00Z", "L": None})
    assert "patch" not in await answer("mutate", leaving)
    assert (await answer("validate", leaving, job()))["allowed"]


async def test_a_wrong_spec_is_left_to_be_judged() -> None:
    assert (await answer("mutate", {**job(), "spec": 3}))["allowed"]
    assert not (await answer("validate", {**job(), "spec": 3}))["allowed"]


async def test_all_mistakes_at_once() -> None:
    wrong = edited(job(), {"W|replicas": 0, "spec|slotsPerWorker": -1, "L|replicas": 3})
    response = await answer("validate", wrong)
    assert not response["allowed"] and response["status"]["reason"] == "Invalid"
    assert fields(response) == [
        "spec.mpiReplicaSpecs[Launcher].replicas",
        "spec.mpiReplicaSpecs[Worker].replicas",
        "spec.slotsPerWorker",
    ]


async def test_policy_is_a_remark_unless_the_namespace_is_restricted() -> None:
    risky = edited(job(), {"WP|hostPID": True})
    response = await answer("validate", risky)
    assert response["allowed"]
    assert response["warnings"] == [
        "spec.mpiReplicaSpecs[Worker].template.spec.hostPID: Forbidden: pods must not share what "
        "belongs to their node"
    ]
    source = Fixed(RESTRICTED)
    response = await answer("validate", risky, source=source)
    assert fields(response) == [
        "spec.mpiReplicaSpecs[Worker].template.spec.hostPID",
        "metadata.annotations[corral.dev/network-policy]",
    ]
    assert source.asked == ["bar"]


async def test_nothing_is_asked_about_a_change_of_no_matter() -> None:
    old = edited(job(), {"W|replicas": 0})
    source = Fixed(RESTRICTED)
    new = edited(old, {"metadata|finalizers": ["a"]})
    assert (await answer("validate", new, old, source))["allowed"]
    assert source.asked == []


async def test_an_invalid_job_can_be_labelled() -> None:
    old = edited(job(), {"W|replicas": 0, "metadata|name": "1"})
    assert (await answer("validate", edited(old, {"metadata|labels": {"a": "b"}}), old))["allowed"]


async def test_defaults_that_are_new_are_no_change() -> None:
    old = edited(job(), {"W|replicas": 0})
    new = deepcopy(old)
    MPIJob.default(new)
    assert (await answer("validate", new, old))["allowed"]


async def test_a_policy_cannot_be_taken_off_afterwards() -> None:
    old = edited(job(), {"metadata|annotations": {"corral.dev/network-policy": "Isolated"}})
    response = await answer("validate", job(), old, Fixed(RESTRICTED))
    assert fields(response) == ["metadata.annotations[corral.dev/network-policy]"]


async def test_jobs_of_before_can_be_resumed() -> None:
    old = edited(job(), {"run|suspend": True, "WP|hostPID": True})
    new = edited(old, {"run|suspend": False})
    assert (await answer("validate", new, old, Fixed(RESTRICTED)))["allowed"]


# --- contexts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels,policy",
    [
        (None, "baseline"),
        ({"corral.dev/policy": "baseline"}, "baseline"),
        ({"corral.dev/policy": "restricted"}, "restricted"),
        ({"corral.dev/policy": "other"}, "baseline"),
    ],
)
def test_the_policy_of_a_namespace(labels: Obj | None, policy: str) -> None:
    assert context_of({"metadata": {"labels": labels}}).policy == policy


def test_the_rest_of_a_context() -> None:
    annotations = {"corral.dev/required-labels": "team, cost-center,"}
    found = context_of(
        {"metadata": {"annotations": annotations}},
        quotas=[{"metadata": {"name": "q"}}],
        priority_classes=[{"metadata": {"name": "high"}, "value": 9}],
        gang_scheduler="volcano",
    )
    assert found.required_labels == ("team", "cost-center")
    assert len(found.quotas) == 1 and found.priorities == {"high": 9}
    assert found.gang_scheduler == "volcano"
    assert context_of({}).priorities is None


class FakeCluster:
    """The two questions that are asked of a client."""

    def __init__(self, lists: dict[str, list[Obj] | None]) -> None:
        self.lists = lists
        self.requests = 0

    async def get(self, resource: Resource, name: str) -> Obj:
        self.requests += 1
        await asyncio.sleep(0)  # others have their turn
        return {"metadata": {"name": name, "labels": {"corral.dev/policy": "restricted"}}}

    async def list(self, resource: Resource, namespace: str | None) -> AsyncIterator[Obj]:
        self.requests += 1
        found = self.lists[resource.plural]
        if found is None:
            raise Forbidden("no")
        for obj in found:
            yield obj


async def test_many_who_ask_at_once_have_one_answer() -> None:
    cluster = FakeCluster({"resourcequotas": [], "priorityclasses": []})
    contexts = ClientContexts(cluster, clock=lambda: 0.0)  # type: ignore[arg-type]
    first, *others = await asyncio.gather(*(contexts.context("a") for _ in range(9)))
    assert cluster.requests == 3
    assert all(found is first for found in others)


async def test_contexts_are_kept_for_a_while() -> None:
    cluster = FakeCluster({"resourcequotas": [{}], "priorityclasses": []})
    now = 0.0
    contexts = ClientContexts(cluster, clock=lambda: now, keep=5.0)  # type: ignore[arg-type]
    first = await contexts.context("a")
    assert first.policy == "restricted" and first.priorities == {} and len(first.quotas) == 1
    now = 4.9
    assert await contexts.context("a") is first and cluster.requests == 3
    now = 5.0
    assert await contexts.context("a") is not first and cluster.requests == 6


async def test_what_is_not_ours_to_read_is_not_judged_by() -> None:
    cluster = FakeCluster({"resourcequotas": None, "priorityclasses": None})
    contexts = ClientContexts(cluster, clock=lambda: 0.0)  # type: ignore[arg-type]
    found = await contexts.context("a")
    assert found.quotas == () and found.priorities is None


def test_configurations_for_chosen_namespaces() -> None:
    hooks = Hooks()
    register_hooks(hooks)
    made = webhook_configurations(hooks, by_url("https://x"), name="n", inject="s")
    selector = {"matchLabels": {"mpi": "yes"}}
    for configuration in in_namespaces(made, selector):
        (webhook,) = configuration["webhooks"]
        assert webhook["namespaceSelector"] == selector and webhook["timeoutSeconds"] == 10
    assert "namespaceSelector" not in made[0]["webhooks"][0]
