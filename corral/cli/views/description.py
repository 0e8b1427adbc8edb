"""``corral describe``: all that is known about a job, for people and for programs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from corral.cli.references import Found
from corral.cli.views.rows import age, event_row, replicas_text, short, worker_summary
from corral.kube.printable import printable, printable_lines
from corral.kube.types import Obj

if TYPE_CHECKING:
    from corral.client.summary import Summary

__all__ = ["described", "description_lines"]

_EVENTS = 20
"""The last ones are shown to people; `corral events` has all."""


def described(found: Found, summary: Summary, events: Sequence[Obj], now: datetime) -> Obj:
    """For programs: the summary, what is computed of it, and the events."""
    out = summary.as_object()
    workers = worker_summary(found.kind, found.obj)
    if workers:
        out["workers"] = workers
    out["events"] = [event_row(event, now) for event in events]
    return out


def description_lines(
    found: Found, summary: Summary, events: Sequence[Obj], now: datetime
) -> list[str]:
    """For people."""
    lines = _fields(list(_head(found, summary, now)))
    lines += _section("Progress", _progress(summary.progress))
    lines += _section("Checkpoint", _flat(summary.checkpoint))
    lines += _section("Failure", _failure(summary))
    lines += _grid("Replicas", ("NAME", "STATE", "NODE", "RESTARTS", "WHY"), _pods(summary))
    lines += _grid("Conditions", ("TYPE", "STATUS", "SINCE", "REASON"), _conditions(summary, now))
    rows = [event_row(event, now) for event in events[-_EVENTS:]]
    cells = [[row["age"], row["type"], row["reason"], row["message"]] for row in rows]
    lines += _grid("Events", ("AGE", "TYPE", "REASON", "MESSAGE"), cells)
    return lines


def _head(found: Found, summary: Summary, now: datetime) -> Iterable[tuple[str, str]]:
    yield "Name", found.title
    yield "Namespace", summary.namespace
    yield "Phase", summary.phase + (" (being deleted)" if summary.deleting else "")
    yield "Message", summary.message
    yield "Created", f"{summary.created} ({age(summary.created, now)} ago)"
    yield "Started", summary.started
    yield "Finished", summary.finished
    yield "Duration", short(summary.duration_seconds)
    yield "Replicas", replicas_text(summary.replicas)
    yield "Workers", worker_summary(found.kind, found.obj)


def _progress(progress: Obj | None) -> list[tuple[str, str]]:
    if not progress:
        return []
    step, total = progress.get("step"), progress.get("totalSteps")
    percent = progress.get("percent")
    pairs = [
        ("Step", f"{step}/{total}" if total else str(step)),
        ("Percent", f"{percent}%" if percent is not None else ""),
        ("Epoch", _word(progress.get("epoch"))),
        ("ETA", short(progress.get("etaSeconds"))),
    ]
    metrics = progress.get("metrics") or {}
    return [*pairs, *((name, f"{value:.6g}") for name, value in metrics.items() if _real(value))]


def _real(value: Any) -> bool:
    return isinstance(value, int | float)


def _failure(summary: Summary) -> list[tuple[str, str]]:
    why = summary.diagnosis
    if why is None:
        return []
    pairs = [
        ("Pod", why.pod),
        ("Node", why.node),
        ("Reason", why.reason),
        ("Exit code", _word(why.exit_code)),
        ("Signal", _word(why.signal)),
        ("Message", why.message),
    ]
    tail = [("Log", line) for line in why.log_tail.splitlines()[-10:]]
    return [*pairs, *tail]


def _pods(summary: Summary) -> list[list[str]]:
    return [
        [
            pod.name,
            "Ready" if pod.ready and pod.phase == "Running" else pod.phase,
            pod.node,
            str(pod.restarts),
            " ".join(word for word in (pod.reason, pod.message) if word),
        ]
        for pod in summary.pods
    ]


def _conditions(summary: Summary, now: datetime) -> list[list[str]]:
    return [
        [
            _word(one.get("type")),
            _word(one.get("status")),
            age(_word(one.get("lastTransitionTime")), now),
            " ".join(_word(one.get(key)) for key in ("reason", "message")).strip(),
        ]
        for one in summary.conditions
    ]


def _flat(section: Obj | None) -> list[tuple[str, str]]:
    return [(name, _word(value)) for name, value in (section or {}).items()]


def _word(value: Any) -> str:
    return "" if value is None else str(value)


# -- layout ----------------------------------------------------------------------------------------


def _fields(pairs: Sequence[tuple[str, str]], indent: str = "") -> list[str]:
    shown = [(printable(name), value) for name, value in pairs if value]
    width = max((len(name) for name, _ in shown), default=0) + 1
    lines = []
    for name, value in shown:
        first, *more = printable_lines(value).strip("\n").split("\n")
        lines.append(f"{indent}{f'{name}:':<{width}}  {first}")
        # further lines stand under the first, where no field of ours begins
        lines += [f"{indent}{'':<{width}}  {line}" for line in more]
    return lines


def _section(title: str, pairs: Sequence[tuple[str, str]]) -> list[str]:
    lines = _fields(pairs, "  ")
    return [f"{title}:", *lines] if lines else []


def _grid(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return []
    cells = [
        list(head),
        *([printable(" ".join(cell.split())) or "-" for cell in row] for row in rows),
    ]
    widths = [max(len(row[n]) for row in cells) for n in range(len(head))]
    return [
        f"{title}:",
        *(
            "  " + "   ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip()
            for row in cells
        ),
    ]
