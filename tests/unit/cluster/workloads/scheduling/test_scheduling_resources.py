"""What pods request, as kube-scheduler counts it."""

from __future__ import annotations

import pytest
from scheduling_objects import container, pod

from corral.cluster.scheduler.placement.resources import Amounts, amounts, host_ports, pod_requests
from corral.kube.types import Obj

MI = 1024 * 1024
SIDECAR = {"restartPolicy": "Always"}

CASES: dict[str, tuple[Obj, Amounts, tuple[int, int]]] = {
    "containers add up": (
        pod("p", containers=[container({"cpu": "500m"}), container({"cpu": "1", "memory": "1Mi"})]),
        Amounts(1500, MI),
        (1500, 201 * MI),
    ),
    "nothing requested counts with defaults in scores": (pod("p"), Amounts(), (100, 200 * MI)),
    "parts of a thousandth are added before rounding up": (
        pod("p", containers=[container({"cpu": "100u"}), container({"cpu": "100u"})]),
        Amounts(1),
        (1, 400 * MI),
    ),
    "the largest init container counts if larger": (
        pod(
            "p",
            {"cpu": "1", "memory": "1Mi"},
            initContainers=[
                container({"cpu": "3", "memory": "1Mi"}),
                container({"cpu": "2", "memory": "1Mi"}),
            ],
        ),
        Amounts(3000, MI),
        (3000, MI),
    ),
    "sidecars count beside containers and later init containers": (
        pod(
            "p",
            {"cpu": "1", "memory": "1Mi"},
            initContainers=[
                container({"cpu": "5", "memory": "1Mi"}),
                container({"cpu": "2", "memory": "1Mi"}, **SIDECAR),
                container({"cpu": "4", "memory": "1Mi"}),
            ],
        ),
        Amounts(6000, 2 * MI),
        (6000, 2 * MI),
    ),
    "overhead is added": (
        pod("p", {"cpu": "1", "memory": "1Mi"}, overhead={"cpu": "250m", "memory": "1Mi"}),
        Amounts(1250, 2 * MI),
        (1250, 2 * MI),
    ),
    "pod-level requests replace those of containers": (
        pod("p", {"cpu": "1", "memory": "1Mi"}, resources={"requests": {"cpu": "3"}}),
        Amounts(3000, MI),
        (3000, MI),
    ),
    "extended resources and huge pages, but no unknown plain name": (
        pod("p", {"nvidia.com/gpu": "2", "hugepages-2Mi": "4Mi", "bogus": "7"}),
        Amounts(scalars={"nvidia.com/gpu": 2, "hugepages-2Mi": 4 * MI}),
        (100, 200 * MI),
    ),
    "a resize that is being granted counts with the larger amount": (
        pod(
            "p",
            {"cpu": "1", "memory": "1Mi"},
            status={
                "containerStatuses": [
                    {
                        "name": "c",
                        "allocatedResources": {"cpu": "2", "memory": "1Mi"},
                        "resources": {"requests": {"cpu": "3", "memory": "1Mi"}},
                    }
                ]
            },
        ),
        Amounts(3000, MI),
        (3000, MI),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_requests(case: str) -> None:
    item, expected, scored = CASES[case]
    real, with_defaults = pod_requests(item)
    assert real == expected
    assert (with_defaults.cpu, with_defaults.memory) == scored


def test_allocatable() -> None:
    found = amounts({"cpu": "3920m", "memory": "1Gi", "pods": "110", "example.com/fpga": "1"})
    assert found == Amounts(3920, 1024 * MI, 0, 110, {"example.com/fpga": 1})


def test_host_ports_are_those_of_containers_and_sidecars() -> None:
    item = pod(
        "p",
        containers=[container(ports=[{"hostPort": 80}, {"containerPort": 81}])],
        initContainers=[
            container(ports=[{"hostPort": 82}]),
            container(ports=[{"hostPort": 83, "protocol": "UDP", "hostIP": "10.0.0.1"}], **SIDECAR),
        ],
    )
    assert set(host_ports(item)) == {("0.0.0.0", "TCP", 80), ("10.0.0.1", "UDP", 83)}
