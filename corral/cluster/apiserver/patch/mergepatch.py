"""JSON merge patch (RFC 7386).

One rule is not in the RFC but in the library kube-apiserver uses: nulls inside a list of the patch
are dropped from the objects in that list, unless the list takes the place of an object.
"""

from __future__ import annotations

from typing import Any

from corral.cluster.apiserver.patch.body import parse, reject_as_document
from corral.cluster.apiserver.patch.goformat import json_type
from corral.kube.errors import BadRequest
from corral.kube.types import Obj

__all__ = ["apply_merge_patch"]


def apply_merge_patch(doc: Obj, body: bytes, *, strict: bool = True) -> Obj:
    """Merge a patch into ``doc``, which is changed and returned.

    ``strict`` only says how a patch that is no object is refused.

    Raises:
        BadRequest: the body is not a JSON object.
        Invalid: it is a list, which would take the object's place.
    """
    patch = parse(body)
    if not strict and isinstance(patch, list):
        reject_as_document(_without_nulls(patch))
    if patch is None or not (strict or isinstance(patch, dict)):
        raise BadRequest("Invalid JSON Patch")
    if not isinstance(patch, dict):
        raise BadRequest(
            f"error decoding patch: json: cannot unmarshal {json_type(patch)} into Go value "
            "of type map[string]interface {}"
        )
    _merge(doc, patch)
    return doc


def _merge(doc: Obj, patch: Obj) -> None:
    for key, value in patch.items():
        if value is None:
            doc.pop(key, None)
            continue
        current = doc.get(key)
        if not isinstance(current, dict):
            doc[key] = _without_nulls(value)
        elif isinstance(value, dict):
            _merge(current, value)
        else:
            doc[key] = value


def _without_nulls(value: Any) -> Any:
    """Drop null members of objects at any depth, in place; null items of lists stay."""
    if isinstance(value, dict):
        for key in [key for key, child in value.items() if child is None]:
            del value[key]
        for child in value.values():
            _without_nulls(child)
    elif isinstance(value, list):
        for child in value:
            _without_nulls(child)
    return value
