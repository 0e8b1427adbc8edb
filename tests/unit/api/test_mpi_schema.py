"""MPIJobs: the definition, the defaults, and what the kind says about itself."""

from __future__ import annotations

from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from corral.api.mpi.kinds import MPIJOBS, MPIJob
from corral.api.mpi.rules import problems
from corral.api.mpi.spec import MPIJobSpec, ReplicaSpec
from corral.cluster.apiserver.crd.structural import compile_version

Obj = dict[str, Any]
SERVER = compile_version(MPIJob.crd(), "v2beta1")
POD: Obj = {"spec": {"containers": [{"name": "a", "image": "i"}]}}


def job(**spec: Any) -> Obj:
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": "pi", "namespace": "default"},
        "spec": {
            "mpiReplicaSpecs": {
                "Launcher": {"template": POD},
                "Worker": {"replicas": 2, "template": POD},
            },
            **spec,
        },
    }


def served(obj: Obj) -> Obj:
    """The object as a server has it after decoding."""
    copy = deepcopy(obj)
    SERVER.prune(copy)
    SERVER.default(copy)
    return copy


# --- the definition ------------------------------------------------------------------------------


def test_the_definition_has_what_kubeflows_has_and_no_more() -> None:
    crd = MPIJob.crd()
    assert crd["metadata"]["name"] == "mpijobs.kubeflow.org"
    spec = crd["spec"]
    assert spec["scope"] == "Namespaced"
    assert spec["names"] == {
        "kind": "MPIJob",
        "listKind": "MPIJobList",
        "plural": "mpijobs",
        "singular": "mpijob",
        "categories": [],
    }
    (version,) = spec["versions"]
    assert (version["name"], version["served"], version["storage"]) == ("v2beta1", True, True)
    assert version["subresources"] == {"status": {}}
    assert "additionalPrinterColumns" not in version
    assert MPIJOBS.api_version == "kubeflow.org/v2beta1"


def test_the_schema_of_the_spec() -> None:
    schema = MPIJob.schema()["properties"]["spec"]
    assert schema["required"] == ["mpiReplicaSpecs"]
    fields = schema["properties"]
    assert {name: part["default"] for name, part in fields.items() if "default" in part} == {
        "slotsPerWorker": 1,
        "runLauncherAsWorker": False,
        "runPolicy": {},
        "sshAuthMountPath": "/root/.ssh",
        "launcherCreationPolicy": "AtStartup",
        "mpiImplementation": "OpenMPI",
    }
    assert fields["mpiImplementation"]["enum"] == ["OpenMPI", "Intel", "MPICH", "IntelMPI"]
    assert "enum" not in fields["launcherCreationPolicy"]
    conditions = MPIJob.schema()["properties"]["status"]["properties"]["conditions"]
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]


GOOD: dict[str, Obj] = {
    "least": job(),
    "a launcher alone": job(mpiReplicaSpecs={"Launcher": {"template": POD}}),
    "roles of others": job(mpiReplicaSpecs={"Launcher": {"template": POD}, "Chief": {}}),
    "unknown fields of pods": job(
        mpiReplicaSpecs={"Launcher": {"template": {"spec": {**POD["spec"], "new": {"a": [1]}}}}}
    ),
    "null command": job(
        mpiReplicaSpecs={
            "Launcher": {"template": POD},
            "Worker": {
                "replicas": 1,
                "template": {
                    "spec": {
                        "containers": [{"name": "a", "image": "i", "command": None, "args": ["x"]}]
                    }
                },
            },
        }
    ),
    "everything": job(
        slotsPerWorker=4,
        runLauncherAsWorker=True,
        sshAuthMountPath="/home/mpi/.ssh",
        launcherCreationPolicy="WaitForWorkersReady",
        mpiImplementation="MPICH",
        runPolicy={
            "cleanPodPolicy": "All",
            "ttlSecondsAfterFinished": 60,
            "activeDeadlineSeconds": 600,
            "backoffLimit": 3,
            "suspend": True,
            "managedBy": "kueue.x-k8s.io/multikueue",
            "schedulingPolicy": {
                "minAvailable": 3,
                "queue": "q",
                "minResources": {"cpu": 1, "memory": "1Gi"},
                "priorityClass": "high",
                "scheduleTimeoutSeconds": 10,
            },
        },
    ),
}
TYPES: dict[str, tuple[Obj, str]] = {
    "no spec": ({k: v for k, v in job().items() if k != "spec"}, "spec"),
    "no replicas": (job(mpiReplicaSpecs=None), "spec.mpiReplicaSpecs"),
    "slots": (job(slotsPerWorker="1"), "spec.slotsPerWorker"),
    "implementation": (job(mpiImplementation="X"), "spec.mpiImplementation"),
    "path": (job(sshAuthMountPath=1), "spec.sshAuthMountPath"),
    "suspend": (job(runPolicy={"suspend": "no"}), "spec.runPolicy.suspend"),
    "amount": (
        job(runPolicy={"schedulingPolicy": {"minResources": {"cpu": "much"}}}),
        "spec.runPolicy.schedulingPolicy.minResources.cpu",
    ),
    "role": (job(mpiReplicaSpecs={"Launcher": []}), "spec.mpiReplicaSpecs.Launcher"),
    "labels": (
        job(mpiReplicaSpecs={"Launcher": {"template": {**POD, "metadata": {"labels": 1}}}}),
        "spec.mpiReplicaSpecs.Launcher.template.metadata.labels",
    ),
    "env": (
        job(
            mpiReplicaSpecs={
                "Launcher": {"template": {"spec": {"containers": [{"name": "a", "env": {}}]}}}
            }
        ),
        "spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].env",
    ),
}


