"""How workers are reached: which way a job takes, and what the objects of our own way are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from corral.cluster.node.config import AgentConfig
from corral.cluster.node.node_object import node_labels
from corral.families.mpijob.objects import launching
from corral.families.mpijob.objects.builders import Children, children
from corral.families.mpijob.objects.ssh import KeyPair
from corral.families.mpijob.settings import ObjectSettings
from corral.families.mpijob.view import JobView

Obj = dict[str, Any]
KEYS = KeyPair(private=b"private", public=b"public")
OURS = {launching.RUNTIME_LABEL: launching.PROCESS}


def job(
    implementation: str = "OpenMPI",
    *,
    workers: int = 2,
    annotations: dict[str, str] | None = None,
    launcher: Obj | None = None,
    worker: Obj | None = None,
    container: Obj | None = None,
) -> Obj:
    def replica(count: int, pod: Obj | None, more: Obj | None = None) -> Obj:
        containers = [{"name": "mpi", "image": "mpi", **(more or {})}]
        return {"replicas": count, "template": {"spec": {"containers": containers, **(pod or {})}}}

    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {
            "name": "foo", "namespace": "bar", "uid": "u", "annotations": annotations or {},
        },
        "spec": {
            "mpiImplementation": implementation,
            "mpiReplicaSpecs": {
                "Launcher": replica(1, launcher),
                "Worker": replica(workers, worker, container),
            },
        },
    }  # fmt: skip


def view(*args: Any, **options: Any) -> JobView:
    return JobView.of(job(*args, **options))


def node(**labels: str) -> Obj:
    return {"metadata": {"name": "n", "labels": labels}}


def made(obj: Obj) -> Children:
    return children(obj, launching.rsh_settings(ObjectSettings()), KEYS)


def env(pod: Obj) -> dict[str, str]:
    return {item["name"]: item.get("value", "") for item in pod["containers"][0]["env"]}


# -- which way ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([], False),
        ([node()], False),
        ([node(**OURS)], True),
        ([node(**OURS), node(**OURS)], True),
        ([node(**OURS), node()], False),
        ([{"metadata": {"name": "n"}}], False),
    ],
    ids=["none", "images", "process", "two", "mixed", "no labels"],
)
def test_the_nodes_decide(nodes: list[Obj], expected: bool) -> None:
    assert launching.needs_rsh(view(), nodes) is expected


def test_only_nodes_that_pods_may_land_on_decide() -> None:
    mixed = [node(**OURS, place="edge"), node(place="centre")]
    chosen = {"nodeSelector": OURS}
    assert launching.needs_rsh(view(launcher=chosen, worker=chosen), mixed)
    assert not launching.needs_rsh(view(worker=chosen), mixed)
    away = {"nodeSelector": {"place": "centre"}}
    assert not launching.needs_rsh(view(launcher=away, worker=away), mixed)
    nowhere = {"nodeSelector": {"place": "moon"}}
    lost = view(launcher=nowhere, worker=nowhere)
    assert not launching.needs_rsh(lost, mixed)
    assert launching.needs_rsh(lost, mixed, default=True)


@pytest.mark.parametrize(
    ("asked", "nodes", "expected"),
    [("exec", [node()], True), ("ssh", [node(**OURS)], False), ("?", [node(**OURS)], True)],
)
def test_the_job_decides_for_itself(asked: str, nodes: list[Obj], expected: bool) -> None:
    found = view(annotations={launching.LAUNCH_ANNOTATION: asked})
    assert launching.needs_rsh(found, nodes) is expected


def test_what_was_decided_is_in_the_config_map() -> None:
    assert launching.uses_rsh(made(job()).config_map)
    assert not launching.uses_rsh(children(job(), ObjectSettings(), KEYS).config_map)
    assert not launching.uses_rsh({})


def test_our_nodes_say_what_they_are(tmp_path: Path) -> None:
    config = AgentConfig(name="n", data_dir=tmp_path)
    assert OURS.items() <= node_labels(config, ()).items()


# -- the pods -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("implementation", "expected"),
    [
        (
            "OpenMPI",
            {
                "OMPI_MCA_plm_rsh_agent": "/etc/mpi/rsh",
                "PRTE_MCA_plm_ssh_agent": "/etc/mpi/rsh",
                "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
                "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
            },
        ),
        ("MPICH", {"HYDRA_LAUNCHER": "ssh", "HYDRA_LAUNCHER_EXEC": "/etc/mpi/rsh"}),
        (
            "Intel",
            {
                "I_MPI_HYDRA_BOOTSTRAP": "ssh",
                "I_MPI_HYDRA_BOOTSTRAP_EXEC": "/etc/mpi/rsh",
                "I_MPI_HYDRA_BRANCH_COUNT": "2",
            },
        ),
    ],
)
def test_every_mpi_is_told(implementation: str, expected: dict[str, str]) -> None:
    found = env(made(job(implementation)).launcher["spec"]["template"]["spec"])
    by_ssh = children(job(implementation), ObjectSettings(), KEYS).launcher
    plain = env(by_ssh["spec"]["template"]["spec"])
    # What is said in both cases stays as it is.
    assert found == plain | expected
    assert not plain.keys() & expected.keys()


def test_the_launcher_has_the_agent_and_an_account() -> None:
    found = made(job())
    script = found.config_map["data"]["rsh"]
    assert script.startswith("#!/usr/bin/env python3\n") and "corral." not in _imports(script)
    pod = found.launcher["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == "foo-launcher"
    assert pod["automountServiceAccountToken"] is True
    volume = next(item for item in pod["volumes"] if item["name"] == "mpi-job-config")
    assert {"key": "rsh", "path": "rsh", "mode": 0o555} in volume["configMap"]["items"]


def _imports(script: str) -> str:
    return "\n".join(line for line in script.splitlines() if line.lstrip().startswith("import"))


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({}, ["sleep", "infinity"]),
        ({"command": ["/usr/sbin/sshd"], "args": ["-De", "-f", "x"]}, ["sleep", "infinity"]),
        ({"args": ["sshd", "-De"]}, ["sleep", "infinity"]),
        ({"command": ["sh", "-c", "prepare; sshd -De"]}, ["sh", "-c", "prepare; sshd -De"]),
    ],
    ids=["nothing", "sshd", "sshd as args", "something else"],
)
def test_workers_wait(container: Obj, expected: list[str]) -> None:
    workers = made(job(container=container)).workers
    for worker in workers:
        found = worker["spec"]["containers"][0]
        assert found["command"] == expected and "args" not in found
        mounts = {item["name"]: item["mountPath"] for item in found["volumeMounts"]}
        assert mounts["mpi-job-config"] == "/etc/mpi"
        assert "serviceAccountName" not in worker["spec"]


# -- rights -------------------------------------------------------------------------------------


WORKERS = ["foo-worker-0", "foo-worker-1"]


def test_rights_are_to_pods_that_are_there() -> None:
    _, role, _ = launching.access_objects(view(), ["foo-worker-1", "foo-worker-7", "other"])
    assert {tuple(rule["resourceNames"]) for rule in role["rules"]} == {("foo-worker-1",)}
    _, role, _ = launching.access_objects(view(), [])
    assert role["rules"] == []


def test_the_launcher_may_reach_its_workers_and_nobody_else() -> None:
    account, role, binding = launching.access_objects(view(), WORKERS)
    assert [obj["kind"] for obj in (account, role, binding)] == [
        "ServiceAccount", "Role", "RoleBinding",
    ]  # fmt: skip
    for obj in (account, role, binding):
        assert obj["metadata"]["name"] == "foo-launcher"
        assert obj["metadata"]["ownerReferences"][0]["kind"] == "MPIJob"
    workers = ["foo-worker-0", "foo-worker-1"]
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["pods"], "resourceNames": workers, "verbs": ["get"]},
        {
            "apiGroups": [""],
            "resources": ["pods/exec"],
            "resourceNames": workers,
            "verbs": ["get", "create"],
        },
    ]
    assert binding["roleRef"]["name"] == "foo-launcher"
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": "foo-launcher", "namespace": "bar"}
    ]


def test_an_account_of_the_user_gets_the_rights() -> None:
    found = view(launcher={"serviceAccountName": "mine"})
    role, binding = launching.access_objects(found, WORKERS)
    assert (role["kind"], binding["subjects"][0]["name"]) == ("Role", "mine")
    launcher = made(job(launcher={"serviceAccountName": "mine"})).launcher
    assert launcher["spec"]["template"]["spec"]["serviceAccountName"] == "mine"


def test_no_workers_no_rights() -> None:
    alone = job()
    del alone["spec"]["mpiReplicaSpecs"]["Worker"]
    _, role, _ = launching.access_objects(JobView.of(alone), WORKERS)
    assert role["rules"] == []
