"""Machines as rows of a table. Pure; odd objects give odd rows, never an error."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from corral.cli.views.rows import age, short
from corral.client import phases
from corral.client.times import parse_time
from corral.kube.types import Obj

__all__ = [
    "INSTANCE_COLUMNS",
    "PLACEMENT_COLUMNS",
    "RATE_COLUMNS",
    "instance_rows",
    "placement_rows",
    "rate_rows",
]

INSTANCE_COLUMNS: Final = ("name", "vm", "state", "model", "place", "node", "price", "age", "news")
PLACEMENT_COLUMNS: Final = ("job", "replica", "instance", "model", "place", "up", "end", "cost")
RATE_COLUMNS: Final = ("place", "hours", "losses", "rate")
LOST: Final = "Lost"
"""Why a machine ended that was taken."""


def instance_rows(vm: Obj, now: datetime) -> list[dict[str, Any]]:
    """The machines of a SpotInstanceVM."""
    metadata = phases.section(vm, "metadata")
    return [
        {
            "name": phases.text(found.get("name")),
            "namespace": phases.text(metadata.get("namespace")),
            "vm": phases.text(metadata.get("name")),
            "state": phases.text(found.get("state")),
            "model": _model(found),
            "place": _place(found),
            "node": phases.text(found.get("nodeName")) if found.get("joinedCluster") else "",
            "price": found.get("pricePerHour"),
            "age": age(phases.text(found.get("creationTime")), now),
            "news": _news(found),
        }
        for found in phases.sections(phases.status_of(vm), "provisionedInstances")
    ]


def _news(found: Obj) -> str:
    """Why it ended, or until when it is there."""
    if reason := phases.text(found.get("reason")):
        return reason
    deadline = phases.text(found.get("preemptionDeadline"))
    return f"taken at {deadline}" if deadline else ""


def placement_rows(job: Obj, now: datetime) -> list[dict[str, Any]]:
    """The machines that a SpotInstanceJob ran on, in the order in which it got them."""
    name = phases.text(phases.section(job, "metadata").get("name"))
    return [
        {
            "job": name,
            "replica": found.get("replica"),
            "instance": phases.text(found.get("instance")),
            "model": _model(found),
            "place": _place(found),
            "up": short(_seconds(found, now)),
            "end": phases.text(found.get("endReason")),
            "cost": found.get("cost"),
        }
        for found in phases.sections(phases.status_of(job), "placements")
    ]


def rate_rows(jobs: Iterable[Obj], now: datetime) -> list[dict[str, Any]]:
    """Hours and losses of each place, the riskiest first."""
    hours: dict[str, float] = {}
    losses: dict[str, int] = {}
    for job in jobs:
        for found in phases.sections(phases.status_of(job), "placements"):
            if _model(found) == "spot":
                place = _place(found)
                hours[place] = hours.get(place, 0.0) + (_seconds(found, now) or 0.0) / 3600
                losses[place] = losses.get(place, 0) + (found.get("endReason") == LOST)
    rows = [
        {
            "place": place,
            "hours": round(up, 2),
            "losses": losses[place],
            "rate": round(losses[place] / up, 4) if up else None,
        }
        for place, up in hours.items()
    ]
    return sorted(rows, key=lambda row: (-(row["rate"] or 0.0), row["place"]))


def _model(found: Obj) -> str:
    return "on-demand" if found.get("provisioningModel") == "OnDemand" else "spot"


def _place(found: Obj) -> str:
    words = (phases.text(found.get(key)) for key in ("cloud", "region", "zone", "machineType"))
    return "/".join(word for word in words if word)


def _seconds(found: Obj, now: datetime) -> float | None:
    start = parse_time(phases.text(found.get("startTime")))
    if start is None:
        return None
    end = parse_time(phases.text(found.get("endTime"))) or now
    return max((end - start).total_seconds(), 0.0)
