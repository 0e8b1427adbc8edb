"""How many replicas the use of a resource calls for. No I/O; the time is passed in.

The rule is ``ceil(ready pods x use / target)``. Around it:
- Within the tolerance nothing changes.
- Pods that are being deleted or have failed do not count. Pods that are not running yet, and for
  CPU those that start up, count as not ready; if more replicas are called for, they are taken to
  use nothing.
- Pods without a metric are taken to use nothing when there would be more replicas, and all they
  asked for when there would be fewer.
- If these assumptions turn the direction around, nothing changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from corral.cluster.workloads.autoscaling.samples import MetricsError, Sample
from corral.cluster.workloads.autoscaling.settings import Settings
from corral.cluster.workloads.pods import is_deleting, phase, pod_condition
from corral.cluster.workloads.times import datetime_or_zero
from corral.kube.quantity import Quantity
from corral.kube.times import parse_datetime
from corral.kube.types import Obj

__all__ = ["Proposal", "Tolerances", "by_utilization", "by_value", "group_pods", "requests_of"]

NO_PODS = "no pods returned by selector while calculating replica count"
NO_USE = "did not receive metrics for targeted pods (pods might be unready)"

Samples = Mapping[str, Sample]


@dataclass(frozen=True, slots=True)
class Tolerances:
    """Ratios by which use may be under and over the target."""

    down: float = 0.1
    up: float = 0.1

    def covers(self, ratio: float) -> bool:
        return 1.0 - self.down <= ratio <= 1.0 + self.up


@dataclass(frozen=True, slots=True)
class Proposal:
    """What one metric calls for, and what it was read as."""

    replicas: int
    average: int
    """Average use of a pod, in thousandths."""
    utilization: int | None = None
    """Percent of what was requested."""


@dataclass(frozen=True, slots=True)
class Groups:
    """The pods of a target by what can be said of them; names."""

    ready: int
    unready: frozenset[str]
    missing: frozenset[str]
    ignored: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Reading:
    ratio: float
    average: int
    utilization: int | None = None


def by_utilization(
    current: int,
    *,
    target: int,
    pods: Sequence[Obj],
    samples: Samples,
    resource: str,
    container: str,
    tolerances: Tolerances,
    settings: Settings,
    now: datetime,
) -> Proposal:
    """For a target in percent of the requests. Raises MetricsError."""
    if not pods:
        raise MetricsError(NO_PODS)
    groups = group_pods(pods, samples, resource, settings=settings, now=now)
    used = _usable(samples, groups)
    requests = requests_of(pods, resource, container)

    def read(values: Mapping[str, int]) -> _Reading:
        known = [name for name in values if name in requests]
        asked = sum(requests[name] for name in known)
        if not asked:
            raise MetricsError("no metrics returned matched known pods")
        total = sum(values[name] for name in known)
        utilization = total * 100 // asked
        return _Reading(utilization / target, total // len(known), utilization)

    fallback = max(100, target)
    full = {name: requests[name] * fallback // 100 for name in groups.missing}
    return _propose(current, used, groups, read=read, full=full, tolerances=tolerances)


def by_value(
    current: int,
    *,
    target: int,
    pods: Sequence[Obj],
    samples: Samples,
    resource: str,
    tolerances: Tolerances,
    settings: Settings,
    now: datetime,
) -> Proposal:
    """For a target in thousandths a pod. Raises MetricsError."""
    if not pods:
        raise MetricsError(NO_PODS)
    groups = group_pods(pods, samples, resource, settings=settings, now=now)
    used = _usable(samples, groups)

    def read(values: Mapping[str, int]) -> _Reading:
        average = sum(values.values()) // len(values)
        return _Reading(average / target, average)

    full = dict.fromkeys(groups.missing, target)
    return _propose(current, used, groups, read=read, full=full, tolerances=tolerances)


def _usable(samples: Samples, groups: Groups) -> dict[str, int]:
    left_out = groups.ignored | groups.unready
    used = {name: sample.value for name, sample in samples.items() if name not in left_out}
    if not used:
        raise MetricsError(NO_USE)
    return used


def _propose(
    current: int,
    used: dict[str, int],
    groups: Groups,
    *,
    read: Callable[[Mapping[str, int]], _Reading],
    full: Mapping[str, int],
    tolerances: Tolerances,
) -> Proposal:
    """The number of replicas; ``full`` is what pods without a metric are taken to use at most."""
    first = read(used)

    def proposal(replicas: int) -> Proposal:
        return Proposal(replicas, first.average, first.utilization)

    more_than_ready = bool(groups.unready) and first.ratio > 1.0
    if not more_than_ready and not groups.missing:
        if tolerances.covers(first.ratio):
            return proposal(current)
        return proposal(math.ceil(first.ratio * groups.ready))
    if first.ratio < 1.0:
        used = {**used, **full}
    elif first.ratio > 1.0:
        used = used | dict.fromkeys(groups.missing, 0)
    if more_than_ready:
        used = used | dict.fromkeys(groups.unready, 0)
    ratio = read(used).ratio
    turned = (first.ratio < 1.0 < ratio) or (ratio < 1.0 < first.ratio)
    if tolerances.covers(ratio) or turned:
        return proposal(current)
    wanted = math.ceil(ratio * len(used))
    if (ratio < 1.0 and wanted > current) or (ratio > 1.0 and wanted < current):
        return proposal(current)
    return proposal(wanted)


# --- pods ----------------------------------------------------------------------------------------


def group_pods(
    pods: Sequence[Obj], samples: Samples, resource: str, *, settings: Settings, now: datetime
) -> Groups:
    """Which pods count, and how."""
    ready = 0
    unready, missing, ignored = set(), set(), set()
    for pod in pods:
        name = pod["metadata"]["name"]
        if is_deleting(pod) or phase(pod) == "Failed":
            ignored.add(name)
        elif phase(pod) == "Pending":
            unready.add(name)
        elif name not in samples:
            missing.add(name)
        elif resource == "cpu" and _starts_up(pod, samples[name], settings, now):
            unready.add(name)
        else:
            ready += 1
    return Groups(ready, frozenset(unready), frozenset(missing), frozenset(ignored))


def _starts_up(pod: Obj, sample: Sample, settings: Settings, now: datetime) -> bool:
    """Whether the CPU use of a pod says nothing yet."""
    condition = pod_condition(pod, "Ready")
    started = parse_datetime((pod.get("status") or {}).get("startTime"))
    if condition is None or started is None:
        return True
    changed = datetime_or_zero(condition.get("lastTransitionTime"))
    not_ready = condition.get("status") == "False"
    if started + timedelta(seconds=settings.cpu_initialization) > now:
        # One whole window must lie after the last change.
        return not_ready or sample.at < changed + timedelta(seconds=sample.window)
    never_ready = started + timedelta(seconds=settings.readiness_delay) > changed
    return not_ready and never_ready


def requests_of(pods: Sequence[Obj], resource: str, container: str = "") -> dict[str, int]:
    """What pods asked for, in thousandths, by name. Raises MetricsError where one did not ask."""
    return {pod["metadata"]["name"]: _request(pod, resource, container) for pod in pods}


def _request(pod: Obj, resource: str, container: str) -> int:
    spec, name = pod.get("spec") or {}, pod["metadata"]["name"]
    own = (spec.get("resources") or {}).get("requests") or {}
    if own and not container and resource in own:
        return Quantity.parse(str(own[resource])).milli()
    counted = list(spec.get("containers") or ())
    counted += [c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"]
    if container:
        counted = [c for c in counted if c.get("name") == container]
        if not counted:
            raise MetricsError(f"container {container} not found in Pod {name}")
    total = 0
    for entry in counted:
        text = ((entry.get("resources") or {}).get("requests") or {}).get(resource)
        if text is None:
            where = f"container {entry.get('name')} of Pod {name}"
            raise MetricsError(f"missing request for {resource} in {where}")
        total += Quantity.parse(str(text)).milli()
    return total
