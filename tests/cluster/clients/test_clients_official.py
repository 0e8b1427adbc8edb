"""The official Python client: typed, custom objects, watch, patches, apply, leader election."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from kubernetes import client, watch
from kubernetes.aio import client as aio_client
from kubernetes.aio import watch as aio_watch
from kubernetes.client.rest import ApiException
from kubernetes.informer import SharedInformer
from kubernetes.leaderelection.electionconfig import Config
from kubernetes.leaderelection.leaderelection import LeaderElection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

from tests.cluster import manifests
from tests.cluster.objects import Objects, contains, eventually


def config_map(name: str, **data: str) -> Any:
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels={"a": "b"}), data=data)


def test_core(official: Any, namespace: str) -> None:
    core = client.CoreV1Api(official)
    made = core.create_namespaced_config_map(namespace, config_map("a", x="1"))
    assert made.metadata.uid and made.metadata.creation_timestamp.tzinfo is not None
    made.data["x"] = "2"
    replaced = core.replace_namespaced_config_map("a", namespace, made)
    assert replaced.data == {"x": "2"}
    with pytest.raises(ApiException) as stale:
        core.replace_namespaced_config_map("a", namespace, made)
    assert (stale.value.status, stale.value.reason) == (409, "Conflict")
    listed = core.list_namespaced_config_map(namespace, label_selector="a=b")
    assert [item.metadata.name for item in listed.items] == ["a"]
    core.delete_collection_namespaced_config_map(namespace, label_selector="a=b")
    with pytest.raises(ApiException) as gone:
        core.read_namespaced_config_map("a", namespace)
    assert gone.value.status == 404


def test_pages(official: Any, namespace: str) -> None:
    core = client.CoreV1Api(official)
    for number in range(5):
        core.create_namespaced_config_map(namespace, config_map(f"n{number}"))
    first = core.list_namespaced_config_map(namespace, limit=2)
    assert first.metadata.remaining_item_count == 4  # kube-root-ca.crt is one
    names, token = [item.metadata.name for item in first.items], first.metadata._continue
    core.create_namespaced_config_map(namespace, config_map("n9"))
    while token:
        page = core.list_namespaced_config_map(namespace, limit=2, _continue=token)
        # All pages show the moment of the first one.
        assert page.metadata.resource_version == first.metadata.resource_version
        names += [item.metadata.name for item in page.items]
        token = page.metadata._continue
    assert names == ["kube-root-ca.crt", "n0", "n1", "n2", "n3", "n4"]


def test_apps_and_batch(official: Any, namespace: str) -> None:
    apps, batch = client.AppsV1Api(official), client.BatchV1Api(official)
    apps.create_namespaced_deployment(namespace, manifests.deployment())
    scale = apps.read_namespaced_deployment_scale("web", namespace)
    assert scale.status.selector == "app=web"
    scale.spec.replicas = 1
    scale.metadata.resource_version = None
    apps.replace_namespaced_deployment_scale("web", namespace, scale)
    assert apps.read_namespaced_deployment("web", namespace).spec.replicas == 1
    job = manifests.obj("batch/v1", "Job", "j", spec={
        "suspend": True,
        "template": {"spec": manifests.pod_template("j")["spec"] | {"restartPolicy": "Never"}},
    })  # fmt: skip
    made = batch.create_namespaced_job(namespace, job)
    assert (
        made.spec.selector.match_labels["batch.kubernetes.io/controller-uid"] == made.metadata.uid
    )
    status = {"status": {"active": 3}}
    patched = batch.patch_namespaced_job_status("j", namespace, status)
    assert patched.spec.suspend is True
    batch.delete_namespaced_job("j", namespace, propagation_policy="Background")
    assert eventually(lambda: not batch.list_namespaced_job(namespace).items)


def test_dry_run(official: Any, namespace: str) -> None:
    core = client.CoreV1Api(official)
    made = core.create_namespaced_config_map(namespace, config_map("a"), dry_run="All")
    assert made.metadata.uid
    with pytest.raises(ApiException) as missing:
        core.read_namespaced_config_map("a", namespace)
    assert missing.value.status == 404


def test_strict_validation(official: Any, namespace: str, group: str) -> None:
    custom = client.CustomObjectsApi(official)
    with pytest.raises(ApiException) as refused:
        custom.create_namespaced_custom_object(
            group, "v1", namespace, "widgets", manifests.widget(group, size=1, weight=2),
            field_validation="Strict",
        )  # fmt: skip
    assert refused.value.status == 400
    assert 'unknown field \\"spec.weight\\"' in refused.value.body


PATCHES: dict[str, tuple[Any, dict[str, str]]] = {
    "application/json-patch+json": (
        [{"op": "add", "path": "/data/y", "value": "2"}],
        {"x": "1", "y": "2"},
    ),
    "application/merge-patch+json": ({"data": {"x": None, "y": "2"}}, {"y": "2"}),
    "application/strategic-merge-patch+json": ({"data": {"y": "2"}}, {"x": "1", "y": "2"}),
}


@pytest.mark.parametrize("content_type", PATCHES)
def test_patches(official: Any, namespace: str, content_type: str) -> None:
    core = client.CoreV1Api(official)
    core.create_namespaced_config_map(namespace, config_map("a", x="1"))
    body, expected = PATCHES[content_type]
    patched = core.patch_namespaced_config_map("a", namespace, body, _content_type=content_type)
    assert patched.data == expected


def apply(core: Any, namespace: str, manager: str, *, force: bool = False, **data: str) -> Any:
    return core.patch_namespaced_config_map(
        "a", namespace, manifests.configmap("a", **data), field_manager=manager, force=force,
        _content_type="application/apply-patch+yaml",
    )  # fmt: skip


def test_server_side_apply(official: Any, namespace: str) -> None:
    core = client.CoreV1Api(official)
    made = apply(core, namespace, "one", x="1", y="1")
    (entry,) = made.metadata.managed_fields
    assert (entry.manager, entry.operation) == ("one", "Apply")
    apply(core, namespace, "two", z="1")
    with pytest.raises(ApiException) as refused:
        apply(core, namespace, "two", x="2")
    assert refused.value.status == 409 and "FieldManagerConflict" in refused.value.body
    forced = apply(core, namespace, "two", force=True, x="2")
    assert forced.data == {"x": "2", "y": "1"}


def test_custom_objects(official: Any, namespace: str, group: str) -> None:
    custom = client.CustomObjectsApi(official)
    where = (group, "v1", namespace, "widgets")
    made = custom.create_namespaced_custom_object(*where, manifests.widget(group, size=2))
    assert made["spec"] == {"size": 2, "colour": "red"}
    custom.patch_namespaced_custom_object_status(*where, "w", {"status": {"phase": "Made"}})
    listed = custom.list_namespaced_custom_object(*where)
    assert listed["kind"] == "WidgetList"
    assert contains(listed["items"], [{"spec": {"size": 2}, "status": {"phase": "Made"}}])
    custom.patch_namespaced_custom_object_scale(*where, "w", {"spec": {"replicas": 7}})
    assert custom.get_namespaced_custom_object(*where, "w")["spec"]["replicas"] == 7
    with pytest.raises(ApiException) as refused:
        custom.patch_namespaced_custom_object(*where, "w", {"spec": {"size": 0}})
    assert refused.value.status == 422
    custom.delete_namespaced_custom_object(*where, "w")
    assert custom.list_cluster_custom_object(group, "v1", "widgets")["items"] == []


def test_watch_resumes(official: Any, namespace: str) -> None:
    core = client.CoreV1Api(official)
    start = core.list_namespaced_config_map(namespace).metadata.resource_version
    for name in ("a", "b"):
        core.create_namespaced_config_map(namespace, config_map(name))
    core.patch_namespaced_config_map("a", namespace, {"data": {"x": "1"}})
    core.delete_namespaced_config_map("b", namespace)
    seen = follow(core, namespace, start, count=4)
    assert [(kind, name) for kind, name, _ in seen] == [
        ("ADDED", "a"),
        ("ADDED", "b"),
        ("MODIFIED", "a"),
        ("DELETED", "b"),
    ]
    versions = [int(version) for _, _, version in seen]
    assert versions == sorted(versions)
    assert follow(core, namespace, seen[1][2], count=2) == seen[2:]


def follow(core: Any, namespace: str, start: str, *, count: int) -> list[tuple[str, str, str]]:
    seen = []
    watching = watch.Watch()
    for event in watching.stream(
        core.list_namespaced_config_map, namespace, resource_version=start, timeout_seconds=20
    ):
        metadata = event["object"].metadata
        seen.append((event["type"], metadata.name, metadata.resource_version))
        if len(seen) == count:
            watching.stop()
    return seen


def test_watch_from_too_long_ago(official: Any, namespace: str, group: str) -> None:
    custom = client.CustomObjectsApi(official)
    custom.create_namespaced_custom_object(
        group, "v1", namespace, "widgets", manifests.widget(group, size=1)
    )
    with pytest.raises(ApiException) as gone:
        next(
            watch.Watch().stream(
                custom.list_namespaced_custom_object, group, "v1", namespace, "widgets",
                resource_version="1", timeout_seconds=20,
            )
        )  # fmt: skip
    assert gone.value.status == 410 and "too old resource version: 1" in gone.value.reason


def test_informer(official: Any, namespace: str, objects: Objects) -> None:
    core = client.CoreV1Api(official)
    objects.create("configmaps", manifests.configmap("before", {"i": "1"}))
    informer = SharedInformer(
        core.list_namespaced_config_map, namespace=namespace, label_selector="i=1"
    )
    informer.start()
    try:
        eventually(lambda: informer.cache.get_by_key(f"{namespace}/before"))
        objects.create("configmaps", manifests.configmap("after", {"i": "1"}))
        eventually(lambda: informer.cache.get_by_key(f"{namespace}/after"))
        objects.delete("v1", "configmaps", "before")
        eventually(lambda: informer.cache.list_keys() == [f"{namespace}/after"])
    finally:
        informer.stop()


def candidate(official: Any, namespace: str, name: str, started: Any, stopped: Any) -> Config:
    lock = LeaseLock("leader", namespace, name)
    lock.api_instance = client.CoordinationV1Api(official)
    config = Config(lock, 3, 2, 1, started, stopped)
    # The constructor takes no shorter times.
    config.lease_duration, config.renew_deadline, config.retry_period = 1, 0.6, 0.1
    return config


def test_leader_election(official: Any, namespace: str, objects: Objects) -> None:
    leading, resign, stopped = threading.Event(), threading.Event(), threading.Event()

    def lead() -> None:
        leading.set()
        resign.wait(30)
        raise RuntimeError("resigned")

    first = LeaderElection(candidate(official, namespace, "first", lead, stopped.set))
    running = threading.Thread(target=first.run, daemon=True)
    running.start()
    assert leading.wait(30)
    second = LeaderElection(candidate(official, namespace, "second", lead, None))
    assert second.try_acquire_or_renew() in (False, None)
    assert (
        objects.get("coordination.k8s.io/v1", "leases", "leader")["spec"]["holderIdentity"]
        == "first"
    )
    resign.set()
    assert stopped.wait(30)
    running.join(30)
    assert eventually(second.try_acquire_or_renew)
    lease = objects.get("coordination.k8s.io/v1", "leases", "leader")
    assert lease["spec"]["holderIdentity"] == "second"


def test_reviews_and_tokens(official: Any, namespace: str) -> None:
    asked = client.V1SelfSubjectAccessReview(spec=client.V1SelfSubjectAccessReviewSpec(
        resource_attributes=client.V1ResourceAttributes(verb="get", resource="pods")
    ))  # fmt: skip
    answer = client.AuthorizationV1Api(official).create_self_subject_access_review(asked)
    assert answer.status.allowed is True
    request = client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[]))
    core = client.CoreV1Api(official)
    token = core.create_namespaced_service_account_token("default", namespace, request)
    review = client.V1TokenReview(spec=client.V1TokenReviewSpec(token=token.status.token))
    reviewed = client.AuthenticationV1Api(official).create_token_review(review)
    assert reviewed.status.authenticated is True
    assert reviewed.status.user.username == f"system:serviceaccount:{namespace}:default"


async def test_async(official_async: Any, namespace: str) -> None:
    core = aio_client.CoreV1Api(official_async)
    body = manifests.configmap("a", {"a": "b"}, x="1")
    made = await core.create_namespaced_config_map(namespace, body)
    start = made.metadata.resource_version
    patched = await core.patch_namespaced_config_map("a", namespace, {"data": {"x": "2"}})
    assert patched.data == {"x": "2"}
    await core.delete_namespaced_config_map("a", namespace)
    async with aio_watch.Watch() as watching:
        seen = []
        async for event in watching.stream(
            core.list_namespaced_config_map, namespace, resource_version=start, timeout_seconds=20
        ):
            seen.append(event["type"])
            if len(seen) == 2:
                break
    assert seen == ["MODIFIED", "DELETED"]
    with pytest.raises(aio_client.ApiException) as gone:
        await core.read_namespaced_config_map("a", namespace)
    assert gone.value.status == 404
