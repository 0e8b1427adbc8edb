"""The REST interface of Kafka-ML, on objects whose statuses the cases write themselves."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from corral.oci import Artifacts, Layer, Reference
from tests.backends import Backend
from tests.cluster.gateway.gateways import GatewayProcess, Reply, Somebody, token_of
from tests.cluster.objects import Objects
from tests.registries import RunningRegistry

API = "kafkaml.corral.dev/v1alpha1"
RAW = {"data_type": "float32", "data_reshape": "64", "label_type": "float32", "label_reshape": "10"}
LEARN = {
    "configuration": "all", "batch": 16, "tf_kwargs_fit": "epochs=2", "tf_kwargs_val": "",
    "pth_kwargs_fit": "", "pth_kwargs_val": "", "federated": True, "agg_rounds": 3,
    "min_data": 100, "agg_strategy": "FedAvg", "data_restriction": '{"site": "a"}',
}  # fmt: skip


class Rest:
    """One namespace of the interface, as one caller."""

    def __init__(self, somebody: Somebody, namespace: str) -> None:
        self._somebody, self._root = somebody, f"/kafkaml/{namespace}"

    def ask(self, method: str, path: str, body: Any = None) -> Reply:
        return self._somebody.ask(method, self._root + path, body)

    def get(self, path: str) -> Any:
        reply = self.ask("GET", path)
        assert reply.status == 200, reply.body
        return reply.json()

    def done(self, method: str, path: str, body: Any = None) -> None:
        reply = self.ask(method, path, body)
        assert reply.status == (201 if body is not None and method == "POST" else 200), reply.body
        assert reply.body == b""

    def refused(self, method: str, path: str, body: Any = None) -> str:
        """What is said, as plain words."""
        reply = self.ask(method, path, body)
        assert reply.status == 400, (reply.status, reply.body)
        assert reply.headers["content-type"].startswith("text/plain")
        return reply.body.decode()

    def model(self, name: str = "digits", **more: Any) -> None:
        body = {"name": name, "code": "model = 1", "framework": "numpy", **more}
        self.done("POST", "/models/", body)

    def learning(self) -> str:
        """A model, a configuration and a deployment of it."""
        self.model()
        self.done("POST", "/configurations/", {"name": "all", "ml_models": ["digits"]})
        self.done("POST", "/deployments/", LEARN)
        (found,) = self.get("/deployments/all")
        return str(found["id"])


def test_models_and_configurations(admin: Somebody, objects: Objects, namespace: str) -> None:
    rest = Rest(admin, namespace)
    rest.model("My Model", description="a first one", imports="import math")
    rest.model("part", distributed=True)
    assert "exists already" in rest.refused("POST", "/models/", {"name": "part", "code": "1"})
    assert [row["name"] for row in rest.get("/models/")] == ["My Model", "part"]
    assert [row["id"] for row in rest.get("/models/distributed")] == ["part"]
    assert [row["id"] for row in rest.get("/models/fathers")] == ["part"]
    assert rest.get("/models/my-model")["imports"] == "import math"
    rest.done("PUT", "/models/my-model", {"name": "My Model", "code": "2", "framework": "pth"})
    assert objects.get(API, "mlmodels", "my-model")["spec"]["code"] == "2"

    said = rest.refused("POST", "/configurations/", {"name": "c", "ml_models": ["nobody"]})
    assert said == "ml_models: there is no model nobody"
    rest.done("POST", "/configurations/", {"name": "c", "ml_models": ["my-model"]})
    assert rest.get("/frameworksInConfiguration/c") == ["pth"]
    assert rest.get("/distributedConfiguration/c") is False
    rest.done("PUT", "/configurations/c", {"name": "c", "ml_models": ["my-model", "part"]})
    assert rest.get("/distributedConfiguration/c") is True
    assert rest.get("/configurations/c")["ml_models"] == ["my-model", "part"]

    assert "used by configuration c" in rest.refused("DELETE", "/models/part")
    rest.done("DELETE", "/configurations/c")
    rest.done("DELETE", "/models/part")
    assert rest.ask("GET", "/models/part").status == 404


def test_a_model_that_was_applied_is_listed(
    admin: Somebody, objects: Objects, namespace: str
) -> None:
    spec = {"framework": "numpy", "code": "model = 1"}
    made = {"apiVersion": API, "kind": "MLModel", "metadata": {"name": "m"}, "spec": spec}
    objects.create("mlmodels", made)
    objects.patch(
        API, "mlmodels", "m", {"status": {"phase": "Failed", "error": "no layers"}},
        subresource="status",
    )  # fmt: skip
    (row,) = Rest(admin, namespace).get("/models/")
    assert (row["status"], row["error"]) == ("Failed", "no layers")


def report(objects: Objects, deployment: str, **result: Any) -> None:
    """What controllers and the server of a deployment write."""
    rounds = [
        {
            "version": n, "updates": 2, "clients": ["a", "b"], "samples": 200,
            "metrics": {"training": {"loss": 1.0 / (n + 1)}, "validation": {}},
        }
        for n in range(3)
    ]  # fmt: skip
    found = {
        "id": 1, "model": "digits", "federatedStringId": "abcd1234", "status": "deployed",
        "version": 3, "rounds": rounds, "trainMetrics": {"loss": 0.33}, **result,
    }  # fmt: skip
    clients = [{"clientId": "a", "datasource": "shard"}]
    status = {"phase": "Running", "results": [found], "clients": clients}
    objects.patch(API, "federateddeployments", deployment, {"status": status}, subresource="status")


def test_deployments_and_their_results(admin: Somebody, objects: Objects, namespace: str) -> None:
    rest = Rest(admin, namespace)
    name = rest.learning()
    spec = objects.get(API, "federateddeployments", name)["spec"]
    assert spec["aggregation"]["rounds"] == 3
    assert spec["dataRestriction"] == {"site": "a"}
    assert rest.get("/results/") == []
    assert rest.ask("GET", f"/results/chart/{name}.1").status == 404
    assert "used by deployment" in rest.refused("DELETE", "/configurations/all")
    said = rest.refused("POST", "/deployments/", {**LEARN, "configuration": "none"})
    assert said == "configuration: there is no configuration none"

    report(objects, name)
    (row,) = rest.get(f"/deployments/results/{name}")
    assert (row["id"], row["status"], row["agg_rounds"]) == (f"{name}.1", "deployed", 3)
    assert rest.get("/results/") == [row]
    assert rest.get("/results_metrics/1")["train_metrics"] == {"loss": 0.33}
    chart = rest.get(f"/results/chart/{name}.1")
    assert [point["value"] for point in chart["metrics"][0]["series"]] == [1.0, 0.5, 1 / 3]
    assert rest.get("/models/result/1")["id"] == "digits"
    matrix = rest.ask("GET", f"/results/confusion_matrix/{name}.1")
    assert matrix.status == 404
    assert "no confusion matrix" in matrix.json()["detail"]
    assert "no model yet" in rest.ask("GET", "/results/model/1").json()["detail"]

    rest.done("POST", "/deployments/", LEARN)
    (other,) = (x["id"] for x in rest.get("/deployments/") if x["id"] != name)
    report(objects, other, testMetrics={"confusion_matrix": [[3, 1], [0, 4]]})
    assert "2 deployments have a result 1" in rest.refused("GET", "/results/chart/1")
    matrix = rest.get(f"/results/confusion_matrix/{other}.1")
    assert matrix == {"confusion_matrix": [[3, 1], [0, 4]]}
    assert rest.get(f"/results/chart/{other}.1")["conf_mat"] is True
    rest.done("DELETE", f"/results/{other}.1")

    rest.done("POST", f"/results/stop/{name}.1")
    assert objects.get(API, "federateddeployments", name)["spec"]["suspend"] is True
    report(objects, name, status="finished")
    assert "finished already" in rest.refused("POST", f"/results/stop/{name}.1")
    rest.done("DELETE", f"/deployments/{name}")
    assert rest.get("/deployments/") == []


def test_inferences_and_datasources(admin: Somebody, objects: Objects, namespace: str) -> None:
    rest = Rest(admin, namespace)
    name = rest.learning()
    control = {
        "topic": "mnist_fed:0:0:550", "input_format": "RAW", "input_config": RAW,
        "dataset_restrictions": '{"site": "a"}', "total_msg": 550, "validation_rate": 0.1,
    }  # fmt: skip
    for path in ("/datasources/", "/datasources/kafka"):
        rest.done("POST", path, control)
    first, second = rest.get("/datasources/")
    assert first["topic"] == second["topic"] == "mnist_fed:0:0:550"
    said = rest.refused("POST", "/datasources/", {**control, "topic": "mnist_fed"})
    assert "not topic:partition:start:end" in said

    report(objects, name)
    assert rest.get("/results/inference/1") == {"input_format": "RAW", "input_config": "{}"}
    status = {"status": {"clients": [{"clientId": "a", "datasource": first["id"]}]}}
    objects.patch(API, "federateddeployments", name, status, subresource="status")
    assert '"64"' in rest.get("/results/inference/1")["input_config"]
    asked = {
        "model_result": f"{name}.1", "replicas": 2, "input_format": "RAW", "input_config": RAW,
        "input_topic": "in", "output_topic": "out",
    }  # fmt: skip
    assert "input_topic" in rest.refused("POST", "/results/inference/1", {"output_topic": "x"})
    rest.done("POST", "/results/inference/1", asked)
    (row,) = rest.get("/inferences/")
    spec = objects.get(API, "inferences", row["id"])["spec"]
    assert (spec["deployment"], spec["model"], spec["replicas"]) == (name, "digits", 2)
    rest.done("POST", f"/inferences/{row['id']}")
    assert rest.get(f"/inferences/{row['id']}")["status"] == "stopped"
    rest.done("DELETE", f"/inferences/{row['id']}")
    assert rest.get("/inferences/") == []


def test_a_trained_model_is_downloaded(
    admin: Somebody,
    objects: Objects,
    namespace: str,
    models_registry: RunningRegistry,
    tmp_path: Path,
) -> None:
    content = os.urandom(3_000_000)
    (tmp_path / "model").write_bytes(content)

    async def push() -> str:
        reference = Reference.parse(f"registry.corral.local/{namespace}/learn/model:1")
        layer = Layer("application/vnd.corral.model", tmp_path / "model")
        async with Artifacts(models_registry.registries()) as artifacts:
            pushed = await artifacts.push(reference, [layer], artifact_type="application/x.model")
        return str(pushed.reference)

    reference = asyncio.run(push())
    rest = Rest(admin, namespace)
    name = rest.learning()
    report(objects, name, status="finished", modelRef=reference)
    reply = rest.ask("GET", f"/results/model/{name}.1")
    assert reply.status == 200, reply.body[:500]
    assert reply.body == content
    assert reply.headers["ml-framework"] == "numpy"
    assert reply.headers["content-length"] == str(len(content))
    status = {"status": {"phase": "Ready", "weightsRef": reference}}
    objects.patch(API, "mlmodels", "digits", status, subresource="status")
    assert rest.ask("GET", f"/results/{name}.1").body == content

    for other, code in (("gone", 404), ("elsewhere", 404)):
        host = "registry.corral.local" if other == "gone" else "127.0.0.1:1"
        report(objects, name, status="finished", modelRef=f"{host}/{namespace}/{other}/model:1")
        reply = rest.ask("GET", f"/results/model/{name}.1")
        assert (reply.status, reply.headers["content-type"]) == (code, "application/problem+json")


def test_a_caller_has_only_the_rights_of_its_token(
    gateway: GatewayProcess, backend: Backend, admin: Somebody, namespace: str
) -> None:
    Rest(admin, namespace).model()
    rule = {"apiGroups": ["kafkaml.corral.dev"], "resources": ["mlmodels"], "verbs": ["list"]}
    reader = Rest(
        Somebody(gateway, token_of(backend, namespace, "reader", rules=[rule])), namespace
    )
    assert [row["id"] for row in reader.get("/models/")] == ["digits"]
    assert reader.ask("POST", "/models/", {"name": "x", "code": "1"}).status == 403
    assert reader.ask("GET", "/datasources/").status == 403
    assert Rest(Somebody(gateway, None), namespace).ask("GET", "/models/").status == 401
