"""Keeps a number of replicas within limits, and steady over time. No I/O; time is passed in.

Without ``spec.behavior``: the highest recommendation of the last five minutes, at most twice the
current number (or four), between minimum and maximum. With it: the windows and policies it names.
Times are seconds of one clock that does not go back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Final

from corral.cluster.workloads.autoscaling.settings import Settings
from corral.kube.quantity import Quantity
from corral.kube.types import Obj

__all__ = ["Bounds", "History", "Outcome", "normalize", "tolerances_of"]

STEADY: Final = ("ReadyForNewScale", "recommended size matches current size")
HELD_UP: Final = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent "
    "recommendation",
)
HELD_DOWN: Final = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
)
WITHIN: Final = ("DesiredWithinRange", "the desired count is within the acceptable range")
TOO_MANY: Final = (
    "TooManyReplicas",
    "the desired replica count is more than the maximum replica count",
)
TOO_FEW: Final = (
    "TooFewReplicas",
    "the desired replica count is less than the minimum replica count",
)
TOO_FAST_UP: Final = (
    "ScaleUpLimit",
    "the desired replica count is increasing faster than the maximum scale rate",
)
TOO_FAST_DOWN: Final = (
    "ScaleDownLimit",
    "the desired replica count is decreasing faster than the maximum scale rate",
)

_UP: Final[Obj] = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_DOWN: Final[Obj] = {
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}

Words = tuple[str, str]
"""Reason and message."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the number of replicas may be."""

    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """The number of replicas, and what to say about it."""

    replicas: int
    able: Words
    limited: bool
    limit: Words


@dataclass(slots=True)
class History:
    """What was recommended and done for one autoscaler. Lost at a restart, as is the wait then."""

    recommendations: list[tuple[int, float]] = field(default_factory=list)
    ups: list[tuple[int, float]] = field(default_factory=list)
    downs: list[tuple[int, float]] = field(default_factory=list)

    def begin(self, current: int, now: float) -> None:
        """Before the first recommendation, the current number is one."""
        if not self.recommendations:
            self.recommendations.append((current, now))

    def recommend(self, replicas: int, now: float, *, keep: float) -> None:
        """Note a recommendation, and forget those older than ``keep`` seconds."""
        kept = [entry for entry in self.recommendations if entry[1] >= now - keep]
        self.recommendations = [*kept, (replicas, now)]

    def scaled(self, before: int, after: int, behavior: Obj | None, *, now: float) -> None:
        """Note a change that was made; without policies nobody asks for it."""
        if behavior is None:
            return
        up = after > before
        rules = _rules(behavior, up=up)
        longest = max((p.get("periodSeconds", 0) for p in rules["policies"]), default=0)
        events = self.ups if up else self.downs
        events[:] = [event for event in events if event[1] >= now - longest]
        events.append((abs(after - before), now))

    def start_of_period(self, current: int, seconds: float, now: float) -> int:
        """How many replicas there were so long ago."""
        since = now - seconds
        added = sum(count for count, at in self.ups if at > since)
        removed = sum(count for count, at in self.downs if at > since)
        return current - added + removed


def tolerances_of(behavior: Obj | None, direction: str, default: float) -> float:
    """The tolerance for ``scaleUp`` or ``scaleDown``."""
    given = ((behavior or {}).get(direction) or {}).get("tolerance")
    return default if given is None else Quantity.parse(str(given)).nano / 1e9


def normalize(
    desired: int,
    current: int,
    bounds: Bounds,
    *,
    behavior: Obj | None,
    history: History,
    settings: Settings,
    now: float,
) -> Outcome:
    """What to do about a recommendation; notes it in the history."""
    if behavior is None:
        return _plain(desired, current, bounds, history=history, settings=settings, now=now)
    up, down = _rules(behavior, up=True), _rules(behavior, up=False)
    steady = _stabilized(desired, current, up, down=down, history=history, settings=settings,
                         now=now)  # fmt: skip
    able = STEADY
    if steady != desired:
        able = HELD_DOWN if desired >= current else HELD_UP
    replicas, limit = steady, WITHIN
    if steady > current:
        fastest = max(_limit(current, up, history, up=True, now=now), current)
        top, why = min((bounds.maximum, TOO_MANY), (fastest, TOO_FAST_UP), key=lambda b: b[0])
        if steady > top:
            replicas, limit = top, why
    elif steady < current:
        fastest = min(_limit(current, down, history, up=False, now=now), current)
        floor, why = max((bounds.minimum, TOO_FEW), (fastest, TOO_FAST_DOWN), key=lambda b: b[0])
        if steady < floor:
            replicas, limit = floor, why
    return Outcome(replicas, able, replicas != steady, limit)


def _plain(
    desired: int,
    current: int,
    bounds: Bounds,
    *,
    history: History,
    settings: Settings,
    now: float,
) -> Outcome:
    window = settings.downscale_window
    recent = [count for count, at in history.recommendations if at >= now - window]
    history.recommend(desired, now, keep=window)
    steady = max([desired, *recent])
    able = STEADY if steady == desired else HELD_UP
    fastest = max(2 * current, 4)
    top, why = (fastest, TOO_FAST_UP) if bounds.maximum > fastest else (bounds.maximum, TOO_MANY)
    if steady < bounds.minimum:
        return Outcome(bounds.minimum, able, True, TOO_FEW)
    if steady > top:
        return Outcome(top, able, True, why)
    return Outcome(steady, able, False, WITHIN)


def _stabilized(
    desired: int,
    current: int,
    up: Obj,
    *,
    down: Obj,
    history: History,
    settings: Settings,
    now: float,
) -> int:
    """Between the lowest and the highest of the recommendations of both windows."""
    up_window = float(up.get("stabilizationWindowSeconds") or 0)
    given = down.get("stabilizationWindowSeconds")
    down_window = settings.downscale_window if given is None else float(given)
    seen = history.recommendations
    lowest = min([desired, *(count for count, at in seen if at > now - up_window)])
    highest = max([desired, *(count for count, at in seen if at > now - down_window)])
    history.recommend(desired, now, keep=max(up_window, down_window))
    return min(max(current, lowest), highest)


def _limit(current: int, rules: Obj, history: History, *, up: bool, now: float) -> int:
    """How far the policies let it go from here."""
    if rules["selectPolicy"] == "Disabled":
        return current
    found = [_reach(current, policy, history, up=up, now=now) for policy in rules["policies"]]
    least = rules["selectPolicy"] == "Min"
    return min(found) if least == up else max(found)


def _reach(current: int, policy: Obj, history: History, *, up: bool, now: float) -> int:
    start = history.start_of_period(current, policy.get("periodSeconds", 0), now)
    value: int = policy.get("value", 0)
    if policy.get("type") == "Pods":
        return start + value if up else start - value
    # Rounded so that a percentage always allows a step.
    return math.ceil(start * (1 + value / 100)) if up else int(start * (1 - value / 100))


def _rules(behavior: Obj, *, up: bool) -> dict[str, Any]:
    given = behavior.get("scaleUp" if up else "scaleDown") or {}
    default = _UP if up else _DOWN
    return {**default, **{key: value for key, value in given.items() if value is not None}}
