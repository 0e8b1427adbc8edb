"""What copies of a job did, told by the journals of `training_program`, and what must hold.

Pure but for reading files. All processes are of one machine, so their times can be compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from corral.inpod.volume import names
from corral.inpod.volume.volume import Volume

__all__ = [
    "Published",
    "Start",
    "claims",
    "fence_breaches",
    "gaps",
    "lost_steps",
    "overlaps",
    "published",
    "read",
    "unordered",
]


@dataclass(kw_only=True)
class Start:
    """One process of a copy, from its first word to its last."""

    replica: int
    attempt: int
    pod: str
    node: str
    began: float
    restored: int | None = None
    """The step of the checkpoint it began with, -1 for none; None: it did not come so far."""
    restored_at: float = 0.0
    steps: list[int] = field(default_factory=list)
    step_times: list[float] = field(default_factory=list)
    saves: list[int] = field(default_factory=list)
    last: float = 0.0
    """When its last word was written."""
    digest: str = ""
    """Of its weights after the last step; empty if it did not come there."""

    def __str__(self) -> str:
        return (
            f"replica {self.replica} attempt {self.attempt} on {self.node}: "
            f"{self.began:.2f} to {self.last:.2f}, restored {self.restored}, "
            f"reached {self.reached}, saved {self.saves}, {self.digest[:8]}"
        )

    @property
    def reached(self) -> int | None:
        """The last step that it did, or had from its checkpoint."""
        return self.steps[-1] if self.steps else self.restored


def read(folder: Path) -> list[Start]:
    """All starts, in the order in which they began."""
    found = [start for path in folder.glob("*.jsonl") if (start := _start(path)) is not None]
    return sorted(found, key=lambda start: start.began)


def _start(path: Path) -> Start | None:
    start: Start | None = None
    for line in path.read_bytes().split(b"\n")[:-1]:  # the last one may be torn
        event: dict[str, Any] = json.loads(line)
        if start is None:
            start = Start(
                replica=event["replica"],
                attempt=event["attempt"],
                pod=event["pod"],
                node=event["node"],
                began=event["at"],
            )
        start.last = event["at"]
        match event["event"]:
            case "restored":
                start.restored, start.restored_at = event["step"], event["at"]
            case "saving":
                start.saves.append(event["step"])
            case "step":
                start.steps.append(event["step"])
                start.step_times.append(event["at"])
            case "done":
                start.digest = event["digest"]
    return start


def by_replica(starts: Iterable[Start]) -> Mapping[int, list[Start]]:
    ordered = sorted(starts, key=lambda start: (start.replica, start.began))
    return {replica: list(each) for replica, each in groupby(ordered, lambda s: s.replica)}


# --- what must be true ---------------------------------------------------------------------------


def overlaps(starts: Iterable[Start]) -> list[tuple[Start, Start]]:
    """Starts of one copy of which the later began before the earlier had ended."""
    return [
        (earlier, later)
        for mine in by_replica(starts).values()
        for earlier, later in pairwise(mine)
        if later.began < earlier.last
    ]


def unordered(starts: Iterable[Start]) -> list[tuple[Start, Start]]:
    """Starts of one copy that do not have a higher attempt than those before them."""
    return [
        (earlier, later)
        for mine in by_replica(starts).values()
        for earlier, later in pairwise(mine)
        if later.attempt <= earlier.attempt
    ]


def gaps(starts: Iterable[Start]) -> list[Start]:
    """Starts whose steps do not follow one upon the other from what they began with."""
    return [
        start
        for start in starts
        if start.restored is not None
        and start.steps != list(range(start.restored + 1, start.restored + 1 + len(start.steps)))
    ]


def lost_steps(starts: Iterable[Start], *, until: float = float("inf")) -> list[tuple[Start, int]]:
    """For each start of a copy after its first: how many steps of the one before it does again.

    Steps that were done after a time do not count.
    """
    found = []
    for mine in by_replica(starts).values():
        reached = -1
        for start in mine:
            if start.restored is not None and start is not mine[0]:
                found.append((start, max(reached - start.restored, 0)))
            reached = max(
                (
                    step
                    for step, at in zip(start.steps, start.step_times, strict=True)
                    if at < until
                ),
                default=reached if start.restored is None else start.restored,
            )
    return found


# --- checkpoints ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Published:
    """A checkpoint on a volume."""

    attempt: int
    step: int
    at: float
    """When its manifest was written."""


def published(folder: Path) -> list[Published]:
    """Those that are there, in the order in which they came."""
    found = []
    for manifest in Volume(str(folder)).scan().manifests:
        path = folder / manifest.id / names.MANIFEST
        found.append(Published(manifest.attempt, manifest.step, path.stat().st_mtime))
    return sorted(found, key=lambda each: each.at)


def claims(folder: Path) -> dict[int, float]:
    """Attempt → when it said that it had begun."""
    return {
        attempt: path.stat().st_mtime
        for path in folder.iterdir()
        if path.is_file() and (attempt := names.claimed_attempt(path.name)) is not None
    }


def fence_breaches(folder: Path) -> list[tuple[Published, int]]:
    """Checkpoints that an attempt published after a later one had begun, with that later one."""
    begun = claims(folder)
    return [
        (each, attempt)
        for each in published(folder)
        for attempt, at in begun.items()
        if attempt > each.attempt and at < each.at
    ]