@pytest.mark.parametrize("obj", GOOD.values(), ids=GOOD)
def test_good_objects_pass_both(obj: Obj) -> None:
    assert SERVER.validate(served(obj), None) == []
    assert MPIJob.validate(obj) == []


@pytest.mark.parametrize("obj", GOOD.values(), ids=GOOD)
def test_the_servers_defaults_are_a_part_of_ours(obj: Obj) -> None:
    ours = deepcopy(obj)
    MPIJob.default(ours)
    again = served(ours)
    assert again == ours
    theirs = served(obj)
    MPIJob.default(theirs)
    assert theirs == ours


@pytest.mark.parametrize("obj,field", TYPES.values(), ids=TYPES)
def test_mistakes_that_the_server_sees_too(obj: Obj, field: str) -> None:
    found = [(p.field, p.type) for p in MPIJob.validate(obj) if p.field == field]
    assert len(found) == 1
    theirs = [(p.field, p.type) for p in SERVER.validate(served(obj), None) if p.field == field]
    assert theirs == found


# --- defaults ------------------------------------------------------------------------------------


def test_defaults() -> None:
    obj = job()
    MPIJob.default(obj)
    spec = obj["spec"]
    assert spec["slotsPerWorker"] == 1 and spec["runLauncherAsWorker"] is False
    assert spec["sshAuthMountPath"] == "/root/.ssh" and spec["mpiImplementation"] == "OpenMPI"
    assert spec["launcherCreationPolicy"] == "AtStartup"
    assert spec["runPolicy"] == {"cleanPodPolicy": "None", "suspend": False}
    launcher, worker = (spec["mpiReplicaSpecs"][role] for role in ("Launcher", "Worker"))
    assert (launcher["replicas"], launcher["restartPolicy"]) == (1, "OnFailure")
    assert (worker["replicas"], worker["restartPolicy"]) == (2, "Never")


