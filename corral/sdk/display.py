"""How jobs look in notebooks and terminals: HTML without scripts or outside resources, and rich.

Everything that comes from a cluster is escaped. rich is loaded when a terminal asks for it.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from corral.kube.printable import printable, printable_lines

if TYPE_CHECKING:
    from rich.console import RenderableType

    from corral.sdk.views import Event, Job

__all__ = [
    "EVENT_COLUMNS",
    "JOB_COLUMNS",
    "ago",
    "event_row",
    "job_html",
    "job_panel",
    "job_row",
    "span",
    "table",
    "table_html",
]

JOB_COLUMNS: Final = ("name", "kind", "phase", "replicas", "progress", "metrics", "age", "message")
EVENT_COLUMNS: Final = ("time", "type", "reason", "about", "message")
_COLOURS: Final = {
    "Succeeded": ("#1a7f37", "green"),
    "Completed": ("#1a7f37", "green"),
    "Ready": ("#1a7f37", "green"),
    "Running": ("#0969da", "blue"),
    "Restarting": ("#9a6700", "yellow"),
    "Suspended": ("#6e7781", "bright_black"),
    "Failed": ("#cf222e", "red"),
    "Warning": ("#9a6700", "yellow"),
}
_GREY: Final = ("#6e7781", "default")
_LONGEST: Final = 120


def span(length: timedelta | None) -> str:
    """``42s``, ``3m10s``, ``2h5m``, ``4d``."""
    if length is None:
        return ""
    seconds = max(0, int(length.total_seconds()))
    minutes, hours = seconds // 60, seconds // 3600
    if seconds < 60:
        return f"{seconds}s"
    if minutes < 60:
        return f"{minutes}m{seconds % 60}s"
    return f"{hours}h{minutes % 60}m" if hours < 48 else f"{hours // 24}d"


def ago(time: datetime | None) -> str:
    return span(datetime.now(UTC) - time) if time is not None else ""


def metrics_text(job: Job) -> str:
    return ", ".join(f"{name}={value:.4g}" for name, value in job.metrics.items())


def job_row(job: Job) -> tuple[str, ...]:
    return (
        job.name,
        job.kind,
        job.phase,
        f"{job.ready}/{job.replicas}",
        str(job.progress),
        metrics_text(job),
        ago(job.created),
        _short(job.message),
    )


def event_row(event: Event) -> tuple[str, ...]:
    when = f"{event.time:%H:%M:%S}" if event.time else ""
    repeated = f" (x{event.count})" if event.count > 1 else ""
    return when, event.type, event.reason, event.about, event.message + repeated


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


# -- HTML ------------------------------------------------------------------------------------------


def escape(text: str) -> str:
    """For HTML: no markup, and nothing that turns or hides what stands beside it."""
    return html.escape(printable_lines(text))


_CELL: Final = "text-align:left;padding:2px 10px 2px 0;vertical-align:top"


def coloured_html(word: str) -> str:
    colour, _ = _COLOURS.get(word, _GREY)
    return f'<span style="color:{colour};font-weight:600">{escape(word)}</span>'


def table_html(columns: Sequence[str], rows: Iterable[Sequence[str]], empty: str) -> str:
    body = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}">{_cell(text)}</td>' for text in row) + "</tr>"
        for row in rows
    )
    if not body:
        return f"<em>{escape(empty)}</em>"
    head = "".join(f'<th style="{_CELL}">{escape(name)}</th>' for name in columns)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(text: str) -> str:
    return coloured_html(text) if text in _COLOURS else escape(text)


def job_html(job: Job) -> str:
    title = (
        f"<strong>{escape(job.name)}</strong> {escape(job.kind)} in {escape(job.namespace)}: "
        f"{coloured_html(job.phase)}"
    )
    rows = "".join(
        f'<tr><td style="{_CELL}"><em>{name}</em></td><td style="{_CELL}">{value}</td></tr>'
        for name, value in (
            ("replicas", escape(f"{job.ready} of {job.replicas} ready")),
            ("progress", _progress_html(job)),
            ("metrics", escape(metrics_text(job))),
            ("duration", escape(span(job.duration))),
            ("message", escape(job.message)),
            ("failure", _failure_html(job)),
        )
        if value
    )
    return f"<div>{title}<table>{rows}</table></div>"


def _progress_html(job: Job) -> str:
    text = escape(str(job.progress))
    if job.progress.percent is None:
        return text
    width = max(0, min(100, job.progress.percent))
    bar = (
        '<div style="display:inline-block;width:160px;height:8px;background:#d0d7de;'
        'border-radius:4px;margin-right:8px">'
        f'<div style="width:{width}%;height:8px;background:#0969da;border-radius:4px"></div></div>'
    )
    return bar + text


def _failure_html(job: Job) -> str:
    found = job.failure
    if found is None or job.succeeded:
        return ""
    tail = f"<pre>{escape(found.log_tail)}</pre>" if found.log_tail else ""
    return escape(found.text) + tail


# -- terminals -------------------------------------------------------------------------------------


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    out = Table(*columns, box=None, header_style="bold", pad_edge=False)
    for row in rows:
        out.add_row(*(Text(printable(text), style=_COLOURS.get(text, _GREY)[1]) for text in row))
    return out


def job_panel(job: Job) -> RenderableType:
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    style = _COLOURS.get(job.phase, _GREY)[1]
    title = Text.assemble(
        (printable(job.name), "bold"), f" {job.kind} ", (printable(job.phase), style)
    )
    lines: list[Any] = [title]
    if job.progress.percent is not None:
        lines.append(ProgressBar(total=100, completed=job.progress.percent, width=40))
    reported = (
        str(job.progress),
        metrics_text(job),
        f"{job.ready} of {job.replicas} replicas ready",
        job.message,
    )
    lines += [Text(printable(text)) for text in reported if text]
    return Group(*lines)
