"""Server-side apply: merge a configuration into an object, field by field, with owners.

The applier owns exactly what its configuration mentions. Changing a field that somebody else owns
is a conflict unless forced; a field the applier no longer mentions is removed unless somebody else
owns it as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from corral.cluster.apiserver.apply import last_applied, managers
from corral.cluster.apiserver.apply.conflicts import Clash, conflict_error
from corral.cluster.apiserver.apply.fields import (
    Fields,
    intersect,
    paths,
    subtract,
    union,
    union_of,
)
from corral.cluster.apiserver.apply.managers import Identity
from corral.cluster.apiserver.apply.merge import merge, remove
from corral.cluster.apiserver.apply.tracking import (
    Paths,
    ignoring,
    own_fields,
    reconciled,
    shrunk,
)
from corral.cluster.apiserver.apply.types import TypeSchema, UntypableError
from corral.cluster.apiserver.apply.validate import problems
from corral.cluster.apiserver.apply.walk import (
    compare,
    mentioned_fields,
    with_named_parents,
)
from corral.kube import errors
from corral.kube.types import Obj


class _Applier(NamedTuple):
    owner: Identity
    api_version: str
    now: str
    reset_fields: Paths


def apply(
    schema: TypeSchema,
    *,
    live: Obj | None,
    config: Obj,
    manager: str,
    api_version: str,
    now: str,
    force: bool,
    subresource: str = "",
    reset_fields: Paths = (),
    kind: str = "",
    versions: Collection[str] | None = None,
) -> Obj:
    """The object that applying ``config`` makes of ``live``, managedFields included.

    ``live`` None creates. The result shares parts with both inputs, which are not changed; it is
    not defaulted: what defaulting adds belongs to nobody.

    Raises:
        BadRequest: the configuration is of another kind or sets managedFields.
        ApiError: 500, the configuration does not fit the schema.
        Conflict: others own fields it would change, and ``force`` is not set.
    """
    kind = kind or schema.kind or (live or config).get("kind", "")
    _check_config(config, api_version=api_version, kind=kind)
    _check_shape(schema, config)
    applier = _Applier(
        (manager or "unknown", "Apply", "", subresource), api_version, now, reset_fields
    )
    entries = _entries_of(schema, live, applier, versions=versions)
    target = schema.zero if live is None else live
    try:
        result, clashes = _apply(schema, target, config, entries, applier)
        if clashes and not force:
            clashes = _not_from_last_applied(schema, live, clashes, applier)
            if clashes:
                raise conflict_error(clashes)
    except UntypableError as exc:
        raise errors.ApiError(f"failed to merge config: {exc}") from exc
    if manager == "kubectl":
        last_applied.refresh(result, config)
    return result


def _check_config(config: Obj, *, api_version: str, kind: str) -> None:
    if (config.get("apiVersion"), config.get("kind")) != (api_version, kind):
        raise errors.BadRequest(f"invalid object type: {_show_kind(config)}")
    if (config.get("metadata") or {}).get("managedFields") is not None:
        raise errors.BadRequest("metadata.managedFields must be nil")


def _check_shape(schema: TypeSchema, config: Obj) -> None:
    found = list(problems(schema.root, config))
    if not found:
        return
    text = found[0] if len(found) == 1 else "\n".join(["errors:", *(f"  {p}" for p in found)])
    metadata = config.get("metadata") or {}
    which = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    which = f"{which}; {_show_kind(config)}"
    raise errors.ApiError(f"failed to create typed patch object ({which}): {text}")


def _show_kind(config: Obj) -> str:
    version = config.get("apiVersion") or ""
    version = version if "/" in version else f"/{version}"
    return f"{version}, Kind={config.get('kind') or ''}"


def _entries_of(
    schema: TypeSchema, live: Obj | None, applier: _Applier, *, versions: Collection[str] | None
) -> list[Obj]:
    """Who owns what before the apply; an object nobody tracked gets one owner for everything."""
    if live is None:
        return []
    entries = managers.distinct(live.get("metadata", {}).get("managedFields") or [])
    if entries:
        return reconciled(schema, managers.of_served_versions(entries, versions))
    changed, _ = compare(schema.root, schema.zero, live)
    changed = own_fields(ignoring(changed, applier.reset_fields))
    if not changed:
        return []
    version, subresource = applier.api_version, applier.owner[3]
    owner = ("before-first-apply", "Update", version, subresource)
    return [managers.new_entry(owner, api_version=version, time=applier.now, fields=changed)]


def _apply(
    schema: TypeSchema, live: Obj, config: Obj, entries: list[Obj], applier: _Applier
) -> tuple[Obj, list[Clash]]:
    """The merged object as if forced, and what stands against it."""
    mentioned = ignoring(mentioned_fields(schema.root, config), applier.reset_fields)
    last = next((e for e in entries if managers.identity(e) == applier.owner), None)
    others = [e for e in entries if e is not last]
    merged = merge(schema.root, live, config)
    if last is not None:
        held = union_of([mentioned, *(e["fieldsV1"] for e in others)])
        merged = _pruned(schema, merged, last=last["fieldsV1"], mentioned=mentioned, held=held)
    clashes: list[Clash] = []
    if others:
        changed, removed = compare(schema.root, live, merged)
        changed = ignoring(changed, applier.reset_fields)
        removed = ignoring(removed, applier.reset_fields)
        clashes = [c for e in others for c in _clashes(e, changed)]
        others = shrunk(others, changed, removed)
    return _written(live, merged, own_fields(mentioned), last, others, applier), clashes


def _clashes(entry: Obj, changed: Fields) -> Iterable[Clash]:
    owner = managers.identity(entry)
    return (Clash(owner, path) for path in paths(intersect(entry["fieldsV1"], changed)))


def _written(
    live: Obj,
    merged: Obj,
    mentioned: Fields,
    last: Obj | None,
    others: list[Obj],
    applier: _Applier,
) -> Obj:
    time = applier.now if merged != live else (last or {}).get("time")
    if mentioned:
        entry = managers.new_entry(
            applier.owner, api_version=applier.api_version, time=time, fields=mentioned
        )
        if last == entry:
            entry = last
        others = [*others, entry]
    metadata = {**(merged.get("metadata") or {})}
    metadata.pop("managedFields", None)
    if others:
        metadata["managedFields"] = managers.in_written_order(others)
    return {**merged, "metadata": metadata}


def _pruned(
    schema: TypeSchema, merged: Obj, *, last: Fields, mentioned: Fields, held: Fields
) -> Obj:
    """``merged`` without what was applied last time, is not now, and nobody else holds."""
    if not subtract(last, mentioned):
        return merged
    root = schema.root
    present = with_named_parents(root, mentioned_fields(root, merged))
    last = with_named_parents(root, last)
    bare: Any = remove(root, merged, last) or {}
    kept = with_named_parents(root, mentioned_fields(root, bare))
    unheld = subtract(present, union(kept, with_named_parents(root, held)))
    restored: Any = remove(root, merged, unheld) or {}
    kept = with_named_parents(root, mentioned_fields(root, restored))
    result: Obj = remove(root, merged, intersect(subtract(present, kept), last)) or {}
    return result


def _not_from_last_applied(
    schema: TypeSchema, live: Obj | None, clashes: list[Clash], applier: _Applier
) -> list[Clash]:
    """Clashes left after those that only come from having used client-side apply before."""
    if applier.owner[0] != "kubectl" or live is None:
        return clashes
    allowed = last_applied.unchanged_fields(schema, live, api_version=applier.api_version)
    return last_applied.outside(clashes, allowed)
