"""Service accounts, priorities, tolerations, taints, runtime classes, resizing, topology."""

from __future__ import annotations

import asyncio
import random

import pytest

from corral.cluster.apiserver.admission.accounts import TOKEN_PATH, ServiceAccounts
from corral.cluster.apiserver.admission.nodes import TopologyLabels
from corral.cluster.apiserver.admission.pods import (
    DefaultTolerations,
    NodeTaints,
    PodResize,
    RuntimeClasses,
)
from corral.cluster.apiserver.admission.priority import Priority
from corral.kube.errors import Forbidden

MIRROR = {"annotations": {"kubernetes.io/config.mirror": "x"}}


def account(name="default", **more):
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}, **more}


async def message(made) -> str:
    with pytest.raises(Forbidden) as refused:
        await made
    return refused.value.message


# -- service accounts ----------------------------------------------------------------------


@pytest.fixture
async def accounts(world):
    world.plugins = [ServiceAccounts(world.store, rng=random.Random(1), attempts=1)]
    await world.put(account())
    return world


async def test_default_account_and_token_volume(accounts, pod):
    made = await accounts.create(pod("p", {"initContainers": [{"name": "i", "image": "x"}]}))
    spec = made["spec"]
    assert spec["serviceAccountName"] == spec["serviceAccount"] == "default"
    (volume,) = spec["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    assert len(volume["name"]) == len("kube-api-access-") + 5
    assert volume["projected"] == {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {
                "configMap": {
                    "name": "kube-root-ca.crt",
                    "items": [{"key": "ca.crt", "path": "ca.crt"}],
                }
            },
            {
                "downwardAPI": {
                    "items": [
                        {
                            "path": "namespace",
                            "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                        }
                    ]
                }
            },
        ],
        "defaultMode": 420,
    }
    mount = {"name": volume["name"], "readOnly": True, "mountPath": TOKEN_PATH}
    assert spec["containers"][0]["volumeMounts"] == [mount]
    assert spec["initContainers"][0]["volumeMounts"] == [mount]


async def test_own_mount_at_the_path_is_kept(accounts, pod):
    mounts = [{"name": "a", "mountPath": TOKEN_PATH}]
    volumes = [{"name": "a", "emptyDir": {}}]
    made = await accounts.create(pod("p", {"volumes": volumes}, volumeMounts=mounts))
    assert [v["name"] for v in made["spec"]["volumes"]] == ["a"]


@pytest.mark.parametrize(
    ("of_account", "of_pod", "mounted"),
    [(None, None, True), (False, None, False), (False, True, True), (True, False, False)],
)
async def test_automount(accounts, pod, of_account, of_pod, mounted):
    extra = {} if of_account is None else {"automountServiceAccountToken": of_account}
    await accounts.put(account("robot", **extra))
    spec = {"serviceAccountName": "robot"}
    if of_pod is not None:
        spec["automountServiceAccountToken"] = of_pod
    made = await accounts.create(pod("p", spec))
    assert ("volumes" in made["spec"]) is mounted


async def test_pull_secrets_of_the_account(accounts, pod):
    await accounts.put(account("robot", imagePullSecrets=[{"name": "a"}, {"name": "b"}]))
    made = await accounts.create(pod("p", {"serviceAccountName": "robot"}))
    assert made["spec"]["imagePullSecrets"] == [{"name": "a"}, {"name": "b"}]
    own = {"serviceAccountName": "robot", "imagePullSecrets": [{"name": "c"}]}
    made = await accounts.create(pod("q", own))
    assert made["spec"]["imagePullSecrets"] == [{"name": "c"}]


async def test_missing_account(accounts, pod):
    spec = {"serviceAccountName": "nope"}
    why = 'error looking up service account team/nope: serviceaccount "nope" not found'
    said = await message(accounts.create(pod("p", spec)))
    assert said == f'pods "p" is forbidden: {why}'
    generated = pod("p", spec)
    generated["metadata"] = {"generateName": "web-"}
    said = await message(accounts.create(generated))
    assert said == f'pods "web-" is forbidden: {why}'


async def test_default_account_is_waited_for(world, pod):
    world.plugins = [ServiceAccounts(world.store, attempts=100_000, interval=0)]
    creating = asyncio.create_task(world.create(pod("p")))
    await asyncio.sleep(0)
    assert not creating.done()
    await world.put(account())
    made = await creating
    assert made["spec"]["serviceAccountName"] == "default"


STRICT = {"kubernetes.io/enforce-mountable-secrets": "true"}


@pytest.mark.parametrize(
    ("spec", "container", "why"),
    [
        (
            {"volumes": [{"name": "s", "secret": {"secretName": "x"}}]},
            {},
            'volume with secret.secretName="x" is not allowed because service account strict does '
            "not reference that secret",
        ),
        (
            {},
            {"env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": "x", "key": "k"}}}]},
            'container c with envVar E referencing secret.secretName="x" is not allowed because '
            "service account strict does not reference that secret",
        ),
        (
            {},
            {"envFrom": [{"secretRef": {"name": "x"}}]},
            'container c with envFrom referencing secret.secretName="x" is not allowed because '
            "service account strict does not reference that secret",
        ),
        (
            {"imagePullSecrets": [{"name": "z"}]},
            {},
            'imagePullSecrets[0].name="z" is not allowed because service account strict does not '
            "reference that imagePullSecret",
        ),
    ],
    ids=["volume", "env", "envFrom", "pull secret"],
)
async def test_accounts_that_limit_secrets(accounts, pod, spec, container, why):
    strict = account("strict", secrets=[{"name": "mine"}])
    strict["metadata"]["annotations"] = STRICT
    await accounts.put(strict)
    obj = pod("p", {"serviceAccountName": "strict", **spec}, **container)
    assert await message(accounts.create(obj)) == f'pods "p" is forbidden: {why}'
    allowed = {"volumes": [{"name": "s", "secret": {"secretName": "mine"}}]}
    await accounts.create(pod("q", {"serviceAccountName": "strict", **allowed}))


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"serviceAccountName": "default"}, "a mirror pod may not reference service accounts"),
        (
            {"volumes": [{"name": "s", "secret": {"secretName": "x"}}]},
            "a mirror pod may not reference secrets",
        ),
        (
            {
                "volumes": [
                    {
                        "name": "t",
                        "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]},
                    }
                ]
            },
            "a mirror pod may not use ServiceAccountToken volume projections",
        ),
    ],
    ids=["account", "secret", "token"],
)
async def test_mirror_pods(accounts, pod, spec, why):
    obj = pod("p", {"nodeName": "n", **spec}, meta=MIRROR)
    assert await message(accounts.create(obj)) == f'pods "p" is forbidden: {why}'
    made = await accounts.create(pod("q", {"nodeName": "n"}, meta=MIRROR))
    assert "serviceAccountName" not in made["spec"]


