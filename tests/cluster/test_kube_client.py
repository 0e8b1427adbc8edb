"""The client against an API server: the same cases on every backend."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from corral.kube import KubeClient, Obj, WatchEvent, errors, is_initial_events_end, resource
from corral.kube.discovery import UnknownKind
from corral.kube.resources import (
    CONFIGMAPS,
    CUSTOMRESOURCEDEFINITIONS,
    DEPLOYMENTS,
    NAMESPACES,
    PODS,
    SELFSUBJECTREVIEWS,
    SERVICEACCOUNTS,
)

JOB = resource("batch/v1", "jobs")
EVICTED = {"apiVersion": "policy/v1", "kind": "Eviction"}


@pytest.fixture
async def client(kubeconfig: str) -> AsyncIterator[KubeClient]:
    async with KubeClient.from_kubeconfig(kubeconfig) as client:
        yield client


@pytest.fixture
async def namespace(client: KubeClient) -> AsyncIterator[str]:
    name = f"kube-client-{uuid.uuid4().hex[:8]}"
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    yield name
    await client.delete(NAMESPACES, name)


def configmap(name: str, **data: str) -> Obj:
    return {"metadata": {"name": name, "labels": {"case": "yes"}}, "data": data}


def deployment(name: str = "web") -> Obj:
    labels = {"app": name}
    container = {
        "name": "main",
        "image": "example.test/app:1",
        "env": [{"name": "A", "value": "1"}],
    }
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


async def test_create_read_replace_delete(client: KubeClient, namespace: str) -> None:
    created = await client.create(CONFIGMAPS, configmap("a", x="1"), namespace=namespace)
    assert created["kind"] == "ConfigMap" and created["metadata"]["namespace"] == namespace
    created["data"]["x"] = "2"
    replaced = await client.replace(CONFIGMAPS, created)
    assert replaced["metadata"]["resourceVersion"] != created["metadata"]["resourceVersion"]
    read = await client.get(CONFIGMAPS, "a", namespace=namespace)
    assert read["data"] == {"x": "2"}
    answer = await client.delete(CONFIGMAPS, "a", namespace=namespace)
    assert answer["status"] == "Success"
    with pytest.raises(errors.NotFound):
        await client.get(CONFIGMAPS, "a", namespace=namespace)


async def test_generated_names_differ(client: KubeClient, namespace: str) -> None:
    template = {"metadata": {"generateName": "many-"}}
    made = [await client.create(CONFIGMAPS, template, namespace=namespace) for _ in range(2)]
    names = {m["metadata"]["name"] for m in made}
    assert len(names) == 2 and all(n.startswith("many-") for n in names)


async def test_missing_object_is_not_found_with_details(client: KubeClient, namespace: str) -> None:
    with pytest.raises(errors.NotFound) as caught:
        await client.get(DEPLOYMENTS, "nope", namespace=namespace)
    assert caught.value.message == 'deployments.apps "nope" not found'
    assert caught.value.details == {"name": "nope", "group": "apps", "kind": "deployments"}


async def test_second_create_is_already_exists(client: KubeClient, namespace: str) -> None:
    await client.create(CONFIGMAPS, configmap("a"), namespace=namespace)
    with pytest.raises(errors.AlreadyExists) as caught:
        await client.create(CONFIGMAPS, configmap("a"), namespace=namespace)
    assert caught.value.status_code == 409
    assert caught.value.message == 'configmaps "a" already exists'


async def test_stale_replace_is_conflict(client: KubeClient, namespace: str) -> None:
    first = await client.create(CONFIGMAPS, configmap("a", x="1"), namespace=namespace)
    await client.patch(CONFIGMAPS, "a", namespace=namespace, patch={"data": {"x": "2"}})
    with pytest.raises(errors.Conflict) as caught:
        await client.replace(CONFIGMAPS, first)
    assert "the object has been modified" in caught.value.message


async def test_bad_object_is_invalid_with_causes(client: KubeClient, namespace: str) -> None:
    bad = deployment()
    bad["spec"]["selector"] = {"matchLabels": {"app": "other"}}
    with pytest.raises(errors.Invalid) as caught:
        await client.create(DEPLOYMENTS, bad, namespace=namespace)
    causes = caught.value.details["causes"]
    assert [c["field"] for c in causes] == ["spec.template.metadata.labels"]
    assert [c["reason"] for c in causes] == ["FieldValueInvalid"]


async def test_unknown_field_is_refused_when_strict(client: KubeClient, namespace: str) -> None:
    bad = {**configmap("a"), "colour": "blue"}
    with pytest.raises(errors.BadRequest) as caught:
        await client.create(CONFIGMAPS, bad, namespace=namespace, field_validation="Strict")
    assert 'unknown field "colour"' in caught.value.message


async def test_warnings_reach_the_caller(kubeconfig: str, namespace: str) -> None:
    warnings: list[str] = []
    async with KubeClient.from_kubeconfig(kubeconfig, on_warning=warnings.append) as client:
        bad = {**configmap("a"), "colour": "blue"}
        await client.create(CONFIGMAPS, bad, namespace=namespace, field_validation="Warn")
    assert warnings == ['unknown field "colour"']


PATCHES: dict[str, tuple[Any, Any]] = {
    "json": (
        [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "b:2"}],
        [{"name": "A", "value": "1"}],
    ),
    "merge": (
        {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "b:2"}]}}}},
        None,
    ),
    "strategic": (
        {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "b:2"}]}}}},
        [{"name": "A", "value": "1"}],
    ),
    "apply": (
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "spec": {"template": {"spec": {"containers": [{"name": "main", "image": "b:2"}]}}},
        },
        [{"name": "A", "value": "1"}],
    ),
}


@pytest.mark.parametrize("kind", PATCHES)
async def test_patch_kinds_differ_in_lists(client: KubeClient, namespace: str, kind: Any) -> None:
    patch, env = PATCHES[kind]
    await client.create(DEPLOYMENTS, deployment(), namespace=namespace)
    options: dict[str, Any] = {}
    if kind == "apply":
        options = {"field_manager": "tester", "force": True}
    patched = await client.patch(
        DEPLOYMENTS, "web", namespace=namespace, patch=patch, kind=kind, **options
    )
    [container] = patched["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "b:2"
    assert container.get("env") == env
    assert patched["metadata"]["generation"] == 2


async def test_apply_owns_and_drops_fields(client: KubeClient, namespace: str) -> None:
    async def apply(manager: str, *, force: bool = False, **data: str) -> Obj:
        obj = {"metadata": {"name": "a", "namespace": namespace}, "data": data}
        return await client.apply(CONFIGMAPS, obj, field_manager=manager, force=force)

    assert (await apply("one", x="1", y="1"))["data"] == {"x": "1", "y": "1"}
    assert (await apply("one", x="1"))["data"] == {"x": "1"}
    with pytest.raises(errors.Conflict) as caught:
        await apply("two", x="2")
    assert [c["reason"] for c in caught.value.details["causes"]] == ["FieldManagerConflict"]
    assert (await apply("two", force=True, x="2"))["data"] == {"x": "2"}


async def test_list_in_pages(client: KubeClient, namespace: str) -> None:
    for n in range(7):
        await client.create(CONFIGMAPS, configmap(f"page-{n}"), namespace=namespace)
    wanted = [f"page-{n}" for n in range(7)]
    selector: dict[str, Any] = {"label_selector": "case=yes", "page_size": 3}
    walked = [o async for o in client.list(CONFIGMAPS, namespace, **selector)]
    assert [o["metadata"]["name"] for o in walked] == wanted
    assert {(o["apiVersion"], o["kind"]) for o in walked} == {("v1", "ConfigMap")}
    whole = await client.list_all(CONFIGMAPS, namespace, label_selector="case=yes", page_size=3)
    assert [o["metadata"]["name"] for o in whole["items"]] == wanted
    assert whole["kind"] == "ConfigMapList"
    assert int(whole["metadata"]["resourceVersion"]) > 0
    assert "continue" not in whole["metadata"]


async def test_list_by_field(client: KubeClient, namespace: str) -> None:
    for name in ("a", "b"):
        await client.create(CONFIGMAPS, configmap(name), namespace=namespace)
    found = client.list(CONFIGMAPS, namespace, field_selector="metadata.name=b")
    assert [o["metadata"]["name"] async for o in found] == ["b"]


async def take(events: Any, count: int) -> list[WatchEvent]:
    out: list[WatchEvent] = []
    async with aclosing(aiter(events)) as stream:
        async for event in stream:
            if event.type != "BOOKMARK":
                out.append(event)
            if len(out) == count:
                break
    return out


def summary(events: list[WatchEvent]) -> list[tuple[str, str]]:
    return [(e.type, e.object["metadata"]["name"]) for e in events]


async def test_watch_from_a_list(client: KubeClient, namespace: str) -> None:
    start = (await client.list_all(CONFIGMAPS, namespace))["metadata"]["resourceVersion"]
    await client.create(CONFIGMAPS, configmap("a", x="1"), namespace=namespace)
    await client.patch(CONFIGMAPS, "a", namespace=namespace, patch={"data": {"x": "2"}})
    await client.delete(CONFIGMAPS, "a", namespace=namespace)
    watch = client.watch(
        CONFIGMAPS, namespace, resource_version=start, label_selector="case", timeout_seconds=20
    )
    events = await take(watch, 3)
    assert summary(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    assert [e.object["data"] for e in events] == [{"x": "1"}, {"x": "2"}, {"x": "2"}]


async def test_selector_turns_changes_into_arrivals(client: KubeClient, namespace: str) -> None:
    start = (await client.list_all(CONFIGMAPS, namespace))["metadata"]["resourceVersion"]
    await client.create(CONFIGMAPS, configmap("a"), namespace=namespace)
    for value in ("no", "yes"):
        patch = {"metadata": {"labels": {"case": value}}}
        await client.patch(CONFIGMAPS, "a", namespace=namespace, patch=patch)
    watch = client.watch(
        CONFIGMAPS, namespace, resource_version=start, label_selector="case=yes", timeout_seconds=20
    )
    assert summary(await take(watch, 3)) == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "a")]


async def test_initial_events_end_with_a_bookmark(client: KubeClient, namespace: str) -> None:
    await client.create(CONFIGMAPS, configmap("a"), namespace=namespace)
    watch = client.watch(
        CONFIGMAPS, namespace, label_selector="case", send_initial_events=True, timeout_seconds=20
    )
    names: list[str] = []
    async with aclosing(watch) as events:
        async for event in events:
            if is_initial_events_end(event):
                break
            names.append(event.object["metadata"]["name"])
        else:
            pytest.fail("the initial events did not end")
    assert names == ["a"]
    assert int(event.object["metadata"]["resourceVersion"]) > 0


async def test_resuming_watch_reconnects_without_gap(client: KubeClient, namespace: str) -> None:
    start = (await client.list_all(CONFIGMAPS, namespace))["metadata"]["resourceVersion"]
    watch = client.resuming_watch(
        CONFIGMAPS, namespace, resource_version=start, label_selector="case", timeout_seconds=1
    )

    async def write() -> None:
        await client.create(CONFIGMAPS, configmap("a"), namespace=namespace)
        # A watch that the server ends later than the one under test is the clock here.
        [e async for e in client.watch(NAMESPACES, field_selector="metadata.name=no-such",
                                       timeout_seconds=3)]  # fmt: skip
        await client.create(CONFIGMAPS, configmap("b"), namespace=namespace)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(write())
        events = await take(watch, 2)
    assert summary(events) == [("ADDED", "a"), ("ADDED", "b")]
    assert watch.connections >= 2
    assert watch.resource_version == events[-1].object["metadata"]["resourceVersion"]


async def test_list_not_older_than_a_version_to_come_times_out(client: KubeClient) -> None:
    with pytest.raises(errors.ApiError) as caught:
        await client.list_all(
            CONFIGMAPS, resource_version="999999999999", resource_version_match="NotOlderThan"
        )
    assert caught.value.status_code == 504
    assert "Too large resource version" in caught.value.message


async def test_status_subresource_leaves_spec_alone(client: KubeClient, namespace: str) -> None:
    made = await client.create(DEPLOYMENTS, deployment(), namespace=namespace)
    made["spec"]["replicas"] = 9
    condition = {
        "type": "Tested", "status": "True", "reason": "Case", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "lastUpdateTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    made["metadata"].pop("resourceVersion")
    made["status"] = {"conditions": [condition]}
    after = await client.replace(DEPLOYMENTS, made, subresource="status")
    assert after["spec"]["replicas"] == 0
    assert "Tested" in [c["type"] for c in after["status"]["conditions"]]
    assert after["metadata"]["generation"] == 1
    read = await client.get(DEPLOYMENTS, "web", namespace=namespace, subresource="status")
    assert read["kind"] == "Deployment"


async def test_scale_subresource(client: KubeClient, namespace: str) -> None:
    await client.create(DEPLOYMENTS, deployment(), namespace=namespace)
    where: dict[str, Any] = {"namespace": namespace, "subresource": "scale"}
    scale = await client.get(DEPLOYMENTS, "web", **where)
    assert (scale["apiVersion"], scale["kind"]) == ("autoscaling/v1", "Scale")
    assert scale["spec"].get("replicas", 0) == 0
    await client.patch(DEPLOYMENTS, "web", patch={"spec": {"replicas": 2}}, **where)
    scale = await client.get(DEPLOYMENTS, "web", **where)
    assert scale["spec"]["replicas"] == 2
    scale["spec"]["replicas"] = 1
    scale["metadata"].pop("resourceVersion")
    await client.replace(DEPLOYMENTS, scale, subresource="scale")
    assert (await client.get(DEPLOYMENTS, "web", namespace=namespace))["spec"]["replicas"] == 1


async def test_token_of_a_service_account(
    client: KubeClient, kubeconfig: str, namespace: str
) -> None:
    await client.create(SERVICEACCOUNTS, {"metadata": {"name": "robot"}}, namespace=namespace)
    answer = await client.create_subresource(
        SERVICEACCOUNTS,
        "robot",
        namespace=namespace,
        subresource="token",
        body={
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600},
        },
    )
    assert answer["status"]["token"].count(".") == 2
    config = replace(
        client.config, token=answer["status"]["token"], token_file="", cert_data=b"", cert_file=""
    )
    async with KubeClient(config) as robot:
        review = await robot.create(SELFSUBJECTREVIEWS, {})
        user = review["status"]["userInfo"]["username"]
        assert user == f"system:serviceaccount:{namespace}:robot"
        with pytest.raises(errors.Forbidden):
            await robot.get(CONFIGMAPS, "a", namespace=namespace)


async def test_wrong_token_is_unauthorized(client: KubeClient) -> None:
    config = replace(client.config, token="wrong", token_file="", cert_data=b"", cert_file="")
    async with KubeClient(config) as stranger:
        with pytest.raises(errors.Unauthorized):
            await stranger.get(NAMESPACES, "default")


async def test_dry_run_stores_nothing(client: KubeClient, namespace: str) -> None:
    made = await client.create(CONFIGMAPS, configmap("a"), namespace=namespace, dry_run=True)
    assert made["metadata"]["uid"]
    with pytest.raises(errors.NotFound):
        await client.get(CONFIGMAPS, "a", namespace=namespace)
    await client.create(CONFIGMAPS, configmap("a", x="1"), namespace=namespace)
    patch = {"data": {"x": "2"}}
    tried = await client.patch(CONFIGMAPS, "a", namespace=namespace, patch=patch, dry_run=True)
    assert tried["data"] == {"x": "2"}
    await client.delete(CONFIGMAPS, "a", namespace=namespace, dry_run=True)
    assert (await client.get(CONFIGMAPS, "a", namespace=namespace))["data"] == {"x": "1"}


async def test_delete_preconditions(client: KubeClient, namespace: str) -> None:
    made = await client.create(CONFIGMAPS, configmap("a"), namespace=namespace)
    with pytest.raises(errors.Conflict):
        await client.delete(CONFIGMAPS, "a", namespace=namespace, uid=str(uuid.uuid4()))
    with pytest.raises(errors.Conflict):
        await client.delete(CONFIGMAPS, "a", namespace=namespace, resource_version="1")
    await client.delete(CONFIGMAPS, "a", namespace=namespace, uid=made["metadata"]["uid"])


async def test_delete_waits_for_finalizers(client: KubeClient, namespace: str) -> None:
    obj = configmap("a")
    obj["metadata"]["finalizers"] = ["example.test/hold"]
    await client.create(CONFIGMAPS, obj, namespace=namespace)
    marked = await client.delete(CONFIGMAPS, "a", namespace=namespace)
    assert marked["kind"] == "ConfigMap" and marked["metadata"]["deletionTimestamp"]
    patch = {"metadata": {"finalizers": None}}
    await client.patch(CONFIGMAPS, "a", namespace=namespace, patch=patch)
    with pytest.raises(errors.NotFound):
        await client.get(CONFIGMAPS, "a", namespace=namespace)


async def test_delete_collection_follows_the_selector(client: KubeClient, namespace: str) -> None:
    for name in ("a", "b"):
        await client.create(CONFIGMAPS, configmap(name), namespace=namespace)
    other = {"metadata": {"name": "other"}}
    await client.create(CONFIGMAPS, other, namespace=namespace)
    await client.delete_collection(CONFIGMAPS, namespace, label_selector="case=yes")
    left = {o["metadata"]["name"] async for o in client.list(CONFIGMAPS, namespace)}
    assert "other" in left and not left & {"a", "b"}


async def test_eviction_of_a_missing_pod(client: KubeClient, namespace: str) -> None:
    body = {**EVICTED, "metadata": {"name": "ghost", "namespace": namespace}}
    with pytest.raises(errors.NotFound):
        await client.create_subresource(
            PODS, "ghost", namespace=namespace, subresource="eviction", body=body
        )


async def test_exec_into_a_missing_pod_is_not_found(client: KubeClient, namespace: str) -> None:
    with pytest.raises(errors.NotFound):
        await client.run("ghost", ["true"], namespace=namespace)
    with pytest.raises(errors.NotFound):
        [line async for line in client.log_lines("ghost", namespace)]


async def test_discovery_knows_built_in_kinds(client: KubeClient) -> None:
    found = await client.discover()
    assert found.for_kind("apps/v1", "Deployment") == DEPLOYMENTS
    assert found.find("deploy").resource == DEPLOYMENTS
    assert found.find("jobs.batch").resource == JOB
    assert found.find("po").resource == PODS
    assert {"status", "log"} <= set(found.find("pods").subresources)
    assert DEPLOYMENTS in [entry.resource for entry in found.category("all")]
    with pytest.raises(UnknownKind, match='no matches for kind "Nope" in version "v1"'):
        await client.resource_for("v1", "Nope")


async def test_custom_resources_are_discovered(client: KubeClient, namespace: str) -> None:
    group = f"{namespace}.example.test"
    crd = {
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "singular": "widget"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    }
    start = (await client.list_all(CUSTOMRESOURCEDEFINITIONS))["metadata"]["resourceVersion"]
    await client.create(CUSTOMRESOURCEDEFINITIONS, crd)
    try:
        selector = f"metadata.name=widgets.{group}"
        async with aclosing(
            client.watch(
                CUSTOMRESOURCEDEFINITIONS,
                resource_version=start,
                field_selector=selector,
                timeout_seconds=20,
            )
        ) as events:
            async for event in events:
                conditions = (event.object.get("status") or {}).get("conditions") or ()
                if {"type": "Established", "status": "True"}.items() <= {
                    k: v for c in conditions if c["type"] == "Established" for k, v in c.items()
                }.items():
                    break
        await client.discover()
        widgets = resource(f"{group}/v1", "widgets", kind="Widget")
        async for _ in client.list(widgets, namespace):
            pytest.fail("there are no widgets yet")
        assert await client.resource_for(f"{group}/v1", "Widget") == widgets
        made = await client.create(widgets, {"metadata": {"name": "w"}}, namespace=namespace)
        assert made["kind"] == "Widget"
        with pytest.raises(errors.UnsupportedMediaType):
            await client.patch(widgets, "w", namespace=namespace, patch={}, kind="strategic")
    finally:
        await client.delete(CUSTOMRESOURCEDEFINITIONS, f"widgets.{group}")


async def test_version_and_raw_requests(client: KubeClient) -> None:
    assert (await client.version())["major"] == "1"
    assert await client.request("GET", "/readyz", accept="*/*") == b"ok"
