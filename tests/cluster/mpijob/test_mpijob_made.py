"""What is made for an MPIJob: every object, as Kubeflow's users know it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.cluster.mpijob.mpi_operating import API, Jobs, mpijob, replica
from tests.cluster.objects import contains, eventually

Obj = dict[str, Any]
OPENMPI = {
    "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
    "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
    "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
    "OMPI_MCA_orte_set_default_slots": "1",
    "PRTE_MCA_prte_default_hostfile": "/etc/mpi/hostfile",
    "PRTE_MCA_prte_keep_fqdn_hostnames": "true",
    "PRTE_MCA_prte_set_default_slots": "1",
    "PRTE_MCA_plm_ssh_args": "-o ConnectionAttempts=10",
}
INTEL = {
    "I_MPI_HYDRA_HOST_FILE": "/etc/mpi/hostfile",
    "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": "-o ConnectionAttempts=10",
    "I_MPI_PERHOST": "1",
}
MPICH = {
    "HYDRA_HOST_FILE": "/etc/mpi/hostfile",
    "HYDRA_LAUNCH_EXTRA_ARGS": "-o ConnectionAttempts=10",
}
NO_GPU = {"NVIDIA_VISIBLE_DEVICES": "", "NVIDIA_DRIVER_CAPABILITIES": ""}


def env(container: Obj) -> dict[str, str]:
    return {found["name"]: found.get("value", "") for found in container.get("env") or ()}


def first(template: Obj) -> Obj:
    container: Obj = template["spec"]["containers"][0]
    return container


def controlled(obj: Obj, job: Obj) -> None:
    assert obj["metadata"]["ownerReferences"] == [
        {
            "apiVersion": API,
            "kind": "MPIJob",
            "name": job["metadata"]["name"],
            "uid": job["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


@pytest.mark.parametrize(
    ("implementation", "variables", "room"),
    [("OpenMPI", OPENMPI, " slots=1"), ("Intel", INTEL, ":1"), ("MPICH", MPICH, ":1")],
)
def test_six_objects(jobs: Jobs, implementation: str, variables: dict[str, str], room: str) -> None:
    job = jobs.create(mpijob("foo", mpiImplementation=implementation))
    workers = jobs.workers("foo", 2)
    launcher, domain = jobs.launcher("foo"), f"foo.{jobs.objects.namespace}.svc"
    service = jobs.objects.get("v1", "services", "foo")
    config = jobs.objects.get("v1", "configmaps", "foo-config")
    secret = jobs.objects.get("v1", "secrets", "foo-ssh")
    for obj in (service, config, secret, launcher, *workers):
        controlled(obj, job)
    for obj in (service, config, secret, launcher):
        assert obj["metadata"]["labels"]["app"] == "foo"
    assert service["spec"]["clusterIP"] == "None"
    assert "ports" not in service["spec"]
    assert service["spec"]["selector"] == {
        "training.kubeflow.org/operator-name": "mpi-operator",
        "training.kubeflow.org/job-name": "foo",
    }
    assert not service["spec"].get("publishNotReadyAddresses")
    assert config["data"] == {
        "hostfile": "".join(f"foo-worker-{i}.{domain}{room}\n" for i in range(2)),
        "discover_hosts.sh": "#!/bin/sh\n",
    }
    assert secret["type"] == "kubernetes.io/ssh-auth"
    assert set(secret["data"]) == {"ssh-privatekey", "ssh-publickey"}
    spec = launcher["spec"]
    assert spec["podReplacementPolicy"] == "Failed"
    assert spec["template"]["spec"]["restartPolicy"] == "OnFailure"
    assert env(first(spec["template"])) == {
        "K_MPI_JOB_ROLE": "launcher",
        **variables,
        **NO_GPU,
    }
    assert spec["template"]["spec"]["hostname"] == "foo-launcher"
    for index, pod in enumerate(workers):
        assert pod["metadata"]["name"] == pod["spec"]["hostname"] == f"foo-worker-{index}"
        assert pod["metadata"]["labels"] == {
            "training.kubeflow.org/operator-name": "mpi-operator",
            "training.kubeflow.org/job-name": "foo",
            "training.kubeflow.org/job-role": "worker",
            "training.kubeflow.org/replica-index": str(index),
        }
        assert pod["spec"]["subdomain"] == "foo"
        assert pod["spec"]["restartPolicy"] == "Never"
        assert pod["spec"]["dnsConfig"] == {"searches": [f"{domain}.cluster.local"]}
        assert first(pod)["command"] == ["/usr/sbin/sshd", "-De"]
        assert env(first(pod)) == {"K_MPI_JOB_ROLE": "worker"}
        volume = next(found for found in pod["spec"]["volumes"] if found["name"] == "ssh-auth")
        assert volume["secret"]["defaultMode"] == 0o600


def test_a_launcher_alone(jobs: Jobs) -> None:
    jobs.create(mpijob("foo", workers=0))
    jobs.become([jobs.launcher_pod("foo")], "Running")
    status = jobs.until("foo", "Running")
    assert status["replicaStatuses"] == {"Launcher": {"active": 1}, "Worker": {}}
    assert jobs.config("foo")["hostfile"] == ""


def test_a_launcher_that_is_a_worker(jobs: Jobs) -> None:
    jobs.create(mpijob("foo", runLauncherAsWorker=True, slotsPerWorker=2))
    workers = jobs.workers("foo", 2)
    label = "training.kubeflow.org/replica-index"
    assert [pod["metadata"]["labels"][label] for pod in workers] == ["1", "2"]
    template = jobs.launcher("foo")["spec"]["template"]
    assert template["metadata"]["labels"][label] == "0"
    assert not set(NO_GPU) & set(env(first(template)))
    assert jobs.objects.get("v1", "services", "foo")["spec"]["publishNotReadyAddresses"]
    domain = f"foo.{jobs.objects.namespace}.svc"
    hosts = [f"foo-{name}.{domain}" for name in ("launcher", "worker-0", "worker-1")]
    assert jobs.config("foo") == {
        "hostfile": "".join(f"{host} slots=2\n" for host in hosts),
        "discover_hosts.sh": f"#!/bin/sh\necho {hosts[0]}\n",
    }


def test_a_path_of_the_keys(jobs: Jobs) -> None:
    jobs.create(mpijob("foo", sshAuthMountPath="/home/mpi/.ssh"))
    for pod in jobs.workers("foo", 2):
        volume = next(found for found in pod["spec"]["volumes"] if found["name"] == "ssh-auth")
        assert volume["secret"].get("defaultMode") in (None, 0o644)  # the server's own default
        mounts = {found["name"]: found["mountPath"] for found in first(pod)["volumeMounts"]}
        assert mounts["ssh-auth"] == "/home/mpi/.ssh"


def test_network_of_the_node(jobs: Jobs) -> None:
    job = mpijob("foo", workers=1)
    for role in ("Launcher", "Worker"):
        job["spec"]["mpiReplicaSpecs"][role]["template"]["spec"]["hostNetwork"] = True
    jobs.create(job)
    (worker,) = jobs.workers("foo", 1)
    assert worker["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"
    launcher = jobs.launcher("foo")["spec"]["template"]["spec"]
    assert launcher["dnsPolicy"] == "ClusterFirstWithHostNet"


@pytest.mark.parametrize(
    ("own", "made"),
    [
        ({"command": ["sleep"]}, {"command": ["sleep"]}),
        ({"args": ["now"]}, {"args": ["now"]}),
        ({}, {"command": ["/usr/sbin/sshd", "-De"]}),
        ({"command": None, "args": ["now"]}, {"args": ["now"]}),
    ],
    ids=["command", "args", "neither", "null"],
)
def test_what_workers_run(jobs: Jobs, own: Obj, made: Obj) -> None:
    job = mpijob("foo", workers=1)
    container = first(job["spec"]["mpiReplicaSpecs"]["Worker"]["template"])
    container |= own
    jobs.create(job)
    (worker,) = jobs.workers("foo", 1)
    found = first(worker)
    assert {key: found[key] for key in ("command", "args") if key in found} == made


def test_what_users_wrote_comes_first(jobs: Jobs) -> None:
    job = mpijob("foo", workers=1)
    template = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]
    template["metadata"] = {
        "labels": {"team": "a", "training.kubeflow.org/job-role": "mine"},
        "annotations": {"note": "yes"},
    }
    template["spec"]["volumes"] = [{"name": "scratch", "emptyDir": {}}]
    first(template).update(
        env=[{"name": "OMP_NUM_THREADS", "value": "4"}],
        volumeMounts=[{"name": "scratch", "mountPath": "/scratch"}],
    )
    jobs.create(job)
    (pod,) = jobs.workers("foo", 1)
    assert pod["metadata"]["labels"]["team"] == "a"
    assert pod["metadata"]["labels"]["training.kubeflow.org/job-role"] == "worker"
    assert pod["metadata"]["annotations"]["note"] == "yes"
    assert list(env(first(pod))) == ["OMP_NUM_THREADS", "K_MPI_JOB_ROLE"]
    assert [found["name"] for found in pod["spec"]["volumes"]][:2] == ["scratch", "ssh-auth"]


def test_network_policy(jobs: Jobs) -> None:
    job = mpijob("foo", workers=1)
    job["metadata"]["annotations"] = {"corral.dev/network-policy": "Isolated"}
    jobs.create(job)
    api = "networking.k8s.io/v1"
    eventually(lambda: jobs.objects.find(api, "networkpolicies", "foo"))
    off = {"metadata": {"annotations": {"corral.dev/network-policy": "None"}}}
    jobs.objects.patch(API, "mpijobs", "foo", off)
    eventually(lambda: jobs.objects.find(api, "networkpolicies", "foo") is None)


def test_the_examples(jobs: Jobs, repository: Any) -> None:
    manifests = sorted((repository / "examples" / "mpijob").glob("*.yaml"))
    assert manifests
    for path in manifests:
        for doc in yaml.safe_load_all(path.read_text()):
            if doc and doc["kind"] == "MPIJob":
                doc["metadata"].pop("namespace", None)
                job = jobs.create(doc)
                name = job["metadata"]["name"]
                count = job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"]
                workers = jobs.workers(name, count)
                if job["spec"].get("launcherCreationPolicy") == "WaitForWorkersReady":
                    jobs.become(workers, "Running")
                assert contains(jobs.launcher(name), {"metadata": {"labels": {"app": name}}})
                jobs.delete(name)


def test_the_spelling_of_intel(jobs: Jobs) -> None:
    jobs.create(mpijob("foo", mpiImplementation="IntelMPI"))
    jobs.workers("foo", 2)
    assert jobs.config("foo")["hostfile"].splitlines()[0].endswith(".svc:1")


def test_many_workers(jobs: Jobs) -> None:
    job = mpijob("foo", workers=0)
    job["spec"]["mpiReplicaSpecs"]["Worker"] = replica("worker", replicas=40)
    jobs.create(job)
    jobs.workers("foo", 40)
    assert len(jobs.config("foo")["hostfile"].splitlines()) == 40