def test_workers_without_a_number_are_none() -> None:
    obj = job(mpiReplicaSpecs={"Launcher": {"template": POD}, "Worker": {"template": POD}})
    MPIJob.default(obj)
    assert obj["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] == 0
    assert [str(p) for p in MPIJob.validate(obj)] == [
        "spec.mpiReplicaSpecs[Worker].replicas: Invalid value: 0: must be greater than or equal "
        "to 1"
    ]


def test_empty_texts_and_other_spellings() -> None:
    obj = job(sshAuthMountPath="", mpiImplementation="IntelMPI", launcherCreationPolicy="")
    MPIJob.default(obj)
    assert obj["spec"]["sshAuthMountPath"] == "/root/.ssh"
    assert obj["spec"]["mpiImplementation"] == "Intel"
    assert obj["spec"]["launcherCreationPolicy"] == "AtStartup"
    assert MPIJob.read(job(mpiImplementation="IntelMPI")).spec.mpi_implementation == "Intel"


@pytest.mark.parametrize(
    "spec", [1, [], {"mpiReplicaSpecs": 1}, {"runPolicy": 1}, {"mpiImplementation": []},
             {"mpiReplicaSpecs": {"Launcher": 1, "Worker": None}}],
)  # fmt: skip
def test_completing_a_wrong_object(spec: Any) -> None:
    obj = {**job(), "spec": spec}
    MPIJob.default(obj)
    assert MPIJob.validate(obj)


def test_completing_twice_changes_nothing() -> None:
    obj = job(mpiImplementation="IntelMPI")
    MPIJob.default(obj)
    once = deepcopy(obj)
    MPIJob.default(obj)
    assert obj == once


# --- rules that defaults keep anybody from breaking ----------------------------------------------


def test_rules_for_objects_without_defaults() -> None:
    bare = MPIJobSpec(mpi_replica_specs={"Launcher": ReplicaSpec()})
    assert [str(problem) for problem in problems("", bare)] == [
        "spec.mpiReplicaSpecs[Launcher].replicas: Required value: must define number of replicas",
        'spec.mpiReplicaSpecs[Launcher].restartPolicy: Unsupported value: "": supported values: '
        '"Never", "OnFailure"',
        "spec.mpiReplicaSpecs[Launcher].template.spec.containers: Required value: must define at "
        "least one container",
        "spec.slotsPerWorker: Required value: must have number of slots per worker",
        "spec.runPolicy.cleanPodPolicy: Required value: must have clean Pod policy",
        "spec.sshAuthMountPath: Required value: must have a mount path for SSH credentials",
    ]
    assert next(str(problem) for problem in problems("", MPIJobSpec())) == (
        "spec.mpiReplicaSpecs: Required value: must have replica specs"
    )


# --- what is known about a job -------------------------------------------------------------------

START, END = "2030-01-01T00:00:00Z", "2030-01-01T01:30:00Z"
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def known(*true: str, **status: Any) -> MPIJob:
    conditions = [
        {"type": type_, "status": "True", "lastTransitionTime": END} for type_ in ("Created", *true)
    ]
    return MPIJob.read({**job(), "status": {"conditions": conditions, **status}})


@pytest.mark.parametrize(
    "true,phase,finished",
    [
        ((), "Created", False),
        (("Running",), "Running", False),
        (("Suspended",), "Suspended", False),
        (("Running", "Restarting"), "Restarting", False),
        (("Succeeded",), "Succeeded", True),
        (("Running", "Failed"), "Failed", True),
    ],
)
def test_phases(true: tuple[str, ...], phase: str, finished: bool) -> None:
    found = known(*true)
    assert found.get_job_phase() == phase and found.is_job_finished() is finished


def test_a_job_that_nobody_has_seen() -> None:
    found = MPIJob.read(job())
    assert found.get_job_phase() == "Pending" and not found.is_job_finished()
    assert found.get_job_duration(NOON) is None
    assert found.get_worker_stats_summary() == "0/2 workers active"


def test_conditions_that_are_not_true() -> None:
    conditions = [{"type": "Running", "status": "False"}, {"type": "Failed", "status": "Unknown"}]
    found = MPIJob.read({**job(), "status": {"conditions": conditions}})
    assert found.get_job_phase() == "Pending" and not found.is_job_finished()


def test_durations() -> None:
    ended = known("Succeeded", startTime=START, completionTime=END)
    assert ended.get_job_duration(NOON) == timedelta(hours=1, minutes=30)
    assert known("Running", startTime=START).get_job_duration(NOON) == timedelta(hours=12)
    paused = known("Suspended", startTime=START)
    assert paused.get_job_duration(NOON) == timedelta(hours=1, minutes=30)
    early = datetime(2029, 1, 1, tzinfo=UTC)
    assert known(startTime=START).get_job_duration(early) == timedelta(0)
    assert known(startTime="once").get_job_duration(NOON) is None
    assert known(startTime=START).get_job_duration() is not None


def test_summaries() -> None:
    counts = {"Worker": {"active": 1, "succeeded": 2, "failed": 1}, "Launcher": {}}
    found = known(replicaStatuses=counts)
    assert found.get_worker_stats_summary() == "1/2 workers active, 2 succeeded, 1 failed"


def test_the_status_of_a_failure_passes_the_definition() -> None:
    obj = job()
    obj["status"] = {
        "conditions": [
            {
                "type": "Failed",
                "status": "True",
                "reason": "BackoffLimitExceeded/Evicted",
                "message": "x",
                "lastUpdateTime": END,
                "lastTransitionTime": END,
            }
        ],
        "replicaStatuses": {"Launcher": {"failed": 1}, "Worker": {}},
        "failure": {"replica": "Worker", "index": 1, "pod": "pi-worker-1", "exitCode": 137},
    }
    assert SERVER.validate(served(obj), None) == []
    assert MPIJob.read(obj).known.failure is not None
