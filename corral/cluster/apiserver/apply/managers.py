"""The entries of ``metadata.managedFields``: who they belong to, their order, how many there are.

Entries are plain dicts as they stand in objects. An entry that did not change stays the very dict
it was; a changed one is a new dict.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from typing import Any, TypeAlias

import orjson

from corral.cluster.apiserver.apply.fields import Fields, in_order, union_of
from corral.kube.types import Obj

Identity: TypeAlias = tuple[str, str, str, str]
"""manager, operation, apiVersion, subresource."""

MAX_UPDATE_MANAGERS = 10
_ANCIENT = "ancient-changes"


def identity(entry: Obj) -> Identity:
    """What entries are merged by: an applier is the same in every version."""
    operation = entry.get("operation", "")
    version = "" if operation == "Apply" else entry.get("apiVersion", "")
    return entry.get("manager", ""), operation, version, entry.get("subresource", "")


def new_entry(owner: Identity, *, api_version: str, time: str | None, fields: Fields) -> Obj:
    manager, operation, _, subresource = owner
    entry: Obj = {"manager": manager, "operation": operation, "apiVersion": api_version}
    if not manager:
        del entry["manager"]
    if time is not None:
        entry["time"] = time
    entry["fieldsType"] = "FieldsV1"
    entry["fieldsV1"] = in_order(fields)
    if subresource:
        entry["subresource"] = subresource
    return entry


def with_fields(entry: Obj, fields: Fields) -> Obj:
    """The entry with another set; its time stays."""
    return {**entry, "fieldsV1": fields}


def in_written_order(entries: Iterable[Obj]) -> list[Obj]:
    return sorted(entries, key=_written_order)


def _written_order(entry: Obj) -> tuple[str, ...]:
    return (
        entry["operation"],
        entry.get("time") or "",
        entry.get("manager", ""),
        entry["apiVersion"],
        entry.get("subresource", ""),
    )


def written_identity(owner: Identity) -> str:
    """The identity in the form that decides the order of equals."""
    manager, operation, version, subresource = owner
    found = {"manager": manager, "operation": operation, "apiVersion": version}
    found = {k: v for k, v in found.items() if v}
    if subresource:
        found["subresource"] = subresource
    return orjson.dumps(found).decode()


def is_reset(entries: Any) -> bool:
    """Whether a client asks for ownership to be forgotten: ``[]`` or ``[{}]``."""
    return isinstance(entries, list) and (not entries or entries == [{}])


def decode(entries: Any) -> list[Obj] | None:
    """The entries a client sent, normalised; None if any of them is malformed."""
    if not isinstance(entries, list):
        return None
    out: dict[Identity, Obj] = {}
    for entry in entries:
        clean = _decode_entry(entry)
        if clean is None:
            return None
        out[identity(clean)] = clean
    return list(out.values())


def managers_are_valid(entries: Any) -> bool:
    """Whether every entry can be read."""
    return decode(entries) is not None


def _decode_entry(entry: Any) -> Obj | None:
    if not isinstance(entry, dict) or entry.get("operation") not in ("Apply", "Update"):
        return None
    if not entry.get("apiVersion") or entry.get("fieldsType") != "FieldsV1":
        return None
    try:
        fields = _decode_fields(entry.get("fieldsV1") or {})
        time = _decode_time(entry["time"]) if entry.get("time") else None
    except (ValueError, TypeError):
        return None
    owner = (entry.get("manager", ""), entry["operation"], "", entry.get("subresource", ""))
    return new_entry(owner, api_version=entry["apiVersion"], time=time, fields=fields)


def _decode_fields(node: Any) -> Fields:
    """Check every path element; kinds of them that are unknown are dropped."""
    if not isinstance(node, dict):
        raise TypeError("a set of fields must be an object")
    out: Fields = {}
    for key, below in node.items():
        if key == ".":
            out[key] = {}
            continue
        if len(key) < 2 or key[1] != ":":
            raise ValueError(f"missing colon: {key}")
        if key[0] in "kv":
            orjson.loads(key[2:])
        elif key[0] == "i":
            int(key[2:])
        elif key[0] != "f":
            continue
        out[key] = _decode_fields(below)
    return {} if len(out) == 1 and "." in out else out


def _decode_time(text: str) -> str:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a time must have a zone")
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def distinct(entries: list[Obj]) -> list[Obj]:
    """Entries of different owners; writes through a scale may leave two of one, the last counts."""
    if len(entries) < 2:
        return entries
    owners = {identity(entry): entry for entry in entries}
    return entries if len(owners) == len(entries) else list(owners.values())


def of_served_versions(entries: list[Obj], versions: Collection[str] | None) -> list[Obj]:
    """Entries of versions that are no longer served mean nothing any more and are dropped."""
    if versions is None or all(e["apiVersion"] in versions for e in entries):
        return entries
    return [e for e in entries if e["apiVersion"] in versions]


def capped(entries: list[Obj]) -> list[Obj]:
    """At most ten updaters: the oldest of one version are merged into one entry."""
    updaters = [e for e in entries if e["operation"] == "Update"]
    excess = len(updaters) - MAX_UPDATE_MANAGERS
    if excess <= 0:
        return entries
    updaters.sort(key=lambda e: (e.get("time") or "", written_identity(identity(e))))
    kept = {identity(e): e for e in entries}
    first: dict[str, Identity] = {}
    merged: dict[Identity, list[Obj]] = {}
    for entry in updaters:
        if excess <= 0:
            break
        version, owner = entry["apiVersion"], identity(entry)
        if version not in first:
            first[version] = owner
            continue
        bucket: Identity = (_ANCIENT, "Update", version, "")
        if bucket not in kept:
            kept[bucket] = kept.pop(first[version])
        merged.setdefault(bucket, [kept[bucket]]).append(entry)
        if owner != bucket:
            del kept[owner]
        excess -= 1
    for bucket, parts in merged.items():
        fields = union_of(part["fieldsV1"] for part in parts)
        version, time = bucket[2], parts[-1].get("time")
        kept[bucket] = new_entry(bucket, api_version=version, time=time, fields=fields)
    return list(kept.values())


def keep_times(live: Obj, new: Obj) -> None:
    """Give ``new`` the times of ``live`` where nothing else in the two objects differs.

    To be called last before storing: what normalising and defaulting make equal again must not
    count as a write. Changes ``new``.
    """
    before = live.get("metadata", {}).get("managedFields")
    after = new.get("metadata", {}).get("managedFields")
    if not before or not after or before is after or len(before) != len(after):
        return
    if all(a.get("time") == b.get("time") for a, b in zip(after, before, strict=True)):
        return
    if any(_timeless(a) != _timeless(b) for a, b in zip(after, before, strict=True)):
        return
    if {k: v for k, v in live.items() if k != "metadata"} != {
        k: v for k, v in new.items() if k != "metadata"
    }:
        return
    if _unmanaged(live["metadata"]) == _unmanaged(new["metadata"]):
        new["metadata"]["managedFields"] = before


def _timeless(entry: Obj) -> Obj:
    return {k: v for k, v in entry.items() if k != "time"}


def _unmanaged(metadata: Obj) -> Obj:
    return {k: v for k, v in metadata.items() if k != "managedFields"}
