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

from dataclasses import replace
from pathlib import Path
from typing import Any

from corral.checkpoints.errors import CheckpointError
from corral.checkpoints.location import Location, from_storage, parse
from corral.checkpoints.paths import step_of
from corral.checkpoints.places import (
    Place,
    PlaceRefused,
    StoreRules,
    check_place,
    is_job_folder,
)
from corral.families.trainingjob.checkpoints.summaries import VOLUMES, job_uid_of, storage_of
from corral.families.trainingjob.names import claim_name
from corral.kube.types import Obj

__all__ = [
    "address_place",
    "checkpoint_place",
    "checkpoint_uri",
    "job_place",
    "local_folder",
]

_CLAIM = "pvc://"


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
    if prefix.split("/")[-3:] != owner or not is_job_folder(prefix, owner[0]):
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
