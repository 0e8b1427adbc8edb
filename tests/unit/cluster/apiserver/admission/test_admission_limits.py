"""LimitRanger. The messages were read from kube-apiserver 1.37.1."""

from __future__ import annotations

import pytest

from corral.cluster.apiserver.admission.limits import ANNOTATION, LimitRanger
from corral.cluster.apiserver.admission.quotas.amounts import pod_total
from corral.kube.errors import Forbidden

CONTAINER = {
    "type": "Container",
    "default": {"cpu": "500m", "memory": "64Mi"},
    "defaultRequest": {"cpu": "100m", "memory": "64Mi"},
    "min": {"cpu": "50m"},
    "max": {"cpu": "1", "memory": "128Mi"},
    "maxLimitRequestRatio": {"cpu": "5"},
}
CLAIM = {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "5Gi"}}


@pytest.fixture
async def limited(world):
    world.plugins = [LimitRanger(world.store)]
    spec = {"limits": [CONTAINER, {"type": "Pod", "max": {"cpu": "2"}}, CLAIM]}
    await world.put(
        {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": spec}
    )
    return world


async def test_defaults_are_injected_and_said(limited, pod):
    made = await limited.create(pod("p", {"initContainers": [{"name": "i", "image": "x"}]}))
    full = {
        "limits": {"cpu": "500m", "memory": "64Mi"},
        "requests": {"cpu": "100m", "memory": "64Mi"},
    }
    assert made["spec"]["containers"][0]["resources"] == full
    assert made["spec"]["initContainers"][0]["resources"] == full
    assert made["metadata"]["annotations"][ANNOTATION] == (
        "LimitRanger plugin set: cpu, memory request for container c; cpu, memory limit for "
        "container c; cpu, memory request for init container i; cpu, memory limit for init "
        "container i"
    )


async def test_what_a_pod_sets_is_kept(limited, pod):
    resources = {"limits": {"cpu": "300m"}, "requests": {"cpu": "200m", "memory": "1Mi"}}
    made = await limited.create(pod("p", resources=resources))
    assert made["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "300m", "memory": "64Mi"},
        "requests": {"cpu": "200m", "memory": "1Mi"},
    }


@pytest.mark.parametrize(
    ("resources", "why"),
    [
        pytest.param(
            {"limits": {"memory": "1Gi"}},
            "maximum memory usage per Container is 128Mi, but limit is 1Gi",
            id="limit above the maximum",
        ),
        pytest.param(
            {"limits": {"cpu": "20m"}, "requests": {"cpu": "10m"}},
            "minimum cpu usage per Container is 50m, but request is 10m",
            id="request below the minimum",
        ),
        pytest.param(
            {"limits": {"cpu": "1"}, "requests": {"cpu": "100m"}},
            "cpu max limit to request ratio per Container is 5, but provided ratio is 10.000000",
            id="ratio",
        ),
    ],
)
async def test_containers_outside_the_bounds(limited, pod, resources, why):
    with pytest.raises(Forbidden) as refused:
        await limited.create(pod("p", resources=resources))
    assert refused.value.message == f'pods "p" is forbidden: {why}'
    assert refused.value.details == {"name": "p", "kind": "pods"}


async def test_several_problems_are_listed_once_each(limited, pod):
    much = {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "2"}}
    init = [{"name": "i", "image": "x", "resources": much}]
    with pytest.raises(Forbidden) as refused:
        await limited.create(pod("p", {"initContainers": init}, resources=much))
    assert refused.value.message == (
        'pods "p" is forbidden: [maximum cpu usage per Container is 1, but limit is 2, '
        "maximum memory usage per Container is 128Mi, but limit is 1Gi]"
    )


async def test_pod_bound_is_over_the_sum(limited, pod):
    one = {"limits": {"cpu": "900m"}, "requests": {"cpu": "900m"}}
    obj = pod("p")
    obj["spec"]["containers"] = [
        {"name": f"c{n}", "image": "i", "resources": one} for n in range(3)
    ]
    with pytest.raises(Forbidden) as refused:
        await limited.create(obj)
    assert refused.value.message == (
        'pods "p" is forbidden: maximum cpu usage per Pod is 2, but limit is 2700m'
    )


@pytest.mark.parametrize(
    ("size", "why"),
    [
        ("500Mi", "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 500Mi"),
        ("10Gi", "maximum storage usage per PersistentVolumeClaim is 5Gi, but request is 10Gi"),
    ],
)
async def test_claims(limited, size, why):
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}},
    }
    with pytest.raises(Forbidden) as refused:
        await limited.create(claim)
    assert refused.value.message == f'persistentvolumeclaims "c" is forbidden: {why}'


async def test_updates_of_pods_and_other_namespaces_are_left_alone(limited, pod):
    big = pod("p", resources={"limits": {"cpu": "9"}})
    await limited.plugins[0].validate(limited.request("UPDATE", big, big))
    with pytest.raises(Forbidden):
        await limited.plugins[0].validate(limited.request("CREATE", big))
    limited.namespace = "other"
    await limited.plugins[0].validate(limited.request("CREATE", big))


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        pytest.param({"containers": ["1", "2"]}, "3", id="side by side"),
        pytest.param({"containers": ["1"], "initContainers": ["5", "4"]}, "5", id="in turn"),
        pytest.param(
            {"containers": ["1"], "sidecars": ["1"], "initContainers": ["3"]}, "4", id="sidecar"
        ),
    ],
)
def test_pod_total(spec, cpu):
    def containers(amounts, **extra):
        return [{"resources": {"requests": {"cpu": a}}, **extra} for a in amounts]

    built = {
        "containers": containers(spec["containers"]),
        "initContainers": [
            *containers(spec.get("sidecars", ()), restartPolicy="Always"),
            *containers(spec.get("initContainers", ())),
        ],
    }
    assert str(pod_total(built, "requests")["cpu"]) == cpu


def test_pod_total_of_pod_level_resources_and_overhead():
    spec = {
        "containers": [{"resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}}}],
        "resources": {"requests": {"cpu": "3"}},
        "overhead": {"cpu": "100m"},
    }
    total = {n: str(q) for n, q in pod_total(spec, "requests", overhead=True).items()}
    assert total == {"cpu": "3100m", "nvidia.com/gpu": "1"}
    assert pod_total(spec, "limits", overhead=True) == {}
