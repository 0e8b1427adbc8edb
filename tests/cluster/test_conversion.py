"""Definitions with a conversion webhook: two versions of different shape, one stored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.hooks import Review, webhook
from tests.cluster.objects import Objects, eventually

Obj = dict[str, Any]


def convert(request: Review) -> Review:
    """v1 has ``spec.size: "3x4"``, v2 has width and height."""
    wanted = request["desiredAPIVersion"]
    converted = []
    for obj in request["objects"]:
        spec = dict(obj["spec"])
        if obj["apiVersion"] != wanted:
            if wanted.endswith("/v2"):
                width, height = spec.pop("size").split("x")
                spec |= {"width": int(width), "height": int(height)}
            else:
                spec["size"] = f"{spec.pop('width')}x{spec.pop('height')}"
        converted.append({**obj, "apiVersion": wanted, "spec": spec})
    if any("fail" in o["metadata"]["name"] for o in converted):
        return {"result": {"status": "Failure", "message": "no such luck"}}
    return {"result": {"status": "Success"}, "convertedObjects": converted}


def definition(group: str, config: Obj, *, storage: str = "v1") -> Obj:
    def version(name: str, **properties: str) -> Obj:
        fields = {k: {"type": t} for k, t in properties.items()}
        spec = {"type": "object", "properties": fields}
        schema = {"type": "object", "properties": {"spec": spec}}
        return {
            "name": name,
            "served": True,
            "storage": name == storage,
            "schema": {"openAPIV3Schema": schema},
        }

    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"boxes.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "boxes", "singular": "box", "kind": "Box"},
            "versions": [
                version("v1", size="string"),
                version("v2", width="integer", height="integer"),
            ],
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": config},
            },
        },
    }


@pytest.fixture
def boxes(cluster: Objects, unique: str, tmp_path: Path) -> Iterator[str]:
    """The group of a served definition of boxes."""
    group = f"c{unique}.example.test"
    with webhook(tmp_path, convert) as config:
        cluster.create("customresourcedefinitions", definition(group, config))
        eventually(lambda: cluster.backend.request("GET", f"/apis/{group}/v2/boxes").code == 200)
        yield group
        cluster.delete("apiextensions.k8s.io/v1", "customresourcedefinitions", f"boxes.{group}")
        eventually(lambda: cluster.backend.request("GET", f"/apis/{group}/v2/boxes").code == 404)


def box(group: str, version: str, name: str, **spec: Any) -> Obj:
    return {
        "apiVersion": f"{group}/{version}",
        "kind": "Box",
        "metadata": {"name": name},
        "spec": spec,
    }


def test_every_version_shows_its_own_shape(objects: Objects, boxes: str) -> None:
    objects.create("boxes", box(boxes, "v1", "one", size="3x4"))
    made = objects.create("boxes", box(boxes, "v2", "two", width=5, height=6))
    assert made["spec"] == {"width": 5, "height": 6}
    assert objects.get(f"{boxes}/v2", "boxes", "one")["spec"] == {"width": 3, "height": 4}
    assert objects.get(f"{boxes}/v1", "boxes", "two")["spec"] == {"size": "5x6"}
    listed = objects.backend.request("GET", objects.path(f"{boxes}/v2", "boxes")).json()
    assert [item["spec"]["width"] for item in listed["items"]] == [3, 5]
    assert {item["apiVersion"] for item in listed["items"]} == {f"{boxes}/v2"}


def test_changes_through_the_other_version(objects: Objects, boxes: str) -> None:
    objects.create("boxes", box(boxes, "v1", "one", size="3x4"))
    path = objects.path(f"{boxes}/v2", "boxes", "one")
    patched = objects.backend.request(
        "PATCH", path, {"spec": {"height": 9}}, content_type="application/merge-patch+json"
    )
    assert patched.code == 200 and patched.json()["spec"] == {"width": 3, "height": 9}
    assert objects.get(f"{boxes}/v1", "boxes", "one")["spec"] == {"size": "3x9"}
    refused = objects.backend.request(
        "PATCH", path, {"spec": {"height": "tall"}}, content_type="application/merge-patch+json"
    )
    assert refused.code == 422
    gone = objects.backend.request("DELETE", path)
    assert gone.code == 200 and objects.find(f"{boxes}/v1", "boxes", "one") is None


def test_watches_see_their_version(objects: Objects, boxes: str) -> None:
    objects.create("boxes", box(boxes, "v1", "one", size="3x4"))
    path = objects.path(f"{boxes}/v2", "boxes") + "?watch=1&timeoutSeconds=1"
    lines = objects.backend.request("GET", path).body.splitlines()
    first = json.loads(lines[0])
    assert first["type"] == "ADDED"
    assert first["object"]["spec"] == {"width": 3, "height": 4}


def test_a_failing_webhook_is_named(objects: Objects, boxes: str) -> None:
    reply = objects.backend.request(
        "POST", objects.path(f"{boxes}/v2", "boxes"), box(boxes, "v2", "fail", width=1, height=1)
    )
    assert reply.code == 500
    assert "conversion webhook for" in reply.json()["message"]
    assert "no such luck" in reply.json()["message"]
