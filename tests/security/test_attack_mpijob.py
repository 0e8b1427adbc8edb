"""An MPIJob against pods and objects of others that have the names it would use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.backends import Backend
from tests.cluster.mpijob.mpi_operating import API, Jobs, Operator, install_definitions, mpijob
from tests.cluster.objects import Objects, eventually

RBAC = "rbac.authorization.k8s.io/v1"
Obj = dict[str, Any]


@pytest.fixture
def jobs(objects: Objects, backend: Backend) -> Iterator[Jobs]:
    install_definitions(Objects(backend))
    operator = Operator(str(backend.kubeconfig)).start()
    try:
        yield Jobs(objects, str(backend.kubeconfig))
    finally:
        operator.kill()


def agent_job(name: str, workers: int) -> Obj:
    """A job whose launcher reaches its workers by exec."""
    job = mpijob(name, workers=workers)
    job["metadata"]["annotations"] = {"corral.dev/launch": "exec"}
    return job


def foreign_pod(objects: Objects, name: str, **labels: str) -> Obj:
    spec = {
        "containers": [{"name": "c", "image": "secret:1"}],
        "automountServiceAccountToken": False,
    }
    metadata = {"name": name, "labels": labels}
    return objects.create(
        "pods", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    )


def named_in_role(objects: Objects, job: str) -> set[str]:
    role = objects.find(RBAC, "roles", f"{job}-launcher")
    return {name for rule in (role or {}).get("rules") or () for name in rule["resourceNames"]}


def scale(jobs: Jobs, name: str, workers: int) -> None:
    jobs.patch(name, {"mpiReplicaSpecs": {"Worker": {"replicas": workers}}})


@pytest.mark.attack(
    "mpijob", "Scales up to a name that is somebody's pod", "The Role never names that pod"
)
@pytest.mark.parametrize("labelled", [False, True])
def test_scaling_up_to_a_foreign_pod(jobs: Jobs, labelled: bool) -> None:
    labels = {"app": "foo"}
    if labelled:  # as if it were a worker already, in everything but its owner
        labels |= {
            "training.kubeflow.org/operator-name": "mpi-operator",
            "training.kubeflow.org/job-name": "foo",
            "training.kubeflow.org/job-role": "worker",
            "training.kubeflow.org/replica-index": "1",
        }
    victim = foreign_pod(jobs.objects, "foo-worker-1", **labels)
    jobs.create(agent_job("foo", 1))
    eventually(lambda: named_in_role(jobs.objects, "foo") == {"foo-worker-0"})
    scale(jobs, "foo", 3)
    assert '"foo-worker-1" of Kind "Pod"' in jobs.told("foo", "ErrResourceExists")
    eventually(lambda: "foo-worker-2" in named_in_role(jobs.objects, "foo"))
    assert named_in_role(jobs.objects, "foo") == {"foo-worker-0", "foo-worker-2"}
    after = jobs.objects.get("v1", "pods", "foo-worker-1")
    assert after["metadata"]["uid"] == victim["metadata"]["uid"]
    assert "ownerReferences" not in after["metadata"]


@pytest.mark.attack(
    "mpijob", "Begins where a worker's name is somebody's pod", "No launcher, and no right to it"
)
def test_a_job_that_begins_with_a_foreign_pod(jobs: Jobs) -> None:
    foreign_pod(jobs.objects, "foo-worker-0")
    jobs.create(agent_job("foo", 1))
    assert "already exists and is not managed" in jobs.told("foo", "ErrResourceExists")
    assert named_in_role(jobs.objects, "foo") == set()
    assert jobs.objects.find("batch/v1", "jobs", "foo-launcher") is None


@pytest.mark.attack("mpijob", "Keeps rights to the name of a worker it gave up", "They end with it")
def test_scaling_down_takes_the_rights(jobs: Jobs) -> None:
    jobs.create(agent_job("foo", 2))
    eventually(lambda: named_in_role(jobs.objects, "foo") == {"foo-worker-0", "foo-worker-1"})
    scale(jobs, "foo", 1)
    eventually(lambda: named_in_role(jobs.objects, "foo") == {"foo-worker-0"})


@pytest.mark.attack(
    "mpijob", "Keeps rights to the names of its workers when it is over", "They end with them"
)
@pytest.mark.parametrize("policy", ["All", "None"])
def test_the_end_takes_the_rights(jobs: Jobs, policy: str) -> None:
    job = agent_job("foo", 2)
    job["spec"]["runPolicy"] = {"cleanPodPolicy": policy}
    jobs.create(job)
    eventually(lambda: named_in_role(jobs.objects, "foo") == {"foo-worker-0", "foo-worker-1"})
    jobs.run("foo")
    jobs.end("foo")
    jobs.until("foo", "Succeeded")
    if policy == "None":  # its workers stay, until somebody deletes them
        for name in ("foo-worker-0", "foo-worker-1"):
            assert name in named_in_role(jobs.objects, "foo")
            jobs.objects.delete("v1", "pods", name)
            eventually(lambda gone=name: gone not in named_in_role(jobs.objects, "foo"))
    jobs.workers("foo", 0)
    eventually(lambda: named_in_role(jobs.objects, "foo") == set())
    assert jobs.objects.find(RBAC, "roles", "foo-launcher")


FOREIGN: list[tuple[str, Obj]] = [
    ("secrets", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "foo-ssh"}}),
    ("configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "foo-config"}}),
    (
        "services",
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "foo"},
            "spec": {"ports": [{"port": 80}]},
        },
    ),
    (
        "serviceaccounts",
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "foo-launcher"}},
    ),
    (
        "roles",
        {"apiVersion": RBAC, "kind": "Role", "metadata": {"name": "foo-launcher"}, "rules": []},
    ),
]


@pytest.mark.attack(
    "mpijob", "Takes over an object by its expected name", "It is left alone, and the job says so"
)
@pytest.mark.parametrize(("plural", "obj"), FOREIGN, ids=[case[0] for case in FOREIGN])
def test_nothing_of_others_is_taken(jobs: Jobs, plural: str, obj: Obj) -> None:
    before = jobs.objects.create(plural, obj)
    jobs.create(agent_job("foo", 1))
    assert f'"{obj["metadata"]["name"]}" of Kind' in jobs.told("foo", "ErrResourceExists")
    after = jobs.objects.get(obj["apiVersion"], plural, obj["metadata"]["name"])
    assert after["metadata"] == before["metadata"]
    assert jobs.objects.find("batch/v1", "jobs", "foo-launcher") is None
    assert jobs.objects.get(API, "mpijobs", "foo")
