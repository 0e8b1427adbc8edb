"""The pod of a replica."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from corral.families.trainingjob.lifecycle.generation import Generation
from corral.families.trainingjob.objects.podbuilder import PodBuilder
from corral.families.trainingjob.objects.problems import NoLocalStorage
from corral.families.trainingjob.settings import TrainingSettings
from corral.kube.types import Obj

SPEC: Obj = {"replicas": 4, "image": "train:1", "command": ["python", "train.py"]}
RESTRICTED: Obj = {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}
REPORTS = TrainingSettings(report_url="https://corral:8443/", report_ca="PEM")


def builder(index: int = 1, /, **spec: Any) -> PodBuilder:
    return (
        PodBuilder("mnist", "team-a", index)
        .with_spec({**SPEC, **spec})
        .with_identity("u-1")
        .with_generation(Generation(attempt=3, world=4, restore_from="latest"))
    )


def build(index: int = 1, /, **spec: Any) -> Obj:
    return builder(index, **spec).build()


def env_of(pod: Obj, container: int = 0) -> dict[str, str]:
    found = pod["spec"]["containers"][container]["env"]
    names = [variable["name"] for variable in found]
    assert len(names) == len(set(names)), "no variable is there twice"
    return {variable["name"]: variable.get("value", "") for variable in found}


def template(**pod: Any) -> Obj:
    return {"spec": {"containers": [{"name": "main", "image": "x"}], **pod}}


# --- who it is ------------------------------------------------------------------------------------


def test_the_pod_is_found_by_its_name_and_labels() -> None:
    pod = builder().with_labels({"team": "vision", "replica-id": "9"}).build()
    assert (pod["apiVersion"], pod["kind"]) == ("v1", "Pod")
    assert (pod["metadata"]["name"], pod["metadata"]["namespace"]) == ("mnist-1", "team-a")
    labels = pod["metadata"]["labels"]
    assert labels["team"] == "vision"
    assert labels["trainingjob"] == "mnist"
    assert labels["replica-id"] == "1"
    assert labels["training.corral.dev/attempt"] == "3"
    assert labels["training.corral.dev/world-size"] == "4"
    assert pod["spec"]["hostname"] == "mnist-1"
    assert pod["spec"]["subdomain"] == "mnist"
    assert pod["spec"]["restartPolicy"] == "Never"
    assert pod["spec"]["containers"][0]["image"] == "train:1"


def test_the_spec_of_the_job_is_not_changed() -> None:
    spec = {**SPEC, "template": template(), "scheduling": {"gpu": {"model": "H100", "mig": "x"}}}
    before = deepcopy(spec)
    PodBuilder("mnist", "team-a", 0).with_spec(spec).with_policy(RESTRICTED).build()
    assert spec == before


def test_the_template_keeps_what_it_says() -> None:
    metadata = {"labels": {"a": "b"}, "annotations": {"c": "d"}, "name": "ignored"}
    pod = build(template={"metadata": metadata, **template(restartPolicy="OnFailure")})
    assert pod["metadata"]["name"] == "mnist-1"
    assert pod["metadata"]["labels"]["a"] == "b"
    assert pod["metadata"]["annotations"]["c"] == "d"
    assert pod["spec"]["restartPolicy"] == "OnFailure"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, "mnist"),
        ({"serviceAccount": {"create": False}}, None),
        ({"template": template(serviceAccountName="mine")}, "mine"),
    ],
)
def test_the_account(spec: Obj, expected: str | None) -> None:
    assert build(**spec)["spec"].get("serviceAccountName") == expected


def test_names_are_found_from_the_network_of_the_host() -> None:
    assert build(template=template(hostNetwork=True))["spec"]["dnsPolicy"] == (
        "ClusterFirstWithHostNet"
    )
    own = template(hostNetwork=True, dnsPolicy="Default")
    assert build(template=own)["spec"]["dnsPolicy"] == "Default"
    assert "dnsPolicy" not in build()["spec"]


# --- what it is told ------------------------------------------------------------------------------


def test_every_container_is_told_who_it_is() -> None:
    containers = [{"name": "main", "image": "x"}, {"name": "logs", "image": "y"}]
    pod = builder(template={"spec": {"containers": containers}}).with_settings(REPORTS).build()
    for i in range(2):
        env = env_of(pod, i)
        assert env == {
            "CORRAL_JOB": "mnist",
            "CORRAL_NAMESPACE": "team-a",
            "CORRAL_GRACE_SECONDS": "30",
            "CORRAL_REPLICA_ATTEMPT": "3",
            "CORRAL_JOB_UID": "u-1",
            "CORRAL_REPLICA": "1",
            "CORRAL_REPLICAS": "4",
            "CORRAL_ATTEMPT": "3",
            "CORRAL_FRAMEWORK": "custom",
            "CORRAL_REPORT_URL": "https://corral:8443/v1/namespaces/team-a/trainingjobs/mnist",
            "CORRAL_REPORT_TOKEN_FILE": "/var/run/secrets/corral.dev/token",
            "CORRAL_REPORT_CA": "PEM",
        }


def test_pods_that_cannot_report_have_no_token() -> None:
    pod = build()
    assert not any(name.startswith("CORRAL_REPORT") for name in env_of(pod))
    assert "volumes" not in pod["spec"]


def test_the_token_is_for_the_endpoint_alone() -> None:
    pod = builder().with_settings(REPORTS).build()
    token = {"audience": "corral.dev/report", "expirationSeconds": 3607, "path": "token"}
    sources = [{"serviceAccountToken": token}]
    assert pod["spec"]["volumes"] == [
        {"name": "corral-report-token", "projected": {"sources": sources}}
    ]
    assert pod["spec"]["containers"][0]["volumeMounts"] == [
        {
            "name": "corral-report-token",
            "mountPath": "/var/run/secrets/corral.dev",
            "readOnly": True,
        }
    ]


def test_the_authors_variables_win_and_may_refer_to_ours() -> None:
    given = [
        {"name": "URL", "value": "tcp://$(MASTER_ADDR)"},
        {"name": "MASTER_PORT", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "CORRAL_REPLICAS", "value": "7"},
    ]
    pod = build(framework="pytorch", env=given)
    env = env_of(pod)
    assert env["CORRAL_REPLICAS"] == "7"
    assert env["MASTER_PORT"] == ""
    names = list(env)
    assert names.index("MASTER_ADDR") < names.index("URL")


def test_processes_of_a_pod_are_its_gpus() -> None:
    gpus = {"limits": {"nvidia.com/gpu": "2"}}
    env = env_of(build(framework="pytorch", procsPerReplica="auto", resources=gpus))
    assert (env["WORLD_SIZE"], env["RANK"]) == ("8", "2")


# --- checkpoints ----------------------------------------------------------------------------------


def checkpoint(**storage: Any) -> Obj:
    return {"interval": "90s", "mountPath": "/ckpt", "storage": storage}


@pytest.mark.parametrize(
    ("storage", "kind", "source"),
    [
        (
            {"pvc": {"size": "1Gi"}},
            "volume",
            {"persistentVolumeClaim": {"claimName": "mnist-checkpoints"}},
        ),
        ({"s3": {"bucket": "b"}}, "remote", {"emptyDir": {}}),
        ({"gcs": {"bucket": "b"}}, "remote", {"emptyDir": {}}),
        ({"azure": {"account": "a", "container": "c"}}, "remote", {"emptyDir": {}}),
    ],
)
def test_checkpoints(storage: Obj, kind: str, source: Obj) -> None:
    pod = build(checkpoint=checkpoint(**storage))
    env = env_of(pod)
    assert env["CORRAL_CHECKPOINT_DIR"] == "/ckpt"
    assert env["CORRAL_CHECKPOINT_STORE"] == kind
    assert float(env["CORRAL_CHECKPOINT_INTERVAL"]) == 90
    assert env["CORRAL_RESTORE_FROM"] == "latest"
    assert pod["spec"]["volumes"] == [{"name": "corral-checkpoints", **source}]
    assert pod["spec"]["containers"][0]["volumeMounts"] == [
        {"name": "corral-checkpoints", "mountPath": "/ckpt"}
    ]


def test_a_folder_of_the_machine(tmp_path: Path) -> None:
    settings = TrainingSettings(local_root=tmp_path)
    pod = builder(checkpoint=checkpoint(local={})).with_settings(settings).build()
    place = pod["spec"]["volumes"][0]["hostPath"]
    assert Path(place["path"]).is_relative_to(tmp_path / "team-a")
    assert place["type"] == "DirectoryOrCreate"
    assert env_of(pod)["CORRAL_CHECKPOINT_STORE"] == "volume"
    named = builder(checkpoint=checkpoint(local={"path": "/data"})).with_settings(settings)
    assert named.build()["spec"]["volumes"][0]["hostPath"]["path"] == "/data"


def test_no_folder_of_the_machine_outside_of_embedded_clusters() -> None:
    with pytest.raises(NoLocalStorage):
        build(checkpoint=checkpoint(local={"path": "/etc"}))


def test_a_mount_of_the_author_stays() -> None:
    mount = {"name": "mine", "mountPath": "/ckpt/"}
    own = {"name": "main", "image": "x", "volumeMounts": [mount]}
    pod = build(
        template={"spec": {"containers": [own], "volumes": [{"name": "mine", "emptyDir": {}}]}},
        checkpoint=checkpoint(pvc={"size": "1Gi"}),
    )
    assert pod["spec"]["containers"][0]["volumeMounts"] == [mount]
