"""Kubeflow's own example manifests pass unchanged and become the objects that they should.

`tests/real/build.sh mpi-examples` gets them from the Go module proxy.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from corral.api.mpi.kinds import MPIJob
from corral.families.mpijob.objects.builders import Children, children
from corral.families.mpijob.objects.ssh import KeyPair
from corral.families.mpijob.settings import ObjectSettings
from corral.families.mpijob.validation import Context, judge
from tests.cluster.binaries import folder, version
from tests.support.components import skip

Obj = dict[str, Any]
KEYS = KeyPair(b"a", b"b")
OUR_OWN = ("PRTE_MCA_",)
"""What is deliberately more than Kubeflow's."""


def upstream() -> Path:
    """The folder with Kubeflow's examples and definition."""
    found = folder() / f"mpi-operator-{version('mpi_operator')}"
    return found if (found / "crd.yaml").is_file() else skip("mpi-examples")


def manifest(name: str) -> Obj:
    obj: Obj = yaml.safe_load((upstream() / "examples" / name).read_text())
    obj["metadata"] |= {"namespace": "bar", "uid": "u-1"}
    return obj


def made(obj: Obj) -> Children:
    return children(obj, ObjectSettings(), KEYS)


ALL = [
    "pi/pi.yaml",
    "pi/pi-intel.yaml",
    "pi/pi-mpich.yaml",
    "horovod/tensorflow-mnist.yaml",
    "tensorflow-benchmarks/tensorflow-benchmarks.yaml",
]
OMPI = [
    "K_MPI_JOB_ROLE=launcher",
    "OMPI_MCA_orte_keep_fqdn_hostnames=true",
    "OMPI_MCA_orte_default_hostfile=/etc/mpi/hostfile",
    "OMPI_MCA_plm_rsh_args=-o ConnectionAttempts=10",
    "OMPI_MCA_orte_set_default_slots=1",
]
INTEL = [
    "K_MPI_JOB_ROLE=launcher",
    "I_MPI_HYDRA_HOST_FILE=/etc/mpi/hostfile",
    "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS=-o ConnectionAttempts=10",
    "I_MPI_PERHOST=1",
]
MPICH = [
    "K_MPI_JOB_ROLE=launcher",
    "HYDRA_HOST_FILE=/etc/mpi/hostfile",
    "HYDRA_LAUNCH_EXTRA_ARGS=-o ConnectionAttempts=10",
]
NO_GPU = ["NVIDIA_VISIBLE_DEVICES=", "NVIDIA_DRIVER_CAPABILITIES="]
EXPECTED = {
    "pi/pi.yaml": (OMPI, " slots=1"),
    "pi/pi-intel.yaml": (INTEL, ":1"),
    "pi/pi-mpich.yaml": (MPICH, ":1"),
    "horovod/tensorflow-mnist.yaml": (OMPI, " slots=1"),
    "tensorflow-benchmarks/tensorflow-benchmarks.yaml": (OMPI, " slots=1"),
}


@pytest.mark.parametrize("name", ALL)
def test_they_pass_by_default(name: str) -> None:
    assert judge(manifest(name)).errors == []


@pytest.mark.parametrize("name", ALL)
def test_a_restricted_namespace_says_what_they_lack(name: str) -> None:
    found = judge(manifest(name), context=Context(policy="restricted")).errors
    assert "metadata.annotations[corral.dev/network-policy]" in [p.field for p in found]


@pytest.mark.parametrize("name", ALL)
def test_the_service_and_the_hosts(name: str) -> None:
    obj = manifest(name)
    job, found = obj["metadata"]["name"], made(obj)
    assert found.service["metadata"]["labels"] == {"app": job}
    assert found.service["spec"] == {
        "clusterIP": "None",
        "selector": {
            "training.kubeflow.org/operator-name": "mpi-operator",
            "training.kubeflow.org/job-name": job,
        },
    }
    room = EXPECTED[name][1]
    assert found.config_map["data"]["hostfile"] == "".join(
        f"{job}-worker-{i}.{job}.bar.svc{room}\n" for i in range(2)
    )
    assert found.secret["metadata"]["name"] == f"{job}-ssh"


def launcher_pod(obj: Obj) -> Obj:
    """The pod of the launcher as Kubeflow has it, field by field."""
    job, spec = obj["metadata"]["name"], obj["spec"]
    pod: Obj = dict(spec["mpiReplicaSpecs"]["Launcher"]["template"]["spec"])
    container = dict(pod["containers"][0])
    path = spec.get("sshAuthMountPath", "/root/.ssh")
    container["volumeMounts"] = [
        {"name": "ssh-auth", "mountPath": path},
        {"name": "mpi-job-config", "mountPath": "/etc/mpi"},
    ]
    items = [("hostfile", 0o444), ("discover_hosts.sh", 0o555)]
    config = {"name": f"{job}-config"}
    config["items"] = [{"key": k, "path": k, "mode": mode} for k, mode in items]
    return {
        "hostname": f"{job}-launcher",
        "subdomain": job,
        "restartPolicy": "OnFailure",
        "containers": [container],
        "volumes": [ssh_volume(job, path), {"name": "mpi-job-config", "configMap": config}],
    }


