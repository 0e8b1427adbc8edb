"""What the SDK gives back: a job, lists of jobs and events, lines of logs.

All of them are values of one moment; ask again for the next. Each has a plain ``repr``, a
``_repr_html_`` for notebooks (no scripts, nothing from outside) and the rich protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

from corral.client.kinds import JobKind, Role
from corral.client.phases import section, status_of, text
from corral.client.summary import Diagnosis, diagnosis_of
from corral.client.times import duration, finish_time, parse_time, start_time
from corral.kube.printable import printable
from corral.kube.types import Obj
from corral.sdk import display

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["Event", "Events", "Job", "Jobs", "LogLine", "Progress"]


@dataclass(frozen=True, slots=True)
class Progress:
    """What the program reported last; everything may be unknown."""

    step: int | None = None
    total: int | None = None
    percent: int | None = None
    epoch: int | None = None
    eta: timedelta | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def read(cls, progress: Obj) -> Self:
        eta = progress.get("etaSeconds")
        return cls(
            step=progress.get("step"),
            total=progress.get("totalSteps"),
            percent=progress.get("percent"),
            epoch=progress.get("epoch"),
            eta=timedelta(seconds=eta) if isinstance(eta, (int, float)) else None,
            metrics=dict(progress.get("metrics") or {}),
        )

    def __str__(self) -> str:
        if self.step is None:
            return ""
        of = f"/{self.total}" if self.total is not None else ""
        percent = f" ({self.percent} %)" if self.percent is not None else ""
        return f"step {self.step}{of}{percent}"


@dataclass(frozen=True, slots=True)
class Job:
    """One job as it was when it was asked for."""

    name: str
    namespace: str
    kind: str
    uid: str
    phase: str
    """Pending, Running, Restarting, Suspended, Succeeded, Failed, …"""
    message: str
    """One line: why it is in that phase."""
    finished: bool
    succeeded: bool
    progress: Progress
    manifest: Obj = field(repr=False)
    """The whole object, as the API has it."""

    @classmethod
    def read(cls, kind: JobKind, obj: Obj) -> Self:
        meta, status = section(obj, "metadata"), status_of(obj)
        return cls(
            name=text(meta.get("name")),
            namespace=text(meta.get("namespace")),
            kind=kind.kind,
            uid=text(meta.get("uid")),
            phase=kind.phase(obj),
            message=kind.message(obj),
            finished=kind.finished(obj),
            succeeded=kind.succeeded(obj),
            progress=Progress.read(section(status, "progress")),
            manifest=obj,
        )

    # -- what is in the manifest -------------------------------------------------------------------

    @property
    def status(self) -> str:
        """The phase, by the name that Kubeflow's client uses."""
        return self.phase

    @property
    def metrics(self) -> Mapping[str, float]:
        """What the program reported last: ``{"loss": 0.1}``."""
        return self.progress.metrics

    @property
    def spec(self) -> Obj:
        return section(self.manifest, "spec")

    @property
    def labels(self) -> Mapping[str, str]:
        return section(section(self.manifest, "metadata"), "labels")

    @property
    def replicas(self) -> int:
        """How many pods it should have beside a launcher."""
        workers = section(section(self.spec, "mpiReplicaSpecs"), "Worker").get("replicas")
        wanted = self.spec.get("replicas", workers)
        return wanted if isinstance(wanted, int) else 1

    @property
    def ready(self) -> int:
        """How many of them work."""
        status = status_of(self.manifest)
        workers = section(section(status, "replicaStatuses"), "Worker").get("active")
        found = section(status, "replicas").get("ready", workers)
        return found if isinstance(found, int) else 0

    @property
    def restarts(self) -> int:
        found = section(status_of(self.manifest), "replicas").get("restarts")
        return found if isinstance(found, int) else 0

    @property
    def created(self) -> datetime | None:
        return parse_time(section(self.manifest, "metadata").get("creationTimestamp"))

    @property
    def started(self) -> datetime | None:
        return parse_time(start_time(self.manifest))

    @property
    def completed(self) -> datetime | None:
        return parse_time(finish_time(self.manifest))

    @property
    def duration(self) -> timedelta | None:
        """How long it ran: until its end, its suspension, or now."""
        return duration(self.manifest, datetime.now(UTC))

    @property
    def failure(self) -> Diagnosis | None:
        """The pod that a failure is due to, its exit code, and the end of its log."""
        return diagnosis_of(self.manifest)

    @property
    def checkpoint(self) -> Obj:
        """``last``, ``lastStep``, ``count``, …; empty without checkpoints."""
        return section(status_of(self.manifest), "checkpoint")

    def __str__(self) -> str:
        """The name, so that a job can stand wherever a name can."""
        return self.name

    def __repr__(self) -> str:
        parts = [self.phase, f"{self.ready}/{self.replicas} replicas", str(self.progress)]
        parts += [f"{name}={value:.4g}" for name, value in self.metrics.items()]
        reported = ", ".join(filter(None, parts))
        return printable(f"<{self.kind} {self.namespace}/{self.name}: {reported}>")

    def _repr_html_(self) -> str:
        return display.job_html(self)

    def __rich__(self) -> RenderableType:
        return display.job_panel(self)


class Jobs(list[Job]):
    """Jobs, shown as a table."""

    def _repr_html_(self) -> str:
        return display.table_html(display.JOB_COLUMNS, map(display.job_row, self), "no jobs")

    def __rich__(self) -> RenderableType:
        return display.table(display.JOB_COLUMNS, map(display.job_row, self))


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a job or to an object of it."""

    time: datetime | None
    type: str
    """Normal or Warning."""
    reason: str
    message: str
    about: str
    """``Pod/digits-0``."""
    count: int = 1

    @classmethod
    def read(cls, obj: Obj) -> Self:
        about = section(obj, "involvedObject") or section(obj, "regarding")
        times = (obj.get("lastTimestamp"), obj.get("eventTime"), obj.get("firstTimestamp"))
        count = obj.get("count") or section(obj, "series").get("count")
        return cls(
            time=next((found for found in map(parse_time, times) if found is not None), None),
            type=text(obj.get("type")),
            reason=text(obj.get("reason")),
            message=text(obj.get("message")) or text(obj.get("note")),
            about=f"{text(about.get('kind'))}/{text(about.get('name'))}",
            count=count if isinstance(count, int) else 1,
        )

    def __str__(self) -> str:
        when = f"{self.time:%H:%M:%S} " if self.time else ""
        return printable(f"{when}{self.type} {self.reason} {self.about}: {self.message}")


class Events(list[Event]):
    """Events in their order, shown as a table."""

    def _repr_html_(self) -> str:
        return display.table_html(display.EVENT_COLUMNS, map(display.event_row, self), "no events")

    def __rich__(self) -> RenderableType:
        return display.table(display.EVENT_COLUMNS, map(display.event_row, self))


class LogLine(str):
    """One line of a log, without its end; also says whose it is."""

    __slots__ = ("container", "pod", "role")
    pod: str
    role: Role
    container: str

    def __new__(cls, line: str, *, pod: str, role: Role, container: str) -> Self:
        self = super().__new__(cls, line)
        self.pod, self.role, self.container = pod, role, container
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies are plain texts."""
        return str, (str(self),)


def jobs_of(kind: JobKind, items: Iterable[Obj]) -> Jobs:
    return Jobs(Job.read(kind, obj) for obj in items)
