"""What a job has cost, and what one copy of it would have cost on demand. Pure.

A machine is charged from when it was asked for, if it ever was a node. What is added to the sums is
what a placement's own cost has grown by: both are written together, so that nothing is counted
twice, whoever is killed when.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from corral.kube.types import Obj
from corral.runtime.pods.states import moment
from corral.spot import Ledger

__all__ = ["charge", "note_loss", "note_start"]

_HOUR: Final = 3600.0
OnDemand = Callable[[Obj], float | None]


def charge(status: Obj, *, now: float, replicas: int, on_demand: OnDemand) -> None:
    """Charge every machine until now, in place.

    Args:
        status: of the SpotInstanceJob.
        now: the time.
        replicas: how many copies there are; on demand one would do.
        on_demand: what the machine of a placement costs on demand; None: nobody tells.
    """
    cost: Obj = status.get("cost") or {}
    ledger = Ledger.of_object(cost)
    equivalent = cost.get("onDemandEquivalent")
    for placement in status.get("placements") or ():
        seconds = _seconds(placement, now)
        price = placement.get("pricePerHour")
        if seconds is None or price is None:
            continue
        total = seconds * float(price) / _HOUR
        grown = total - float(placement.get("cost") or 0.0)
        if grown <= 0:
            continue
        length = grown / float(price) * _HOUR if price else 0.0
        ledger.run(length, float(price), spot=placement.get("provisioningModel") != "OnDemand")
        placement["cost"] = round(total, 6)
        instead = on_demand(placement)
        if instead is not None:
            equivalent = (equivalent or 0.0) + length * instead / _HOUR / max(replicas, 1)
    out = {**cost, **_written(ledger)}
    if equivalent is not None:
        out["onDemandEquivalent"] = round(equivalent, 6)
        out["savingPercent"] = round(100 * ledger.saving(equivalent), 1)
    status["cost"] = out


def _written(ledger: Ledger) -> Obj:
    """With more digits than people are shown: it is added to again and again."""
    exact = {
        "spot": ledger.spot,
        "onDemand": ledger.on_demand,
        "transfers": ledger.transfers,
        "total": ledger.total,
        "machineSeconds": ledger.machine_s,
        "lostWorkSeconds": ledger.lost_work_s,
    }
    return {**ledger.as_object(), **{key: round(value, 6) for key, value in exact.items()}}


def _seconds(placement: Obj, now: float) -> float | None:
    """For how long a machine is charged; none where it never was a node."""
    start = moment(placement.get("startTime"))
    if start is None or placement.get("readyTime") is None:
        return None
    end = moment(placement.get("endTime"))
    return max((end if end is not None else now) - start, 0.0)


def note_start(status: Obj) -> None:
    """A copy was started."""
    ledger = Ledger.of_object(status.get("cost") or {})
    ledger.starts += 1
    status["cost"] = {**(status.get("cost") or {}), **_written(ledger)}


def note_loss(status: Obj, placement: Obj, lost_work_s: float) -> None:
    """A machine was taken, and so much work must be done again."""
    ledger = Ledger.of_object(status.get("cost") or {})
    ledger.lose(lost_work_s)
    placement["lostWorkSeconds"] = round(lost_work_s, 1)
    status["cost"] = {**(status.get("cost") or {}), **_written(ledger)}
