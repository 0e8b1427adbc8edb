"""The client library kr8s, synchronous and asynchronous."""

from __future__ import annotations

from typing import Any

import kr8s
import pytest
from kr8s.asyncio.objects import ConfigMap as AsyncConfigMap
from kr8s.asyncio.objects import Pod as AsyncPod
from kr8s.objects import ConfigMap, Deployment, Pod, Service, new_class

from tests.cluster import manifests
from tests.cluster.objects import Objects, eventually

# The library warns of every Kubernetes that is newer than itself.
pytestmark = pytest.mark.filterwarnings("ignore:Kubernetes version:UserWarning")


def test_life_of_an_object(kr: Any, namespace: str) -> None:
    made = ConfigMap(manifests.configmap("a", x="1"), api=kr)
    made.create()
    assert made.exists() and made.namespace == namespace
    made.patch({"data": {"y": "2"}})
    assert dict(made.data) == {"x": "1", "y": "2"}
    made.patch([{"op": "remove", "path": "/data/x"}], type="json")
    assert dict(made.data) == {"y": "2"}
    made.label({"colour": "red"})
    made.annotate(note="words")
    again = ConfigMap.get("a", api=kr, namespace=namespace)
    assert dict(again.labels) == {"colour": "red"} and again.annotations["note"] == "words"
    again.remove_label("colour")
    again.delete()
    again.wait("delete", timeout=30)
    assert not made.exists()


def test_get(kr: Any, objects: Objects) -> None:
    for name, colour in (("a", "red"), ("b", "blue")):
        objects.create("configmaps", manifests.configmap(name, {"colour": colour}))
    found = list(kr.get("configmaps", label_selector={"colour": "red"}))
    assert [item.name for item in found] == ["a"] and isinstance(found[0], ConfigMap)
    assert [item.name for item in kr.get("cm", "b")] == ["b"]
    assert [item.name for item in kr.get("configmaps", field_selector="metadata.name=a")] == ["a"]
    with pytest.raises(kr8s.NotFoundError):
        ConfigMap.get("none", api=kr)


def test_version_resources_and_who(kr: Any) -> None:
    assert kr.version()["gitVersion"].startswith("v1.37")
    kinds = {resource["kind"] for resource in kr.api_resources()}
    assert {"Pod", "Deployment", "CustomResourceDefinition", "Lease"} <= kinds
    assert kr.whoami() == "admin"


def test_scale_and_owners(kr: Any, objects: Objects, namespace: str) -> None:
    web = Deployment(manifests.deployment(), api=kr)
    web.create()
    web.patch({"spec": {"replicas": 1}})
    assert web.replicas == 1
    service = Service(manifests.service(), api=kr)
    service.create()
    web.adopt(service)
    (owner,) = objects.get("v1", "services", "web")["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("Deployment", "web")
    web.delete(propagation_policy="Background")
    assert eventually(lambda: objects.find("v1", "services", "web") is None)


def test_wait(kr: Any, objects: Objects) -> None:
    pod = Pod(manifests.pod("one"), api=kr)
    pod.create()
    objects.patch(
        "v1", "pods", "one",
        {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}},
        subresource="status",
    )  # fmt: skip
    pod.wait("condition=Ready", timeout=30)
    pod.wait("jsonpath='{.status.phase}'=Running", timeout=30)
    assert pod.status.phase == "Running"


def test_new_class(kr: Any, namespace: str, group: str) -> None:
    widget_class = new_class(
        "Widget", f"{group}/v1", asyncio=False, plural="widgets", scalable=True
    )
    made = widget_class(manifests.widget(group, size=1), api=kr)
    made.create()
    assert made.spec.colour == "red"
    made.patch({"status": {"phase": "Made"}}, subresource="status", type="merge")
    assert widget_class.get("w", api=kr, namespace=namespace).status.phase == "Made"
    made.scale(3)
    assert made.replicas == 3
    with pytest.raises(kr8s.ServerError) as refused:
        made.patch({"spec": {"size": 0}}, type="merge")
    assert refused.value.response.status_code == 422
    found = list(kr.get(f"widgets.{group}"))
    assert [item.name for item in found] == ["w"]


def test_watch(kr: Any, objects: Objects) -> None:
    objects.create("configmaps", manifests.configmap("a", {"w": "1"}))
    seen = []
    events = kr.watch("configmaps", label_selector="w=1")
    for kind, item in events:
        seen.append((kind, item.name))
        if len(seen) == 1:
            objects.create("configmaps", manifests.configmap("b", {"w": "1"}))
            objects.delete("v1", "configmaps", "a")
        if len(seen) == 3:
            break
    assert seen == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a")]


async def test_async_life(kr_async: Any, namespace: str) -> None:
    made = await AsyncConfigMap(manifests.configmap("a", {"w": "1"}, x="1"), api=kr_async)
    await made.create()
    await made.patch({"data": {"x": "2"}})
    await made.label(colour="red")
    found = [item async for item in kr_async.get("configmaps", label_selector="colour=red")]
    assert [dict(item.data) for item in found] == [{"x": "2"}]
    await made.delete()
    await made.wait("delete", timeout=30)
    assert not await made.exists()


async def test_async_watch(kr_async: Any, objects: Objects) -> None:
    pod = await AsyncPod(manifests.pod("one", w="1"), api=kr_async)
    await pod.create()
    phases = []
    async for _, item in kr_async.watch("pods", label_selector="w=1"):
        phases.append(item.status.phase)
        if len(phases) == 2:
            break
        objects.patch("v1", "pods", "one", {"status": {"phase": "Failed"}}, subresource="status")
    assert phases == ["Pending", "Failed"]
