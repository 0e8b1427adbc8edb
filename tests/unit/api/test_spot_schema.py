"""Spot jobs, machines and backups: definitions, defaults, and what is wrong with objects."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from corral.api.kind import Kind
from corral.api.spot import kinds
from corral.api.spot.kinds import CheckpointBackup, SpotInstanceJob, SpotInstanceVM
from corral.api.spot.rules import duration_seconds
from corral.client.kinds import kind_of
from corral.cluster.apiserver.crd.structural import compile_version

Obj = dict[str, Any]
EXAMPLES = Path(__file__).parents[3] / "examples" / "spot"
BY_KIND = {kind.names.kind: kind for kind in kinds.KINDS}
SERVERS = {kind: compile_version(kind.crd(), "v1alpha1") for kind in kinds.KINDS}
POD: Obj = {"spec": {"containers": [{"name": "a", "image": "i"}]}}


def made(kind: type[Kind], spec: Obj) -> Obj:
    names = kind.names
    return {
        "apiVersion": f"{names.group}/{names.version}",
        "kind": names.kind,
        "metadata": {"name": "digits", "namespace": "default"},
        "spec": deepcopy(spec),
    }


JOB: Obj = {
    "jobTemplate": {"spec": {"template": POD}},
    "checkpointConfig": {"checkpointImageRepo": "r.io/team/c", "checkpointInterval": "30m"},
    "spotInstanceVMRef": {"name": "gpu"},
    "gcpCredentialsSecretRef": {"name": "gcp"},
}
GCP: Obj = {"project": "p", "zone": "us-central1-a", "machineType": "n1-standard-4"}
VM: Obj = {"vmImage": "projects/debian-cloud/global/images/d", "gcp": GCP}
FLAT: Obj = {"podName": "p", "nodeName": "n", "imageRepo": "r.io/c", "immediate": True}
NESTED: Obj = {
    "schedule": "0 * * * *",
    "podRef": {"name": "p"},
    "resourceRef": {"name": "j"},
    "registry": {"url": "r.io/", "repository": "/team/c", "secretRef": {"name": "s"}},
}


def served(kind: type[Kind], obj: Obj) -> Obj:
    """The object as a server has it after decoding."""
    copy = deepcopy(obj)
    SERVERS[kind].prune(copy)
    SERVERS[kind].default(copy)
    return copy


def said(kind: type[Kind], spec: Obj) -> list[str]:
    return [str(problem) for problem in kind.validate(made(kind, spec))]


# --- definitions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", kinds.KINDS, ids=lambda kind: kind.names.kind)
def test_definitions_are_called_as_the_rest_of_the_product_calls_them(kind: type[Kind]) -> None:
    known = kind_of(kind.names.plural)
    assert kind.crd()["metadata"]["name"] == known.qualified
    assert kind.names.kind == known.kind
    assert kind.names.short == known.short_names


def test_the_jobs_template_is_kept_whole() -> None:
    job = made(SpotInstanceJob, JOB)
    job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["nobodyKnows"] = {"a": [1]}
    assert served(SpotInstanceJob, job)["spec"]["jobTemplate"] == job["spec"]["jobTemplate"]


def test_required_fields_are_the_references() -> None:
    spec = SpotInstanceJob.schema()["properties"]["spec"]
    assert set(spec["required"]) == {"jobTemplate", "checkpointConfig", "spotInstanceVMRef"}
    config = spec["properties"]["checkpointConfig"]
    assert set(config["required"]) == {"checkpointImageRepo", "checkpointInterval"}
    gcp = SpotInstanceVM.schema()["properties"]["spec"]["properties"]["gcp"]
    assert set(gcp["required"]) == {"project", "zone", "machineType"}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_examples_are_taken_without_remarks(path: Path) -> None:
    for obj in yaml.safe_load_all(path.read_text()):
        kind = BY_KIND[obj["kind"]]
        assert kind.validate(obj) == []
        assert kind.warnings(obj) == []
        pruned = deepcopy(obj)
        SERVERS[kind].prune(pruned)
        assert pruned == obj, "the definition has every field of it"


def test_statuses_that_others_write_are_kept() -> None:
    vm = made(SpotInstanceVM, VM)
    vm["status"] = {
        "provisionedInstances": [
            {
                "name": "instance-1",
                "instanceID": "1",
                "internalIP": "10.0.0.1",
                "externalIP": "1.2.3.4",
                "state": "PROVISIONING",
                "joinedCluster": False,
                "nodeName": "n",
                "creationTime": "2026-01-01T00:00:00Z",
            }
        ]
    }
    assert served(SpotInstanceVM, vm)["status"] == vm["status"]
    backup = made(CheckpointBackup, FLAT)
    backup["status"] = {
        "phase": "Completed",
        "message": "m",
        "lastCheckpointTime": "2026-01-01T00:00:00Z",
        "completionTime": "2026-01-01T00:00:00Z",
        "checkpointImage": "r.io/c:1",
        "builtImages": [
            {
                "containerName": "a",
                "imageName": "r.io/c:1",
                "buildTime": "2026-01-01T00:00:00Z",
                "pushed": True,
            }
        ],
        "checkpointFiles": [
            {
                "containerName": "a",
                "filePath": "/f",
                "checkpointTime": "2026-01-01T00:00:00Z",
            }
        ],
    }
    assert served(CheckpointBackup, backup)["status"] == backup["status"]


def test_ends_of_a_backup_are_phases_of_it() -> None:
    from corral.api.spot.status import BACKUP_ENDS

    assert set(BACKUP_ENDS) <= set(kinds.CheckpointBackup.names.phases)


# --- defaults ------------------------------------------------------------------------------------


def test_defaults_of_a_job() -> None:
    job = SpotInstanceJob.read(made(SpotInstanceJob, JOB)).spec
    assert job.replicas == 2
    assert job.checkpoint_config.engine == "Application"
    assert job.placement.on_demand == "Deadline"
    assert job.credentials is not None
    assert job.credentials.name == "gcp"
    assert served(SpotInstanceJob, made(SpotInstanceJob, JOB))["spec"]["replicas"] == 2


def test_the_machines_of_a_job_are_named_once_each() -> None:
    others = [{"name": "other"}, {"name": "gpu"}]
    job = SpotInstanceJob.read(made(SpotInstanceJob, {**JOB, "alternativeVMRefs": others})).spec
    assert job.vm_names == ["gpu", "other"]


def test_defaults_and_places_of_machines() -> None:
    vm = SpotInstanceVM.read(made(SpotInstanceVM, VM)).spec
    assert vm.gcp is not None
    assert (vm.gcp.disk_size_gb, vm.gcp.disk_type) == (100, "pd-standard")
    assert vm.clouds == ["gcp"]
    more = {**GCP, "zones": ["us-central1-b", "us-central1-a"], "machineTypes": ["n2"]}
    gcp = SpotInstanceVM.read(made(SpotInstanceVM, {**VM, "gcp": more})).spec.gcp
    assert gcp is not None
    assert gcp.places(gcp.zone, gcp.machine_type) == [
        ("us-central1-a", "n1-standard-4"),
        ("us-central1-a", "n2"),
        ("us-central1-b", "n1-standard-4"),
        ("us-central1-b", "n2"),
    ]


def test_both_shapes_of_a_backup_become_one() -> None:
    flat, nested = made(CheckpointBackup, FLAT), made(CheckpointBackup, NESTED)
    for obj in (flat, nested):
        CheckpointBackup.default(obj)
        assert (obj["spec"]["podName"], obj["spec"]["podRef"]["name"]) == ("p", "p")
        again = deepcopy(obj)
        CheckpointBackup.default(again)
        assert again == obj
    assert flat["spec"]["schedule"] == "immediately"
    one, other = CheckpointBackup.read(flat).spec, CheckpointBackup.read(nested).spec
    assert (one.pod, one.repository, one.once, one.credentials) == ("p", "r.io/c", True, None)
    assert (other.pod, other.repository, other.once) == ("p", "r.io/team/c", False)
    assert other.credentials == ("s", None)
    bare = CheckpointBackup.read(made(CheckpointBackup, {"podName": "p"})).spec
    assert (bare.repository, bare.once) == ("", True)


# --- what is wrong -------------------------------------------------------------------------------


def config(**changed: Any) -> Obj:
    return {**JOB, "checkpointConfig": {**JOB["checkpointConfig"], **changed}}


def template(**pod: Any) -> Obj:
    whole = {"spec": {"template": {"spec": {**POD["spec"], **pod}}}}
    return {**JOB, "jobTemplate": whole}


@pytest.mark.parametrize(
    ("kind", "spec", "problem"),
    [
        (SpotInstanceJob, {**JOB, "replicas": 0}, "spec.replicas"),
        (SpotInstanceJob, config(checkpointInterval="soon"), "such as 30m"),
        (SpotInstanceJob, config(checkpointInterval="0s"), "at least 1s"),
        (SpotInstanceJob, config(checkpointImageRepo=""), "checkpointImageRepo: Required"),
        (SpotInstanceJob, config(checkpointImageRepo="r.io/c:tag"), "without a tag"),
        (SpotInstanceJob, config(engine="Magic"), "spec.checkpointConfig.engine"),
        (SpotInstanceJob, config(engine="Directory"), "checkpointConfig.directory: Required"),
        (SpotInstanceJob, {**JOB, "jobTemplate": {}}, "containers: Required"),
        (SpotInstanceJob, {**JOB, "jobTemplate": {"spec": 3}}, "containers: Required"),
        (SpotInstanceJob, template(restartPolicy="Always"), "restartPolicy"),
        (SpotInstanceJob, template(nodeName="n"), "nodeName: Forbidden"),
        (SpotInstanceJob, {**JOB, "spotInstanceVMRef": {}}, "spotInstanceVMRef.name: Required"),
        (SpotInstanceJob, {**JOB, "alternativeVMRefs": [{}]}, "alternativeVMRefs[0].name"),
        (SpotInstanceJob, {**JOB, "placement": {"deadline": "monday"}}, "placement.deadline"),
        (SpotInstanceVM, {"vmImage": "i"}, "gcp, aws, azure or local"),
        (SpotInstanceVM, {"gcp": GCP}, "spec.vmImage: Required"),
        (SpotInstanceVM, {**VM, "gcp": {"zone": "z", "machineType": "m"}}, "spec.gcp.project"),
        (SpotInstanceVM, {**VM, "gcp": {**GCP, "region": "europe-west4"}}, "zone of europe-west4"),
        (SpotInstanceVM, {**VM, "gpu": {"type": "t4", "count": 0}}, "spec.gpu.count"),
        (CheckpointBackup, {"imageRepo": "r.io/c"}, "spec.podName: Required"),
        (CheckpointBackup, {**NESTED, "podName": "q"}, "pod of podRef"),
        (CheckpointBackup, {**NESTED, "schedule": "hourly please"}, "five fields"),
        (CheckpointBackup, {**NESTED, "schedule": "99 * * * *"}, "spec.schedule"),
        (CheckpointBackup, {**NESTED, "immediate": True}, "immediate backup"),
        (CheckpointBackup, {**FLAT, "imageRepo": "r.io/c:1"}, "without a tag"),
        (CheckpointBackup, {**FLAT, "containers": [{"name": "a", "image": "b"}] * 2}, "already"),
    ],
)
def test_mistakes_are_told_with_their_field(kind: type[Kind], spec: Obj, problem: str) -> None:
    found = said(kind, spec)
    assert any(problem in text for text in found), found
    assert len(found) == 1, found


def test_a_jobs_name_is_a_label_of_its_pods() -> None:
    job = made(SpotInstanceJob, JOB)
    job["metadata"]["name"] = "a" * 64
    (problem,) = SpotInstanceJob.validate(job)
    assert problem.field == "metadata.name"
    job["metadata"]["name"] = "a" * 63
    assert SpotInstanceJob.validate(job) == []


def test_zones_of_aws_are_of_the_region() -> None:
    aws = {"region": "us-east-1", "zone": "eu-west-1a", "machineType": "m", "zones": ["us-east-1b"]}
    (found,) = said(SpotInstanceVM, {"vmImage": "ami", "aws": aws})
    assert found.startswith("spec.aws.zone: ")


def test_machines_on_this_computer_need_no_image() -> None:
    assert said(SpotInstanceVM, {"local": {}}) == []


@pytest.mark.parametrize(
    ("kind", "spec", "remark"),
    [
        (SpotInstanceJob, config(checkpointInterval="5s"), "little but save"),
        (
            SpotInstanceJob,
            {**JOB, "placement": {"deadline": "2027-01-01T00:00:00Z", "onDemand": "Never"}},
            "can be missed",
        ),
        (SpotInstanceJob, {**JOB, "placement": {"onDemand": "Always"}}, "only cost"),
        (SpotInstanceJob, {**JOB, "credentialsSecretRef": {"name": "c"}}, "is used instead"),
        (SpotInstanceVM, {**VM, "startupScript": "kubeadm join x --token y"}, "over SSH"),
        (SpotInstanceVM, VM, "join the cluster by itself"),
    ],
)
def test_what_is_probably_not_meant_is_warned_about(
    kind: type[Kind], spec: Obj, remark: str
) -> None:
    assert kind.validate(made(kind, spec)) == []
    assert any(remark in text for text in kind.warnings(made(kind, spec)))


def test_a_backup_stays_with_its_pod() -> None:
    old, new = made(CheckpointBackup, FLAT), made(CheckpointBackup, {**FLAT, "podName": "q"})
    (problem,) = CheckpointBackup.validate(new, old)
    assert "immutable" in str(problem)
    flat, nested = made(CheckpointBackup, FLAT), made(CheckpointBackup, {"podRef": {"name": "p"}})
    assert CheckpointBackup.validate(nested, flat) == []


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30m", 1800), ("1h15m", 4500), ("1.5h", 5400), ("100ms", 0.1), ("1h ", None), ("x", None)],
)
def test_durations_are_gos(text: str, seconds: float | None) -> None:
    assert duration_seconds(text) == seconds