# -- priority ------------------------------------------------------------------------------


def priority_class(name, value, **more):
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return {**kind, "metadata": {"name": name}, "value": value, **more}


@pytest.fixture
def prioritised(world):
    world.plugins = [Priority(world.store)]
    return world


def chosen(made):
    spec = made["spec"]
    return spec.get("priorityClassName"), spec["priority"], spec["preemptionPolicy"]


async def test_priority_without_classes(prioritised, pod):
    made = await prioritised.create(pod("p"))
    assert chosen(made) == (None, 0, "PreemptLowerPriority")


async def test_priority_of_the_class_and_of_the_default(prioritised, pod):
    await prioritised.put(priority_class("high", 7, preemptionPolicy="Never"))
    made = await prioritised.create(pod("p", {"priorityClassName": "high"}))
    assert chosen(made) == ("high", 7, "Never")
    policy = {"preemptionPolicy": "PreemptLowerPriority"}
    await prioritised.put(priority_class("usual", 3, globalDefault=True, **policy))
    assert chosen(await prioritised.create(pod("q"))) == ("usual", 3, "PreemptLowerPriority")


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"priorityClassName": "nope"}, "no PriorityClass with name nope was found"),
        (
            {"priority": 5},
            "the integer value of priority (5) must not be provided in pod spec; priority "
            "admission controller computed 0 from the given PriorityClass name",
        ),
        (
            {"preemptionPolicy": "Never"},
            "the string value of PreemptionPolicy (Never) must not be provided in pod spec; "
            "priority admission controller computed PreemptLowerPriority from the given "
            "PriorityClass name",
        ),
    ],
    ids=["unknown", "number", "policy"],
)
async def test_priority_refused(prioritised, pod, spec, why):
    said = await message(prioritised.create(pod("p", spec)))
    assert said == f'pods "p" is forbidden: {why}'


async def test_one_default_class_only(prioritised):
    await prioritised.create(priority_class("one", 3, globalDefault=True))
    said = await message(prioritised.create(priority_class("two", 4, globalDefault=True)))
    assert said == (
        'priorityclasses.scheduling.k8s.io "two" is forbidden: PriorityClass one is already '
        "marked as default. Only one default can exist"
    )
    await prioritised.update(priority_class("one", 3, globalDefault=True, description="d"))


