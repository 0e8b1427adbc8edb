"""What the webhook server answers."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client import CollectorRegistry, generate_latest

from corral.api.training.kinds import TRAININGJOBS, TrainingJob
from corral.kube.errors import Forbidden
from corral.kube.problems import invalid_value
from corral.kube.resources import CONFIGMAPS, PODS, Resource
from corral.runtime.logcontext import current_reconcile
from corral.runtime.webhooks import (
    AdmissionRequest,
    Hooks,
    ServerSettings,
    Verdict,
    WebhookMetrics,
    WebhookServer,
    by_service,
    by_url,
    webhook_configurations,
)
from tests.cluster.webhooks_runtime.training_cases import job

Obj = dict[str, Any]
BOXES = Resource("example.test", "v1", "boxes", True, "Box")


def review(obj: Obj | None, old: Obj | None = None, operation: str = "CREATE", **more: Any) -> Obj:
    request = {
        "uid": "u-1",
        "kind": {"group": "training.corral.dev", "version": "v1alpha1", "kind": "TrainingJob"},
        "resource": {
            "group": "training.corral.dev",
            "version": "v1alpha1",
            "resource": "trainingjobs",
        },
        "name": "mnist",
        "namespace": "ns",
        "operation": operation,
        "userInfo": {"username": "me"},
        "object": obj,
        "oldObject": old,
        **more,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


async def no_converter(obj: Obj, wanted: str) -> Obj:
    if "size" not in obj["spec"]:
        raise ValueError("it has no size")
    return {**obj, "spec": {"width": obj["spec"]["size"]}}


def label(request: AdmissionRequest, obj: Obj) -> list[str]:
    obj["metadata"].setdefault("labels", {})["by"] = request.user["username"]
    return ["labelled\nfor you", "x" * 300]


async def slow(_: AdmissionRequest) -> Verdict:
    await asyncio.sleep(3600)
    return Verdict()


def broken(_: AdmissionRequest) -> Verdict:
    raise RuntimeError("oh")


def guarded(request: AdmissionRequest) -> Verdict:
    context = current_reconcile()
    assert context is not None and context.id == request.uid
    if request.operation == "DELETE":
        raise Forbidden("not this one")
    return Verdict([invalid_value("data", 1, "no"), invalid_value("more", 2, "no")], ["mind"])


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
async def client(registry: CollectorRegistry) -> AsyncIterator[TestClient[Any, Any]]:
    hooks = Hooks()
    hooks.kind(TrainingJob)
    hooks.mutating(CONFIGMAPS, label)
    hooks.validating(CONFIGMAPS, guarded, operations=("CREATE", "DELETE"))
    hooks.validating(PODS, slow)
    hooks.validating(BOXES, broken)
    hooks.converting(BOXES, no_converter)
    server = WebhookServer(
        hooks,
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER),
        settings=ServerSettings(max_body=100_000),
        metrics=WebhookMetrics(registry),
    )
    async with TestClient(TestServer(server.application())) as client:
        yield client


async def ask(client: TestClient[Any, Any], path: str, body: Obj) -> Obj:
    async with client.post(path, json=body) as answer:
        assert answer.status == 200, await answer.text()
        found: Obj = await answer.json()
    assert (found["apiVersion"], found["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert found["response"]["uid"] == "u-1"
    response: Obj = found["response"]
    return response


MUTATE = "/mutate/trainingjobs.training.corral.dev"
VALIDATE = "/validate/trainingjobs.training.corral.dev"


async def test_a_kind_is_defaulted(client: TestClient[Any, Any]) -> None:
    response = await ask(client, MUTATE, review(job()))
    patch = orjson.loads(base64.b64decode(response["patch"]))
    assert response["allowed"] and response["patchType"] == "JSONPatch"
    assert {"op": "add", "path": "/spec/replicas", "value": 1} in patch
    complete = job()
    TrainingJob.default(complete)
    assert await ask(client, MUTATE, review(complete)) == {"uid": "u-1", "allowed": True}


async def test_everything_wrong_is_said_at_once(client: TestClient[Any, Any]) -> None:
    wrong = job(framework="mxnet", replicas=0, template={"spec": {"restartPolicy": "Always"}})
    response = await ask(client, VALIDATE, review(wrong))
    assert not response["allowed"]
    status = response["status"]
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert status["message"].startswith(
        'TrainingJob.training.corral.dev "mnist" is invalid: [spec.framework: Unsupported value'
    )
    assert [cause["field"] for cause in status["details"]["causes"]] == [
        "spec.framework",
        "spec.replicas",
        "spec.template.spec.restartPolicy",
    ]


async def test_changes_are_compared_with_what_was(client: TestClient[Any, Any]) -> None:
    response = await ask(client, VALIDATE, review(job(image="y"), job(), "UPDATE"))
    assert response["status"]["details"]["causes"] == [
        {
            "reason": "FieldValueForbidden",
            "message": "Forbidden: may only be changed while the job is suspended",
            "field": "spec.image",
        }
    ]


async def test_what_is_not_changed_is_not_judged(client: TestClient[Any, Any]) -> None:
    wrong = job(replicas=0)
    labelled = {**wrong, "metadata": {"name": "mnist", "labels": {"a": "b"}}}
    assert (await ask(client, VALIDATE, review(labelled, wrong, "UPDATE")))["allowed"]
    going = job(replicas=-1)
    going["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    assert (await ask(client, VALIDATE, review(going, wrong, "UPDATE")))["allowed"]


async def test_warnings(client: TestClient[Any, Any]) -> None:
    response = await ask(client, VALIDATE, review(job(elastic={"maxReplicas": 2})))
    assert response["allowed"]
    assert response["warnings"][0].startswith("spec.elastic: without spec.checkpoint")
    mutated = await ask(client, "/mutate/configmaps", review({"metadata": {}}))
    assert mutated["warnings"] == ["labelled for you", "x" * 256]


async def test_refusals_of_handlers(client: TestClient[Any, Any]) -> None:
    response = await ask(client, "/validate/configmaps", review({}))
    assert [c["field"] for c in response["status"]["details"]["causes"]] == ["data", "more"]
    assert response["warnings"] == ["mind"]
    response = await ask(client, "/validate/configmaps", review(None, {}, "DELETE"))
    assert response["status"]["message"] == "not this one"
    assert response["status"]["code"] == 403


async def test_nothing_to_mutate(client: TestClient[Any, Any]) -> None:
    response = await ask(client, MUTATE, review(None, job(), "DELETE"))
    assert response == {"uid": "u-1", "allowed": True}


BAD: dict[str, tuple[str, bytes, str, int]] = {
    "no path": ("/validate/moons", b"{}", "application/json", 404),
    "no json": (VALIDATE, b"}{", "application/json", 400),
    "no review": (VALIDATE, b"[]", "application/json", 400),
    "no request": (VALIDATE, b"{}", "application/json", 400),
    "old review": (
        VALIDATE,
        b'{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{}}',
        "application/json",
        400,
    ),
    "no uid": (
        VALIDATE,
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{}}',
        "application/json",
        400,
    ),
    "yaml": (VALIDATE, b"a: b", "application/yaml", 415),
    "too large": (VALIDATE, b'"' + b"x" * 100_000 + b'"', "application/json", 413),
    "too slow": (
        "/validate/pods?timeout=10ms",
        orjson.dumps(review({})),
        "application/json",
        504,
    ),
    "broken": ("/validate/boxes.example.test", orjson.dumps(review({})), "application/json", 500),
}


@pytest.mark.parametrize("path,body,kind,code", BAD.values(), ids=BAD)
async def test_bad_questions(
    client: TestClient[Any, Any], path: str, body: bytes, kind: str, code: int
) -> None:
    async with client.post(path, data=body, headers={"Content-Type": kind}) as answer:
        assert answer.status == code


async def test_conversion(client: TestClient[Any, Any]) -> None:
    def question(*objects: Obj) -> Obj:
        request = {"uid": "c-1", "desiredAPIVersion": "example.test/v2", "objects": objects}
        review = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}
        return {**review, "request": request}

    old = {"apiVersion": "example.test/v1", "spec": {"size": 3}}
    new = {"apiVersion": "example.test/v2", "spec": {"width": 4}}
    async with client.post("/convert/boxes.example.test", json=question(old, new)) as answer:
        response = (await answer.json())["response"]
    assert response == {
        "uid": "c-1",
        "result": {"status": "Success"},
        "convertedObjects": [{"apiVersion": "example.test/v2", "spec": {"width": 3}}, new],
    }
    bad = {"apiVersion": "example.test/v1", "spec": {}}
    async with client.post("/convert/boxes.example.test", json=question(old, bad)) as answer:
        response = (await answer.json())["response"]
    assert response["result"] == {"status": "Failure", "message": "cannot convert: it has no size"}
    async with client.post("/convert/boxes.example.test", json={"request": {}}) as answer:
        assert answer.status == 400


async def test_health_and_metrics(
    client: TestClient[Any, Any], registry: CollectorRegistry
) -> None:
    for path in ("/healthz", "/readyz"):
        async with client.get(path) as answer:
            assert answer.status == 200
    await ask(client, VALIDATE, review(job()))
    await ask(client, VALIDATE, review(job(replicas=0)))
    async with client.post(VALIDATE, data=b"x", headers={"Content-Type": "text/plain"}):
        pass
    text = generate_latest(registry).decode()
    name = 'webhook="validate.trainingjobs.training.corral.dev"'
    assert f'controller_runtime_webhook_requests_total{{code="200",{name}}} 2.0' in text
    assert f'controller_runtime_webhook_requests_total{{code="415",{name}}} 1.0' in text
    assert f"corral_webhook_refusals_total{{{name}}} 1.0" in text
    assert f"controller_runtime_webhook_requests_in_flight{{{name}}} 0.0" in text
    assert f"controller_runtime_webhook_latency_seconds_count{{{name}}} 3.0" in text


def test_a_webhook_is_registered_once() -> None:
    hooks = Hooks()
    hooks.kind(TrainingJob)
    with pytest.raises(ValueError, match="registered already"):
        hooks.kind(TrainingJob)


def test_configurations() -> None:
    hooks = Hooks()
    hooks.kind(TrainingJob)
    mutating, validating = webhook_configurations(
        hooks, by_service("svc", "ns"), name="corral", inject="certs"
    )
    assert mutating["metadata"]["labels"] == {"corral.dev/inject-ca": "certs"}
    (hook,) = validating["webhooks"]
    assert hook["clientConfig"] == {
        "service": {"name": "svc", "namespace": "ns", "port": 443, "path": VALIDATE}
    }
    assert hook["rules"][0]["resources"] == [TRAININGJOBS.plural]
    assert hook["failurePolicy"] == "Fail"
    assert mutating["webhooks"][0]["reinvocationPolicy"] == "IfNeeded"
    alone = Hooks()
    alone.validating(PODS, slow, operations=("CREATE",), subresources=("binding",))
    (only,) = webhook_configurations(alone, by_url("https://[::1]:1/"), name="x", inject="c")
    assert only["webhooks"][0]["clientConfig"] == {"url": "https://[::1]:1/validate/pods"}
    assert only["webhooks"][0]["rules"][0]["resources"] == ["pods", "pods/binding"]
    assert webhook_configurations(Hooks(), by_url("https://h"), name="x", inject="c") == []
