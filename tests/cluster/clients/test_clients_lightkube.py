"""The client library lightkube, synchronous and asynchronous."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import lightkube
import pytest
from lightkube import ApiError, codecs
from lightkube.generic_resource import (
    create_global_resource,
    create_namespaced_resource,
    get_generic_resource,
    load_in_cluster_generic_resources,
)
from lightkube.models.coordination_v1 import LeaseSpec
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.coordination_v1 import Lease
from lightkube.resources.core_v1 import ConfigMap, Pod
from lightkube.types import CascadeType, PatchType

from tests.cluster import manifests
from tests.cluster.objects import Objects, eventually


def config_map(name: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, labels={"a": "b"}), data=data)


def test_life_of_an_object(light: lightkube.Client) -> None:
    made = light.create(config_map("a", x="1"))
    assert made.metadata.uid
    made.data["x"] = "2"
    replaced = light.replace(made)
    assert replaced.data == {"x": "2"}
    with pytest.raises(ApiError) as stale:
        light.replace(made)
    assert (stale.value.status.code, stale.value.status.reason) == (409, "Conflict")
    assert [item.metadata.name for item in light.list(ConfigMap, labels={"a": "b"})] == ["a"]
    light.delete(ConfigMap, "a", cascade=CascadeType.BACKGROUND)
    with pytest.raises(ApiError) as gone:
        light.get(ConfigMap, "a")
    assert gone.value.status.reason == "NotFound"


def test_lists_in_chunks_and_by_sets(light: lightkube.Client) -> None:
    for number in range(5):
        light.create(config_map(f"n{number}"))
    found = [
        item.metadata.name for item in light.list(ConfigMap, chunk_size=2, labels={"a": ("b", "c")})
    ]
    assert found == [f"n{number}" for number in range(5)]
    light.deletecollection(ConfigMap)
    assert [item.metadata.name for item in light.list(ConfigMap, labels={"a": "b"})] == []


PATCHES: dict[PatchType, Any] = {
    PatchType.JSON: [{"op": "replace", "path": "/data/x", "value": "2"}],
    PatchType.MERGE: {"data": {"x": "2"}},
    PatchType.STRATEGIC: {"data": {"x": "2"}},
    PatchType.APPLY: manifests.configmap("a", x="2"),
}


@pytest.mark.parametrize("patch_type", PATCHES)
def test_patches(light: lightkube.Client, patch_type: PatchType) -> None:
    light.create(config_map("a", x="1"))
    force = patch_type is PatchType.APPLY
    patched = light.patch(ConfigMap, "a", PATCHES[patch_type], patch_type=patch_type, force=force)
    assert patched.data == {"x": "2"}


def test_apply(light: lightkube.Client) -> None:
    plain = ConfigMap(metadata=ObjectMeta(name="a"), data={"x": "1"})
    made = light.apply(plain)
    assert [entry.manager for entry in made.metadata.managedFields] == ["light"]
    other = ConfigMap(metadata=ObjectMeta(name="a"), data={"x": "2"})
    with pytest.raises(ApiError) as refused:
        light.apply(other, field_manager="other")
    assert refused.value.status.code == 409
    assert refused.value.status.details.causes[0].reason == "FieldManagerConflict"
    assert light.apply(other, field_manager="other", force=True).data == {"x": "2"}


def test_scale_and_status(light: lightkube.Client) -> None:
    light.create(codecs.from_dict(manifests.deployment()))
    scale = light.get(Deployment.Scale, "web")
    scale.spec.replicas = 2
    scale.metadata.resourceVersion = None
    assert light.replace(scale).spec.replicas == 2
    assert light.get(Deployment, "web").spec.replicas == 2
    light.create(codecs.from_dict(manifests.pod("one")))
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    light.patch(Pod.Status, "one", ready)
    waited = light.wait(Pod, "one", for_conditions=["Ready"])
    assert waited.status.phase == "Pending"


def test_watch(light: lightkube.Client) -> None:
    start = light.create(config_map("a", x="1")).metadata.resourceVersion
    light.patch(ConfigMap, "a", {"data": {"x": "2"}})
    light.delete(ConfigMap, "a")
    events = light.watch(ConfigMap, labels={"a": "b"}, resource_version=start, server_timeout=20)
    assert [next(events)[0] for _ in range(2)] == ["MODIFIED", "DELETED"]
    events.close()


def test_watch_from_too_long_ago(light: lightkube.Client, group: str) -> None:
    widget_class = create_namespaced_resource(group, "v1", "Widget", "widgets")
    light.create(widget_class(metadata={"name": "w"}, spec={"size": 1}))
    with pytest.raises(ApiError) as gone:
        next(light.watch(widget_class, resource_version="1", server_timeout=20))
    assert gone.value.status.code == 410


def test_codecs(light: lightkube.Client) -> None:
    text = """
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
data: {x: "1"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: "example.test/web:1"}]}
"""
    loaded = codecs.load_all_yaml(text)
    for made in loaded:
        light.apply(made)
    found = light.get(Deployment, "web")
    assert found.spec.template.spec.containers[0].image == "example.test/web:1"
    assert "name: web" in codecs.dump_all_yaml([found])


def test_generic_resources(light: lightkube.Client, group: str) -> None:
    widget_class = create_namespaced_resource(group, "v1", "Widget", "widgets")
    made = light.create(widget_class(metadata={"name": "w"}, spec={"size": 1}))
    assert made.spec["colour"] == "red"
    light.patch(widget_class.Status, "w", {"status": {"phase": "Made"}}, patch_type=PatchType.MERGE)
    assert light.get(widget_class, "w").status["phase"] == "Made"
    with pytest.raises(ApiError) as refused:
        light.create(widget_class(metadata={"name": "v"}, spec={"size": 0}))
    assert refused.value.status.details.causes[0].field == "spec.size"
    load_in_cluster_generic_resources(light)
    assert get_generic_resource(f"{group}/v1", "Widget") is not None


@pytest.fixture
def galaxies(cluster: Objects, unique: str) -> Iterator[str]:
    """A kind of the cluster; its group."""
    group = f"c{unique}.example.test"
    definition = manifests.widget_definition(group)
    definition["metadata"]["name"] = f"galaxies.{group}"
    definition["spec"] |= {
        "scope": "Cluster",
        "names": {"plural": "galaxies", "singular": "galaxy", "kind": "Galaxy"},
    }
    cluster.create("customresourcedefinitions", definition)
    eventually(lambda: cluster.backend.request("GET", f"/apis/{group}/v1/galaxies").code == 200)
    yield group
    cluster.delete("apiextensions.k8s.io/v1", "customresourcedefinitions", f"galaxies.{group}")


def test_generic_resources_of_the_cluster(light: lightkube.Client, galaxies: str) -> None:
    galaxy = create_global_resource(galaxies, "v1", "Galaxy", "galaxies")
    light.create(galaxy(metadata={"name": "milky"}, spec={"size": 9}))
    assert [item.metadata.name for item in light.list(galaxy)] == ["milky"]
    light.delete(galaxy, "milky")
    assert list(light.list(galaxy)) == []


def test_leases(light: lightkube.Client) -> None:
    now = datetime.now(UTC)
    spec = LeaseSpec(
        holderIdentity="one", leaseDurationSeconds=15, acquireTime=now, renewTime=now,
        leaseTransitions=0,
    )  # fmt: skip
    first = light.create(Lease(metadata=ObjectMeta(name="leader"), spec=spec))
    assert first.spec.renewTime == now
    mine, theirs = light.get(Lease, "leader"), light.get(Lease, "leader")
    mine.spec.holderIdentity = "two"
    mine.spec.leaseTransitions = 1
    light.replace(mine)
    theirs.spec.holderIdentity = "three"
    with pytest.raises(ApiError) as lost:
        light.replace(theirs)
    assert lost.value.status.code == 409
    assert light.get(Lease, "leader").spec.holderIdentity == "two"


async def test_async(light_async: lightkube.AsyncClient) -> None:
    start = (await light_async.create(config_map("a", x="1"))).metadata.resourceVersion
    patched = await light_async.patch(ConfigMap, "a", {"data": {"x": "2"}})
    assert patched.data == {"x": "2"}
    applied = await light_async.apply(ConfigMap(metadata=ObjectMeta(name="b"), data={"y": "1"}))
    assert applied.data == {"y": "1"}
    names = [
        item.metadata.name
        async for item in light_async.list(ConfigMap, fields={"metadata.name": "b"})
    ]
    assert names == ["b"]
    await light_async.delete(ConfigMap, "a")
    seen = []
    async for kind, item in light_async.watch(ConfigMap, resource_version=start, server_timeout=20):
        seen.append((kind, item.metadata.name))
        if len(seen) == 3:
            break
    assert seen == [("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]