async def test_priority_survives_an_update_that_leaves_it_out(prioritised, pod):
    old = pod("p", {"priority": 4, "preemptionPolicy": "Never"})
    request = prioritised.request("UPDATE", pod("p"), old)
    assert await prioritised.plugins[0].mutate(request)
    assert request.object["spec"]["priority"] == 4
    assert request.object["spec"]["preemptionPolicy"] == "Never"


# -- tolerations and taints ----------------------------------------------------------------


def toleration(key, seconds=300):
    return {
        "key": f"node.kubernetes.io/{key}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": seconds,
    }


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], [toleration("not-ready"), toleration("unreachable")]),
        ([toleration("not-ready", 5)], [toleration("not-ready", 5), toleration("unreachable")]),
        ([{"operator": "Exists"}], [{"operator": "Exists"}]),
    ],
    ids=["none", "one", "all"],
)
async def test_default_tolerations(world, pod, given, expected):
    world.plugins = [DefaultTolerations()]
    made = await world.create(pod("p", {"tolerations": given}))
    assert made["spec"]["tolerations"] == expected


async def test_new_nodes_are_not_ready(world):
    world.plugins = [NodeTaints()]
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    made = await world.create(node)
    assert made["spec"]["taints"] == [taint]
    made = await world.create({**node, "metadata": {"name": "m"}, "spec": {"taints": [taint]}})
    assert made["spec"]["taints"] == [taint]


# -- runtime classes -----------------------------------------------------------------------


@pytest.fixture
async def runtimes(world):
    world.plugins = [RuntimeClasses(world.store)]
    await world.put(
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": "vm"},
            "handler": "h",
            "overhead": {"podFixed": {"cpu": "100m"}},
            "scheduling": {
                "nodeSelector": {"a": "b"},
                "tolerations": [{"key": "x", "operator": "Exists"}],
            },
        }
    )
    return world


async def test_runtime_class_is_merged_into_the_pod(runtimes, pod):
    narrow = {"key": "x", "operator": "Equal", "value": "v", "effect": "NoSchedule"}
    spec = {"runtimeClassName": "vm", "nodeSelector": {"c": "d"}, "tolerations": [narrow]}
    made = await runtimes.create(pod("p", spec))
    assert made["spec"]["overhead"] == {"cpu": "100m"}
    assert made["spec"]["nodeSelector"] == {"a": "b", "c": "d"}
    assert made["spec"]["tolerations"] == [{"key": "x", "operator": "Exists"}]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"runtimeClassName": "nope"}, 'pod rejected: RuntimeClass "nope" not found'),
        (
            {"runtimeClassName": "vm", "nodeSelector": {"a": "c"}},
            "conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = c",
        ),
        (
            {"runtimeClassName": "vm", "overhead": {"cpu": "1"}},
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            {"overhead": {"cpu": "1"}},
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
    ],
    ids=["unknown", "selector", "other overhead", "overhead alone"],
)
async def test_runtime_class_refused(runtimes, pod, spec, why):
    said = await message(runtimes.create(pod("p", spec)))
    assert said == f'pods "p" is forbidden: {why}'


# -- nodes of pods -------------------------------------------------------------------------


def node(**more):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", **more}}


async def test_resize_must_fit_the_node(world, pod):
    plugin = PodResize(world.store)
    new = pod("p", {"nodeName": "n"}, resources={"requests": {"cpu": "3"}}, meta={"generation": 2})
    old = pod("p", {"nodeName": "n"}, meta={"generation": 1})
    request = world.request("UPDATE", new, old, subresource="resize")
    assert await message(plugin.validate(request)) == 'pods "p" is forbidden: node "n" not found'
    await world.put({**node(), "status": {"allocatable": {"cpu": "2", "memory": "1Gi"}}})
    with pytest.raises(Forbidden) as refused:
        await plugin.validate(request)
    assert refused.value.message == (
        'pods "p" is forbidden: node didn\'t have enough allocatable resources: cpu, requested: '
        "3000, allocatable: 2000"
    )
    assert refused.value.details["causes"] == [{"reason": "NodeCapacity"}]
    await world.put({**node(), "status": {"allocatable": {"cpu": "4", "memory": "1Gi"}}})
    await plugin.validate(request)


async def test_topology_of_the_node_becomes_labels(world, pod):
    plugin = TopologyLabels(world.store)
    await world.put(node(labels={"topology.kubernetes.io/zone": "z", "other": "x"}))
    obj = pod("p", {"nodeName": "n"}, meta={"labels": {"app": "a"}})
    request = world.request("UPDATE", obj, obj, subresource="binding")
    assert await plugin.mutate(request)
    assert obj["metadata"]["labels"] == {"app": "a", "topology.kubernetes.io/zone": "z"}
    assert not await plugin.mutate(world.request("CREATE", pod("q")))
