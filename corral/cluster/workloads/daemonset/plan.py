"""What one pass over a daemon set creates and deletes, and its status; pure functions.

First every node gets its one pod and loses those it should not have; only when that is so, old
pods are replaced: by deleting them (maxUnavailable) or by starting the new ones first (maxSurge).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from corral.cluster.workloads.daemonset.nodes import (
    GENERATION_LABEL,
    REVISION_LABEL,
    daemon_pod,
    node_check,
    target_node,
    template_generation,
)
from corral.cluster.workloads.deployment.replicaset import is_available, next_availability
from corral.cluster.workloads.pods import (
    Claims,
    claim,
    controller_reference,
    is_deleting,
    is_ready,
    is_terminal,
    phase,
)
from corral.cluster.workloads.steps import Event
from corral.cluster.workloads.times import datetime_or_zero, seconds_between
from corral.kube.types import Obj

__all__ = ["DaemonPlan", "NodeBackoff", "claim_pods", "daemon_status", "next_look", "plan_pods"]

BURST: Final = 250
"""How many pods one pass creates, and how many it deletes."""


@dataclass(frozen=True, slots=True)
class DaemonPlan:
    """What one pass does."""

    create: tuple[Obj, ...] = ()
    """Bodies; create them in slow-start batches."""
    delete: tuple[Obj, ...] = ()
    events: tuple[Event, ...] = ()
    requeue_after: float | None = None


class NodeBackoff:
    """How long failed pods of a node are left alone: 1 s, doubled each time, at most 15 min."""

    _first = timedelta(seconds=1)
    _most = timedelta(minutes=15)

    def __init__(self) -> None:
        self._waits: dict[str, tuple[timedelta, datetime]] = {}

    def remaining(self, key: str, now: datetime) -> float:
        """Seconds the wait lasts in all; 0 when it is over."""
        wait, since = self._waits.get(key, (timedelta(0), now))
        return wait.total_seconds() if seconds_between(since, now) < wait.total_seconds() else 0.0

    def next(self, key: str, now: datetime) -> None:
        """A failed pod is deleted now: the next one waits longer."""
        wait, since = self._waits.get(key, (timedelta(0), now))
        stale = now - since > 2 * self._most
        longer = min(2 * wait, self._most) if wait and not stale else self._first
        self._waits[key] = (longer, now)

    def forget(self, before: datetime) -> None:
        """Drops what has not been used since."""
        self._waits = {key: held for key, held in self._waits.items() if held[1] >= before}


def claim_pods(daemon_set: Obj, pods: Iterable[Obj]) -> Claims:
    """Owned, to adopt, to release."""
    reference = controller_reference(daemon_set, "apps/v1", "DaemonSet")
    return claim(daemon_set, pods, reference, selector=daemon_set["spec"].get("selector"))


def _by_node(pods: Iterable[Obj]) -> dict[str, list[Obj]]:
    found: dict[str, list[Obj]] = {}
    for pod in pods:
        node = target_node(pod)
        if node is not None and not (is_terminal(pod) and is_deleting(pod)):
            found.setdefault(node, []).append(pod)
    for group in found.values():
        group.sort(key=_oldest_first)
    return found


def _oldest_first(pod: Obj) -> tuple[Any, ...]:
    """Pods that have a node come before those that do not."""
    meta = pod["metadata"]
    assigned = bool((pod.get("spec") or {}).get("nodeName"))
    return (not assigned, datetime_or_zero(meta.get("creationTimestamp")), meta["name"])


@dataclass(slots=True)
class _Pass:
    set: Obj
    nodes: Sequence[Obj]
    pods: dict[str, list[Obj]]
    hash: str
    now: datetime
    backoff: NodeBackoff
    create: list[str] = field(default_factory=list)
    delete: list[Obj] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    requeue: float | None = None

    def available(self, pod: Obj) -> bool:
        return is_available(pod, self.set["spec"].get("minReadySeconds", 0), self.now)


def _limit(daemon_set: Obj, name: str, size: int) -> int:
    strategy = daemon_set["spec"].get("updateStrategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return 0
    value = (strategy.get("rollingUpdate") or {}).get(name, 0)
    if isinstance(value, str):
        return -(-int(value.removesuffix("%")) * size // 100)
    return int(value)


def plan_pods(
    daemon_set: Obj,
    nodes: Sequence[Obj],
    pods: Iterable[Obj],
    short_hash: str,
    *,
    now: datetime,
    backoff: NodeBackoff,
) -> DaemonPlan:
    """The pods to create and delete.

    Args:
        daemon_set: As read.
        nodes: All nodes.
        pods: The pods it controls.
        short_hash: The hash label of the revision of the present template.
        now: The time of the pass.
        backoff: Kept between passes; a failed pod that is to be deleted is noted in it.
    """
    work = _Pass(daemon_set, nodes, _by_node(pods), short_hash, now, backoff)
    check = node_check(daemon_set)
    wanted = {node["metadata"]["name"]: check(node) for node in nodes}
    for node, (run, stay) in wanted.items():
        _settle_node(work, node, run=run, stay=stay)
    for node, group in work.pods.items():
        if node not in wanted:
            work.delete += [p for p in group if not (p.get("spec") or {}).get("nodeName")]
    strategy = (daemon_set["spec"].get("updateStrategy") or {}).get("type", "RollingUpdate")
    if not work.create and not work.delete and strategy == "RollingUpdate":
        _roll(work, wanted)
    bodies = [daemon_pod(daemon_set, node, short_hash) for node in work.create[:BURST]]
    return DaemonPlan(tuple(bodies), tuple(work.delete[:BURST]), tuple(work.events), work.requeue)


def _settle_node(work: _Pass, node: str, *, run: bool, stay: bool) -> None:
    group = work.pods.get(node)
    if run and group is None:
        work.create.append(node)
    elif stay and group is not None:
        running = [pod for pod in group if _runs(work, node, pod)]
        if _limit(work.set, "maxSurge", 1) == 0:
            work.delete += running[1:]
        elif not running and run:
            work.create.append(node)
        elif len(running) > 1:
            _settle_surge(work, running)
    elif group is not None:
        work.delete += [pod for pod in group if not is_deleting(pod)]


def _runs(work: _Pass, node: str, pod: Obj) -> bool:
    """False for pods on their way out; ended pods are deleted so that new ones can come."""
    if is_deleting(pod):
        return False
    where = f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']} on node {node}"
    if phase(pod) == "Succeeded":
        message = f"Found succeeded daemon pod {where}, will try to delete it"
        work.events.append(Event("Normal", "SucceededDaemonPod", message))
        work.delete.append(pod)
        return False
    if phase(pod) != "Failed":
        return True
    generation = (work.set.get("status") or {}).get("observedGeneration", 0)
    key = f"{work.set['metadata'].get('uid', '')}/{generation}/{node}"
    wait = work.backoff.remaining(key, work.now)
    if wait > 0:
        work.requeue = wait if work.requeue is None else min(work.requeue, wait)
        return False
    work.backoff.next(key, work.now)
    message = f"Found failed daemon pod {where}, will try to kill it"
    work.events.append(Event("Warning", "FailedDaemonPod", message))
    work.delete.append(pod)
    return False


def _settle_surge(work: _Pass, running: list[Obj]) -> None:
    """One old and one new pod may be there together, until the new one works."""
    new = [pod for pod in running if _hash_of(pod) == work.hash]
    old = [pod for pod in running if _hash_of(pod) != work.hash]
    work.delete += [*new[1:], *old[1:]]
    if new and old and (not is_ready(old[0]) or work.available(new[0])):
        work.delete.append(old[0])


def _hash_of(pod: Obj) -> str:
    return str((pod["metadata"].get("labels") or {}).get(REVISION_LABEL, ""))


def _is_updated(work: _Pass, pod: Obj) -> bool:
    generation = template_generation(work.set)
    labels = pod["metadata"].get("labels") or {}
    by_generation = generation is not None and labels.get(GENERATION_LABEL) == generation
    return by_generation or (bool(work.hash) and _hash_of(pod) == work.hash)


def _versions(work: _Pass, node: str) -> tuple[Obj | None, Obj | None] | None:
    """(new, old) pod of a node; None when there are several of a kind."""
    lasting = [pod for pod in work.pods.get(node, ()) if not is_deleting(pod)]
    new = [pod for pod in lasting if _is_updated(work, pod)]
    old = [pod for pod in lasting if not _is_updated(work, pod)]
    if len(new) > 1 or len(old) > 1:
        return None
    return (new[0] if new else None, old[0] if old else None)


def _roll(work: _Pass, wanted: Mapping[str, tuple[bool, bool]]) -> None:
    desired = sum(run for run, _ in wanted.values())
    surge = _limit(work.set, "maxSurge", desired)
    unavailable = _limit(work.set, "maxUnavailable", desired)
    if desired > 0 and surge == 0 and unavailable == 0:
        unavailable = 1
    nodes = sorted({*work.pods, *(node for node, (run, _) in wanted.items() if run)})
    if surge == 0:
        _roll_by_deleting(work, nodes, unavailable)
    else:
        _roll_by_surging(work, nodes, wanted, surge=surge, desired=desired)


def _roll_by_deleting(work: _Pass, nodes: Iterable[str], most: int) -> None:
    missing = 0
    broken: list[Obj] = []
    working: list[Obj] = []
    for node in nodes:
        pair = _versions(work, node)
        if pair is None or (pair[0] is None) == (pair[1] is None):
            missing += 1
        elif pair[0] is not None:
            missing += not work.available(pair[0])
        elif pair[1] is not None and work.available(pair[1]):
            working.append(pair[1])
        elif pair[1] is not None:
            # An old pod that does not work may go whatever the limit is.
            broken.append(pair[1])
            missing += 1
    work.delete += [*broken, *working[: max(0, most - missing)]]


def _roll_by_surging(
    work: _Pass,
    nodes: Iterable[str],
    wanted: Mapping[str, tuple[bool, bool]],
    *,
    surge: int,
    desired: int,
) -> None:
    extra = available = 0
    urgent: list[str] = []
    candidates: list[str] = []
    misplaced: list[Obj] = []
    for node in nodes:
        pair = _versions(work, node)
        if pair is None:
            extra += 1
            continue
        new, old = pair
        shown = old or new
        available += shown is not None and work.available(shown)
        if old is None:
            continue
        if new is not None:
            if work.available(new):
                work.delete.append(old)
            else:
                extra += 1
        elif not wanted.get(node, (False, False))[0]:
            (misplaced if work.available(old) else work.delete).append(old)
        else:
            (candidates if work.available(old) else urgent).append(node)
    work.delete += misplaced[: max(0, available - desired)]
    work.create += [*urgent, *candidates[: max(0, surge - extra)]]


def daemon_status(
    daemon_set: Obj, nodes: Iterable[Obj], pods: Iterable[Obj], short_hash: str, *, now: datetime
) -> Obj | None:
    """The status to write, or None when it would not change."""
    work = _Pass(daemon_set, (), _by_node(pods), short_hash, now, NodeBackoff())
    check = node_check(daemon_set)
    names = ("desired", "current", "misscheduled", "ready", "updated", "available")
    counts = dict.fromkeys(names, 0)
    for node in nodes:
        group = work.pods.get(node["metadata"]["name"])
        run, _ = check(node)
        if not run:
            counts["misscheduled"] += group is not None
            continue
        counts["desired"] += 1
        if group is not None:
            counts["current"] += 1
            counts["ready"] += is_ready(group[0])
            counts["available"] += work.available(group[0])
            counts["updated"] += _is_updated(work, group[0])
    return _written(daemon_set, counts)


def _written(daemon_set: Obj, counts: Mapping[str, int]) -> Obj | None:
    old = daemon_set.get("status") or {}
    new: Obj = {
        "currentNumberScheduled": counts["current"],
        "numberMisscheduled": counts["misscheduled"],
        "desiredNumberScheduled": counts["desired"],
        "numberReady": counts["ready"],
    }
    optional = {
        "observedGeneration": daemon_set["metadata"].get("generation", 0),
        "updatedNumberScheduled": counts["updated"],
        "numberAvailable": counts["available"],
        "numberUnavailable": counts["desired"] - counts["available"],
    }
    new |= {key: value for key, value in optional.items() if value}
    new |= {key: old[key] for key in ("collisionCount", "conditions") if key in old}
    return None if new == old else new


def next_look(daemon_set: Obj, pods: Iterable[Obj], now: datetime) -> float | None:
    """Seconds until a ready pod becomes available."""
    return next_availability(pods, daemon_set["spec"].get("minReadySeconds", 0), now)
