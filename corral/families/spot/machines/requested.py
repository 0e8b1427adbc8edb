"""Which machines are wished for: read from what jobs' statuses say. Pure.

A placement without an end is a wish. Its request id is a function of the job and the machine's
name, so that nobody who asks a second time asks for another machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from uuid import UUID, uuid5

from corral.kube.types import Obj
from corral.runtime.finalizers import is_being_deleted

__all__ = ["Wish", "machines_named", "wishes_for"]

_REQUESTS: Final = UUID("3f6d2c0e-6c1b-4f57-9c37-0c1d5f7d6a52")
"""The namespace of our request ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """One machine that a copy of a job is to run on."""

    job: str
    job_uid: str
    instance: str
    cloud: str
    region: str
    zone: str
    machine_type: str
    spot: bool
    price: float | None = None
    credentials: Obj | None = None
    """The Secret of the job, as its spec names it."""

    @property
    def request_id(self) -> str:
        return str(uuid5(_REQUESTS, f"{self.job_uid}/{self.instance}"))


def machines_named(job: Obj) -> list[str]:
    """The SpotInstanceVMs that a job has anything to do with."""
    spec, status = job.get("spec") or {}, job.get("status") or {}
    references = [spec.get("spotInstanceVMRef"), *(spec.get("alternativeVMRefs") or ())]
    names = [reference.get("name") for reference in references if isinstance(reference, dict)]
    names += [placement.get("vm") for placement in status.get("placements") or ()]
    return list(dict.fromkeys(name for name in names if name))


def wishes_for(vm: str, jobs: Iterable[Obj]) -> list[Wish]:
    """What jobs of the namespace wish from the SpotInstanceVM of this name."""
    found: list[Wish] = []
    for job in jobs:
        if is_being_deleted(job):
            continue  # nobody waits for its machines any more
        placements = (job.get("status") or {}).get("placements") or ()
        found += [
            _wish(job, placement)
            for placement in placements
            if placement.get("vm") == vm and not placement.get("endTime")
        ]
    return sorted(found, key=lambda wish: wish.instance)


def _wish(job: Obj, placement: Obj) -> Wish:
    spec = job.get("spec") or {}
    return Wish(
        job=job["metadata"]["name"],
        job_uid=job["metadata"]["uid"],
        instance=placement["instance"],
        cloud=placement.get("cloud") or "",
        region=placement.get("region") or "",
        zone=placement.get("zone") or "",
        machine_type=placement.get("machineType") or "",
        spot=placement.get("provisioningModel") != "OnDemand",
        price=placement.get("pricePerHour"),
        credentials=spec.get("credentialsSecretRef") or spec.get("gcpCredentialsSecretRef"),
    )
