"""What has happened to a spot job, and what is learnt from it. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from corral.families.spot.placement.choice import Market, offer_of, refusal_for
from corral.kube.types import Obj
from corral.spot import Memory

__all__ = ["EVENTS", "News", "learn"]

EVENTS: Final = {
    "Wished": ("Normal", "MachineRequested"),
    "Given": ("Normal", "MachineReady"),
    "Refused": ("Warning", "MachineRefused"),
    "Lost": ("Warning", "MachineLost"),
    "Noticed": ("Warning", "PreemptionNotice"),
    "Started": ("Normal", "CopyStarted"),
    "Running": ("Normal", "CopyRunning"),
    "Failed": ("Warning", "CopyFailed"),
    "CopyLost": ("Warning", "CopyLost"),
    "Succeeded": ("Normal", "Succeeded"),
    "JobFailed": ("Warning", "Failed"),
}
"""Kinds of news → type and reason of the event about them; others have none."""
_LOCAL_SCALE: Final = 0.01
"""Machines of this computer are made in a second: it is asked again after a few."""


@dataclass(frozen=True, slots=True)
class News:
    """One thing that has happened; it is told when the status that has it is written."""

    kind: str
    message: str
    replica: int | None = None
    placement: Obj | None = None
    """The machine that it is about."""
    reason: str = ""


def learn(memory: Memory, news: Iterable[News], market: Market, *, now: float) -> bool:
    """Tell the memory; whether there was anything to tell."""
    told = False
    for each in news:
        if each.placement is None:
            continue
        offer = offer_of(each.placement, market)
        if each.kind == "Given":
            memory.given(offer, now)
        elif each.kind == "Lost":
            memory.lost(offer, now)
        elif each.kind == "Refused":
            why = refusal_for(each.reason)
            if why is None:
                continue
            here = offer.place.cloud == "local"
            memory.refused(offer, now, why, scale=_LOCAL_SCALE if here else 1.0)
        else:
            continue
        told = True
    return told
