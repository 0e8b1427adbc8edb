"""Which checkpoints to keep: a pure function of the manifests, the policy and the time.

A checkpoint is kept if any rule keeps it: it is among the `keepLast` newest, its sequence number
is a multiple of `keepEvery`, or it is the best by a metric. Without such a rule all are kept.
`maxAge` then removes what is older, whatever kept it. Always kept: the newest intact one, those
that are pinned (being restored from), and all ancestors of a kept one that is incremental.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from corral.checkpoints.manifest import Manifest

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True, slots=True)
class Best:
    """Keep the best by a metric; checkpoints without a finite value are never the best."""

    metric: str
    mode: Literal["min", "max"] = "min"
    count: int = 1


@dataclass(frozen=True, slots=True)
class Retention:
    """What to keep; a rule that is None does not exist."""

    keep_last: int | None = None
    keep_every: int | None = None
    keep_best: Best | None = None
    max_age: float | None = None
    """Seconds after which a checkpoint is deleted."""

    def __post_init__(self) -> None:
        for name, value in (("keepLast", self.keep_last), ("keepEvery", self.keep_every)):
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1")
        if self.keep_best is not None and (
            self.keep_best.count < 1 or self.keep_best.mode not in ("min", "max")
        ):
            raise ValueError("keepBest needs a mode of min or max and a count of at least 1")
        if self.max_age is not None and self.max_age <= 0:
            raise ValueError("maxAge must be longer than nothing")

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> Retention:
        """From the fields of a TrainingJob's `checkpoint.retention`.

        Raises:
            ValueError: if a value makes no sense.
        """
        best = spec.get("keepBest")
        age = spec.get("maxAge")
        return cls(
            keep_last=spec.get("keepLast"),
            keep_every=spec.get("keepEvery"),
            keep_best=None
            if best is None
            else Best(best["metric"], best.get("mode", "min"), best.get("count", 1)),
            max_age=None if age is None else parse_duration(age),
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """What becomes of every checkpoint."""

    keep: Mapping[str, tuple[str, ...]]
    """Checkpoint to the rules that keep it."""
    delete: tuple[Manifest, ...]
    """The checkpoints to delete, the oldest first."""


def parse_duration(text: str | float) -> float:
    """Seconds of a duration as Kubernetes writes them: 90s, 1h30m, 168h.

    Raises:
        ValueError: if it is none.
    """
    if isinstance(text, int | float):
        return float(text)
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is no duration; write for example 90s, 1h30m or 168h")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def select(
    manifests: Iterable[Manifest],
    policy: Retention,
    *,
    now: float,
    pinned: Collection[str] = (),
) -> Plan:
    """Decides for intact checkpoints; damaged ones must not be among them."""
    newest_first = sorted(manifests, key=lambda m: m.rank, reverse=True)
    reasons: dict[str, list[str]] = {}

    def keep(chosen: Iterable[Manifest], rule: str) -> None:
        for manifest in chosen:
            reasons.setdefault(manifest.id, []).append(rule)

    keep(_by_rules(newest_first, policy, keep), "noRule")
    if policy.max_age is not None:
        for manifest in newest_first:
            if now - manifest.time > policy.max_age:
                reasons.pop(manifest.id, None)
    keep(newest_first[:1], "newest")
    keep((m for m in newest_first if m.id in pinned), "pinned")
    keep(_ancestors(newest_first, reasons), "parent")
    return Plan(
        {name: tuple(rules) for name, rules in reasons.items()},
        tuple(m for m in reversed(newest_first) if m.id not in reasons),
    )


def _by_rules(newest_first: Sequence[Manifest], policy: Retention, keep: Any) -> list[Manifest]:
    """Applies the keeping rules; returns all checkpoints where there is no such rule."""
    if policy.keep_last is None and policy.keep_every is None and policy.keep_best is None:
        return list(newest_first)
    if policy.keep_last is not None:
        keep(newest_first[: policy.keep_last], "keepLast")
    if policy.keep_every is not None:
        every = policy.keep_every
        keep((m for m in newest_first if m.sequence and m.sequence % every == 0), "keepEvery")
    if policy.keep_best is not None:
        keep(best(newest_first, policy.keep_best), "keepBest")
    return []


def best(newest_first: Sequence[Manifest], rule: Best) -> list[Manifest]:
    """The best by a metric; of equals, the newest."""
    sign = 1.0 if rule.mode == "min" else -1.0
    valued = [
        (sign * value, manifest)
        for manifest in newest_first
        if (value := manifest.metrics.get(rule.metric)) is not None and value - value == 0
    ]
    valued.sort(key=lambda pair: pair[0])
    return [manifest for _, manifest in valued[: rule.count]]


def _ancestors(manifests: Sequence[Manifest], kept: Collection[str]) -> list[Manifest]:
    by_id = {manifest.id: manifest for manifest in manifests}
    found: dict[str, Manifest] = {}
    waiting = [by_id[name].parent for name in kept]
    while waiting:
        parent = waiting.pop()
        if parent in by_id and parent is not None and parent not in found:
            found[parent] = by_id[parent]
            waiting.append(by_id[parent].parent)
    return list(found.values())
