"""Where the data of checkpoints lies, and what may be opened with whose credentials. No I/O.

The checkpoints of a job in a bucket lie below ``<prefix>/<namespace>/<job>/<uid>``, so jobs of one
name never mix, and data that outlives its job is still found by its address. What users write
(storage, addresses, Checkpoint objects) is not trusted:

- With a Secret of the job's namespace, everything is open that its keys open; the keys of the
  operator are not used then, not even as a last resort.
- The operator's own credentials open only folders of the job's own namespace (the shape above is
  demanded, counted from the end, so no prefix can imitate another namespace), and they are sent
  to no server but the provider's own and those that `StoreRules.endpoints` names.
- Folders of the machine are for embedded clusters (`StoreRules.local_root`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from corral.checkpoints.errors import CheckpointError, InvalidPath
from corral.checkpoints.location import Location, from_storage, parse
from corral.checkpoints.paths import check_relative, step_of
from corral.controllers.trainingjob.checkpointing import VOLUMES, storage_of
from corral.controllers.trainingjob.names import claim_name
from corral.kube.types import Obj

__all__ = [
    "Place",
    "PlaceRefused",
    "StoreRules",
    "address_place",
    "check_place",
    "checkpoint_place",
    "checkpoint_uri",
    "job_place",
    "local_folder",
]

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*\Z")
_WORD = re.compile(r"[A-Za-z0-9-]*\Z")
_CLAIM = "pvc://"


class PlaceRefused(Exception):
    """The address is not one that this job may use; the message is for its author."""


@dataclass(frozen=True, slots=True)
class StoreRules:
    """What the operator's own credentials and disks may be used for."""

    endpoints: frozenset[str] = field(default_factory=frozenset)
    """Servers that the operator's own credentials may be sent to beside the providers' own."""
    buckets: tuple[str, ...] | None = None
    """Addresses below which they may be used, such as ``s3://training``; None: everywhere."""
    local_root: Path | None = None
    """Where ``storage.local`` without a path is kept; None: no folders of this machine at all."""


@dataclass(frozen=True, slots=True)
class Place:
    """The folder of a job's checkpoints, and whose keys open it."""

    location: Location
    secret: str | None = None
    """Of the job's namespace; None: the operator's own credentials."""


def job_place(job: Obj, rules: StoreRules) -> Place | None:
    """Where a job keeps its checkpoints; None for a claim, which only pods can open.

    Raises:
        PlaceRefused: the storage cannot be used.
    """
    kind, settings = _chosen((job["spec"].get("checkpoint") or {}).get("storage") or {})
    if kind == "pvc":
        return None
    if kind == "local":
        return Place(Location("file", prefix=str(local_folder(job, rules.local_root))))
    metadata = job["metadata"]
    base = _base(kind, settings)
    place = Place(
        base.below(metadata["namespace"], metadata["name"], metadata["uid"]), _secret(settings)
    )
    check_place(place, rules, metadata["namespace"])
    return place


def local_folder(job: Obj, root: Path | None) -> Path:
    """The folder of a job with ``storage.local``: the one it names, else one that it has alone.

    Jobs that name the same folder share what is in it.

    Raises:
        PlaceRefused: folders of the machine are not allowed.
    """
    if root is None:
        raise PlaceRefused("spec.checkpoint.storage.local: for embedded clusters only")
    metadata = job["metadata"]
    settings = job["spec"]["checkpoint"]["storage"].get("local") or {}
    if given := settings.get("path"):
        return Path(given)
    # A job made anew under the name must not meet the marks of attempts that it has not made.
    return root.joinpath(metadata["namespace"], metadata["name"], metadata["uid"])


def checkpoint_uri(job: Obj, place: Place | None, identifier: str) -> str:
    """The address that a Checkpoint object names."""
    if place is None:
        return f"{_CLAIM}{claim_name(job['metadata']['name'])}/{identifier}"
    return place.location.below(identifier).url


def checkpoint_place(checkpoint: Obj, rules: StoreRules) -> tuple[Place | None, str]:
    """Where a Checkpoint's data lies, and its name there; no place for data on a claim.

    Raises:
        PlaceRefused: the object does not say so, or says what it must not.
    """
    uri: str = checkpoint["spec"]["uri"]
    if uri.startswith(_CLAIM):
        return None, _identifier(uri.rpartition("/")[2])
    kind, settings = _chosen(storage_of(checkpoint))
    namespace = checkpoint["metadata"]["namespace"]
    return _named(uri, kind, settings, rules, namespace)


