"""Where the data of checkpoints lies, and what may be opened with whose credentials. No I/O.

The checkpoints of a job in a bucket lie below ``<prefix>/<namespace>/<job>/<uid>``, so jobs of one
name never mix, and data that outlives its job is still found by its address. What users write
(storage, addresses, Checkpoint objects) is not trusted:

- The data of a Checkpoint object lies in the folder of its own namespace and job (the shape above
  is demanded, counted from the end, so no prefix can imitate another namespace), whatever the
  object says and whoever's keys open it.
- With a Secret of the job's namespace, an address that a job starts from may be anything that its
  keys open; it is only read. The keys of the operator are not used then, not even as a last resort.
- The operator's own credentials open only folders of jobs (the shape above, with a UID last) of the
  job's own namespace, and they are sent to no server but the provider's own and those that
  `StoreRules.endpoints` names.
- No server is called that `StoreRules.egress` does not permit.
- Folders of the machine are for embedded clusters (`StoreRules.local_root`). The operator works
  below ``<root>/<namespace>`` only, and in folders that its settings give a namespace.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from corral.checkpoints.errors import CheckpointError, InvalidPath
from corral.checkpoints.location import Location, from_storage, parse
from corral.checkpoints.paths import check_relative, step_of
from corral.egress.policy import EgressPolicy, EndpointRefused
from corral.families.trainingjob.checkpoints.summaries import VOLUMES, job_uid_of, storage_of
from corral.families.trainingjob.names import claim_name
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
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")
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
    local_folders: tuple[tuple[str, Path], ...] = ()
    """Namespaces and folders in which the operator works for them beside those below the root."""
    egress: EgressPolicy = field(default_factory=EgressPolicy)
    """Which servers of stores are called with the credentials of users."""

    def base_of(self, namespace: str, folder: Path) -> str:
        """The folder above in which the operator works for a namespace; empty: in none of them."""
        if ".." in folder.parts:
            return ""
        own = [self.local_root / namespace] if self.local_root else []
        own += [given for name, given in self.local_folders if name == namespace]
        return next((str(base) for base in own if folder.is_relative_to(base)), "")


@dataclass(frozen=True, slots=True)
class Place:
    """The folder of a job's checkpoints, and whose keys open it."""

    location: Location
    secret: str | None = None
    """Of the job's namespace; None: the operator's own credentials."""
    base: str = ""
    """Of a folder of the machine: the one above in which the operator works for the namespace;
    empty: it leaves this one alone."""


def job_place(job: Obj, rules: StoreRules) -> Place | None:
    """Where a job keeps its checkpoints; None for a claim, which only pods can open.

    Raises:
        PlaceRefused: the storage cannot be used.
    """
    kind, settings = _chosen((job["spec"].get("checkpoint") or {}).get("storage") or {})
    if kind == "pvc":
        return None
    if kind == "local":
        return _folder_place(local_folder(job, rules.local_root), rules, job)
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
    place, identifier = _named(uri, kind, settings, rules, checkpoint["metadata"]["namespace"])
    _check_owner(checkpoint, place, rules)
    return place, identifier


def _check_owner(checkpoint: Obj, place: Place, rules: StoreRules) -> None:
    """Refuses data that is not in the folder of the object's own namespace and job.

    In a folder that the operator's settings give the namespace, everything is the namespace's.
    """
    metadata = checkpoint["metadata"]
    owner = [metadata["namespace"], checkpoint["spec"]["jobRef"]["name"], job_uid_of(checkpoint)]
    if place.location.scheme == "file":
        if not place.base:
            raise PlaceRefused(
                f"{place.location.url} is no folder in which the operator works for namespace"
                f" {metadata['namespace']} (its --local-root and --local-folder)"
            )
        if Path(place.base) != (rules.local_root or Path()) / owner[0]:
            return
    prefix = place.location.prefix
    if prefix.split("/")[-3:] != owner or not _is_job_folder(prefix, owner[0]):
        raise PlaceRefused(
            f"{place.location.url} is not the folder of job {owner[1]} in namespace {owner[0]}"
        )


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
        works = rules.base_of(namespace, Path(root))
        return replace(place, secret=None, base=works), _identifier(identifier)
    base = _base(kind, settings)
    same = (base.scheme, base.endpoint, base.account)
    if kind == "local" or (location.scheme, location.endpoint, location.account) != same:
        raise PlaceRefused(f"{uri}: kept elsewhere than the storage that its keys are for")
    # Regions are settings of the bucket: an address may leave it out.
    place = replace(place, location=replace(place.location, region=location.region or base.region))
    check_place(place, rules, namespace)
    return place, _identifier(identifier)


def _folder_place(folder: Path, rules: StoreRules, job: Obj) -> Place:
    base = rules.base_of(job["metadata"]["namespace"], folder)
    return Place(Location("file", prefix=str(folder)), base=base)


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
        _check_endpoint(location, rules)
        return
    if location.endpoint and location.endpoint not in rules.endpoints:
        raise PlaceRefused(
            f"{location.endpoint}: the operator's own credentials are not for this server; name a"
            " Secret with credentials for it (secretRef)"
        )
    if not _is_job_folder(location.prefix, namespace):
        raise PlaceRefused(
            f"{location.url}: the operator's own credentials open folders of namespace"
            f" {namespace} only; name a Secret with credentials (secretRef)"
        )
    if rules.buckets is not None and not any(_is_below(location, b) for b in rules.buckets):
        raise PlaceRefused(
            f"{location.url}: the operator's own credentials are not for this bucket (its"
            " --store-bucket); name a Secret with credentials (secretRef)"
        )


def _is_job_folder(prefix: str, namespace: str) -> bool:
    """Whether it is ``…/<namespace>/<job>/<uid>``.

    Without the UID, the folder of a copy of a spot job, ``<other>/<job>/<uid>/replica-<n>``, would
    pass for one of a namespace that is called like the job.
    """
    parts = prefix.split("/")[-3:]
    return len(parts) == 3 and parts[0] == namespace and _UID.match(parts[2]) is not None


def _check_endpoint(location: Location, rules: StoreRules) -> None:
    """What can be told without resolving its name; that is done when it is opened."""
    if not location.endpoint:
        return
    try:
        rules.egress.check_url(location.endpoint)
    except EndpointRefused as error:
        raise PlaceRefused(str(error)) from error


def _is_below(location: Location, address: str) -> bool:
    base = parse(address)
    same = (location.scheme, location.bucket) == (base.scheme, base.bucket)
    return same and f"{location.prefix}/".startswith(f"{base.prefix}/" if base.prefix else "")
