"""The loop that keeps the pods of ReplicaSets, and of ReplicationControllers, at their number.

Guaranteed: pods are created in parallel, in batches that begin small; a pass never begins on a
cache that has not seen the writes of the one before, so a set neither makes nor deletes too many;
pods that are ready are looked at again when ``minReadySeconds`` are over. What one pass costs
grows with the pods of its own set, not with those of others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from corral.cluster.workloads.attempts import Hands, Now, PassFailed, utc_now, write_status
from corral.cluster.workloads.batches import Failure, at_once, in_batches, namespace_is_going
from corral.cluster.workloads.claiming import (
    Family,
    SelectorOf,
    is_claimed,
    object_selector,
    plain_selector,
)
from corral.cluster.workloads.deployment.replicaset import (
    claim_pods,
    next_availability,
    plan_replicas,
    replica_status,
    terminating_count,
)
from corral.cluster.workloads.podcontrol import PodControl
from corral.cluster.workloads.pods import controller_of, is_deleting
from corral.kube.errors import ApiError
from corral.kube.resources import PODS, REPLICASETS, REPLICATIONCONTROLLERS, Resource
from corral.kube.selectors import Selector
from corral.kube.types import Obj
from corral.runtime import (
    CONTROLLER_UID_INDEX,
    ConsistencyStore,
    Informer,
    Manager,
    Result,
    index_by_controller_uid,
)

__all__ = ["Flavor", "ReplicaSets", "register"]

WORKERS = 5


@dataclass(frozen=True, slots=True)
class Flavor:
    """What differs between the kinds of this loop."""

    resource: Resource
    component: str
    """Who the events and writes are from."""
    selector_of: SelectorOf = object_selector
    says_terminating: bool = True
    """Whether the status counts the pods that are going."""


REPLICA_SETS = Flavor(REPLICASETS, "replicaset-controller")
REPLICATION_CONTROLLERS = Flavor(
    REPLICATIONCONTROLLERS,
    "replication-controller",
    selector_of=plain_selector,
    says_terminating=False,
)


class ReplicaSets:
    """The reconciler of one flavor."""

    def __init__(self, flavor: Flavor, manager: Manager, *, now: Now = utc_now) -> None:
        self._flavor = flavor
        self._now = now
        self.sets: Informer = manager.informer(flavor.resource)
        self.pods: Informer = manager.informer(PODS)
        self.sets.add_index(CONTROLLER_UID_INDEX, index_by_controller_uid)
        recorder = manager.recorder(flavor.component)
        self._consistency = ConsistencyStore({PODS: self.pods, flavor.resource: self.sets})
        self._hands = Hands(
            manager.client, recorder, self._consistency, field_manager=flavor.component
        )
        self._control = PodControl(
            manager.client, recorder, self._consistency, field_manager=flavor.component
        )
        self.family = Family(
            manager.client,
            self.sets,
            self.pods,
            consistency=self._consistency,
            field_manager=flavor.component,
            selector_of=flavor.selector_of,
        )

    async def reconcile(self, key: str) -> Result | None:
        """Bring one set to its number of pods, and say how many there are."""
        self._consistency.ensure_ready(key)
        found = self.sets.store.get(key)
        if found is None:
            self._consistency.clear(key)
            return None
        subject = self._view(found)
        active = await self.family.settle(
            subject, claim_pods(subject, self.family.candidates(subject))
        )
        now = self._now()
        failures = await self._manage(subject, active, now)
        await self._report(subject, active, now, failures)
        if failures:
            raise PassFailed(str(failures[0])) from failures[0]
        wait = next_availability(active, subject["spec"].get("minReadySeconds", 0), now)
        return Result(wait) if wait else None

    def _view(self, found: Obj) -> Obj:
        """The set with a selector in the common form."""
        if self._flavor.selector_of is object_selector:
            return found
        selector = self._flavor.selector_of(found)
        return {**found, "spec": {**found["spec"], "selector": selector}}

    async def _manage(self, subject: Obj, active: Sequence[Obj], now: datetime) -> list[Failure]:
        """Create or delete pods; what the server refused."""
        related = self._related(subject) if len(active) > _wanted(subject) else ()
        plan = plan_replicas(subject, active, related, now=now)
        made = await in_batches(lambda body: self._control.create(subject, body), plan.create)
        gone = await at_once(lambda pod: self._control.delete(subject, pod), plan.delete)
        return [one for one in (*made, *gone) if not namespace_is_going(one)]

    def _related(self, subject: Obj) -> list[Obj]:
        """The pods of all sets with the same owner: a node with many of them can spare one."""
        owner = controller_of(subject)
        if owner is None:
            return []
        siblings = self.sets.store.by_index(CONTROLLER_UID_INDEX, str(owner.get("uid", "")))
        return [pod for one in siblings for pod in self.family.children_of(one)]

    async def _report(
        self, subject: Obj, active: Sequence[Obj], now: datetime, failures: Sequence[Failure]
    ) -> None:
        failure = _message(failures[0]) if failures else None
        terminating = self._terminating(subject) if self._flavor.says_terminating else None
        status = replica_status(subject, active, terminating, now=now, failure=failure)
        if status is not None:
            await write_status(self._hands, self._flavor.resource, subject, status)

    def _terminating(self, subject: Obj) -> int:
        going = [pod for pod in self.family.children_of(subject) if is_deleting(pod)]
        selector = Selector.from_object(subject["spec"].get("selector"))
        return terminating_count(pod for pod in going if is_claimed(subject, pod, selector))


def _wanted(subject: Obj) -> int:
    return int(subject["spec"].get("replicas", 1))


def _message(failure: Failure) -> str:
    return failure.message if isinstance(failure, ApiError) else str(failure)


def register(manager: Manager, *, now: Now = utc_now) -> None:
    """Add the controllers of ReplicaSets and ReplicationControllers to a manager."""
    for name, flavor in (
        ("replicaset", REPLICA_SETS),
        ("replicationcontroller", REPLICATION_CONTROLLERS),
    ):
        sets = ReplicaSets(flavor, manager, now=now)
        controller = manager.controller(name, sets.reconcile, workers=WORKERS)
        controller.watch(sets.sets)
        controller.watch(sets.pods, sets.family.owners_of)
