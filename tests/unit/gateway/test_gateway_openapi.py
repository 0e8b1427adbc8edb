from __future__ import annotations

import re
from typing import Any

import pytest

from corral.client.kinds import KINDS
from corral.gateway.rest.openapi import document, document_bytes
from corral.gateway.rest.paths import locate

METHODS = ("get", "post", "put", "patch", "delete")


@pytest.fixture(scope="module")
def api() -> dict[str, Any]:
    return document()


def operations(api: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method, path, operation)
        for path, methods in api["paths"].items()
        for method, operation in methods.items()
    ]


def references(value: Any) -> list[str]:
    if isinstance(value, list):
        return [found for item in value for found in references(item)]
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [found for item in value.values() for found in references(item)]
    return []


def test_every_reference_leads_somewhere(api: dict[str, Any]) -> None:
    for reference in set(references(api)):
        found: Any = api
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]


def test_every_documented_path_is_served(api: dict[str, Any]) -> None:
    example = {"{namespace}": "a", "{name}": "x", "{index}": "0"}
    for method, path, _ in operations(api):
        if not path.startswith("/api/v1/"):
            continue
        filled = re.sub(r"\{\w+\}", lambda found: example[found[0]], path)
        locate(method.upper(), filled.encode())


def test_every_kind_has_the_routes_of_the_seed(api: dict[str, Any]) -> None:
    for kind in KINDS:
        at = f"/api/v1/namespaces/{{namespace}}/{kind.plural}"
        assert set(api["paths"][at]) == {"get", "post"}
        assert set(api["paths"][f"{at}/{{name}}"]) == {"get", "put", "delete"}
        assert f"{at}/{{name}}/status" in api["paths"]
        assert (f"{at}/{{name}}/logs" in api["paths"]) == (kind.pod_selector is not None)
        assert (f"{at}/{{name}}/restart" in api["paths"]) == kind.restartable


def test_names_of_operations_are_unique(api: dict[str, Any]) -> None:
    names = [op["operationId"] for _, _, op in operations(api) if "operationId" in op]
    assert len(names) == len(set(names))


def test_every_operation_says_what_it_may_refuse(api: dict[str, Any]) -> None:
    for method, path, operation in operations(api):
        assert set(operation) >= {"summary", "responses", "tags"}
        if path.startswith("/api/v1/"):
            assert {"400", "401", "403", "404", "429"} <= set(operation["responses"]), path
            assert ("requestBody" in operation) <= ({"413", "415"} <= set(operation["responses"]))
            assert method in METHODS


def test_it_is_made_once() -> None:
    assert document_bytes() is document_bytes()
