"""Where checkpoints may lie, and whose credentials may open them. No I/O.

The checkpoints of a job in a bucket lie below ``<prefix>/<namespace>/<job>/<uid>``. What users
write is not trusted: with a Secret of the job's namespace an address may be anything that its keys
open, but the operator's own credentials open only folders of jobs of the namespace, on servers that
`StoreRules` allows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from corral.checkpoints.errors import InvalidPath
from corral.checkpoints.location import Location, parse
from corral.checkpoints.paths import check_relative
from corral.egress.policy import EgressPolicy, EndpointRefused

__all__ = ["Place", "PlaceRefused", "StoreRules", "check_place", "is_job_folder"]

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*\Z")
_WORD = re.compile(r"[A-Za-z0-9-]*\Z")
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")


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
    if not is_job_folder(location.prefix, namespace):
        raise PlaceRefused(
            f"{location.url}: the operator's own credentials open folders of namespace"
            f" {namespace} only; name a Secret with credentials (secretRef)"
        )
    if rules.buckets is not None and not any(_is_below(location, b) for b in rules.buckets):
        raise PlaceRefused(
            f"{location.url}: the operator's own credentials are not for this bucket (its"
            " --store-bucket); name a Secret with credentials (secretRef)"
        )


def is_job_folder(prefix: str, namespace: str) -> bool:
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
