"""Ownership across the scale subresource.

A Scale is a view of its parent, and so is the ownership of its one field: before a write of a Scale
the parent's entries that own the replicas are shown as entries of the Scale, afterwards the result
is taken back into the parent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from corral.cluster.apiserver.apply import managers
from corral.cluster.apiserver.apply.fields import from_path, has_path, subtract
from corral.kube.types import Obj

SCALE_VERSION = "autoscaling/v1"
_REPLICAS = ("spec", "replicas")


def scale_entries(
    entries: Sequence[Obj], *, replicas_paths: Mapping[str, Sequence[str]]
) -> list[Obj]:
    """A Scale's managedFields for its parent's; ``replicas_paths`` by the parent's apiVersions."""
    out = []
    for entry in entries:
        path = replicas_paths.get(entry["apiVersion"])
        if path and has_path(entry["fieldsV1"], path):
            fields = from_path(_REPLICAS)
            out.append({**entry, "apiVersion": SCALE_VERSION, "fieldsV1": fields})
    return managers.in_written_order(out)


def parent_entries(
    entries: Sequence[Obj],
    scale: Sequence[Obj],
    *,
    api_version: str,
    replicas_paths: Mapping[str, Sequence[str]],
) -> list[Obj]:
    """The parent's managedFields after a write that left its Scale with the entries ``scale``.

    ``entries`` are the parent's before the write, ``api_version`` the version it is written in.
    """
    out: list[Obj] = []
    owners = {managers.identity(e): e for e in scale}
    for entry in entries:
        if entry["apiVersion"] not in replicas_paths:
            continue
        path = replicas_paths[entry["apiVersion"]]
        if not path or not has_path(entry["fieldsV1"], path):
            out.append(entry)
        elif owners.pop(managers.identity(entry), None) is not None:
            out.append(entry)
        else:
            left = subtract(entry["fieldsV1"], from_path(path))
            if left:
                out.append(managers.with_fields(entry, left))
    times = {managers.identity(e): e.get("time") for e in entries}
    for owner, entry in owners.items():
        if has_path(entry["fieldsV1"], _REPLICAS):
            fields = from_path(replicas_paths[api_version])
            time = times.get(owner)
            out.append(managers.new_entry(owner, api_version=api_version, time=time, fields=fields))
    return managers.in_written_order(out)
