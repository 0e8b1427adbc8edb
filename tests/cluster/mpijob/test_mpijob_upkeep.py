"""Objects are kept as they should be, jobs grow and shrink, and what is wrong is told."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from tests.cluster.mpijob.mpi_operating import API, Jobs, Operator, condition, mpijob, replica
from tests.cluster.objects import eventually

Obj = dict[str, Any]
SPECS = "spec.mpiReplicaSpecs"
REFUSED: dict[str, tuple[Obj, str]] = {
    "no launcher": (
        {"mpiReplicaSpecs": {"Worker": replica("worker", replicas=1)}},
        f"{SPECS}[Launcher]: Required value: must have Launcher replica spec",
    ),
    "two launchers": (
        {"mpiReplicaSpecs": {"Launcher": replica("launcher", replicas=2)}},
        f"{SPECS}[Launcher].replicas: Invalid value: 2: must be 1",
    ),
    "no workers": (
        {"mpiReplicaSpecs": {"Launcher": replica("a"), "Worker": replica("b")}},
        f"{SPECS}[Worker].replicas: Invalid value: 0: must be greater than or equal to 1",
    ),
    "restart policy": (
        {"mpiReplicaSpecs": {"Launcher": {**replica("a"), "restartPolicy": "Always"}}},
        f"{SPECS}[Launcher].restartPolicy: Unsupported value",
    ),
    "no container": (
        {"mpiReplicaSpecs": {"Launcher": {"template": {"spec": {"containers": []}}}}},
        f"{SPECS}[Launcher].template.spec.containers: Required value: must define at least one",
    ),
    "slots": ({"slotsPerWorker": -1}, "spec.slotsPerWorker: Invalid value: -1"),
    "clean pods": (
        {"runPolicy": {"cleanPodPolicy": "Some"}},
        "spec.runPolicy.cleanPodPolicy: Unsupported value",
    ),
    "time to live": (
        {"runPolicy": {"ttlSecondsAfterFinished": -1}},
        "spec.runPolicy.ttlSecondsAfterFinished: Invalid value: -1",
    ),
    "deadline": (
        {"runPolicy": {"activeDeadlineSeconds": -1}},
        "spec.runPolicy.activeDeadlineSeconds: Invalid value: -1",
    ),
    "backoff": (
        {"runPolicy": {"backoffLimit": -1}},
        "spec.runPolicy.backoffLimit: Invalid value: -1",
    ),
}


def test_what_is_wrong_is_told_and_nothing_is_made(jobs: Jobs) -> None:
    for number, (spec, _) in enumerate(REFUSED.values()):
        jobs.create({**mpijob(f"bad-{number}"), "spec": {**mpijob("x")["spec"], **deepcopy(spec)}})
    jobs.create(mpijob("1-foo"))
    jobs.create(mpijob("good"))
    jobs.workers("good", 2)
    for number, (case, (_, words)) in enumerate(REFUSED.items()):
        status = jobs.until(f"bad-{number}", "Failed", reason="ValidationError")
        message = condition(status, "Failed")["message"]
        assert message.startswith("Found validation errors: "), case
        assert words in message, (case, message)
        assert "completionTime" not in status and "startTime" not in status
        assert jobs.told(f"bad-{number}", "ValidationError") == message
        assert not condition(status, "Created")
    message = condition(jobs.until("1-foo", "Failed"), "Failed")["message"]
    assert "metadata.name" in message and "1-foo-worker-1" in message
    assert jobs.objects.names("v1", "services") == {"good"}


def test_a_corrected_job_begins(jobs: Jobs) -> None:
    jobs.create(mpijob("foo", slotsPerWorker=-1))
    jobs.until("foo", "Failed", reason="ValidationError")
    jobs.patch("foo", {"slotsPerWorker": 1})
    jobs.run("foo")
    assert condition(jobs.get("foo")["status"], "Failed")["status"] == "False"


FOREIGN: list[tuple[str, str, Obj]] = [
    ("services", "foo", {"apiVersion": "v1", "kind": "Service", "spec": {"clusterIP": "None"}}),
    ("configmaps", "foo-config", {"apiVersion": "v1", "kind": "ConfigMap"}),
    ("secrets", "foo-ssh", {"apiVersion": "v1", "kind": "Secret"}),
    (
        "jobs",
        "foo-launcher",
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "spec": {
                "suspend": True,
                "template": {
                    "spec": {
                        "restartPolicy": "Never",
                        "containers": [{"name": "a", "image": "b"}],
                    }
                },
            },
        },
    ),
    (
        "pods",
        "foo-worker-1",
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "spec": {"containers": [{"name": "a", "image": "b"}]},
        },
    ),
]


@pytest.mark.parametrize(("plural", "name", "obj"), FOREIGN, ids=[case[0] for case in FOREIGN])
@pytest.mark.parametrize("labels", [{}, {"app": "foo"}], ids=["unseen", "seen"])
def test_nothing_of_others_is_taken(
    jobs: Jobs, plural: str, name: str, obj: Obj, labels: dict[str, str]
) -> None:
    theirs = {**deepcopy(obj), "metadata": {"name": name, "labels": labels}}
    before = jobs.objects.create(plural, theirs)
    jobs.create(mpijob("foo"))
    message = jobs.told("foo", "ErrResourceExists")
    kind = obj["kind"]
    assert message == (
        f'Resource "{name}" of Kind "{kind}" already exists and is not managed by MPIJob'
    )
    jobs.until("foo", "Created")  # the status is written all the same
    found = jobs.objects.get(obj["apiVersion"], plural, name)
    assert found["metadata"]["uid"] == before["metadata"]["uid"]
    assert "ownerReferences" not in found["metadata"]
    jobs.objects.delete(obj["apiVersion"], plural, name)
    jobs.workers("foo", 2)
    eventually(lambda: "ownerReferences" in jobs.launcher("foo")["metadata"])


def test_growing_and_shrinking(jobs: Jobs) -> None:
    jobs.create(mpijob("foo"))
    jobs.run("foo")
    specs = {"mpiReplicaSpecs": {"Worker": {"replicas": 4}}}
    jobs.patch("foo", specs)
    jobs.become(jobs.workers("foo", 4)[2:], "Running")
    jobs.wait("foo", lambda s: s["replicaStatuses"]["Worker"] == {"active": 4})
    eventually(lambda: len(jobs.config("foo")["hostfile"].splitlines()) == 4)
    eventually(lambda: len(jobs.config("foo")["discover_hosts.sh"].splitlines()) == 5)
    jobs.patch("foo", {"mpiReplicaSpecs": {"Worker": {"replicas": 1}}})
    (left,) = jobs.workers("foo", 1)
    assert left["metadata"]["name"] == "foo-worker-0"
    eventually(lambda: len(jobs.config("foo")["hostfile"].splitlines()) == 1)
    host = f"foo-worker-0.foo.{jobs.objects.namespace}.svc"
    eventually(lambda: jobs.config("foo")["discover_hosts.sh"] == f"#!/bin/sh\necho {host}\n")


def test_shrinking_where_the_launcher_is_a_worker(jobs: Jobs) -> None:
    jobs.create(mpijob("foo", workers=3, runLauncherAsWorker=True))
    jobs.workers("foo", 3)
    jobs.patch("foo", {"mpiReplicaSpecs": {"Worker": {"replicas": 2}}})
    names = [pod["metadata"]["name"] for pod in jobs.workers("foo", 2)]
    assert names == ["foo-worker-0", "foo-worker-1"]


def test_hosts_are_found_as_they_come(jobs: Jobs) -> None:
    jobs.create(mpijob("foo", workers=3))
    domain = f"foo.{jobs.objects.namespace}.svc"
    known: list[str] = []
    for pod in reversed(jobs.workers("foo", 3)):
        jobs.become([pod], "Running")
        known = sorted([*known, f"echo {pod['metadata']['name']}.{domain}"])
        script = "\n".join(["#!/bin/sh", *known, ""])
        eventually(lambda script=script: jobs.config("foo")["discover_hosts.sh"] == script)


def test_changes_of_others_are_undone(jobs: Jobs) -> None:
    jobs.create(mpijob("foo"))
    jobs.workers("foo", 2)
    wanted, config = jobs.objects.get("v1", "services", "foo"), jobs.config("foo")
    changed = {"spec": {"selector": {"app": "mine"}, "publishNotReadyAddresses": True}}
    jobs.objects.patch("v1", "services", "foo", changed)
    jobs.objects.patch("v1", "configmaps", "foo-config", {"data": {"hostfile": "a", "b": "c"}})

    def undone() -> bool:
        spec = jobs.objects.get("v1", "services", "foo")["spec"]
        return spec["selector"] == wanted["spec"]["selector"] and not spec.get(
            "publishNotReadyAddresses"
        )

    eventually(undone)
    eventually(lambda: jobs.config("foo") == config)
    for kind, name in (("services", "foo"), ("configmaps", "foo-config")):
        uid = jobs.objects.get("v1", kind, name)["metadata"]["uid"]
        jobs.objects.delete("v1", kind, name)

        def anew(kind: str = kind, name: str = name, uid: str = uid) -> bool:
            found = jobs.objects.find("v1", kind, name)
            return found is not None and found["metadata"]["uid"] != uid

        eventually(anew)


def test_keys_are_there_whenever_pods_are_made(jobs: Jobs) -> None:
    jobs.create(mpijob("foo"))
    jobs.workers("foo", 2)
    jobs.launcher("foo")
    secret = jobs.objects.get("v1", "secrets", "foo-ssh")
    jobs.objects.patch("v1", "secrets", "foo-ssh", {"data": {"ssh-publickey": None, "x": "eA=="}})
    jobs.objects.delete("v1", "pods", "foo-worker-1")

    def has_new_keys() -> bool:
        data = jobs.objects.get("v1", "secrets", "foo-ssh")["data"]
        both = set(data) == {"ssh-publickey", "ssh-privatekey"}
        return both and data["ssh-privatekey"] != secret["data"]["ssh-privatekey"]

    eventually(has_new_keys)
    jobs.workers("foo", 2)
    jobs.objects.delete("v1", "secrets", "foo-ssh")
    jobs.objects.delete("v1", "pods", "foo-worker-0")
    eventually(lambda: jobs.objects.find("v1", "secrets", "foo-ssh"))
    jobs.workers("foo", 2)


def test_a_worker_that_was_deleted_comes_back(jobs: Jobs) -> None:
    jobs.create(mpijob("foo"))
    uid = jobs.workers("foo", 2)[1]["metadata"]["uid"]
    jobs.launcher("foo")
    jobs.objects.delete("v1", "pods", "foo-worker-1")

    def anew() -> bool:
        found = jobs.objects.find("v1", "pods", "foo-worker-1")
        return found is not None and found["metadata"]["uid"] != uid

    eventually(anew)


def test_quota_is_told_and_waited_for(jobs: Jobs) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few"},
        "spec": {"hard": {"pods": "1"}},
    }
    jobs.objects.create("resourcequotas", quota)
    eventually(
        lambda: jobs.objects.get("v1", "resourcequotas", "few").get("status", {}).get("hard")
    )
    jobs.create(mpijob("foo"))
    jobs.said("foo", "MPIJobFailed")
    message = next(text for reason, text in jobs.events("foo") if reason == "MPIJobFailed")
    assert message.startswith("worker pod created failed: ")
    assert "exceeded quota" in message
    jobs.until("foo", "Created")
    jobs.objects.patch("v1", "resourcequotas", "few", {"spec": {"hard": {"pods": "5"}}})
    jobs.run("foo")
    assert [reason for reason, _ in jobs.events("foo")].count("MPIJobCreated") == 1


def test_another_operator_goes_on(orphans: Jobs, jobs: Jobs, shared_operator: Operator) -> None:
    shared_operator.kill()
    try:
        orphans.create(mpijob("foo"))
        orphans.create(mpijob("bar"))
    finally:
        shared_operator.start()
    orphans.run("foo")
    shared_operator.kill()
    try:
        orphans.end("foo")
        orphans.delete("bar")
    finally:
        shared_operator.start()
    orphans.until("foo", "Succeeded")
    assert [reason for reason, _ in orphans.events("foo")].count("MPIJobCreated") == 1
    eventually(lambda: orphans.objects.find(API, "mpijobs", "bar") is None)
