"""Patches: from a body to the function that changes the live object."""

from __future__ import annotations

from collections.abc import Callable

from corral.cluster.apiserver import errors as say
from corral.cluster.apiserver import wire
from corral.cluster.apiserver.http.bodies import check_type, report_problems
from corral.cluster.apiserver.http.options import APPLY
from corral.cluster.apiserver.patch import apply_json_patch, apply_merge_patch
from corral.cluster.apiserver.registry.kind import Kind
from corral.cluster.apiserver.registry.write import Change
from corral.cluster.apiserver.requests import Context
from corral.kube import errors
from corral.kube.types import Obj

JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
PATCH_TYPES = (JSON_PATCH, MERGE, STRATEGIC, APPLY)


def patcher(
    kind: Kind,
    body: bytes,
    patch_type: str,
    context: Context,
    *,
    subresource: str,
    now: Callable[[], str],
    name: str,
) -> Change:
    """The change that a patch stands for."""
    if patch_type == APPLY:
        return _applier(kind, body, context, subresource=subresource, now=now, name=name)

    def change(live: Obj | None) -> Obj:
        assert live is not None
        patched = _patched(kind, live, body, patch_type)
        return _decoded(kind, patched, body, context)

    return change


def _patched(kind: Kind, live: Obj, body: bytes, patch_type: str) -> Obj:
    if patch_type == STRATEGIC:
        return kind.strategic(live, body)
    return patch_plain(live, body, patch_type)


def patch_plain(live: Obj, body: bytes, patch_type: str) -> Obj:
    """JSON patch or merge patch; strategic counts as merge where there is no schema for it."""
    if patch_type == JSON_PATCH:
        return apply_json_patch(live, body)
    return apply_merge_patch(live, body)


def _decoded(kind: Kind, patched: Obj, body: bytes, context: Context) -> Obj:
    info = kind.info
    try:
        check_type(patched, info.api_version, info.kind)
        obj, problems = kind.decode(patched, strict=context.field_validation != "Ignore")
    except errors.BadRequest as err:
        text = err.message.partition(f" cannot be handled as a {info.kind}: ")[2] or err.message
        problem = say.invalid_value("patch", body.decode(errors="replace"), text)
        raise say.invalid("", "", "", [problem]) from err
    report_problems(kind, problems, context)
    kind.default(obj)
    return obj


def _applier(
    kind: Kind,
    body: bytes,
    context: Context,
    *,
    subresource: str,
    now: Callable[[], str],
    name: str,
) -> Change:
    info = kind.info
    config = wire.parse_yaml(body)
    if not config.get("kind") or not config.get("apiVersion"):
        missing = "Kind" if not config.get("kind") else "apiVersion"
        raise errors.BadRequest(f"Object '{missing}' is missing in the applied configuration")
    if (config["apiVersion"], config["kind"]) != (info.api_version, info.kind):
        raise errors.BadRequest(
            f"the applied object is a {config['apiVersion']} {config['kind']}, "
            f"expected {info.api_version} {info.kind}"
        )

    def change(live: Obj | None) -> Obj:
        wanted = wire.parse_yaml(body)
        meta = wanted.setdefault("metadata", {})
        if not meta.get("name"):
            meta["name"] = name
        _, problems = kind.decode(
            wire.parse_yaml(body), strict=context.field_validation != "Ignore"
        )
        report_problems(kind, problems, context)
        merged = kind.apply(
            live,
            wanted,
            manager=context.manager,
            now=now(),
            force=context.force,
            subresource=subresource,
        )
        merged = kind.normalise(merged)
        kind.default(merged)
        return merged

    return change
