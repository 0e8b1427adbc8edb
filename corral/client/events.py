"""Events about a job and about what was made for it, in the order in which they happened."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from corral.client.kinds import JobKind
from corral.client.phases import section, text
from corral.client.times import parse_time
from corral.kube.types import Obj

__all__ = ["Family", "event_time", "in_order"]

_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_PARTS: Final = "launcher|worker|job|replica|master|config|ssh|checkpoints?|round"
"""What comes after the name of a job in the names of what is made for it."""


class Family:
    """A job and its children, to tell their events from those of others.

    By uid wherever it is known. A child that is gone is known by its name, if the event is not
    older than the job: one of the same name before it was another job.
    """

    def __init__(self, kind: JobKind, job: Obj, children: Iterable[Obj]) -> None:
        metadata = section(job, "metadata")
        name = re.escape(text(metadata.get("name")))
        self._kind = kind.kind
        self._born = parse_time(metadata.get("creationTimestamp")) or _EPOCH
        self._uids = {_uid(job), *(_uid(child) for child in children)} - {""}
        self._job_name = text(metadata.get("name"))
        self._names = re.compile(rf"(round-\d+-)?{name}(-\d+|(-({_PARTS}))(-[a-z0-9-]+)?)?")

    def has(self, event: Obj) -> bool:
        """Whether an event is about one of them."""
        involved = section(event, "involvedObject") or section(event, "regarding")
        if text(involved.get("uid")) in self._uids:
            return True
        if event_time(event) < self._born:
            return False
        name, kind = text(involved.get("name")), text(involved.get("kind"))
        if kind == self._kind:
            return not involved.get("uid") and name == self._job_name
        return kind in _CHILDREN and self._names.fullmatch(name) is not None


_CHILDREN: Final = frozenset(
    {
        "Pod", "Job", "Service", "ConfigMap", "Secret", "PersistentVolumeClaim", "PodGroup",
        "ServiceAccount", "NetworkPolicy", "TrainingRound", "WasmTask", "CheckpointBackup",
    }
)  # fmt: skip


def event_time(event: Obj) -> datetime:
    """When it happened last."""
    detail = (
        section(event, "series").get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        event.get("firstTimestamp"),
        section(event, "metadata").get("creationTimestamp"),
    )
    return next((read for value in detail if (read := parse_time(value)) is not None), _EPOCH)


def in_order(events: Iterable[Obj]) -> list[Obj]:
    """Oldest first; those of the same second in the order in which they were written."""
    return sorted(events, key=lambda event: (event_time(event), _version(event)))


def _version(event: Obj) -> int:
    version = text(section(event, "metadata").get("resourceVersion"))
    return int(version) if version.isascii() and version.isdigit() else 0


def _uid(obj: Obj) -> str:
    return text(section(obj, "metadata").get("uid"))
