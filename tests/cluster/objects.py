"""Plain access to the objects of a backend, beside whatever client a case is about."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from tests.backends import Backend

Obj = dict[str, Any]
T = TypeVar("T")


class Objects:
    """Reads and writes objects of one namespace (or of the cluster) over plain HTTP."""

    def __init__(self, backend: Backend, namespace: str = "") -> None:
        self.backend = backend
        self.namespace = namespace

    def path(self, api_version: str, plural: str, name: str = "") -> str:
        root = "/api/v1" if api_version == "v1" else f"/apis/{api_version}"
        middle = f"/namespaces/{self.namespace}" if self.namespace else ""
        return f"{root}{middle}/{plural}" + (f"/{name}" if name else "")

    def get(self, api_version: str, plural: str, name: str) -> Obj:
        reply = self.backend.request("GET", self.path(api_version, plural, name))
        assert reply.code == 200, reply.body
        found: Obj = reply.json()
        return found

    def find(self, api_version: str, plural: str, name: str) -> Obj | None:
        """The object, or None when there is none."""
        reply = self.backend.request("GET", self.path(api_version, plural, name))
        if reply.code == 404:
            return None
        assert reply.code == 200, reply.body
        found: Obj = reply.json()
        return found

    def names(self, api_version: str, plural: str, query: str = "") -> set[str]:
        reply = self.backend.request("GET", self.path(api_version, plural) + query)
        assert reply.code == 200, reply.body
        return {item["metadata"]["name"] for item in reply.json()["items"]}

    def create(self, plural: str, obj: Obj) -> Obj:
        reply = self.backend.request("POST", self.path(obj["apiVersion"], plural), obj)
        assert reply.code == 201, reply.body
        created: Obj = reply.json()
        return created

    def patch(
        self, api_version: str, plural: str, name: str, patch: Obj, *, subresource: str = ""
    ) -> Obj:
        """A merge patch."""
        path = self.path(api_version, plural, name) + (f"/{subresource}" if subresource else "")
        reply = self.backend.request(
            "PATCH", path, patch, content_type="application/merge-patch+json"
        )
        assert reply.code == 200, reply.body
        patched: Obj = reply.json()
        return patched

    def delete(self, api_version: str, plural: str, name: str) -> None:
        reply = self.backend.request("DELETE", self.path(api_version, plural, name))
        assert reply.code in (200, 202, 404), reply.body


def eventually(check: Callable[[], T], *, seconds: float = 30) -> T:
    """The first true answer of a check that controllers make true; bounded."""
    end = time.monotonic() + seconds
    while True:
        answer = check()
        if answer:
            return answer
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.01)


def contains(actual: Any, expected: Any) -> bool:
    """Whether every key of the expected value is there, at any depth; lists go by position."""
    if isinstance(expected, dict):
        return isinstance(actual, dict) and all(
            key in actual and contains(actual[key], value) for key, value in expected.items()
        )
    if isinstance(expected, list):
        return (
            isinstance(actual, list)
            and len(actual) == len(expected)
            and all(map(contains, actual, expected))
        )
    return bool(actual == expected)
