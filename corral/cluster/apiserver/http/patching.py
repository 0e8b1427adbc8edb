"""Patches: from a body to the function that changes the live object."""

from __future__ import annotations

from collections.abc import Callable

import orjson

from corral.cluster.apiserver import codec
from corral.cluster.apiserver import errors as say
from corral.cluster.apiserver.crud.kind import Kind
from corral.cluster.apiserver.crud.write import Change
from corral.cluster.apiserver.http.options import APPLY
from corral.cluster.apiserver.patch import (
    apply_json_patch,
    apply_merge_patch,
    duplicates,
    go_format,
    parse,
)
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
) -> Change:
    """The change that a patch stands for. Raises BadRequest for a body that cannot be read."""
    if patch_type == APPLY:
        return _applier(kind, body, context, subresource=subresource, now=now)
    parse(body)

    def change(live: Obj | None) -> Obj:
        assert live is not None
        problems: list[str] = []
        strict = context.field_validation != "Ignore"
        patched = _patched(kind, live, body, patch_type, problems if strict else None)
        if patch_type == STRATEGIC:
            return _restored(kind, patched, problems, context, body)
        return _decoded(kind, patched, problems, context)

    return change


def _patched(
    kind: Kind, live: Obj, body: bytes, patch_type: str, problems: list[str] | None
) -> Obj:
    if patch_type == JSON_PATCH:
        return apply_json_patch(live, body, problems=problems)
    if problems is not None:
        problems += duplicates(body)
    if patch_type == STRATEGIC:
        return kind.strategic(live, body)
    return apply_merge_patch(live, body, strict=problems is not None)


def _restored(kind: Kind, patched: Obj, problems: list[str], context: Context, body: bytes) -> Obj:
    """The same for a strategic patch, which has ways of its own to read and to refuse."""
    strict = context.field_validation != "Ignore"
    try:
        obj, found = kind.decode(patched, strict=strict)
    except errors.BadRequest as err:
        why = _restore_error(kind, patched, err)
        if why is not None:
            raise _refused(go_format(parse(body)), why) from err
        obj, found = kind.decode(codec.whole_numbers(patched), strict=strict)
    problems = problems + sorted(found)
    return _checked(kind, obj, problems, context, lambda: go_format(parse(body)))


def _decoded(kind: Kind, patched: Obj, problems: list[str], context: Context) -> Obj:
    """What a patch left behind, as an object of its kind; refused in terms of the patch."""
    shown = orjson.dumps(patched)
    try:
        obj, found = kind.decode(patched, strict=context.field_validation != "Ignore")
    except errors.BadRequest as err:
        text = err.message.partition(f" cannot be handled as a {kind.info.kind}: ")[2]
        raise _refused(_text(shown), text or err.message) from err
    return _checked(kind, obj, problems + found, context, lambda: _text(shown))


def _checked(
    kind: Kind, obj: Obj, problems: list[str], context: Context, shown: Callable[[], str]
) -> Obj:
    if problems and context.field_validation == "Strict":
        raise _refused(shown(), f"strict decoding error: {', '.join(problems)}")
    for text in problems:
        context.warn(text)
    kind.default(obj)
    return obj


def _text(patched: bytes) -> str:
    return patched.decode(errors="replace")


def _refused(shown: str, why: str) -> errors.Invalid:
    problem = say.invalid_value("patch", shown, why)
    return say.invalid("", "", "", [problem])


def _applier(
    kind: Kind, body: bytes, context: Context, *, subresource: str, now: Callable[[], str]
) -> Change:
    repeated: list[str] = []
    parsed = [codec.parse_patch(body, problems=repeated)]

    def change(live: Obj | None) -> Obj:
        # a second try reads it anew, for the first one changed it
        config = parsed.pop() if parsed else codec.parse_patch(body)
        merged = kind.apply(
            live,
            config,
            manager=context.manager,
            now=now(),
            force=context.force,
            subresource=subresource,
        )
        if repeated and context.field_validation == "Strict":
            raise errors.BadRequest(
                f"error strict decoding patch: error converting YAML to JSON: {repeated[0]}"
            )
        for text in repeated if context.field_validation == "Warn" else ():
            context.warn(text)
        merged = _converted(kind, merged, config)
        kind.default_applied(merged)
        return merged

    return change


def _converted(kind: Kind, merged: Obj, config: Obj) -> Obj:
    """What applying made, as an object of its kind; ApiError (500) where it cannot be one."""
    try:
        return kind.normalise(merged)
    except errors.BadRequest as err:
        why = _restore_error(kind, merged, err)
        if why is None:
            return kind.normalise(codec.whole_numbers(merged))
        meta, info = config.get("metadata") or {}, kind.info
        version = info.api_version if info.group else f"/{info.version}"
        gvk = f"{version}, Kind={info.kind}"
        raise errors.ApiError(
            f"failed to convert new object ({meta.get('namespace', '')}/{meta.get('name', '')}; "
            f"{gvk}) to proper version: unable to convert unstructured object to {gvk}: {why}"
        ) from err


def _restore_error(kind: Kind, obj: Obj, err: errors.BadRequest) -> str | None:
    """Why an object cannot be restored from what a merge left; None when it can after all."""
    info = kind.info
    message = None if info.custom else codec.message_for(info.group, info.version, info.kind)
    return err.message if message is None else codec.restore_error(message, obj)