def ssh_volume(job: str, path: str) -> Obj:
    items = [
        ("ssh-privatekey", "id_rsa"),
        ("ssh-publickey", "id_rsa.pub"),
        ("ssh-publickey", "authorized_keys"),
    ]
    secret: Obj = {"secretName": f"{job}-ssh", "items": [{"key": k, "path": p} for k, p in items]}
    if path == "/root/.ssh":
        secret["defaultMode"] = 0o600
    return {"name": "ssh-auth", "secret": secret}


@pytest.mark.parametrize("name", ALL)
def test_the_launcher(name: str) -> None:
    obj = manifest(name)
    found = made(obj).launcher["spec"]
    pod = found["template"]["spec"]
    variables = [f"{v['name']}={v.get('value', '')}" for v in pod["containers"][0].pop("env")]
    kept = [text for text in variables if not text.startswith(OUR_OWN)]
    assert kept == [*EXPECTED[name][0], *NO_GPU]
    assert pod == launcher_pod(obj)
    assert found["podReplacementPolicy"] == "Failed" and "backoffLimit" not in found
    assert found.get("ttlSecondsAfterFinished") == (60 if name == "pi/pi.yaml" else None)


@pytest.mark.parametrize("name", ALL)
def test_the_workers(name: str) -> None:
    obj = manifest(name)
    job, spec = obj["metadata"]["name"], obj["spec"]
    template = spec["mpiReplicaSpecs"]["Worker"]["template"]["spec"]
    path = spec.get("sshAuthMountPath", "/root/.ssh")
    container = {k: v for k, v in template["containers"][0].items() if v is not None}
    if not container.get("command") and not container.get("args"):
        container["command"] = ["/usr/sbin/sshd", "-De"]
    container["env"] = [{"name": "K_MPI_JOB_ROLE", "value": "worker"}]
    container["volumeMounts"] = [{"name": "ssh-auth", "mountPath": path}]
    for index, worker in enumerate(made(obj).workers):
        assert worker["metadata"]["labels"] == {
            "training.kubeflow.org/operator-name": "mpi-operator",
            "training.kubeflow.org/job-name": job,
            "training.kubeflow.org/job-role": "worker",
            "training.kubeflow.org/replica-index": str(index),
        }
        assert worker["spec"] == {
            "hostname": f"{job}-worker-{index}",
            "subdomain": job,
            "restartPolicy": "Never",
            "dnsConfig": {"searches": [f"{job}.bar.svc.cluster.local"]},
            "containers": [container],
            "volumes": [ssh_volume(job, path)],
        }


def definition() -> Obj:
    """Kubeflow's definition."""
    text = (upstream() / "crd.yaml").read_text()
    crd: Obj = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return crd


def fields(schema: Obj, *path: str) -> Obj:
    for step in path:
        schema = schema["properties"][step]
    found: Obj = schema["properties"]
    return found


def test_the_definition_is_theirs_with_less_about_pods() -> None:
    theirs, ours = definition(), MPIJob.crd()
    assert ours["metadata"]["name"] == theirs["metadata"]["name"]
    for key in ("kind", "listKind", "plural", "singular"):
        assert ours["spec"]["names"][key] == theirs["spec"]["names"][key]
    (version,), (own,) = theirs["spec"]["versions"], ours["spec"]["versions"]
    assert own["name"] == version["name"] and own["subresources"] == version["subresources"]
    schema = version["schema"]["openAPIV3Schema"]
    for path in (
        ("spec",),
        ("spec", "runPolicy"),
        ("spec", "runPolicy", "schedulingPolicy"),
        ("status",),
    ):
        extra = {"failure"} if path == ("status",) else set()
        own_fields = fields(MPIJob.schema(), *path)
        assert set(own_fields) - extra == set(fields(schema, *path)), path
        for name, known in fields(schema, *path).items():
            assert own_fields[name].get("type") == known.get("type"), (path, name)
            if "default" in known:
                assert own_fields[name]["default"] == known["default"], (path, name)
    assert schema["properties"]["spec"]["required"] == ["mpiReplicaSpecs"]


def test_what_we_know_of_pods_has_their_types() -> None:
    schema = definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    replica = fields(schema, "spec")["mpiReplicaSpecs"]["additionalProperties"]
    ours = fields(MPIJob.schema(), "spec")["mpiReplicaSpecs"]["additionalProperties"]
    compared = list(differences(ours, replica, "replica"))
    assert compared == []


def differences(ours: Obj, theirs: Obj, path: str) -> Iterator[str]:
    """Where our schema says something that theirs does not say too."""
    if ours.get("x-kubernetes-int-or-string") and theirs.get("x-kubernetes-int-or-string"):
        return
    if ours.get("type") != theirs.get("type"):
        yield f"{path}: {ours.get('type')} is {theirs.get('type')}"
    for name, part in (ours.get("properties") or {}).items():
        known = (theirs.get("properties") or {}).get(name)
        if known is None:
            yield f"{path}.{name}: not theirs"
        else:
            yield from differences(part, known, f"{path}.{name}")
    if "items" in ours:
        yield from differences(ours["items"], theirs.get("items") or {}, f"{path}[]")
    more = ours.get("additionalProperties")
    if isinstance(more, dict):
        yield from differences(more, theirs.get("additionalProperties") or {}, f"{path}{{}}")
