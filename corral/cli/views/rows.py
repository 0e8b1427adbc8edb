"""Jobs as rows of a table, and the words in them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from corral.kube.types import Obj

if TYPE_CHECKING:
    from corral.client.kinds import JobKind
    from corral.client.summary import RoleCounts

__all__ = [
    "COLUMNS",
    "EVENT_COLUMNS",
    "age",
    "event_row",
    "job_row",
    "replicas_text",
    "short",
    "worker_summary",
]

COLUMNS: Final = ("name", "phase", "replicas", "progress", "duration", "age", "message")
EVENT_COLUMNS: Final = ("age", "type", "reason", "object", "count", "message")
_QUIET: Final = ("Running", "Succeeded", "Completed", "Ready")


def job_row(kind: JobKind, obj: Obj, now: datetime) -> dict[str, Any]:
    """One job, from the object alone."""
    from corral.client.summary import summarize

    seen = summarize(kind, obj, (), now=now)
    percent = (seen.progress or {}).get("percent")
    step = (seen.progress or {}).get("step")
    return {
        "name": seen.name,
        "namespace": seen.namespace,
        "kind": kind.singular,
        "phase": "Deleting" if seen.deleting else seen.phase,
        "replicas": _ready(kind, obj),
        "progress": f"{percent}%" if percent is not None else (f"step {step}" if step else ""),
        "duration": short(seen.duration_seconds),
        "age": age(seen.created, now),
        "message": "" if seen.phase in _QUIET else clipped(seen.message),
    }


def _ready(kind: JobKind, obj: Obj) -> str:
    status, spec = obj.get("status") or {}, obj.get("spec") or {}
    if kind.family == "mpijob":
        counts = (status.get("replicaStatuses") or {}).get("Worker") or {}
        wanted = ((spec.get("mpiReplicaSpecs") or {}).get("Worker") or {}).get("replicas") or 0
        return f"{counts.get('active') or 0}/{wanted}"
    replicas = status.get("replicas")
    ready = replicas.get("ready") if isinstance(replicas, dict) else status.get("readyReplicas")
    wanted = spec.get("replicas")
    return f"{ready or 0}/{wanted}" if isinstance(wanted, int) else ""


def replicas_text(counts: Iterable[RoleCounts]) -> str:
    """``launcher 1/1 running; worker 3/4 running, 1 pending``."""
    parts = []
    for one in counts:
        wanted = f"/{one.desired}" if one.desired is not None else ""
        words = [f"{one.role} {one.running}{wanted} running"]
        more = ("pending", "succeeded", "failed", "restarts")
        words += [f"{getattr(one, name)} {name}" for name in more if getattr(one, name)]
        parts.append(", ".join(words))
    return "; ".join(parts)


def worker_summary(kind: JobKind, obj: Obj) -> str:
    """How the workers of an MPIJob are, in its own words; empty for other kinds."""
    if kind.kind != "MPIJob":
        return ""
    from corral.api.mpi.kinds import MPIJob

    try:
        return MPIJob.read(obj).get_worker_stats_summary()
    except ValueError:
        return ""  # an object that its kind cannot read has no such summary


def event_row(event: Obj, now: datetime) -> dict[str, Any]:
    about = event.get("involvedObject") or event.get("regarding") or {}
    last = event.get("lastTimestamp") or event.get("eventTime") or event.get("firstTimestamp")
    return {
        "time": last or "",
        "age": age(last or "", now),
        "type": event.get("type") or "",
        "reason": event.get("reason") or "",
        "object": f"{str(about.get('kind') or '').lower()}/{about.get('name') or ''}",
        "count": event.get("count") or (event.get("series") or {}).get("count") or 1,
        "message": " ".join(str(event.get("message") or event.get("note") or "").split()),
    }


def age(time: str, now: datetime) -> str:
    """How long ago; empty where the time is not known."""
    from corral.client.times import parse_time

    since = parse_time(time)
    return short((now - since).total_seconds()) if since is not None else ""


_UNITS: Final[Sequence[tuple[str, int]]] = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


def short(seconds: float | None) -> str:
    """``45s``, ``3m20s``, ``5h2m``, ``2d``: two units at most."""
    if seconds is None:
        return ""
    left = max(int(seconds), 0)
    parts: list[str] = []
    for unit, size in _UNITS:
        if left >= size or (unit == "s" and not parts):
            parts.append(f"{left // size}{unit}")
            left %= size
        elif parts:
            break
    return "".join(parts[:2])


def clipped(text: str, length: int = 80) -> str:
    """One line of a table."""
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[: length - 1]}…"
