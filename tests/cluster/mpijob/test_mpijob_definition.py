"""Servers take the definition of MPIJobs, judge as we do, and take everything that is made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from corral.api.mpi.kinds import MPIJOBS, MPIJob
from corral.families.mpijob.objects.builders import children
from corral.families.mpijob.objects.ssh import generate_keys
from corral.families.mpijob.settings import ObjectSettings
from corral.families.mpijob.webhooks import ClientContexts, register_hooks
from corral.kube import KubeClient
from corral.kube.errors import Invalid
from corral.kube.resources import (
    MUTATINGWEBHOOKCONFIGURATIONS,
    NAMESPACES,
    VALIDATINGWEBHOOKCONFIGURATIONS,
)
from corral.runtime.webhooks import (
    INJECT_LABEL,
    Hooks,
    ServerSettings,
    WebhookService,
    WebhookSettings,
)
from tests.backends import Backend
from tests.cluster.objects import Objects, eventually

Obj = dict[str, Any]
DRY = "?dryRun=All"
PLURALS = {
    "Service": "services",
    "ConfigMap": "configmaps",
    "Secret": "secrets",
    "Pod": "pods",
    "Job": "jobs",
    "NetworkPolicy": "networkpolicies",
}


@pytest.fixture(scope="module", autouse=True)
def definition(backend: Backend) -> Iterator[None]:
    cluster, crd = Objects(backend), MPIJob.crd()
    path = cluster.path("apiextensions.k8s.io/v1", "customresourcedefinitions")
    reply = backend.request("POST", path, crd)
    assert reply.code in (201, 409), reply.body

    def established() -> bool:
        found = backend.request("GET", f"{path}/{MPIJOBS.qualified}").json()
        conditions = {c["type"]: c["status"] for c in found["status"].get("conditions") or ()}
        assert "NonStructuralSchema" not in conditions
        served = backend.request("GET", f"/apis/{MPIJOBS.api_version}/{MPIJOBS.plural}")
        return conditions.get("Established") == "True" and served.code == 200

    eventually(established)
    yield
    if reply.code == 201:
        cluster.delete("apiextensions.k8s.io/v1", "customresourcedefinitions", MPIJOBS.qualified)


@pytest.fixture
def examples(repository: Path) -> list[Obj]:
    return [
        yaml.safe_load(path.read_text())
        for path in sorted((repository / "examples" / "mpijob").glob("*.yaml"))
    ]


def send(objects: Objects, plural: str, obj: Obj, query: str = "") -> Any:
    return objects.backend.request("POST", objects.path(obj["apiVersion"], plural) + query, obj)


def least(**spec: Any) -> Obj:
    template = {"spec": {"containers": [{"name": "a", "image": "i"}]}}
    specs = {"Launcher": {"template": template}, "Worker": {"replicas": 2, "template": template}}
    return {
        "apiVersion": MPIJOBS.api_version,
        "kind": MPIJOBS.kind,
        "metadata": {"name": "foo"},
        "spec": {"mpiReplicaSpecs": specs, **spec},
    }


def test_examples_are_taken_with_our_defaults(objects: Objects, examples: list[Obj]) -> None:
    for obj in [*examples, least(mpiImplementation="IntelMPI")]:
        reply = send(objects, "mpijobs", obj, DRY)
        assert reply.code == 201, reply.body
        theirs, ours = reply.json(), deepcopy(obj)
        MPIJob.default(theirs)
        MPIJob.default(ours)
        assert theirs["spec"] == ours["spec"]


def test_mistakes_of_structure_are_seen_alike(objects: Objects) -> None:
    for wrong in (
        least(mpiReplicaSpecs=None),
        least(mpiImplementation="Other"),
        least(slotsPerWorker="2"),
        least(runPolicy={"suspend": 1}),
        least(mpiReplicaSpecs={"Launcher": {"template": {"spec": {"containers": {}}}}}),
        least(
            mpiReplicaSpecs={
                "Launcher": {"template": {"spec": {"containers": [{"name": "a", "env": [1]}]}}}
            }
        ),
    ):
        reply = send(objects, "mpijobs", wrong, DRY)
        assert reply.code == 422, reply.body
        causes = reply.json()["details"]["causes"]
        theirs = {(c["field"], c["reason"]) for c in causes if c["field"].startswith("spec")}
        assert theirs == {(p.field, p.type) for p in MPIJob.validate(wrong)}, causes


def test_the_status_is_written_apart(objects: Objects) -> None:
    assert send(objects, "mpijobs", least()).code == 201
    condition = {
        "type": "Failed",
        "status": "True",
        "reason": "BackoffLimitExceeded/Evicted",
        "lastUpdateTime": "2030-01-01T00:00:00Z",
    }
    status = {
        "conditions": [condition],
        "replicaStatuses": {"Launcher": {"failed": 1}, "Worker": {}},
        "failure": {"replica": "Worker", "index": 1, "pod": "foo-worker-1", "logTail": "x"},
    }
    written = objects.patch(
        MPIJOBS.api_version, "mpijobs", "foo", {"status": status}, subresource="status"
    )
    assert written["status"] == status
    path = objects.path(MPIJOBS.api_version, "mpijobs", "foo")
    assert objects.backend.request("GET", f"{path}/scale").code == 404
    objects.delete(MPIJOBS.api_version, "mpijobs", "foo")


def test_everything_that_is_made_is_taken(objects: Objects, examples: list[Obj]) -> None:
    keys = generate_keys()
    for obj in [*examples, least(), least(mpiImplementation="Intel", runLauncherAsWorker=True)]:
        obj["metadata"] |= {"namespace": objects.namespace, "uid": "00000000-0000-0000-0000-1"}
        made = children(obj, ObjectSettings(), keys)
        for child in made.all():
            reply = send(objects, PLURALS[child["kind"]], child, DRY)
            assert reply.code == 201, (child["kind"], reply.body)
            assert reply.json()["metadata"]["ownerReferences"] == [
                {
                    "apiVersion": "kubeflow.org/v2beta1",
                    "kind": "MPIJob",
                    "name": obj["metadata"]["name"],
                    "uid": "00000000-0000-0000-0000-1",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ]


# --- webhooks ------------------------------------------------------------------------------------


@pytest.fixture
async def warned() -> list[str]:
    return []


@pytest.fixture
async def client(kubeconfig: str, warned: list[str]) -> AsyncIterator[KubeClient]:
    async with KubeClient.from_kubeconfig(kubeconfig, on_warning=warned.append) as client:
        yield client


@pytest.fixture
async def webhooks(client: KubeClient, namespace: str) -> AsyncIterator[None]:
    """Our webhooks, with contexts that are never kept."""
    hooks = Hooks()
    register_hooks(hooks, ClientContexts(client, clock=lambda: 0.0, keep=0.0))
    chosen = WebhookSettings(
        namespace,
        name=f"hooks-{namespace}",
        secret=f"certificate-{namespace}",
        url_host="127.0.0.1",
        failure_policy="Fail",
        server=ServerSettings(host="127.0.0.1", port=0, grace=0.1),
    )
    try:
        async with WebhookService(client, hooks, chosen).running():
            await asked(client, namespace)
            yield
    finally:
        for resource in (MUTATINGWEBHOOKCONFIGURATIONS, VALIDATINGWEBHOOKCONFIGURATIONS):
            selector = f"{INJECT_LABEL}={chosen.secret}"
            await client.delete_collection(resource, label_selector=selector)


async def asked(client: KubeClient, namespace: str) -> None:
    """Until the API server asks both of our webhooks."""
    probe = here(least(slotsPerWorker=-1), namespace)
    async with asyncio.timeout(30):
        while True:
            try:
                await client.create(MPIJOBS, probe, dry_run=True)
            except Invalid:
                good = await client.create(MPIJOBS, here(least(), namespace), dry_run=True)
                if "cleanPodPolicy" in good["spec"]["runPolicy"]:
                    return
            await asyncio.sleep(0.05)


def here(obj: Obj, namespace: str) -> Obj:
    return {**obj, "metadata": {**obj["metadata"], "namespace": namespace}}


async def test_webhooks_default_refuse_and_remark(
    client: KubeClient, namespace: str, webhooks: None, warned: list[str]
) -> None:
    made = await client.create(MPIJOBS, here(least(mpiImplementation="IntelMPI"), namespace))
    assert made["spec"]["mpiImplementation"] == "Intel"
    assert made["spec"]["mpiReplicaSpecs"]["Launcher"]["restartPolicy"] == "OnFailure"
    assert any("IntelMPI is kept as Intel" in text for text in warned)
    assert any("runAsNonRoot: Required value" in text for text in warned)

    wrong = least(slotsPerWorker=-1, runPolicy={"cleanPodPolicy": "Some"})
    wrong["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = 0
    with pytest.raises(Invalid) as caught:
        await client.create(MPIJOBS, here(wrong, namespace))
    assert [cause["field"] for cause in caught.value.details["causes"]] == [
        "spec.mpiReplicaSpecs[Worker].replicas",
        "spec.slotsPerWorker",
        "spec.runPolicy.cleanPodPolicy",
    ]


async def test_a_restricted_namespace_enforces_policy(
    client: KubeClient, namespace: str, webhooks: None, examples: list[Obj], warned: list[str]
) -> None:
    label = {"metadata": {"labels": {"corral.dev/policy": "restricted"}}}
    await client.patch(NAMESPACES, namespace, patch=label, kind="merge")
    with pytest.raises(Invalid) as caught:
        await client.create(MPIJOBS, here(least(), namespace))
    fields = [cause["field"] for cause in caught.value.details["causes"]]
    assert "metadata.annotations[corral.dev/network-policy]" in fields
    prefix = "spec.mpiReplicaSpecs[Worker].template.spec.containers[0]"
    assert f"{prefix}.securityContext.runAsNonRoot" in fields
    assert f"{prefix}.resources.limits[cpu]" in fields
    restricted = next(obj for obj in examples if obj["metadata"]["name"] == "restricted")
    warned.clear()
    await client.create(MPIJOBS, here(restricted, namespace))
    assert warned == []
