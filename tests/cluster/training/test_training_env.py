"""Every framework's replicas are told how to find each other, in its own words."""

from __future__ import annotations

import json

import pytest

from tests.cluster.training.training_stage import Jobs, Obj, ended

pytestmark = pytest.mark.timeout(180)
REPLICAS = range(3)


def variables(jobs: Jobs, name: str) -> list[dict[str, str]]:
    """What each replica printed."""
    created = jobs.create(name)
    jobs.succeeded(name)
    assert all(ended(jobs.pods(name)[replica]) for replica in REPLICAS)
    found = [json.loads(jobs.log(f"{name}-{replica}")) for replica in REPLICAS]
    for replica, env in enumerate(found):
        check_common(env, created, replica)
    return found


def check_common(env: dict[str, str], job: Obj, replica: int) -> None:
    expected = {
        "CORRAL_JOB": job["metadata"]["name"],
        "CORRAL_NAMESPACE": job["metadata"]["namespace"],
        "CORRAL_JOB_UID": job["metadata"]["uid"],
        "CORRAL_REPLICA": str(replica),
        "CORRAL_REPLICAS": "3",
        "CORRAL_FRAMEWORK": job["spec"]["framework"],
    }
    assert env | expected == env
    assert env["CORRAL_REPORT_URL"].endswith(
        f"/v1/namespaces/{job['metadata']['namespace']}/trainingjobs/{job['metadata']['name']}"
    )


def host(jobs: Jobs, name: str, replica: int = 0) -> str:
    return f"{name}-{replica}.{name}.{jobs.objects.namespace}.svc"


def test_tensorflow(jobs: Jobs) -> None:
    name = "tensorflow-env"
    configs = [json.loads(env["TF_CONFIG"]) for env in variables(jobs, name)]
    tasks = [(config["task"]["type"], config["task"]["index"]) for config in configs]
    assert tasks == [("chief", 0), ("worker", 0), ("worker", 1)]
    (cluster,) = {json.dumps(config["cluster"], sort_keys=True) for config in configs}
    members = json.loads(cluster)
    hosts = [address.rpartition(":")[0] for address in members["chief"] + members["worker"]]
    assert hosts == [host(jobs, name, replica) for replica in REPLICAS]


def test_xgboost(jobs: Jobs) -> None:
    name = "xgboost-env"
    found = variables(jobs, name)
    assert {env["DMLC_TRACKER_URI"] for env in found} == {host(jobs, name)}
    assert len({env["DMLC_TRACKER_PORT"] for env in found}) == 1
    assert [env["DMLC_TASK_ID"] for env in found] == ["0", "1", "2"]
    assert {env["DMLC_NUM_WORKER"] for env in found} == {"3"}


def test_pytorch(jobs: Jobs) -> None:
    name = "pytorch-env"
    found = variables(jobs, name)
    assert {env["MASTER_ADDR"] for env in found} == {host(jobs, name)}
    assert [env["RANK"] for env in found] == ["0", "1", "2"]
    assert {(env["WORLD_SIZE"], env["LOCAL_RANK"], env["PET_NNODES"]) for env in found} == {
        ("3", "0", "3")
    }


def test_jax(jobs: Jobs) -> None:
    name = "jax-env"
    found = variables(jobs, name)
    (address,) = {env["JAX_COORDINATOR_ADDRESS"] for env in found}
    assert address.rpartition(":")[0] == host(jobs, name)
    assert [env["JAX_PROCESS_ID"] for env in found] == ["0", "1", "2"]
    assert {env["JAX_NUM_PROCESSES"] for env in found} == {"3"}


def test_custom(jobs: Jobs) -> None:
    """Only what every job is told."""
    assert len(variables(jobs, "custom-env")) == 3
