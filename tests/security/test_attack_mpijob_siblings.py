"""Objects of others under the names that WasmTasks, models and private jobs would use."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from corral.families.federated.seeds import NoSeed, noise_seed
from corral.families.federated.view import Privacy
from corral.kube import KubeClient
from corral.kube.resources import CONFIGMAPS, DEPLOYMENTS, SECRETS, Resource
from corral.runtime import ChildWriter, NameTaken
from tests.backends import Backend
from tests.cluster.objects import Objects

Obj = dict[str, Any]


def owner(objects: Objects, name: str) -> Obj:
    """Whatever owns: here a ConfigMap, since every cluster has those."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    return objects.create("configmaps", body)


def child(resource: Resource, namespace: str, text: str) -> Obj:
    out: Obj = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": "taken", "namespace": namespace},
    }
    if resource is DEPLOYMENTS:
        labels = {"app": text}
        pod = {"metadata": {"labels": labels}, "spec": {"containers": [_container(text)]}}
        return {
            **out,
            "spec": {"selector": {"matchLabels": labels}, "replicas": 0, "template": pod},
        }
    return {**out, "data": {"k": base64.b64encode(text.encode()).decode()}}


def _container(image: str) -> Obj:
    return {"name": "c", "image": image}


@pytest.mark.attack(
    "mpijob",
    "Has the operator apply over another's object by its name",
    "Only what the owner controls is written",
)
@pytest.mark.parametrize("resource", [CONFIGMAPS, SECRETS, DEPLOYMENTS], ids=lambda one: one.plural)
@pytest.mark.parametrize("theirs", ["nobody", "another"])
async def test_nothing_is_taken_over(
    objects: Objects, backend: Backend, resource: Resource, theirs: str
) -> None:
    async with KubeClient.from_kubeconfig(str(backend.kubeconfig)) as client:
        writer = ChildWriter(client, field_manager="corral")
        mine, other = owner(objects, "mine"), owner(objects, "other")
        foreign = child(resource, objects.namespace, "theirs")
        if theirs == "another":
            before = await writer.put(other, resource, foreign)
        else:
            before = await client.create(resource, foreign)
        with pytest.raises(NameTaken, match="is not controlled by ConfigMap mine"):
            await writer.put(mine, resource, child(resource, objects.namespace, "mine"))
        after = await client.get(resource, "taken", namespace=objects.namespace)
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert after["metadata"].get("ownerReferences") == before["metadata"].get("ownerReferences")
        assert after.get("data") == before.get("data")


async def test_ones_own_is_written_again(objects: Objects, backend: Backend) -> None:
    async with KubeClient.from_kubeconfig(str(backend.kubeconfig)) as client:
        writer = ChildWriter(client, field_manager="corral")
        mine = owner(objects, "mine")
        for text in ("one", "two"):
            await writer.put(mine, CONFIGMAPS, child(CONFIGMAPS, objects.namespace, text))
        found = await client.get(CONFIGMAPS, "taken", namespace=objects.namespace)
        assert base64.b64decode(found["data"]["k"]) == b"two"


@pytest.mark.attack(
    "rounds", "Puts a Secret of its own where the seed of the noise is", "The job does not use it"
)
async def test_a_seed_that_somebody_else_knows(objects: Objects, backend: Backend) -> None:
    job = {
        "apiVersion": "propeller.absmach.io/v1alpha1",
        "kind": "FederatedJob",
        "metadata": {"name": "job", "namespace": objects.namespace, "uid": "1234"},
    }
    seed = base64.b64encode(b"known to mallory" * 2).decode()
    known = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "job-privacy"}}
    objects.create("secrets", {**known, "data": {"seed": seed}})
    async with KubeClient.from_kubeconfig(str(backend.kubeconfig)) as client:
        privacy = Privacy(clip=1.0, noise=1.0)
        with pytest.raises(NoSeed, match="is not of this job"):
            await noise_seed(client, job, "job", privacy, field_manager="corral")
        named = Privacy(clip=1.0, noise=1.0, secret="job-privacy")
        assert await noise_seed(client, job, "job", named, field_manager="corral")
