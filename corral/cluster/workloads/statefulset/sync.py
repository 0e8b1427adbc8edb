"""One pass over a stateful set: revisions, pods in order, rolling update, claims, status.

Sans I/O. With OrderedReady one thing happens at a time: a pod is created when all before it are
available, and deleted when all after it are gone. With Parallel pods do not wait for each other.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from corral.cluster.workloads import revisions as history
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
from corral.cluster.workloads.statefulset import identity as ids
from corral.cluster.workloads.steps import Answer, Emit, Event, Failed, Verdict
from corral.kube.types import Obj

__all__ = [
    "Create",
    "Delete",
    "Part",
    "Pass",
    "Step",
    "Together",
    "Update",
    "WriteStatus",
    "claim_pods",
    "sync_stateful_set",
]


@dataclass(frozen=True, slots=True)
class Create:
    """Create this (a pod, a claim, a revision); if it exists, answer so and with what is there."""

    body: Obj
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class Update:
    """Replace this."""

    body: Obj
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete this; what is gone counts as deleted."""

    kind: str
    obj: Obj
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Replace the status."""

    status: Obj


@dataclass(frozen=True, slots=True)
class Together:
    """Go on with these side by side, in slow-start batches; answer with the first failure.

    Each is a generator of steps that has begun, and the step it has asked for; it raises Failed.
    """

    parts: tuple[tuple[Step, Part], ...]


Step: TypeAlias = "Create | Update | Delete | WriteStatus | Emit | Together"
Part: TypeAlias = Generator[Step, Answer, bool]
Pass: TypeAlias = Generator[Step, Answer, Verdict]


def claim_pods(stateful_set: Obj, pods: Iterable[Obj]) -> Claims:
    """Owned, to adopt, to release; only pods whose name says they belong to the set."""
    mine = [p for p in pods if ids.parent_name(p) == stateful_set["metadata"]["name"]]
    reference = controller_reference(stateful_set, ids.API_VERSION, ids.KIND)
    selector = stateful_set["spec"].get("selector")
    return claim(stateful_set, mine, reference, selector=selector)


@dataclass(slots=True)
class _Sync:
    set: Obj
    pods: list[Obj]
    claims: Mapping[str, Obj]
    now: datetime
    current: Obj = field(default_factory=dict)
    update: Obj = field(default_factory=dict)
    collisions: int = 0
    replicas: list[Obj] = field(default_factory=list)
    """By place; a pod that does not exist yet is its body, without a phase."""
    condemned: list[Obj] = field(default_factory=list)
    """Outside the range, highest ordinal first."""
    gone_current: int = 0
    """Pods of the current revision deleted for the update in this pass."""

    @property
    def ordered(self) -> bool:
        return bool(self.set["spec"].get("podManagementPolicy") != "Parallel")

    @property
    def wait(self) -> int:
        return int(self.set["spec"].get("minReadySeconds") or 0)

    @property
    def rolling(self) -> Obj:
        found: Obj = (self.set["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
        return found

    @property
    def update_name(self) -> str:
        return str(self.update["metadata"]["name"])

    def available(self, pod: Obj) -> bool:
        return is_available(pod, self.wait, self.now)

    def unavailable(self, pod: Obj) -> bool:
        return is_deleting(pod) or not self.available(pod)

    def outdated(self, pod: Obj) -> bool:
        return ids.pod_revision(pod) != self.update_name

    def event(self, verb: str, pod: Obj, error: str | None = None) -> Event:
        what = f"{verb} Pod {pod['metadata']['name']} in StatefulSet {self.set['metadata']['name']}"
        if error is None:
            return Event("Normal", f"Successful{verb}", f"{what} successful")
        return Event("Warning", f"Failed{verb}", f"{what} failed error: {error}")


def sync_stateful_set(
    stateful_set: Obj,
    pods: Iterable[Obj],
    revisions: Iterable[Obj],
    claims: Mapping[str, Obj],
    *,
    now: datetime,
) -> Pass:
    """The steps that bring a stateful set to where it should be.

    Args:
        stateful_set: As read; not changed.
        pods: The pods it controls.
        revisions: The ControllerRevisions it controls.
        claims: The volume claims of the namespace, by name.
        now: The time of the pass, aware.
    """
    sync = _Sync(stateful_set, list(pods), claims, now)
    known = history.sort_revisions(revisions)
    try:
        yield from _identify(sync, known)
    except Failed:
        return Verdict(retry=True)
    _place(sync)
    retry = False
    try:
        if not is_deleting(stateful_set):
            yield from _reconcile(sync)
    except Failed:
        retry = True
    status = _status(sync)
    if status is not None:
        answer = yield WriteStatus(status)
        retry |= answer.error is not None
    retry |= not (yield from _trim(sync, known))
    return Verdict(_next_look(sync), retry)


def _next_look(sync: _Sync) -> float | None:
    waiting = [pod for pod in sync.pods if is_ready(pod) and not sync.available(pod)]
    return next_availability(waiting, sync.wait, sync.now)


def _identify(sync: _Sync, known: list[Obj]) -> Generator[Step, Answer, None]:
    """Finds or makes the revision of the present template; an old one is made the newest."""
    status = sync.set.get("status") or {}
    sync.collisions = status.get("collisionCount") or 0
    number = known[-1].get("revision", 0) + 1 if known else 1
    wanted = {"data": history.data_of(sync.set)}
    equal = [one for one in known if history.same_data(one, wanted)]
    if equal and history.same_data(known[-1], wanted):
        sync.update = known[-1]
    elif equal:
        answer = yield Update({**equal[-1], "revision": number})
        sync.update = _found(answer, {**equal[-1], "revision": number})
    else:
        sync.update = yield from _create_revision(sync, number)
    by_name = {one["metadata"]["name"]: one for one in known}
    sync.current = by_name.get(status.get("currentRevision", ""), sync.update)


def _found(answer: Answer, default: Obj) -> Obj:
    if answer.error is not None:
        raise Failed(answer.error)
    return answer.found or default


def _create_revision(sync: _Sync, number: int) -> Generator[Step, Answer, Obj]:
    while True:
        body = history.new_revision(
            sync.set,
            ids.API_VERSION,
            ids.KIND,
            number=number,
            collisions=sync.collisions,
            hash_label="controller.kubernetes.io/hash",
        )
        answer = yield Create(body)
        if not answer.existed:
            return _found(answer, body)
        if answer.found is not None and history.same_data(answer.found, body):
            return answer.found
        sync.collisions += 1


def _place(sync: _Sync) -> None:
    start, end = ids.start_ordinal(sync.set), ids.end_ordinal(sync.set)
    present = {ids.ordinal(pod): pod for pod in sync.pods if ids.in_range(pod, sync.set)}
    sync.replicas = [
        present.get(number) or _versioned(sync, number) for number in range(start, end)
    ]
    outside = [p for p in sync.pods if not ids.in_range(p, sync.set) and ids.ordinal(p) >= 0]
    sync.condemned = sorted(outside, key=ids.ordinal, reverse=True)


def _versioned(sync: _Sync, number: int) -> Obj:
    """A new pod: below the partition of the current revision, above it of the new one."""
    strategy = sync.set["spec"].get("updateStrategy") or {}
    place = number - ids.start_ordinal(sync.set)
    if strategy.get("rollingUpdate") is not None:
        old = place < sync.rolling.get("partition", 0)
    else:
        kept = (sync.set.get("status") or {}).get("currentReplicas", 0)
        old = strategy.get("type") == "RollingUpdate" and place < kept
    revision = sync.current if old else sync.update
    applied = history.apply(sync.set, revision)
    return ids.new_pod(applied, number, revision["metadata"]["name"])


def _reconcile(sync: _Sync) -> Generator[Step, Answer, None]:
    unhealthy = [p for p in [*sync.replicas, *reversed(sync.condemned)] if sync.unavailable(p)]
    first = unhealthy[0] if unhealthy else None
    if (yield from _each(sync, (_settle_replica(sync, pod) for pod in sync.replicas))):
        return
    for pod in sync.condemned:
        yield from _fix_claims(sync, pod)
    if (yield from _each(sync, (_settle_condemned(sync, pod, first) for pod in sync.condemned))):
        return
    strategy = (sync.set["spec"].get("updateStrategy") or {}).get("type", "RollingUpdate")
    if strategy == "RollingUpdate":
        yield from _roll(sync)


def _each(sync: _Sync, parts: Iterable[Part]) -> Part:
    """One after the other until one says that the rest has to wait; or all side by side."""
    if sync.ordered:
        for part in parts:
            if (yield from part):
                return True
        return False
    busy = [begun for begun in map(_begin, parts) if begun is not None]
    if busy:
        answer = yield Together(tuple(busy))
        if answer.error is not None:
            raise Failed(answer.error)
    return False


def _begin(part: Part) -> tuple[Step, Part] | None:
    """The first step of a part; None for one that has nothing to do."""
    step = next(part, None)
    return None if step is None else (step, part)


def _settle_replica(sync: _Sync, pod: Obj) -> Part:
    """True when the pods after this one have to wait for it."""
    if is_terminal(pod):
        if not is_deleting(pod):
            yield from _delete(sync, pod)
        return True
    if not phase(pod):
        if any(_claim_is_stale(sync, pod)):
            return True
        yield from _create(sync, pod)
        return sync.ordered
    if phase(pod) == "Pending":
        yield from _create_claims(sync, pod)
        yield from _fix_claims(sync, pod)
    if sync.ordered and (is_deleting(pod) or phase(pod) != "Running" or not sync.available(pod)):
        return True
    yield from _restore(sync, pod)
    return False


def _claim_is_stale(sync: _Sync, pod: Obj) -> Iterable[bool]:
    """Claims that will go with an earlier pod of this name: a new pod waits until they have."""
    policy = sync.set["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    if policy.get("whenScaled") != "Delete":
        return
    for body in ids.claim_bodies(sync.set, ids.ordinal(pod)):
        found = sync.claims.get(body["metadata"]["name"])
        if found is not None and ids.has_stale_owner(found, pod, "v1", "Pod"):
            yield True


def _create(sync: _Sync, pod: Obj) -> Generator[Step, Answer, None]:
    yield from _create_claims(sync, pod)
    answer = yield Create(pod, (sync.event("Create", pod),))
    if answer.existed:
        raise Failed("the pod exists already")
    if answer.error is not None:
        yield Emit((sync.event("Create", pod, answer.error),))
        raise Failed(answer.error)
    yield from _fix_claims(sync, answer.found or pod)


def _create_claims(sync: _Sync, pod: Obj) -> Generator[Step, Answer, None]:
    name, set_name = pod["metadata"]["name"], sync.set["metadata"]["name"]
    for body in ids.claim_bodies(sync.set, ids.ordinal(pod)):
        claimed = body["metadata"]["name"]
        found = sync.claims.get(claimed)
        if found is not None:
            if is_deleting(found):
                error = f"pvc {claimed} is being deleted"
                yield Emit((sync.event("Create", pod, error),))
                raise Failed(error)
            continue
        message = f"Create Claim {claimed} Pod {name} in StatefulSet {set_name} success"
        answer = yield Create(body, (Event("Normal", "SuccessfulCreate", message),))
        if answer.error is not None and not answer.existed:
            message = (
                f"Create Claim {claimed} for Pod {name} in StatefulSet {set_name} "
                f"failed error: {answer.error}"
            )
            yield Emit((Event("Warning", "FailedCreate", message),))
            raise Failed(answer.error)


def _fix_claims(sync: _Sync, pod: Obj) -> Generator[Step, Answer, None]:
    """Gives the claims of a pod the owners the retention policy asks for."""
    for body in ids.claim_bodies(sync.set, ids.ordinal(pod)):
        found = sync.claims.get(body["metadata"]["name"])
        if found is None or ids.owners_are_right(found, sync.set, pod):
            continue
        owners = ids.claim_owners(found, sync.set, pod)
        answer = yield Update(
            {**found, "metadata": {**found["metadata"], "ownerReferences": owners}}
        )
        if answer.error is not None:
            raise Failed(answer.error)


def _restore(sync: _Sync, pod: Obj) -> Generator[Step, Answer, None]:
    """A pod that lost its labels or its volumes gets them back."""
    yield from _fix_claims(sync, pod)
    if ids.has_identity(sync.set, pod) and ids.has_storage(sync.set, pod):
        return
    if not ids.has_storage(sync.set, pod):
        yield from _create_claims(sync, pod)
    answer = yield Update(ids.with_identity(sync.set, pod), (sync.event("Update", pod),))
    if answer.error is not None:
        yield Emit((sync.event("Update", pod, answer.error),))
        raise Failed(answer.error)


def _delete(sync: _Sync, pod: Obj) -> Generator[Step, Answer, None]:
    answer = yield Delete("Pod", pod, (sync.event("Delete", pod),))
    if answer.error is not None:
        yield Emit((sync.event("Delete", pod, answer.error),))
        raise Failed(answer.error)


def _settle_condemned(sync: _Sync, pod: Obj, first_unhealthy: Obj | None) -> Part:
    if is_deleting(pod):
        return True
    healthy = phase(pod) == "Running" and sync.available(pod)
    if sync.ordered and not healthy and pod is not first_unhealthy:
        return True
    yield from _delete(sync, pod)
    return True


def _max_unavailable(sync: _Sync) -> int:
    value = sync.rolling.get("maxUnavailable", 1)
    if isinstance(value, str):
        value = int(value.removesuffix("%")) * ids.size(sync.set) // 100
    return max(1, int(value))


def _roll(sync: _Sync) -> Generator[Step, Answer, None]:
    """Deletes outdated pods from the highest ordinal down, as many as may be unavailable."""
    budget = _max_unavailable(sync) - sum(map(sync.unavailable, sync.replicas))
    outdated = [
        pod
        for pod in reversed(sync.replicas[sync.rolling.get("partition", 0) :])
        if sync.outdated(pod) and not is_deleting(pod)
    ]
    if not sync.ordered:
        # Outdated pods that do not work cost nothing; they go whatever the budget is.
        for pod in [p for p in outdated if not sync.available(p)]:
            yield from _replace(sync, pod)
        outdated = [pod for pod in outdated if sync.available(pod)]
    for pod in outdated[: max(0, budget)]:
        yield from _replace(sync, pod)


def _replace(sync: _Sync, pod: Obj) -> Generator[Step, Answer, None]:
    yield from _delete(sync, pod)
    sync.gone_current += 1


def _status(sync: _Sync) -> Obj | None:
    """The status to write, or None when it says so already."""
    old = sync.set.get("status") or {}
    created = [p for p in sync.pods if phase(p)]
    running = [p for p in created if phase(p) == "Running" and is_ready(p)]
    lasting = [ids.pod_revision(p) for p in created if not is_deleting(p)]
    counts = {
        "replicas": len(created),
        "readyReplicas": len(running),
        "availableReplicas": sum(map(sync.available, running)),
        "currentReplicas": lasting.count(sync.current["metadata"]["name"]) - sync.gone_current,
        "updatedReplicas": lasting.count(sync.update_name),
    }
    revision = sync.current["metadata"]["name"]
    wanted = ids.size(sync.set)
    if counts["updatedReplicas"] == counts["readyReplicas"] == counts["replicas"] == wanted:
        counts["currentReplicas"], revision = counts["updatedReplicas"], sync.update_name
    new: Obj = {
        **{k: v for k, v in counts.items() if v or k in ("replicas", "availableReplicas")},
        "observedGeneration": sync.set["metadata"].get("generation", 0),
        "currentRevision": revision,
        "updateRevision": sync.update_name,
        "collisionCount": sync.collisions,
    }
    if old.get("conditions"):
        new["conditions"] = old["conditions"]
    return None if new == old else new


def _trim(sync: _Sync, known: list[Obj]) -> Part:
    live = {ids.pod_revision(pod) for pod in sync.pods}
    live |= {sync.current["metadata"]["name"], sync.update_name}
    limit = sync.set["spec"].get("revisionHistoryLimit", 10)
    for one in history.history_to_drop(known, live, limit):
        answer = yield Delete("ControllerRevision", one)
        if answer.error is not None:
            return False
    return True
