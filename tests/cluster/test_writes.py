"""Concurrent writers, generated names, dry runs, evictions, bindings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from corral.kube import ClientSettings, KubeClient, Obj, errors
from corral.kube.resources import CONFIGMAPS, PODDISRUPTIONBUDGETS, PODS
from tests.backends import Backend


@pytest.fixture
async def client(kubeconfig: str) -> AsyncIterator[KubeClient]:
    settings = ClientSettings(max_retries=0)
    async with KubeClient.from_kubeconfig(kubeconfig, settings=settings) as client:
        yield client


def config_map(name: str, **data: str) -> Obj:
    return {"metadata": {"name": name}, "data": data}


def pod(name: str, **spec: Any) -> Obj:
    container = {"name": "main", "image": "example.test/a:1"}
    return {
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [container]} | spec,
    }


# -- concurrency ----------------------------------------------------------------------------------


async def test_of_many_writers_of_one_version_one_wins(client: KubeClient, namespace: str) -> None:
    made = await client.create(CONFIGMAPS, config_map("a"), namespace=namespace)

    async def write(n: int) -> int:
        try:
            await client.replace(CONFIGMAPS, {**made, "data": {"writer": str(n)}})
        except errors.Conflict as err:
            assert err.message == (
                'Operation cannot be fulfilled on configmaps "a": the object has been modified; '
                "please apply your changes to the latest version and try again"
            )
            return 0
        return 1

    outcomes = await asyncio.gather(*(write(n) for n in range(8)))
    assert sum(outcomes) == 1
    read = await client.get(CONFIGMAPS, "a", namespace=namespace)
    assert read["data"]["writer"] == str(outcomes.index(1))


async def test_concurrent_patches_are_all_applied(client: KubeClient, namespace: str) -> None:
    await client.create(CONFIGMAPS, config_map("a"), namespace=namespace)
    patched = await asyncio.gather(
        *(
            client.patch(CONFIGMAPS, "a", patch={"data": {f"k{n}": str(n)}}, namespace=namespace)
            for n in range(20)
        )
    )
    read = await client.get(CONFIGMAPS, "a", namespace=namespace)
    assert read["data"] == {f"k{n}": str(n) for n in range(20)}
    assert len({p["metadata"]["resourceVersion"] for p in patched}) == 20


async def test_of_many_creators_one_wins(client: KubeClient, namespace: str) -> None:
    outcomes = await asyncio.gather(
        *(
            client.create(CONFIGMAPS, config_map("a", n=str(n)), namespace=namespace)
            for n in range(8)
        ),
        return_exceptions=True,
    )
    made = [o for o in outcomes if isinstance(o, dict)]
    assert len(made) == 1
    assert all(isinstance(o, (dict, errors.AlreadyExists)) for o in outcomes)


async def test_generated_names_are_all_different(client: KubeClient, namespace: str) -> None:
    made = await asyncio.gather(
        *(
            client.create(CONFIGMAPS, {"metadata": {"generateName": "g-"}}, namespace=namespace)
            for _ in range(30)
        )
    )
    names = {m["metadata"]["name"] for m in made}
    assert len(names) == 30
    assert all(len(n) == 7 and set(n[2:]) <= set("bcdfghjklmnpqrstvwxz2456789") for n in names)
    assert {m["metadata"]["generateName"] for m in made} == {"g-"}


async def test_long_generated_names_are_cut(client: KubeClient, namespace: str) -> None:
    base = "x" * 80
    made = await client.create(
        CONFIGMAPS, {"metadata": {"generateName": base}}, namespace=namespace
    )
    assert len(made["metadata"]["name"]) == 63 and made["metadata"]["name"].startswith("x" * 58)


async def test_write_that_changes_nothing_keeps_the_version(
    client: KubeClient, namespace: str
) -> None:
    made = await client.create(CONFIGMAPS, config_map("a", x="1"), namespace=namespace)
    same = await client.patch(CONFIGMAPS, "a", patch={"data": {"x": "1"}}, namespace=namespace)
    assert same["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_create_with_a_version_is_refused(client: KubeClient, namespace: str) -> None:
    obj = config_map("a")
    obj["metadata"]["resourceVersion"] = "5"
    with pytest.raises(errors.ApiError) as caught:
        await client.create(CONFIGMAPS, obj, namespace=namespace)
    assert caught.value.status_code == 500
    assert caught.value.message == "resourceVersion should not be set on objects to be created"


async def test_update_of_another_uid_is_a_conflict(client: KubeClient, namespace: str) -> None:
    made = await client.create(CONFIGMAPS, config_map("a"), namespace=namespace)
    uid = made["metadata"]["uid"]
    other = "11111111-2222-3333-4444-555555555555"
    made["metadata"]["uid"] = other
    with pytest.raises(errors.Conflict) as caught:
        await client.replace(CONFIGMAPS, made)
    assert f"UID in precondition: {other}, UID in object meta: {uid}" in caught.value.message


async def test_replace_of_nothing(client: KubeClient, namespace: str) -> None:
    with pytest.raises(errors.NotFound):
        await client.replace(CONFIGMAPS, config_map("ghost"), namespace=namespace)


# -- dry run --------------------------------------------------------------------------------------


async def test_dry_runs_change_nothing(client: KubeClient, namespace: str) -> None:
    where = {"namespace": namespace}
    made = await client.create(CONFIGMAPS, config_map("new"), dry_run=True, **where)
    assert made["metadata"]["uid"] and "resourceVersion" not in made["metadata"]
    with pytest.raises(errors.NotFound):
        await client.get(CONFIGMAPS, "new", **where)
    live = await client.create(CONFIGMAPS, config_map("a", x="1"), **where)
    patched = await client.patch(CONFIGMAPS, "a", patch={"data": {"x": "2"}}, dry_run=True, **where)
    assert patched["data"] == {"x": "2"}
    assert patched["metadata"]["resourceVersion"] == live["metadata"]["resourceVersion"]
    await client.delete(CONFIGMAPS, "a", dry_run=True, **where)
    assert await client.get(CONFIGMAPS, "a", **where) == live


async def test_dry_run_is_validated_too(client: KubeClient, namespace: str) -> None:
    with pytest.raises(errors.Invalid):
        await client.create(CONFIGMAPS, config_map("Bad Name"), namespace=namespace, dry_run=True)
    path = f"/api/v1/namespaces/{namespace}/configmaps?dryRun=Some"
    with pytest.raises(errors.Invalid) as caught:
        await client.request("POST", path, body=config_map("a"))
    assert 'dryRun: Unsupported value: ["Some"]' in caught.value.message


# -- evictions ------------------------------------------------------------------------------------


async def evict(client: KubeClient, namespace: str, name: str, **options: Any) -> Obj:
    body = {
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace}, **options,
    }  # fmt: skip
    return await client.create_subresource(
        PODS, name, subresource="eviction", body=body, namespace=namespace
    )


async def budget(client: KubeClient, backend: Backend, namespace: str) -> None:
    """Two of three pods must stay. Its status is the work of a controller that clusters have."""
    spec = {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 2}
    made = await client.create(
        PODDISRUPTIONBUDGETS, {"metadata": {"name": "b"}, "spec": spec}, namespace=namespace
    )
    status = {
        "observedGeneration": made["metadata"]["generation"], "disruptionsAllowed": 1,
        "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3,
    }  # fmt: skip
    if backend.name == "embedded":
        await client.patch(
            PODDISRUPTIONBUDGETS, "b", patch={"status": status}, subresource="status",
            namespace=namespace,
        )  # fmt: skip
    async with asyncio.timeout(20):
        while not await _budget_says(client, namespace, status):  # noqa: ASYNC110 -- polls a server
            await asyncio.sleep(0.02)


async def _budget_says(client: KubeClient, namespace: str, wanted: Obj) -> bool:
    status = (await client.get(PODDISRUPTIONBUDGETS, "b", namespace=namespace))["status"]
    return all(status.get(key) == value for key, value in wanted.items())


async def running(client: KubeClient, namespace: str, name: str) -> None:
    await client.create(PODS, pod(name), namespace=namespace)
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await client.patch(
        PODS, name, patch={"status": status}, subresource="status", namespace=namespace
    )


async def test_eviction_spends_the_budget(
    client: KubeClient, backend: Backend, namespace: str
) -> None:
    for name in ("p1", "p2", "p3"):
        await running(client, namespace, name)
    await budget(client, backend, namespace)
    answer = await evict(client, namespace, "p1", deleteOptions={"gracePeriodSeconds": 0})
    assert answer["status"] == "Success"
    with pytest.raises(errors.NotFound):
        await client.get(PODS, "p1", namespace=namespace)
    with pytest.raises(errors.TooManyRequests) as caught:
        await client.transport.request(
            "POST", f"/api/v1/namespaces/{namespace}/pods/p2/eviction",
            body=orjson.dumps({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p2"}}),  # noqa: E501
        )  # fmt: skip
    assert caught.value.message == (
        "Cannot evict pod as it would violate the pod's disruption budget."
    )
    (cause,) = caught.value.details["causes"]
    assert cause["reason"] == "DisruptionBudget"
    # the first until the budget has been counted anew
    assert cause["message"] in (
        "The disruption budget b does not allow evicting pods currently",
        "The disruption budget b needs 2 healthy pods and has 2 currently",
    )
    assert await client.get(PODS, "p2", namespace=namespace)


async def test_eviction_without_a_budget_deletes(client: KubeClient, namespace: str) -> None:
    await client.create(PODS, pod("p"), namespace=namespace)
    answer = await evict(client, namespace, "p", deleteOptions={"gracePeriodSeconds": 0})
    assert answer["status"] == "Success"
    with pytest.raises(errors.NotFound):
        await client.get(PODS, "p", namespace=namespace)


async def test_eviction_dry_run(client: KubeClient, namespace: str) -> None:
    await client.create(PODS, pod("p"), namespace=namespace)
    await evict(client, namespace, "p", deleteOptions={"dryRun": ["All"]})
    assert await client.get(PODS, "p", namespace=namespace)


async def test_eviction_of_nobody(client: KubeClient, namespace: str) -> None:
    with pytest.raises(errors.NotFound) as caught:
        await evict(client, namespace, "ghost")
    assert caught.value.message == 'pods "ghost" not found'


async def test_two_budgets_for_one_pod(client: KubeClient, namespace: str) -> None:
    await running(client, namespace, "p")
    selector = {"matchLabels": {"app": "web"}}
    for name in ("b1", "b2"):
        await client.create(
            PODDISRUPTIONBUDGETS,
            {"metadata": {"name": name}, "spec": {"selector": selector, "minAvailable": 1}},
            namespace=namespace,
        )

    async def refused() -> errors.ApiError:
        with pytest.raises(errors.ApiError) as caught:
            await evict(client, namespace, "p")
        return caught.value

    err = await refused()
    assert err.status_code == 500
    assert "This pod has more than one PodDisruptionBudget" in err.message


# -- bindings --------------------------------------------------------------------------------


async def bind(client: KubeClient, namespace: str, name: str, node: str) -> Obj:
    body = {
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }  # fmt: skip
    return await client.create_subresource(
        PODS, name, subresource="binding", body=body, namespace=namespace
    )


async def test_binding_puts_a_pod_on_a_node_once(client: KubeClient, namespace: str) -> None:
    # a name that no scheduler answers to: it would have an opinion of its own about this pod
    await client.create(PODS, pod("p", schedulerName="nobody"), namespace=namespace)
    answer = await bind(client, namespace, "p", "n1")
    assert answer["kind"] == "Status" and answer["status"] == "Success"
    assert answer["code"] == 201
    bound = await client.get(PODS, "p", namespace=namespace)
    assert bound["spec"]["nodeName"] == "n1"
    scheduled = [c for c in bound["status"]["conditions"] if c["type"] == "PodScheduled"]
    assert [c["status"] for c in scheduled] == ["True"]
    with pytest.raises(errors.Conflict) as caught:
        await bind(client, namespace, "p", "n2")
    assert "pod p is already assigned to node" in caught.value.message


async def test_binding_waits_for_scheduling_gates(client: KubeClient, namespace: str) -> None:
    gates = [{"name": "example.test/wait"}]
    await client.create(PODS, pod("p", schedulingGates=gates), namespace=namespace)
    with pytest.raises(errors.Conflict) as caught:
        await bind(client, namespace, "p", "n1")
    assert "pod p has non-empty .spec.schedulingGates" in caught.value.message
    await client.patch(PODS, "p", patch={"spec": {"schedulingGates": []}}, namespace=namespace)
    assert (await bind(client, namespace, "p", "n1"))["status"] == "Success"


async def test_binding_to_something_else(client: KubeClient, namespace: str) -> None:
    await client.create(PODS, pod("p"), namespace=namespace)
    with pytest.raises(errors.ApiError) as caught:
        await bind(client, namespace, "p", "")
    assert caught.value.status_code == 500
    assert caught.value.message == "target.name: Required value"


# -- pods and grace ---------------------------------------------------------------------------


async def test_pod_that_runs_has_a_grace_period(client: KubeClient, namespace: str) -> None:
    await client.create(
        PODS, pod("p", nodeName="n1", terminationGracePeriodSeconds=20), namespace=namespace
    )
    going = await client.delete(PODS, "p", namespace=namespace)
    assert going["metadata"]["deletionGracePeriodSeconds"] == 20
    shorter = await client.delete(PODS, "p", namespace=namespace, grace_seconds=5)
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 5
    longer = await client.delete(PODS, "p", namespace=namespace, grace_seconds=60)
    assert longer["metadata"]["deletionGracePeriodSeconds"] == 5
    await client.delete(PODS, "p", namespace=namespace, grace_seconds=0)
    with pytest.raises(errors.NotFound):
        await client.get(PODS, "p", namespace=namespace)


async def test_pod_that_nobody_runs_goes_at_once(client: KubeClient, namespace: str) -> None:
    await client.create(PODS, pod("p"), namespace=namespace)
    await client.delete(PODS, "p", namespace=namespace)
    with pytest.raises(errors.NotFound):
        await client.get(PODS, "p", namespace=namespace)
