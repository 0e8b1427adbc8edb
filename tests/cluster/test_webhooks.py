"""Admission webhooks: who is asked, what they may change, what happens when they do not answer."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.backends.base import free_port
from tests.cluster.hooks import Review, webhook
from tests.cluster.objects import Objects, eventually

Obj = dict[str, Any]
GROUP = "admissionregistration.k8s.io/v1"


def patch(*operations: Obj) -> Review:
    text = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": text}


class Asked:
    """What a webhook was asked; answers with ``answer``."""

    def __init__(self, answer: Review) -> None:
        self.answer = answer
        self.requests: list[Review] = []
        self._lock = threading.Lock()

    def __call__(self, request: Review) -> Review:
        with self._lock:
            self.requests.append(request)
        return self.answer


@contextmanager
def configured(
    cluster: Objects, namespace: str, config: Obj, *, mutating: bool, **settings: Any
) -> Iterator[None]:
    """A configuration that applies to config maps of one namespace, in force."""
    kind = "MutatingWebhookConfiguration" if mutating else "ValidatingWebhookConfiguration"
    plural = f"{kind.lower()}s"
    name = f"hook-{namespace}"
    hook = {
        "name": "hook.example.test",
        "clientConfig": config,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "rules": [
            {
                "operations": ["CREATE", "UPDATE", "DELETE"],
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "resources": ["configmaps"],
            }
        ],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        **settings,
    }
    obj = {"apiVersion": GROUP, "kind": kind, "metadata": {"name": name}, "webhooks": [hook]}
    cluster.create(plural, obj)
    try:
        yield
    finally:
        cluster.delete(GROUP, plural, name)


def config_map(name: str, **data: str) -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def create(objects: Objects, obj: Obj, query: str = "") -> Any:
    return objects.backend.request("POST", objects.path("v1", "configmaps") + query, obj)


def in_force(objects: Objects, asked: Asked) -> None:
    """Wait until the server calls the webhook; kube-apiserver takes a moment."""
    eventually(lambda: create(objects, config_map("probe"), "?dryRun=All") and asked.requests)
    asked.requests.clear()


def test_mutating(objects: Objects, cluster: Objects, namespace: str, tmp_path: Path) -> None:
    asked = Asked(patch({"op": "add", "path": "/data/added", "value": "1"}))
    with (
        webhook(tmp_path, asked) as config,
        configured(cluster, namespace, config, mutating=True),
    ):
        in_force(objects, asked)
        made = create(objects, config_map("a", own="2"))
        assert made.code == 201
        assert made.json()["data"] == {"own": "2", "added": "1"}
        request = asked.requests[0]
        assert request["operation"] == "CREATE" and request["namespace"] == namespace
        assert request["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
        assert request["userInfo"]["username"] == "admin"
        assert request["object"]["data"] == {"own": "2"} and request["dryRun"] is False


def test_denied(objects: Objects, cluster: Objects, namespace: str, tmp_path: Path) -> None:
    asked = Asked({"allowed": False, "status": {"message": "not today", "code": 418}})
    with (
        webhook(tmp_path, asked) as config,
        configured(cluster, namespace, config, mutating=False),
    ):
        in_force(objects, asked)
        reply = create(objects, config_map("a"))
        assert reply.code == 418
        expected = 'admission webhook "hook.example.test" denied the request: not today'
        assert reply.json()["message"] == expected
        assert objects.find("v1", "configmaps", "a") is None


def test_warnings(objects: Objects, cluster: Objects, namespace: str, tmp_path: Path) -> None:
    asked = Asked({"allowed": True, "warnings": ["mind the gap"]})
    with (
        webhook(tmp_path, asked) as config,
        configured(cluster, namespace, config, mutating=False),
    ):
        in_force(objects, asked)
        assert create(objects, config_map("a")).headers["Warning"] == '299 - "mind the gap"'


@pytest.mark.parametrize(("policy", "code"), [("Fail", 500), ("Ignore", 201)])
def test_unreachable(
    objects: Objects, cluster: Objects, namespace: str, *, policy: str, code: int
) -> None:
    config = {"url": f"https://127.0.0.1:{free_port()}/"}
    with configured(cluster, namespace, config, mutating=False, failurePolicy=policy):
        if policy == "Fail":
            eventually(lambda: create(objects, config_map("p"), "?dryRun=All").code == 500)
        reply = create(objects, config_map("a"))
        assert reply.code == code
        if code == 500:
            assert 'failed calling webhook "hook.example.test"' in reply.json()["message"]


def test_conditions_and_selectors(
    objects: Objects, cluster: Objects, namespace: str, tmp_path: Path
) -> None:
    asked = Asked({"allowed": False, "status": {"message": "no", "code": 403}})
    conditions = [{"name": "big", "expression": "size(object.data) > 1"}]
    with (
        webhook(tmp_path, asked) as config,
        configured(
            cluster, namespace, config, mutating=False,
            matchConditions=conditions,
            objectSelector={"matchExpressions": [{"key": "skip", "operator": "DoesNotExist"}]},
        ),
    ):  # fmt: skip
        big = config_map("big", a="1", b="2")
        eventually(lambda: create(objects, big, "?dryRun=All").code == 403)
        assert create(objects, config_map("small", a="1")).code == 201
        skipped = config_map("skipped", a="1", b="2")
        skipped["metadata"]["labels"] = {"skip": "yes"}
        assert create(objects, skipped).code == 201
        assert create(objects, big).code == 403


def test_deletes_are_asked_about(
    objects: Objects, cluster: Objects, namespace: str, tmp_path: Path
) -> None:
    objects.create("configmaps", config_map("kept"))
    asked = Asked({"allowed": False, "status": {"message": "kept", "code": 403}})
    with (
        webhook(tmp_path, asked) as config,
        configured(cluster, namespace, config, mutating=False),
    ):
        in_force(objects, asked)
        path = objects.path("v1", "configmaps", "kept")
        assert objects.backend.request("DELETE", path).code == 403
        request = asked.requests[-1]
        assert request["operation"] == "DELETE" and request["object"] is None
        assert request["oldObject"]["metadata"]["name"] == "kept"


def test_dry_run_needs_a_webhook_without_side_effects(
    objects: Objects, cluster: Objects, namespace: str, tmp_path: Path
) -> None:
    asked = Asked({"allowed": True})
    settings = {"sideEffects": "NoneOnDryRun"}
    with (
        webhook(tmp_path, asked) as config,
        configured(cluster, namespace, config, mutating=False, **settings),
    ):
        in_force(objects, asked)
        assert create(objects, config_map("a"), "?dryRun=All").code == 201
        assert asked.requests[-1]["dryRun"] is True
        assert objects.find("v1", "configmaps", "a") is None
