"""Which jobs a change concerns, and how long machines were up since one last looked. No I/O."""

from __future__ import annotations

from collections.abc import Iterator

from corral.api.spot.kinds import JOB_LABEL
from corral.families.spot.jobs.observation import wished
from corral.families.spot.machines.requested import machines_named
from corral.kube.types import Obj
from corral.runtime.conditions import find_condition
from corral.runtime.informers.handlers import Mapper
from corral.runtime.informers.informer import Change, Informer
from corral.runtime.keys import join_key, key_of

__all__ = ["Uptimes", "job_of", "mappers", "node_matters"]


def job_of(obj: Obj) -> tuple[str, ...]:
    """The key of the SpotInstanceJob that a Job or a pod is of; also an index."""
    metadata = obj["metadata"]
    name = (metadata.get("labels") or {}).get(JOB_LABEL)
    return (join_key(metadata.get("namespace"), name),) if name else ()


def mappers(jobs: Informer) -> tuple[Mapper, Mapper]:
    """From changes of SpotInstanceVMs, and of nodes, to the jobs that they concern."""

    def of_vm(change: Change) -> list[str]:
        vm = (change.new or change.old or {})["metadata"]
        return [
            key_of(job)
            for job in jobs.store
            if job["metadata"]["namespace"] == vm["namespace"] and vm["name"] in machines_named(job)
        ]

    def of_node(change: Change) -> list[str]:
        name = (change.new or change.old or {})["metadata"]["name"]
        return [
            key_of(job)
            for job in jobs.store
            if any(
                entry.get("nodeName") == name
                for entry in (job.get("status") or {}).get("jobStatuses") or ()
            )
        ]

    return of_vm, of_node


def node_matters(change: Change) -> bool:
    """Not for the many writes by which a node says that it is alive."""
    if change.old is None or change.new is None:
        return True
    return _look(change.old) != _look(change.new)


def _look(node: Obj) -> tuple[object, object]:
    ready = find_condition((node.get("status") or {}).get("conditions"), "Ready") or {}
    return ready.get("status"), (node.get("spec") or {}).get("taints")


class Uptimes:
    """Until when memory was told that machines were up."""

    def __init__(self) -> None:
        self._told: dict[str, float] = {}

    def since(self, job: Obj, *, now: float) -> Iterator[tuple[Obj, float]]:
        """Each machine of a job that is up, with the seconds since one last asked."""
        for placement in wished(job.get("status") or {}):
            name = str(placement["instance"])
            if not placement.get("readyTime"):
                continue
            seconds = now - self._told.get(name, now)
            self._told[name] = now
            if seconds > 0:
                yield placement, seconds
        for placement in (job.get("status") or {}).get("placements") or ():
            if placement.get("endTime"):
                self._told.pop(str(placement["instance"]), None)

    def forget(self, job: Obj) -> None:
        """Its machines are no longer of any interest."""
        for placement in (job.get("status") or {}).get("placements") or ():
            self._told.pop(str(placement["instance"]), None)
