"""How a running job looks in a terminal: a few lines that change in place. Pure but for the clock.

`JobView` is told about changes and renders what is known: phase and time, a bar of the steps, the
course of the loss and the states of the replicas.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from corral.kube.printable import printable

__all__ = ["PALETTE", "JobView", "Replica", "duration", "phase_style", "sparkline"]

_BLOCKS: Final = "▁▂▃▄▅▆▇█"
_COURSE: Final = 48
"""How many values of the loss are shown."""
_FEW: Final = 16
"""Up to so many replicas are shown one by one."""
_STYLES: Final[Mapping[str, str]] = {
    "Running": "green",
    "Succeeded": "bold green",
    "Failed": "bold red",
    "Restarting": "yellow",
    "Suspended": "magenta",
    "Pending": "yellow",
    "Created": "yellow",
    "Waiting": "yellow",
    "Unknown": "red",
}
_MARKS: Final[Mapping[str, str]] = {
    "Running": "●",
    "Succeeded": "✔",
    "Failed": "✘",
    "Pending": "○",
}
PALETTE: Final = ("cyan", "magenta", "yellow", "blue", "green", "bright_red", "bright_cyan")
"""Colours of replicas, by their order."""


def phase_style(phase: str) -> str:
    return _STYLES.get(phase, "cyan")


def sparkline(values: Sequence[float], width: int = _COURSE) -> str:
    """The course of the last values, lowest to highest."""
    shown = list(values)[-width:]
    if not shown:
        return ""
    # by halves: the distance of two finite numbers may be none
    low, high = min(shown) / 2, max(shown) / 2
    span = (high - low) or 1.0
    top = len(_BLOCKS) - 1
    return "".join(_BLOCKS[round((value / 2 - low) / span * top)] for value in shown)


def duration(seconds: float | None) -> str:
    """``1:02:03``, ``4:05``; empty where it is not known."""
    if seconds is None:
        return ""
    whole = max(int(seconds), 0)
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"


@dataclass(frozen=True, slots=True)
class Replica:
    """One pod: ``worker-1`` and its state."""

    name: str
    state: str


@dataclass(slots=True)
class JobView:
    """What is known about a job."""

    title: str
    phase: str = "Pending"
    message: str = ""
    elapsed: float | None = None
    progress: Mapping[str, Any] = field(default_factory=dict)
    replicas: Sequence[Replica] = ()
    losses: deque[float] = field(default_factory=lambda: deque(maxlen=4 * _COURSE))
    _step: Any = None

    def report(self, progress: Mapping[str, Any] | None) -> None:
        """What was reported last; a loss counts once per report."""
        if not progress:
            return
        self.progress = progress
        moment = (progress.get("step"), progress.get("updatedAt"))
        loss = (progress.get("metrics") or {}).get("loss")
        if isinstance(loss, int | float) and moment != self._step:
            self._step = moment
            self.losses.append(float(loss))

    def render(self) -> RenderableType:
        lines: list[RenderableType] = [self._head()]
        if self.progress:
            lines.append(self._bar())
        metrics = self._metrics()
        if metrics.plain:
            lines.append(metrics)
        if self.replicas:
            lines.append(self._states())
        return Group(*lines)

    def _head(self) -> Text:
        text = Text(no_wrap=True, overflow="ellipsis")
        text.append(f"{printable(self.title)}  ", style="bold")
        text.append(printable(self.phase), style=phase_style(self.phase))
        if self.elapsed is not None:
            text.append(f"  {duration(self.elapsed)}", style="dim")
        if self.message and self.phase != "Running":
            text.append(f"  {printable(self.message)}", style="dim")
        return text

    def _bar(self) -> RenderableType:
        step, total = self.progress.get("step"), self.progress.get("totalSteps")
        percent = self.progress.get("percent")
        steps = f"step {step}/{total}" if total else f"step {step}"
        bar = ProgressBar(total=100, completed=percent or 0, width=40, pulse=percent is None)
        eta = duration(self.progress.get("etaSeconds"))
        after = f"{percent}%" if percent is not None else ""
        if eta and self.phase == "Running":
            after += f"  eta {eta}"
        table = Table.grid(padding=(0, 1))
        table.add_row(Text(printable(steps)), bar, Text(printable(after)))
        return table

    def _metrics(self) -> Text:
        text = Text(no_wrap=True, overflow="ellipsis")
        metrics = dict(self.progress.get("metrics") or {})
        if self.losses:
            text.append(f"loss {self.losses[-1]:.4g} ")
            text.append(sparkline(self.losses), style="cyan")
            metrics.pop("loss", None)
        for name, value in list(metrics.items())[:4]:
            text.append(
                f"  {printable(name)} {value:.4g}" if isinstance(value, int | float) else ""
            )
        return text

    def _states(self) -> Text:
        text = Text("replicas", overflow="fold")
        if len(self.replicas) <= _FEW:
            for replica in self.replicas:
                mark = _MARKS.get(replica.state, "◌")
                text.append(f"  {printable(replica.name)} ")
                text.append(f"{mark} {printable(replica.state)}", style=phase_style(replica.state))
            return text
        for state, count in Counter(replica.state for replica in self.replicas).most_common():
            text.append(f"  {count} ")
            text.append(printable(state), style=phase_style(state))
        return text
