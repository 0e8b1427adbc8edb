"""Ownership after a create, an update or a patch that is not an apply.

Whoever changes a field owns it from then on; whoever owned it before loses it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, TypeAlias

from corral.cluster.apiserver.apply import managers
from corral.cluster.apiserver.apply.fields import Fields, subtract, union, without_path
from corral.cluster.apiserver.apply.types import TypeSchema, UntypableError
from corral.cluster.apiserver.apply.walk import at_atomic_roots, compare
from corral.kube.types import Obj

Paths: TypeAlias = Iterable[Sequence[str]]

_BOOKKEEPING = frozenset(
    "f:" + name
    for name in (
        "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName",
        "generation", "managedFields", "resourceVersion",
    )
)  # fmt: skip


def track_update(
    schema: TypeSchema,
    *,
    live: Obj | None,
    new: Obj,
    manager: str,
    api_version: str,
    now: str,
    subresource: str = "",
    reset_fields: Paths = (),
    versions: Collection[str] | None = None,
) -> None:
    """Set ``new["metadata"]["managedFields"]`` for a write of ``new`` over ``live``.

    ``live`` is None for a create. ``reset_fields`` are the paths this endpoint never writes;
    ``versions`` the apiVersions served for the kind, where entries of others are to be dropped.
    What the client sent as managedFields counts if it is well-formed: ``[]`` or ``[{}]`` forgets
    all ownership, anything malformed is ignored. Parts of ``live``'s entries are shared.
    """
    metadata = new.setdefault("metadata", {})
    sent = metadata.pop("managedFields", None)
    stored: list[Obj] = (live or {}).get("metadata", {}).get("managedFields") or []
    before = managers.distinct(stored if subresource else _choose(sent, stored))
    if not before and live is not None:
        return
    owner = (manager or "unknown", "Update", api_version, subresource)
    try:
        after = _track(
            schema, live, new, before=before, owner=owner, now=now,
            reset_fields=reset_fields, versions=versions,
        )  # fmt: skip
    except UntypableError:
        after = stored
    if after:
        metadata["managedFields"] = after


def _choose(sent: Any, stored: list[Obj]) -> list[Obj]:
    if sent is None or sent == stored:
        return stored
    if managers.is_reset(sent):
        return []
    return managers.decode(sent) or stored


def _track(
    schema: TypeSchema,
    live: Obj | None,
    new: Obj,
    *,
    before: list[Obj],
    owner: managers.Identity,
    now: str,
    reset_fields: Paths,
    versions: Collection[str] | None,
) -> list[Obj]:
    changed, removed = compare(schema.root, schema.zero if live is None else live, new)
    changed = own_fields(ignoring(changed, reset_fields))
    removed = own_fields(ignoring(removed, reset_fields))
    entries = reconciled(schema, managers.of_served_versions(before, versions))
    if changed or removed:
        entries = shrunk(entries, changed, removed)
    if changed:
        entries = extended(entries, owner, changed, now=now)
    elif entries is before:
        return before
    if len(entries) == 1:
        return entries
    if len(entries) > managers.MAX_UPDATE_MANAGERS:
        entries = managers.capped(entries)
    return managers.in_written_order(entries)


def ignoring(fields: Fields, paths: Paths) -> Fields:
    for path in paths:
        fields = without_path(fields, path)
    return fields


def own_fields(fields: Fields) -> Fields:
    """The set without what the server itself keeps in an object. Changes its argument."""
    fields.pop("f:apiVersion", None)
    fields.pop("f:kind", None)
    metadata = fields.get("f:metadata")
    if metadata is None:
        return fields
    left = {k: v for k, v in metadata.items() if k != "." and k not in _BOOKKEEPING}
    if left:
        fields["f:metadata"] = left
    else:
        del fields["f:metadata"]
    return fields


def reconciled(schema: TypeSchema, entries: list[Obj]) -> list[Obj]:
    """Entries written under an earlier schema, brought in line with what is atomic now."""
    if not schema.may_change:
        return entries
    out = []
    same = True
    for entry in entries:
        fields = at_atomic_roots(schema.root, entry["fieldsV1"])
        if fields is not entry["fieldsV1"]:
            entry, same = managers.with_fields(entry, fields), False
        out.append(entry)
    return entries if same else out


def shrunk(entries: list[Obj], changed: Fields, removed: Fields) -> list[Obj]:
    """Entries without what somebody else changed or removed; empty ones are gone."""
    out = []
    for entry in entries:
        fields = entry.get("fieldsV1") or {}
        left = subtract(subtract(fields, changed), removed) if fields else fields
        if left:
            out.append(entry if left is fields else managers.with_fields(entry, left))
    return out


def extended(
    entries: list[Obj], owner: managers.Identity, changed: Fields, *, now: str
) -> list[Obj]:
    """Entries with ``changed`` given to ``owner``, as of ``now``."""
    out = []
    for entry in entries:
        if managers.identity(entry) == owner:
            changed = union(entry["fieldsV1"], changed)
        else:
            out.append(entry)
    out.append(managers.new_entry(owner, api_version=owner[2], time=now, fields=changed))
    return out
