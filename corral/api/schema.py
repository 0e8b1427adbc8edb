"""The structural schema of a model: what a CustomResourceDefinition says about its objects.

Made of pydantic's JSON schema: references are put in place, alternatives with null become optional
fields, and keywords that structural schemas lack are left out or said their way.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from corral.kube.types import Obj

__all__ = ["apply_defaults", "node_at", "structural_schema"]

_DROPPED = frozenset({"title", "$defs", "const", "examples"})
_NULL = {"type": "null"}


def structural_schema(model: type[BaseModel]) -> Obj:
    """The schema of a model, by wire names.

    Raises:
        ValueError: the model has something that a structural schema cannot say.
    """
    source = model.model_json_schema(by_alias=True, mode="validation")
    return _Structural(source.get("$defs") or {}).convert(source)


class _Structural:
    def __init__(self, definitions: Obj) -> None:
        self._definitions = definitions

    def convert(self, node: Obj) -> Obj:
        node = self._inlined(node)
        if node.get("x-kubernetes-int-or-string"):
            return {k: v for k, v in node.items() if k not in _DROPPED}
        if "anyOf" in node:
            node = self._without_null(node)
        if "anyOf" in node or "allOf" in node or "oneOf" in node:
            raise ValueError(f"alternatives have no structural schema: {node}")
        out = {k: v for k, v in node.items() if k not in _DROPPED}
        if out.get("default", 0) is None:
            del out["default"]
        self._convert_values(node, out)
        self._convert_children(out)
        return out

    def _inlined(self, node: Obj) -> Obj:
        """The node with the definition it refers to; what stands beside the reference wins."""
        while "$ref" in node:
            name = node["$ref"].rpartition("/")[2]
            node = {**self._definitions[name], **{k: v for k, v in node.items() if k != "$ref"}}
        return node

    def _without_null(self, node: Obj) -> Obj:
        choices = [choice for choice in node["anyOf"] if choice != _NULL]
        rest = {k: v for k, v in node.items() if k != "anyOf"}
        return self._inlined({**choices[0], **rest}) if len(choices) == 1 else node

    def _convert_values(self, node: Obj, out: Obj) -> None:
        # Limits of a type with a converter before it go by their Python names.
        for short, keyword in (("ge", "minimum"), ("le", "maximum")):
            if short in out:
                out[keyword] = out.pop(short)
        if "const" in node:
            out["enum"] = [node["const"]]
        for bound in ("Minimum", "Maximum"):
            limit = out.get(f"exclusive{bound}")
            if limit is not None and not isinstance(limit, bool):
                out[bound.lower()], out[f"exclusive{bound}"] = limit, True
        if "enum" in out and "type" not in out:
            out["type"] = "string"
        # The range of the format says it already.
        if out.get("format") == "int32" and out.get("maximum") == 2**31 - 1:
            del out["maximum"]

    def _convert_children(self, out: Obj) -> None:
        if "properties" in out:
            out["properties"] = {k: self.convert(v) for k, v in out["properties"].items()}
        if isinstance(out.get("items"), dict):
            out["items"] = self.convert(out["items"])
        more = out.get("additionalProperties")
        if isinstance(more, dict):
            out["additionalProperties"] = self.convert(more)
        elif isinstance(more, bool):
            del out["additionalProperties"]


def apply_defaults(schema: Obj, value: Any) -> None:
    """Fill in defaults and drop nulls in place, as the API server does by the same schema."""
    if isinstance(value, list):
        for item in value:
            apply_defaults(schema.get("items") or {}, item)
        return
    if not isinstance(value, dict):
        return
    properties: Obj = schema.get("properties") or {}
    for name in [name for name, item in value.items() if item is None and name in properties]:
        del value[name]
    for name, child in properties.items():
        if name not in value and "default" in child:
            value[name] = _copied(child["default"])
    more = schema.get("additionalProperties") or {}
    for name, item in value.items():
        apply_defaults(properties.get(name) or more, item)


def _copied(default: Any) -> Any:
    if isinstance(default, dict):
        return {key: _copied(item) for key, item in default.items()}
    return [_copied(item) for item in default] if isinstance(default, list) else default


def node_at(schema: Obj, location: tuple[int | str, ...]) -> Obj:
    """The schema of the value at a location; empty where the schema does not know it."""
    for step in location:
        if isinstance(step, int):
            schema = schema.get("items") or {}
        else:
            known = (schema.get("properties") or {}).get(step)
            schema = known or schema.get("additionalProperties") or {}
    return schema
