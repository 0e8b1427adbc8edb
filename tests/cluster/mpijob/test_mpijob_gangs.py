"""PodGroups of Volcano and of scheduler-plugins, and names of hosts with the cluster's domain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.backends import Backend
from tests.cluster.mpijob.mpi_operating import (
    Jobs,
    Operator,
    condition,
    install_definitions,
    mpijob,
    pod_group_definition,
)
from tests.cluster.objects import Objects, eventually

Obj = dict[str, Any]
APIS = {"volcano": "scheduling.volcano.sh/v1beta1", "gangs": "scheduling.x-k8s.io/v1alpha1"}


@pytest.fixture(scope="module", params=["volcano", "gangs"])
def scheduler(request: pytest.FixtureRequest, backend: Backend, kubeconfig: str) -> Iterator[str]:
    """The name of a gang scheduler, which an operator makes PodGroups for."""
    name: str = request.param
    group, version = APIS[name].split("/")
    install_definitions(Objects(backend), pod_group_definition(group, version))
    operator = Operator(kubeconfig, gang_scheduler=name, cluster_domain="cluster.local").start()
    yield name
    operator.kill()


@pytest.fixture
def gangs(orphans: Jobs, scheduler: str) -> Jobs:
    return orphans


def spec_of(jobs: Jobs, scheduler: str) -> Obj:
    found = eventually(lambda: jobs.objects.find(APIS[scheduler], "podgroups", "foo"))
    spec: Obj = found["spec"]
    return spec


def sized(**more: Any) -> Obj:
    job = mpijob("foo", **more)
    amounts = {"Launcher": ("1", "2Gi"), "Worker": ("10", "20Gi")}
    for role, (cpu, memory) in amounts.items():
        container = job["spec"]["mpiReplicaSpecs"][role]["template"]["spec"]["containers"][0]
        container["resources"] = {"requests": {"cpu": cpu, "memory": memory}}
    return job


def test_a_group_is_made_changed_and_taken_away(gangs: Jobs, scheduler: str) -> None:
    gangs.create(sized())
    spec = spec_of(gangs, scheduler)
    assert spec["minMember"] == 3
    assert spec["minResources"] == {"cpu": "21", "memory": "42Gi"}
    for pod in (*gangs.workers("foo", 2), gangs.launcher_pod("foo")):
        assert pod["spec"]["schedulerName"] == scheduler
        metadata = pod["metadata"]
        if scheduler == "volcano":
            assert metadata["annotations"]["scheduling.k8s.io/group-name"] == "foo"
        else:
            assert metadata["labels"]["scheduling.x-k8s.io/pod-group"] == "foo"
    policy = {"minAvailable": 2, "queue": "q", "scheduleTimeoutSeconds": 7}
    gangs.patch("foo", {"runPolicy": {"schedulingPolicy": policy}})
    eventually(lambda: spec_of(gangs, scheduler)["minMember"] == 2)
    spec = spec_of(gangs, scheduler)
    if scheduler == "volcano":
        assert spec["queue"] == "q"
    else:
        assert spec["scheduleTimeoutSeconds"] == 7
    gangs.suspend("foo")
    gangs.until("foo", "Suspended")
    eventually(lambda: gangs.objects.find(APIS[scheduler], "podgroups", "foo") is None)
    gangs.suspend("foo", suspend=False)
    assert spec_of(gangs, scheduler)["minMember"] == 2
    gangs.run("foo")
    host = f"foo-worker-0.foo.{gangs.objects.namespace}.svc.cluster.local"
    assert gangs.config("foo")["hostfile"].startswith(f"{host} slots=1\n")


def test_a_launcher_that_waits_is_not_waited_for(gangs: Jobs, scheduler: str) -> None:
    gangs.create(sized(launcherCreationPolicy="WaitForWorkersReady"))
    assert spec_of(gangs, scheduler)["minMember"] == 2
    gangs.become(gangs.workers("foo", 2), "Running")
    gangs.launcher("foo")


@pytest.mark.parametrize("policy", ["None", "Running"])
def test_groups_of_finished_jobs(gangs: Jobs, scheduler: str, policy: str) -> None:
    gangs.create(sized(runPolicy={"cleanPodPolicy": policy}))
    gangs.run("foo")
    gangs.end("foo")
    gangs.until("foo", "Succeeded")
    if policy == "None":
        assert spec_of(gangs, scheduler)
    else:
        eventually(lambda: gangs.objects.find(APIS[scheduler], "podgroups", "foo") is None)


def test_a_group_of_somebody_else(gangs: Jobs, scheduler: str) -> None:
    theirs = {
        "apiVersion": APIS[scheduler],
        "kind": "PodGroup",
        "metadata": {"name": "foo"},
        "spec": {"minMember": 9},
    }
    gangs.objects.create("podgroups", theirs)
    gangs.create(sized())
    assert '"foo" of Kind "PodGroup"' in gangs.told("foo", "ErrResourceExists")
    assert not gangs.pods("foo")
    assert not condition(gangs.until("foo", "Created"), "Running")
    gangs.objects.delete(APIS[scheduler], "podgroups", "foo")
    gangs.workers("foo", 2)
