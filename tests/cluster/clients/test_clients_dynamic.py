"""The dynamic client of the official library: discovery, any kind, apply, watch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import (
    ConflictError,
    NotFoundError,
    ResourceNotFoundError,
    UnprocessibleEntityError,
)

from tests.cluster import manifests
from tests.cluster.objects import eventually


@pytest.fixture
def dynamic(official: Any, tmp_path: Path) -> DynamicClient:
    return DynamicClient(official, cache_file=str(tmp_path / "discovery"))


def test_discovery(dynamic: DynamicClient) -> None:
    assert dynamic.version["kubernetes"]["gitVersion"].startswith("v1.37")
    pods = dynamic.resources.get(api_version="v1", kind="Pod")
    assert pods.namespaced and "exec" in pods.subresources and pods.short_names == ["po"]
    (preferred,) = dynamic.resources.search(kind="HorizontalPodAutoscaler", preferred=True)
    assert preferred.group_version == "autoscaling/v2"
    with pytest.raises(ResourceNotFoundError):
        dynamic.resources.get(api_version="v1", kind="Nonsense")


def test_any_kind(dynamic: DynamicClient, namespace: str) -> None:
    api = dynamic.resources.get(api_version="apps/v1", kind="Deployment")
    made = api.create(body=manifests.deployment(), namespace=namespace)
    assert made.spec.template.spec.containers[0].image == "example.test/web:1"
    patch = {"metadata": {"name": "web"}, "spec": {"replicas": 1}}
    patched = api.patch(
        body=patch, namespace=namespace, content_type="application/merge-patch+json"
    )
    assert patched.spec.replicas == 1
    assert api.scale.get(name="web", namespace=namespace).spec.replicas == 1
    assert [item.metadata.name for item in api.get(namespace=namespace).items] == ["web"]
    api.delete(name="web", namespace=namespace)
    with pytest.raises(NotFoundError):
        api.get(name="web", namespace=namespace)


def test_apply(dynamic: DynamicClient, namespace: str) -> None:
    api = dynamic.resources.get(api_version="v1", kind="ConfigMap")
    body = manifests.configmap("a", x="1")
    applied = api.server_side_apply(body=body, namespace=namespace, field_manager="one")
    assert applied.data.x == "1"
    body["data"] = {"x": "2"}
    with pytest.raises(ConflictError):
        api.server_side_apply(body=body, namespace=namespace, field_manager="two")
    forced = api.server_side_apply(
        body=body, namespace=namespace, field_manager="two", force_conflicts=True
    )
    assert forced.data.x == "2"


def test_custom_kind(dynamic: DynamicClient, namespace: str, group: str) -> None:
    def found() -> Any:
        dynamic.resources.invalidate_cache()
        try:
            return dynamic.resources.get(api_version=f"{group}/v1", kind="Widget")
        except ResourceNotFoundError:
            return None

    api = eventually(found)
    made = api.create(body=manifests.widget(group, size=1), namespace=namespace)
    assert made.spec.colour == "red"
    with pytest.raises(UnprocessibleEntityError):
        api.create(body=manifests.widget(group, "v", size=0), namespace=namespace)
    status = {"metadata": {"name": "w"}, "status": {"phase": "Made"}}
    api.status.patch(body=status, namespace=namespace, content_type="application/merge-patch+json")
    assert api.get(name="w", namespace=namespace).status.phase == "Made"


def test_watch(dynamic: DynamicClient, namespace: str) -> None:
    api = dynamic.resources.get(api_version="v1", kind="ConfigMap")
    start = api.get(namespace=namespace).metadata.resourceVersion
    api.create(body=manifests.configmap("a"), namespace=namespace)
    api.delete(name="a", namespace=namespace)
    seen = []
    for event in api.watch(namespace=namespace, resource_version=start, timeout=20):
        seen.append((event["type"], event["object"].metadata.name))
        if len(seen) == 2:
            break
    assert seen == [("ADDED", "a"), ("DELETED", "a")]
