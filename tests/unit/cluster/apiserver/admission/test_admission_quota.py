"""ResourceQuota and its usage. The messages were read from kube-apiserver 1.37.1."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from corral.cluster.apiserver.admission.quotas.plugin import ResourceQuota
from corral.cluster.apiserver.admission.quotas.status import QuotaUsage
from corral.cluster.apiserver.admission.quotas.usage import counted, tracks
from corral.kube.errors import AlreadyExists, Forbidden


def quota(name, hard, *, used=None, **spec):
    obj = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name},
        "spec": {"hard": hard, **spec},
    }
    if used is not None:
        obj["status"] = {"hard": hard, "used": used}
    return obj


def config_map(name):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def service(name, kind="ClusterIP", *ports):
    listed = [{"name": f"p{p}", "port": p} for p in ports or (80,)]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"type": kind, "ports": listed},
    }


def res(requests=None, limits=None):
    return {"resources": {"requests": requests or {}, "limits": limits or {}}}


@pytest.fixture
def charged(world):
    world.plugins = [ResourceQuota(world.store)]
    return world


def used(world, name="q"):
    return world.stored("ResourceQuota", name)["status"]["used"]


async def refused(made) -> str:
    with pytest.raises(Forbidden) as error:
        await made
    return error.value.message


# -- admission -----------------------------------------------------------------------------


async def test_counts_are_charged_and_limited(charged):
    await charged.put(quota("q", {"configmaps": "2"}, used={"configmaps": "1"}))
    await charged.create(config_map("a"))
    assert used(charged) == {"configmaps": "2"}
    assert await refused(charged.create(config_map("b"))) == (
        'configmaps "b" is forbidden: exceeded quota: q, requested: configmaps=1, '
        "used: configmaps=2, limited: configmaps=2"
    )


async def test_racing_requests_cannot_pass_together(charged):
    await charged.put(quota("q", {"count/configmaps": "3"}, used={"count/configmaps": "0"}))
    done = await asyncio.gather(
        *(charged.create(config_map(f"c{n}")) for n in range(10)), return_exceptions=True
    )
    assert sum(isinstance(d, Forbidden) for d in done) == 7
    assert used(charged) == {"count/configmaps": "3"}
    assert charged.store.count("/configmaps") == 3


async def test_dry_runs_and_lost_writes_are_not_charged(charged):
    await charged.put(quota("q", {"configmaps": "2"}, used={"configmaps": "0"}))
    await charged.create(config_map("a"), dry_run=True)
    assert used(charged) == {"configmaps": "0"}
    await charged.create(config_map("a"))
    with pytest.raises(AlreadyExists):
        await charged.create(config_map("a"))
    assert used(charged) == {"configmaps": "1"}


async def test_all_quotas_must_have_room(charged):
    await charged.put(quota("a", {"configmaps": "5"}, used={"configmaps": "0"}))
    await charged.put(quota("b", {"configmaps": "0"}, used={"configmaps": "0"}))
    said = await refused(charged.create(config_map("x")))
    assert "exceeded quota: b, requested: configmaps=1" in said
    assert used(charged, "a") == {"configmaps": "0"}


async def test_quota_without_status(charged):
    await charged.put(quota("q", {"configmaps": "0"}))
    await charged.create(config_map("a"))
    unknown = quota("q", {"configmaps": "0"})
    unknown["status"] = {"hard": {"configmaps": "0"}}
    await charged.put(unknown)
    assert await refused(charged.create(config_map("b"))) == (
        'configmaps "b" is forbidden: status unknown for quota: q, resources: configmaps'
    )


async def test_pods_must_say_what_is_limited(charged, pod):
    hard = {"limits.memory": "1Gi", "requests.cpu": "1", "pods": "9"}
    await charged.put(quota("q", hard, used=dict.fromkeys(hard, "0")))
    spec = {"initContainers": [{"name": "i", "image": "x"}]}
    assert await refused(charged.create(pod("p", spec))) == (
        'pods "p" is forbidden: failed quota: q: must specify limits.memory for: c,i; '
        "requests.cpu for: c,i"
    )


async def test_sums_of_pods(charged, pod):
    hard = {"limits.memory": "1Gi", "requests.cpu": "1", "pods": "9"}
    await charged.put(quota("q", hard, used=dict.fromkeys(hard, "0")))
    one = res({"cpu": "600m"}, {"memory": "1000Mi"})
    await charged.create(pod("p", **one))
    assert used(charged) == {"limits.memory": "1000Mi", "requests.cpu": "600m", "pods": "1"}
    assert await refused(charged.create(pod("q", **one))) == (
        'pods "q" is forbidden: exceeded quota: q, requested: limits.memory=1000Mi,'
        "requests.cpu=600m, used: limits.memory=1000Mi,requests.cpu=600m, "
        "limited: limits.memory=1Gi,requests.cpu=1"
    )


@pytest.mark.parametrize(
    ("scopes", "counts", "ignores"),
    [
        ({"scopes": ["Terminating"]}, {"activeDeadlineSeconds": 5}, {}),
        ({"scopes": ["NotTerminating"]}, {}, {"activeDeadlineSeconds": 5}),
        ({"scopes": ["BestEffort"]}, {}, res({"cpu": "1"})),
        ({"scopes": ["NotBestEffort"]}, res({"cpu": "1"}), {}),
        (
            {
                "scopeSelector": {
                    "matchExpressions": [
                        {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
                    ]
                }
            },
            {"priorityClassName": "high"},
            {"priorityClassName": "low"},
        ),
        (
            {
                "scopeSelector": {
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "DoesNotExist"}]
                }
            },
            {},
            {"priorityClassName": "low"},
        ),
    ],
    ids=["terminating", "not terminating", "best effort", "not best effort", "class", "no class"],
)
async def test_scopes(charged, pod, scopes, counts, ignores):
    def make(name, given):
        if "resources" in given:
            return pod(name, **given)
        return pod(name, given)

    await charged.put(quota("q", {"pods": "1"}, used={"pods": "1"}, **scopes))
    await charged.create(make("free", ignores))
    assert "exceeded quota: q" in await refused(charged.create(make("full", counts)))


async def test_services_by_type(charged):
    hard = {"services": "5", "services.nodeports": "1", "services.loadbalancers": "0"}
    await charged.put(quota("q", hard, used=dict.fromkeys(hard, "0")))
    assert await refused(charged.create(service("n", "NodePort", 80, 81))) == (
        'services "n" is forbidden: exceeded quota: q, requested: services.nodeports=2, '
        "used: services.nodeports=0, limited: services.nodeports=1"
    )
    said = await refused(charged.create(service("b", "LoadBalancer", 80)))
    assert "requested: services.loadbalancers=1, used: services.loadbalancers=0" in said


async def test_update_is_charged_with_what_it_adds(charged):
    hard = {"services": "5", "services.nodeports": "1"}
    await charged.put(quota("q", hard, used={"services": "1", "services.nodeports": "0"}))
    plugin = charged.plugins[0]
    old = await charged.create(service("s"))
    request = charged.request("UPDATE", service("s", "NodePort", 80), old)
    await plugin.validate(request)
    assert used(charged) == {"services": "2", "services.nodeports": "1"}


async def test_charge_is_skipped_when_the_object_has_moved_on(charged):
    hard = {"services.nodeports": "9"}
    await charged.put(quota("q", hard, used={"services.nodeports": "0"}))
    old = await charged.create(service("s"))
    stale = {**old, "metadata": {**old["metadata"], "resourceVersion": "1"}}
    request = charged.request("UPDATE", service("s", "NodePort", 80), stale)
    await charged.plugins[0].validate(request)
    assert used(charged) == {"services.nodeports": "0"}


# -- what counts ---------------------------------------------------------------------------


def shown(table, obj):
    return {name: str(amount) for name, amount in counted(table, obj).usage.items()}


def test_usage_of_a_pod(pod):
    requests = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "2", "hugepages-2Mi": "4Mi"}
    limits = {"cpu": "2", "ephemeral-storage": "1Gi", "nvidia.com/gpu": "2"}
    assert shown("/pods", pod("p", **res(requests, limits))) == {
        "count/pods": "1",
        "pods": "1",
        "cpu": "1",
        "requests.cpu": "1",
        "memory": "1Gi",
        "requests.memory": "1Gi",
        "limits.cpu": "2",
        "limits.ephemeral-storage": "1Gi",
        "requests.nvidia.com/gpu": "2",
        "hugepages-2Mi": "4Mi",
        "requests.hugepages-2Mi": "4Mi",
    }


def test_finished_pods_are_only_counted(pod):
    done = {**pod("p", **res({"cpu": "1"})), "status": {"phase": "Succeeded"}}
    assert shown("/pods", done) == {"count/pods": "1"}


def test_usage_of_a_claim():
    claim = {
        "metadata": {"name": "c"},
        "spec": {"storageClassName": "gold", "resources": {"requests": {"storage": "0.5Gi"}}},
        "status": {"allocatedResources": {"storage": "1Gi"}},
    }
    prefix = "gold.storageclass.storage.k8s.io/"
    assert shown("/persistentvolumeclaims", claim) == {
        "persistentvolumeclaims": "1",
        "count/persistentvolumeclaims": "1",
        f"{prefix}persistentvolumeclaims": "1",
        "requests.storage": "1Gi",
        f"{prefix}requests.storage": "1Gi",
    }


@pytest.mark.parametrize(
    ("table", "name", "yes"),
    [
        ("/pods", "requests.nvidia.com/gpu", True),
        ("/pods", "requests.storage", False),
        ("/pods", "limits.cpu", True),
        ("/persistentvolumeclaims", "x.storageclass.storage.k8s.io/requests.storage", True),
        ("/secrets", "secrets", True),
        ("apps/deployments", "count/deployments.apps", True),
        ("apps/deployments", "count/deployments", False),
        ("example.com/widgets", "count/widgets.example.com", True),
    ],
)
def test_names_of_a_table(table, name, yes):
    assert tracks(table, [name]) == ([name] if yes else [])


# -- the controller ------------------------------------------------------------------------


async def settled(world, name, expected):
    """Wait until a quota shows this usage."""
    changed = asyncio.Event()
    world.store.listen(lambda event: changed.set())
    async with asyncio.timeout(5):
        while world.stored("ResourceQuota", name).get("status", {}).get("used") != expected:
            await changed.wait()
            changed.clear()


async def test_usage_follows_the_store(charged, pod):
    usage = QuotaUsage(charged.store)
    usage.start()
    try:
        await charged.create(config_map("before"))
        hard = {"configmaps": "5", "pods": "5", "count/jobs.batch": "1", "requests.cpu": "9"}
        await charged.create(quota("q", hard))
        zero = {"configmaps": "1", "pods": "0", "count/jobs.batch": "0", "requests.cpu": "0"}
        await settled(charged, "q", zero)
        assert charged.stored("ResourceQuota", "q")["status"]["hard"] == hard
        await charged.create(pod("p", **res({"cpu": "2"})))
        await settled(charged, "q", {**zero, "pods": "1", "requests.cpu": "2"})
        live = charged.stored("Pod", "p")
        await charged.put({**live, "status": {"phase": "Succeeded"}})
        await settled(charged, "q", zero)
        await charged.delete(config_map("before"))
        await settled(charged, "q", {**zero, "configmaps": "0"})
        changed = quota("q", {"configmaps": "7"})
        await charged.update(changed)
        await settled(charged, "q", {"configmaps": "0"})
    finally:
        await usage.stop()


async def test_usage_is_counted_at_start_and_by_scope(world, pod):
    await world.put(pod("a", {"activeDeadlineSeconds": 3}))
    await world.put(pod("b"))
    await world.put(quota("q", {"pods": "5"}, used={"pods": "4"}, scopes=["Terminating"]))
    usage = QuotaUsage(world.store)
    usage.start()
    try:
        await settled(world, "q", {"pods": "1"})
    finally:
        await usage.stop()


async def test_pods_past_their_grace_period_are_free(world, pod):
    dying = pod("a")
    dying["metadata"] |= {
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 30,
    }
    await world.put(dying)
    await world.put(quota("q", {"pods": "5", "count/pods": "5"}))
    late = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    usage = QuotaUsage(world.store, clock=lambda: late)
    usage.start()
    try:
        await settled(world, "q", {"pods": "0", "count/pods": "1"})
    finally:
        await usage.stop()
