"""Tenant A against tenant B over every operation that the gateway's OpenAPI document has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from corral.api import all_kinds
from tests.backends import Backend
from tests.cluster.gateway.conftest import backend, gateway, kubeconfig
from tests.cluster.gateway.gateways import GatewayProcess, Reply, Somebody, token_of
from tests.cluster.jobs_api.manifests_of_jobs import training
from tests.cluster.kafkaml_rest.test_kafkaml_rest import LEARN
from tests.cluster.objects import Objects, eventually

__all__ = ["backend", "gateway", "kubeconfig"]

EVERYTHING = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
METHODS = ("get", "post", "put", "patch", "delete")
OPEN = (
    "/",
    "/api/v1",
    "/docs",
    "/openapi.json",
    "/healthz",
    "/readyz",
    "/livez",
    "/metrics",
    "/version",
)
"""Pages without anybody's data."""
RAW = json.dumps({"data_type": "float32", "data_reshape": "28 28", "label_type": "uint8"})
DATA = {
    "topic": "theirs:0:0:550", "input_format": "RAW", "input_config": RAW, "total_msg": 550,
    "dataset_restrictions": "{}", "validation_rate": 0.1, "test_rate": 0.1,
    "federated_string_id": "abcd1234",
}  # fmt: skip
KAFKAML: dict[str, Any] = {
    "models": {"name": "theirs", "code": "1"},
    "configurations": {"name": "theirs", "ml_models": ["theirs"]},
    "deployments": {**LEARN, "configuration": "theirs"},
    "datasources": DATA,
    "federated-datasources": DATA,
    "results_metrics": {"train_metrics": {"loss": [0.2]}},
    "results/inference": {
        "model_result": "theirs.1", "replicas": 2, "input_format": "RAW", "input_config": RAW,
        "input_topic": "in", "output_topic": "out",
    },
}  # fmt: skip
"""What loggers and people post, by the first words of the path."""


@pytest.fixture
def other(cluster: Objects, unique: str) -> Iterator[str]:
    """The namespace of tenant B, with a job in it."""
    name = f"tenant-b-{unique}"
    about = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    cluster.create("namespaces", about)
    Objects(cluster.backend, name).create("trainingjobs", training("theirs"))
    yield name
    cluster.delete("v1", "namespaces", name)


@pytest.fixture
def tenant(gateway: GatewayProcess, backend: Backend, namespace: str) -> Somebody:
    """Tenant A: everything in its own namespace, nothing elsewhere."""
    made = Somebody(gateway, token_of(backend, namespace, "tenant-a", rules=EVERYTHING))
    path = f"/api/v1/namespaces/{namespace}/trainingjobs"
    eventually(lambda: made.get(path).status == 200)
    return made


def operations(somebody: Somebody, namespace: str) -> Iterator[tuple[str, str]]:
    """Every method and path; names are those of a job that is there."""
    document = somebody.get("/openapi.json").json()
    for path, item in document["paths"].items():
        if path in OPEN:
            continue
        filled = path.replace("{namespace}", namespace).replace("{index}", "0")
        if "/result" in path:
            filled = filled.replace("{name}", "theirs.1").replace("{id}", "theirs.1")
        for parameter in ("{name}", "{job}", "{id}", "{kind}", "{version}", "{topic}"):
            filled = filled.replace(parameter, "theirs")
        assert "{" not in filled, filled
        for method in METHODS:
            if method in item:
                yield method.upper(), filled


@pytest.mark.attack(
    "tenant against tenant",
    "calls every operation of the gateway for another's namespace",
    "each is forbidden, and shows nothing of it",
)
@pytest.mark.route("gateway REST")
def test_no_way_through_the_gateway(tenant: Somebody, other: str) -> None:
    tried, found = 0, []
    for method, path in operations(tenant, other):
        body = body_for(path) if method in ("POST", "PUT", "PATCH") else None
        reply = answer(tenant, method, path, body)
        tried += 1
        if reply.status != 403 or b"generation" in reply.body:
            found.append(f"{method} {path}: {reply.status} {reply.body[:200]!r}")
    assert tried > 100
    assert found == []


