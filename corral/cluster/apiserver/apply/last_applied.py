"""The annotation of client-side apply, where kubectl moves on to server-side apply.

What client-side apply set and nobody changed since is kubectl's own: taking it over is no conflict.
As long as the annotation is there it is kept up to date, so that going back works too.
"""

from __future__ import annotations

from typing import Any

import orjson

from corral.cluster.apiserver.apply.conflicts import Clash
from corral.cluster.apiserver.apply.fields import Fields, has, subtract
from corral.cluster.apiserver.apply.types import TypeSchema, UntypableError
from corral.cluster.apiserver.apply.validate import problems
from corral.cluster.apiserver.apply.walk import compare, mentioned_fields
from corral.kube.types import Obj

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
_MAX_ANNOTATIONS_BYTES = 256 * 1024


def unchanged_fields(schema: TypeSchema, live: Obj, *, api_version: str) -> Fields:
    """The fields of the last client-side applied configuration that are still as it set them."""
    text = (live.get("metadata", {}).get("annotations") or {}).get(ANNOTATION)
    if not text:
        return {}
    try:
        config: Any = orjson.loads(text)
        if not isinstance(config, dict) or config.get("apiVersion") != api_version:
            return {}
        if any(problems(schema.root, config)):
            return {}
        changed, removed = compare(schema.root, config, live)
        return subtract(subtract(mentioned_fields(schema.root, config), changed), removed)
    except (orjson.JSONDecodeError, UntypableError):
        return {}


def outside(clashes: list[Clash], allowed: Fields) -> list[Clash]:
    return [clash for clash in clashes if not has(allowed, clash.path)]


def refresh(obj: Obj, config: Obj) -> None:
    """Write ``config`` into the annotation of ``obj`` if it has one. Changes ``obj``'s metadata."""
    annotations = obj["metadata"].get("annotations") or {}
    if not annotations.get(ANNOTATION):
        return
    annotations = {**annotations, ANNOTATION: _text(config)}
    if sum(len(k.encode()) + len(v.encode()) for k, v in annotations.items()) > (
        _MAX_ANNOTATIONS_BYTES
    ):
        del annotations[ANNOTATION]
    obj["metadata"]["annotations"] = annotations


def _text(config: Obj) -> str:
    metadata = dict(config.get("metadata") or {})
    annotations = {k: v for k, v in (metadata.get("annotations") or {}).items() if k != ANNOTATION}
    metadata.pop("annotations", None)
    if annotations:
        metadata["annotations"] = annotations
    return (
        orjson.dumps({**config, "metadata": metadata}, option=orjson.OPT_SORT_KEYS).decode() + "\n"
    )