def address_place(job: Obj, uri: str, rules: StoreRules) -> tuple[Place, str]:
    """Where an address leads that a job names; it is opened with the job's own credentials.

    Raises:
        PlaceRefused: not for this job.
    """
    kind, settings = _chosen((job["spec"].get("checkpoint") or {}).get("storage") or {})
    if kind in VOLUMES:
        raise PlaceRefused(f"{uri}: a job whose storage is {kind} has no credentials for addresses")
    return _named(uri, kind, settings, rules, job["metadata"]["namespace"])


def _named(
    uri: str, kind: str, settings: Obj, rules: StoreRules, namespace: str
) -> tuple[Place, str]:
    try:
        location = parse(uri)
    except CheckpointError as error:
        raise PlaceRefused(str(error)) from error
    root, _, identifier = location.prefix.rpartition("/")
    place = Place(replace(location, prefix=root), _secret(settings))
    if kind == "local" and location.scheme == "file":
        if rules.local_root is None:
            raise PlaceRefused(f"{uri}: folders of the machine are for embedded clusters only")
        return place, _identifier(identifier)
    base = _base(kind, settings)
    same = (base.scheme, base.endpoint, base.account)
    if kind == "local" or (location.scheme, location.endpoint, location.account) != same:
        raise PlaceRefused(f"{uri}: kept elsewhere than the storage that its keys are for")
    # Regions are settings of the bucket: an address may leave it out.
    place = replace(place, location=replace(place.location, region=location.region or base.region))
    check_place(place, rules, namespace)
    return place, _identifier(identifier)


def _identifier(name: str) -> str:
    if step_of(name) is None:
        raise PlaceRefused(f"{name!r} is not the folder of a checkpoint (step-<number>.<text>)")
    return name


def _chosen(storage: Obj) -> tuple[str, Obj]:
    found = [(kind, value) for kind, value in storage.items() if value is not None]
    if len(found) != 1 or not isinstance(found[0][1], dict):
        raise PlaceRefused("it is not known where its checkpoints are kept")
    kind, settings = found[0]
    return kind, {name: value for name, value in settings.items() if value is not None}


def _base(kind: str, settings: Obj) -> Location:
    try:
        location = from_storage({kind: settings})
    except CheckpointError as error:
        raise PlaceRefused(str(error)) from error
    return location


def _secret(settings: Obj) -> str | None:
    reference: Any = settings.get("secretRef")
    return str(reference["name"]) if isinstance(reference, dict) and "name" in reference else None


def check_place(place: Place, rules: StoreRules, namespace: str) -> None:
    """Refuses what could lead a request or credentials elsewhere.

    Raises:
        PlaceRefused: it could.
    """
    location = place.location
    names = (location.region, location.account)
    if not _BUCKET.match(location.bucket) or not all(_WORD.match(name) for name in names):
        raise PlaceRefused(f"{location.url}: bucket, region or account are not proper names")
    try:
        check_relative(location.prefix)
    except InvalidPath as error:
        raise PlaceRefused(str(error)) from error
    if place.secret is not None:
        return
    if location.endpoint and location.endpoint not in rules.endpoints:
        raise PlaceRefused(
            f"{location.endpoint}: the operator's own credentials are not for this server; name a"
            " Secret with credentials for it (secretRef)"
        )
    if location.prefix.split("/")[-3:-2] != [namespace]:
        raise PlaceRefused(
            f"{location.url}: the operator's own credentials open folders of namespace"
            f" {namespace} only; name a Secret with credentials (secretRef)"
        )
    if rules.buckets is not None and not any(_is_below(location, b) for b in rules.buckets):
        raise PlaceRefused(
            f"{location.url}: the operator's own credentials are not for this bucket; name a"
            " Secret with credentials (secretRef)"
        )


def _is_below(location: Location, address: str) -> bool:
    base = parse(address)
    same = (location.scheme, location.bucket) == (base.scheme, base.bucket)
    return same and f"{location.prefix}/".startswith(f"{base.prefix}/" if base.prefix else "")
