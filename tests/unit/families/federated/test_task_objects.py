"""The objects of a WasmTask."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from corral.api.propeller.kinds import WasmTask
from corral.families.federated.groups.proplets import Proplet
from corral.families.federated.settings import FederatedSettings
from corral.families.federated.tasks import objects

Obj = dict[str, Any]
PROPLET = Proplet("p1", "node-1", "Pod", tolerations=({"key": "edge", "operator": "Exists"},))
SETTINGS = FederatedSettings(
    registry="oci://registry.corral.local", registry_map=("registry.corral.local=http://r:5000",)
)
ROUND = {"ROUND_ID": "round-1", "MODEL_URI": "oci://r/m:1"}


def task(**spec: Any) -> WasmTask:
    metadata = {"name": "t", "namespace": "ns", **spec.pop("metadata", {})}
    return WasmTask.read(
        {
            "apiVersion": "propeller.absmach.io/v1alpha1",
            "kind": "WasmTask",
            "metadata": metadata,
            "spec": spec,
        }
    )


def made(**spec: Any) -> Obj:
    return objects.workload(task(**spec), PROPLET, SETTINGS)


def pod_of(workload: Obj) -> Obj:
    found: Obj = workload["spec"]["template"]["spec"]
    return found


def environment(container: Obj) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in container["env"]}


def test_a_job_bound_to_its_proplet() -> None:
    job = made(imageUrl="oci://r/a:1", cliArgs=["--x"], resources={"limits": {"memory": "1Gi"}})
    assert (job["kind"], job["metadata"]["name"]) == ("Job", "t-job")
    pod = pod_of(job)
    (container,) = pod["containers"]
    assert (container["name"], container["image"]) == ("wasm-task", "r/a:1")
    assert container["args"] == ["--x"]
    assert container["resources"] == {"limits": {"memory": "1Gi"}}
    assert container["envFrom"] == [{"configMapRef": {"name": "t-config"}}]
    assert environment(container) == {"PROPLET_ID": "p1", "TASK_ID": "t"}
    rule = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = rule["nodeSelectorTerms"]
    assert term == {
        "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]
    }
    assert pod["tolerations"] == [{"key": "edge", "operator": "Exists"}]
    assert pod["runtimeClassName"] == "wasm"
    assert pod["automountServiceAccountToken"] is False
    assert "volumes" not in pod and "initContainers" not in pod


@pytest.mark.parametrize(
    ("spec", "runtime"),
    [
        ({"imageUrl": "oci://r/a:1"}, "wasm"),
        ({"file": "AGFzbQ=="}, "wasm"),
        ({"imageUrl": "python:3.12"}, None),
        ({"imageUrl": "oci://r/a:1", "runtimeClassName": ""}, None),
        ({"imageUrl": "r/a:1", "runtimeClassName": "wasmtime"}, "wasmtime"),
    ],
)
def test_what_runs_it(spec: Obj, runtime: str | None) -> None:
    assert pod_of(made(**spec)).get("runtimeClassName") == runtime


@pytest.mark.parametrize(
    ("spec", "policy", "limit"),
    [
        ({}, "OnFailure", 3),
        ({"restartPolicy": ""}, "OnFailure", 3),
        ({"restartPolicy": "Always"}, "OnFailure", 3),
        ({"restartPolicy": "Never"}, "Never", 0),
        ({"restartPolicy": "Never", "backoffLimit": 2}, "Never", 2),
        ({"env": ROUND}, "Never", 0),
        ({"env": ROUND, "restartPolicy": "OnFailure"}, "OnFailure", 3),
    ],
)
def test_how_often_it_is_tried(spec: Obj, policy: str, limit: int) -> None:
    job = made(imageUrl="a", **spec)
    assert pod_of(job)["restartPolicy"] == policy
    assert job["spec"]["backoffLimit"] == limit


def test_a_daemon_is_a_deployment() -> None:
    workload = made(imageUrl="oci://r/a:1", daemon=True, restartPolicy="Always")
    assert (workload["kind"], workload["metadata"]["name"]) == ("Deployment", "t-job")
    assert pod_of(workload)["restartPolicy"] == "Always"
    labels = workload["spec"]["template"]["metadata"]["labels"]
    assert labels["batch.kubernetes.io/job-name"] == "t-job"
    assert workload["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_a_module_that_comes_with_the_task() -> None:
    given = task(file=base64.b64encode(b"\0asm").decode(), env={"A": "1"})
    secret = objects.module_secret(given)
    assert secret is not None
    assert base64.b64decode(secret["data"]["module.wasm"]) == b"\0asm"
    assert objects.config_map(given)["data"] == {"A": "1", "wasm_file_provided": "true"}
    pod = pod_of(objects.workload(given, PROPLET, SETTINGS))
    (container,) = pod["containers"]
    assert container["command"] == ["/module/module.wasm"]
    assert pod["volumes"] == [{"name": "corral-module", "secret": {"secretName": "t-module"}}]
    assert objects.module_secret(task(imageUrl="a")) is None
    assert objects.config_map(task(file="AGFzbQ=="))["data"] == {"wasm_file_provided": "true"}


def test_what_the_spec_says_reaches_the_pod() -> None:
    job = made(
        imageUrl="oci://r/a:1",
        inputs=[1, 18446744073709551615],
        mode="infer",
        monitoringProfile={"enabled": True, "interval": 5},
        activeDeadlineSeconds=9,
        serviceAccountName="sa",
        imagePullSecrets=[{"name": "login"}],
        volumes=[{"name": "data", "emptyDir": {}}],
        volumeMounts=[{"name": "data", "mountPath": "/data"}],
    )
    assert job["spec"]["activeDeadlineSeconds"] == 9
    pod = pod_of(job)
    env = environment(pod["containers"][0])
    assert json.loads(env["TASK_INPUTS"]) == [1, 18446744073709551615]
    assert env["TASK_MODE"] == "infer"
    assert json.loads(env["TASK_MONITORING"]) == {"enabled": True, "interval": 5}
    assert pod["serviceAccountName"] == "sa" and "automountServiceAccountToken" not in pod
    assert pod["imagePullSecrets"] == [{"name": "login"}]
    assert pod["volumes"] == [{"name": "data", "emptyDir": {}}]
    assert pod["containers"][0]["volumeMounts"] == [{"name": "data", "mountPath": "/data"}]
    annotations = job["spec"]["template"]["metadata"]["annotations"]
    assert json.loads(annotations["wasm.corral.dev/inputs"]) == [1, 18446744073709551615]


# --- participants --------------------------------------------------------------------------------


def test_a_participant_has_couriers() -> None:
    env = {**ROUND, "FL_JOB_ID": "exp", "SECRET_OF_THE_TASK": "x"}
    labels = {"labels": {"federated-job": "job"}}
    pod = pod_of(made(imageUrl="oci://r/c:1", env=env, metadata=labels))
    fetch, deliver = pod["initContainers"]
    assert (fetch["name"], deliver["name"]) == ("fetch-model", "deliver")
    assert "restartPolicy" not in fetch and deliver["restartPolicy"] == "Always"
    told = environment(deliver)
    assert told["FL_UPDATE_REF"] == "oci://registry.corral.local/ns/job/updates:t"
    assert json.loads(told["CORRAL_REGISTRIES"]) == {"registry.corral.local": "http://r:5000"}
    assert (told["PROPLET_ID"], told["TASK_ID"], told["FL_JOB_ID"]) == ("p1", "t", "exp")
    assert "SECRET_OF_THE_TASK" not in told
    (container,) = pod["containers"]
    assert environment(container)["FL_DIR"] == "/fl"
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/fl"]
    names = [volume["name"] for volume in pod["volumes"]]
    assert names == ["fl", "corral-token", "corral-ended"]
    assert pod["terminationGracePeriodSeconds"] == 300


def test_nothing_to_fetch_nobody_to_do_it() -> None:
    pod = pod_of(made(imageUrl="a", env={"ROUND_ID": "1", "MODEL_URI": "https://elsewhere"}))
    assert [container["name"] for container in pod["initContainers"]] == ["deliver"]


def test_couriers_have_the_logins_and_the_task_has_not() -> None:
    secrets = [{"name": "login"}]
    pod = pod_of(made(imageUrl="oci://r/c:1", env=ROUND, imagePullSecrets=secrets))
    paths = [mount["mountPath"] for mount in pod["initContainers"][1]["volumeMounts"]]
    secret = "/var/run/secrets/corral"
    assert paths == ["/fl", secret, f"{secret}-registries", "/var/run/corral-courier"]
    assert [mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]] == ["/fl"]


def test_a_registry_of_the_tasks_own() -> None:
    env = {**ROUND, "FL_REGISTRY": "oci://other.example.com/team/"}
    pod = pod_of(made(imageUrl="a", env=env))
    told = environment(pod["initContainers"][-1])
    assert told["FL_UPDATE_REF"] == "oci://other.example.com/team/ns/t/updates:t"