def answer(tenant: Somebody, method: str, path: str, body: Any = None, **headers: str) -> Reply:
    """What is said, at a rate that the gateway takes of one caller."""

    def asked() -> Reply | None:
        reply = tenant.ask(method, path, body, headers=headers)
        return None if reply.status == 429 else reply

    return eventually(asked) or Reply(429, b"", {})


def body_for(path: str) -> Any:
    """What the gateway takes from those who may: so that nothing but rights is in its way."""
    if path.startswith("/kafkaml/"):
        words = path.split("/")[3:]
        return KAFKAML.get("/".join(words[:2]), KAFKAML.get(words[0]))
    if path.endswith("/scale"):
        return {"replicas": 3}
    if path.endswith(("/trainingjobs", "/trainingjobs/theirs")):
        return training("theirs")
    kinds = [kind.resource() for kind in all_kinds()]
    (kind,) = (kind for kind in kinds if kind.plural in path.split("/"))
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "theirs"}}


@pytest.mark.attack(
    "tenant against tenant",
    "reads across all namespaces through the gateway",
    "lists and watches over all of them are forbidden",
)
@pytest.mark.route("gateway REST")
def test_no_list_of_everything(tenant: Somebody, other: str) -> None:
    for kind in ("trainingjobs", "mpijobs", "federatedjobs", "spotinstancejobs"):
        for path in (f"/api/v1/{kind}", f"/api/v1/watch/{kind}"):
            reply = tenant.get(path)
            assert reply.status == 403, (path, reply.body[:200])
            assert b"theirs" not in reply.body


@pytest.mark.attack(
    "tenant against tenant",
    "asks for every path as a WebSocket, in its own namespace and in another's",
    "the gateway has none: no connection is given away, and another's stays forbidden",
)
@pytest.mark.route("gateway WebSocket")
def test_no_web_socket(tenant: Somebody, namespace: str, other: str) -> None:
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    found = []
    for where in (namespace, other):
        reads = [path for method, path in operations(tenant, where) if method == "GET"]
        # all of another's; of one's own, where streams do begin, those of one kind
        asked = [path for path in reads if f"/{where}/" in path]
        if where == namespace:
            asked = [path for path in asked if "/trainingjobs" in path]
        assert len(asked) > (5 if where == namespace else 30)
        for path in asked:
            with tenant.open("GET", path, headers=upgrade) as answer:
                status, word = answer.status, answer.headers.get("Upgrade")
            if status == 101 or word or (where == other and status < 400):
                found.append(f"{path}: {status} {word}")
    assert found == []


@pytest.mark.attack(
    "tenant against tenant",
    "follows another's logs and changes, from any place that it names",
    "each stream is refused before anything is sent",
)
@pytest.mark.route("gateway streams")
def test_no_stream_of_another(tenant: Somebody, other: str) -> None:
    reads = [path for method, path in operations(tenant, other) if method == "GET"]
    streams = [path for path in reads if path.endswith(("/watch", "/logs", "/events"))]
    assert len(streams) > 20
    found = {}
    for path in streams:
        for more in ("", "?follow=true", "?follow=true&sinceSeconds=1", "?limit=1"):
            reply = answer(tenant, "GET", path + more, **{"Last-Event-ID": "1"})
            # 400: some have no such parameters
            if reply.status != 403 and not (more and reply.status == 400):
                found[path + more] = (reply.status, reply.body[:200])
    assert found == {}


@pytest.mark.attack(
    "tenant against tenant",
    "asks without a token, or with one that the API server does not know",
    "401 for every operation",
)
@pytest.mark.route("gateway REST")
@pytest.mark.parametrize("token", [None, "forged"])
def test_nobody_gets_nothing(
    gateway: GatewayProcess, tenant: Somebody, other: str, token: str | None
) -> None:
    nobody = Somebody(gateway, token)
    paths = [path for method, path in operations(tenant, other) if method == "GET"][:12]
    codes = {nobody.get(path).status for path in paths}
    assert codes <= {401, 429}
    assert 401 in codes
