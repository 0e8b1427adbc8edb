"""The environment in which replicas of every framework find each other."""

from __future__ import annotations

import json
from typing import Any

import pytest

from corral.api.training.spec import FRAMEWORKS
from corral.families.trainingjob.lifecycle.generation import Generation
from corral.families.trainingjob.objects.rendezvous import (
    RENDEZVOUS,
    Replica,
    default_port,
    gpus_of,
    procs_of,
    rendezvous_env,
)
from corral.kube.types import Obj

HOST = "mnist-0.mnist.team-a.svc"


def replica(index: int = 1, *, world: int = 4, attempt: int = 1, **more: Any) -> Replica:
    return Replica("mnist", "team-a", "u-1", index, Generation(attempt, world), **more)


def pod(env: list[Obj] | None = None, ports: list[Obj] | None = None) -> Obj:
    return {"containers": [{"name": "trainer", "env": env or [], "ports": ports or []}]}


def test_every_framework_has_one() -> None:
    assert tuple(RENDEZVOUS) == FRAMEWORKS


def test_pytorch() -> None:
    this = replica()
    port = str(default_port(this))
    assert rendezvous_env("pytorch", this, pod=pod()) == {
        "MASTER_ADDR": HOST,
        "MASTER_PORT": port,
        "RANK": "1",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "4",
        "PET_NNODES": "4",
        "PET_NPROC_PER_NODE": "1",
        "PET_NODE_RANK": "1",
        "PET_MASTER_ADDR": HOST,
        "PET_MASTER_PORT": port,
    }


def test_pytorch_with_several_processes_in_a_pod() -> None:
    env = rendezvous_env("pytorch", replica(2, procs=8), pod=pod())
    assert (env["WORLD_SIZE"], env["RANK"], env["PET_NNODES"]) == ("32", "16", "4")
    assert (env["PET_NPROC_PER_NODE"], env["PET_NODE_RANK"]) == ("8", "2")
    assert "LOCAL_RANK" not in env


@pytest.mark.parametrize(("index", "host"), [(0, "true"), (3, "false")])
def test_elastic_pytorch_has_a_dynamic_rendezvous(index: int, host: str) -> None:
    env = rendezvous_env("pytorch", replica(index, attempt=7, elastic=True), pod=pod())
    assert env["PET_RDZV_BACKEND"] == "c10d"
    assert env["PET_RDZV_ENDPOINT"] == f"{env['MASTER_ADDR']}:{env['MASTER_PORT']}"
    assert env["PET_RDZV_ID"] == "u-1-7"
    assert env["PET_RDZV_CONF"] == f"is_host={host}"


def test_what_the_template_chose_is_used_everywhere() -> None:
    given = [{"name": "MASTER_PORT", "value": "29500"}, {"name": "MASTER_ADDR", "value": "head"}]
    env = rendezvous_env("pytorch", replica(elastic=True), pod=pod(given))
    assert (env["PET_MASTER_PORT"], env["PET_MASTER_ADDR"]) == ("29500", "head")
    assert env["PET_RDZV_ENDPOINT"] == "head:29500"


@pytest.mark.parametrize(
    ("framework", "variable", "value"),
    [
        ("pytorch", "MASTER_PORT", "6000"),
        ("jax", "JAX_COORDINATOR_ADDRESS", f"{HOST}:6000"),
        ("xgboost", "DMLC_TRACKER_PORT", "6000"),
    ],
)
def test_a_port_called_rendezvous_is_used(framework: str, variable: str, value: str) -> None:
    declared = pod(ports=[{"name": "rendezvous", "containerPort": 6000}])
    assert rendezvous_env(framework, replica(), pod=declared)[variable] == value


@pytest.mark.parametrize(
    ("index", "task"),
    [
        (0, {"type": "chief", "index": 0}),
        (1, {"type": "worker", "index": 0}),
        (2, {"type": "worker", "index": 1}),
    ],
)
def test_tensorflow(index: int, task: Obj) -> None:
    this = replica(index, world=3)
    config = json.loads(rendezvous_env("tensorflow", this, pod=pod())["TF_CONFIG"])
    ports = [default_port(this, i) for i in range(3)]
    assert len(set(ports)) == 3
    names = [f"mnist-{i}.mnist.team-a.svc:{ports[i]}" for i in range(3)]
    assert config == {"cluster": {"chief": names[:1], "worker": names[1:]}, "task": task}


def test_tensorflow_alone_has_no_workers() -> None:
    config = json.loads(rendezvous_env("tensorflow", replica(0, world=1), pod=pod())["TF_CONFIG"])
    assert list(config["cluster"]) == ["chief"]


def test_jax() -> None:
    this = replica(procs=2)
    assert rendezvous_env("jax", this, pod=pod()) == {
        "JAX_COORDINATOR_ADDRESS": f"{HOST}:{default_port(this)}",
        "JAX_NUM_PROCESSES": "8",
        "JAX_PROCESS_ID": "2",
    }


def test_xgboost() -> None:
    this = replica(3)
    assert rendezvous_env("xgboost", this, pod=pod()) == {
        "DMLC_TRACKER_URI": HOST,
        "DMLC_TRACKER_PORT": str(default_port(this)),
        "DMLC_ROLE": "worker",
        "DMLC_TASK_ID": "3",
        "DMLC_NUM_WORKER": "4",
        "DMLC_NUM_SERVER": "0",
    }


def test_custom_has_nothing_of_its_own() -> None:
    assert rendezvous_env("custom", replica(), pod=pod()) == {}


def test_the_port_is_that_of_the_job_and_the_attempt() -> None:
    assert default_port(replica(0)) == default_port(replica(3, world=9))
    ports = {default_port(replica(attempt=attempt)) for attempt in range(50)}
    assert len(ports) > 40
    assert all(20_000 <= port < 30_000 for port in ports)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, 1),
        ({"cpu": "4"}, 1),
        ({"nvidia.com/gpu": "8"}, 8),
        ({"nvidia.com/gpu": 2}, 2),
        ({"amd.com/gpu": "4"}, 4),
        ({"nvidia.com/mig-1g.10gb": "3"}, 3),
    ],
)
def test_auto_is_one_process_a_gpu(limits: Obj, expected: int) -> None:
    template: Obj = {"containers": [{"resources": {"limits": limits}}, {"name": "helper"}]}
    assert procs_of({"procsPerReplica": "auto"}, template) == expected


def test_processes_are_one_unless_said() -> None:
    assert procs_of({}, {}) == 1
    assert procs_of({"procsPerReplica": 4}, {}) == 4
    assert gpus_of({}) == 0
