"""Callers may through the gateway what they may without it, and nobody's token shows anywhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.backends import Backend
from tests.cluster.gateway.gateways import GatewayProcess, Somebody, token_of
from tests.cluster.jobs_api.manifests_of_jobs import training
from tests.cluster.objects import Objects, eventually

RULES = [
    {"apiGroups": ["training.corral.dev"], "resources": ["*"], "verbs": ["*"]},
    {"apiGroups": [""], "resources": ["pods", "pods/log", "events"], "verbs": ["get", "list"]},
]


@pytest.fixture
def other(cluster: Objects, unique: str) -> Iterator[str]:
    """A namespace of somebody else, with a job in it."""
    name = f"other-{unique}"
    about = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    cluster.create("namespaces", about)
    Objects(cluster.backend, name).create("trainingjobs", training("theirs"))
    yield name
    cluster.delete("v1", "namespaces", name)


@pytest.fixture
def ann(gateway: GatewayProcess, backend: Backend, namespace: str) -> Somebody:
    """Who may do everything with TrainingJobs in her namespace, and nothing elsewhere."""
    return Somebody(gateway, token_of(backend, namespace, "ann", rules=RULES))


def test_a_token_of_one_namespace_never_sees_another(
    ann: Somebody, admin: Somebody, namespace: str, other: str
) -> None:
    mine, theirs = (f"/api/v1/namespaces/{n}/trainingjobs" for n in (namespace, other))
    eventually(lambda: ann.get(mine).status == 200)
    assert ann.ask("POST", mine, training("mine")).status == 201
    # somebody who may see both watches and lists first: nothing of it is kept for others
    assert admin.get(f"{theirs}/theirs").status == 200
    assert next(iter(admin.events(f"{theirs}/theirs/watch")))[1] == "ADDED"
    tries: list[tuple[str, str, Any]] = [
        ("GET", theirs, None), ("POST", theirs, training("x")), ("GET", f"{theirs}/theirs", None),
        ("PUT", f"{theirs}/theirs", training("theirs")), ("DELETE", f"{theirs}/theirs", None),
        ("GET", f"{theirs}/theirs/status", None), ("GET", f"{theirs}/theirs/logs", None),
        ("GET", f"{theirs}/theirs/events", None), ("GET", f"{theirs}/theirs/explain", None),
        ("GET", f"{theirs}/theirs/watch", None), ("POST", f"{theirs}/theirs/restart", None),
        ("POST", f"{theirs}/theirs/suspend", None), ("POST", f"{theirs}/theirs/resume", None),
        ("PUT", f"{theirs}/theirs/scale", {"replicas": 3}),
        ("GET", "/api/v1/trainingjobs", None), ("GET", "/api/v1/watch/trainingjobs", None),
        ("GET", f"/api/v1/watch/namespaces/{other}/trainingjobs", None),
    ]  # fmt: skip
    for method, path, body in tries:
        reply = ann.ask(method, path, body)
        assert reply.status == 403, (method, path, reply.body)
        assert b"busybox" not in reply.body
    assert admin.get(f"{theirs}/theirs").status == 200


def test_a_refusal_says_who_may_not_do_what(ann: Somebody, namespace: str, other: str) -> None:
    said = ann.get(f"/api/v1/namespaces/{other}/trainingjobs/theirs").json()
    assert said["type"] == "urn:corral:problem:forbidden"
    for word in (f"system:serviceaccount:{namespace}:ann", "get", "trainingjobs", other):
        assert word in said["detail"], said
    assert said["hint"]


@pytest.mark.parametrize("token", [None, "not-a-token-of-this-cluster"])
def test_strangers_are_not_answered(gateway: GatewayProcess, token: str | None) -> None:
    reply = Somebody(gateway, token).get("/api/v1/namespaces/default/trainingjobs")
    assert (reply.status, reply.json()["status"]) == (401, 401)
    assert "www-authenticate" in reply.headers


def test_the_audit_log_says_who_did_what(
    ann: Somebody, gateway: GatewayProcess, namespace: str
) -> None:
    path = f"/api/v1/namespaces/{namespace}/trainingjobs/none"
    ann.ask("GET", path, headers={"X-Request-Id": f"audit-{namespace}"})

    def line() -> Any:
        return next((x for x in gateway.lines() if x["request_id"] == f"audit-{namespace}"), None)

    found = eventually(line)
    assert found["user"] == f"system:serviceaccount:{namespace}:ann"
    assert (found["verb"], found["name"], found["code"]) == ("get", "none", 404)


def test_no_token_is_in_any_log(ann: Somebody, gateway: GatewayProcess, namespace: str) -> None:
    """The gateway runs with its most talkative log."""
    for path in ("", "/none", "/none/logs", "/none/watch", "?token=x", "/NONE"):
        ann.get(f"/api/v1/namespaces/{namespace}/trainingjobs{path}")
    secret = ann.token or ""
    written = gateway.log.read_text() + gateway.audit.read_text()
    for part in (secret, secret.split(".")[-1], "admin-token", "not-a-token-of-this-cluster"):
        assert part not in written
    assert json.loads(gateway.audit.read_text().splitlines()[0])["protocol"] == "rest"
