"""The loop that runs DaemonSets: one pod on every node that wants one.

Guaranteed: a node that comes, goes or changes its labels or taints wakes only the sets that it
matters to; pods are created in batches that begin small; pods are made for a node and placed by
the scheduler. Failed pods are replaced with growing waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from corral.cluster.workloads.attempts import Attempt, Hands, Now, PassFailed, utc_now, write_status
from corral.cluster.workloads.batches import Failure, at_once, in_batches, namespace_is_going
from corral.cluster.workloads.claiming import Family
from corral.cluster.workloads.daemonset.history import plan_history, revisions_to_drop
from corral.cluster.workloads.daemonset.nodes import node_check
from corral.cluster.workloads.daemonset.plan import (
    NodeBackoff,
    claim_pods,
    daemon_status,
    next_look,
    plan_pods,
)
from corral.cluster.workloads.podcontrol import PodControl
from corral.cluster.workloads.pods import claim, controller_reference, is_deleting
from corral.cluster.workloads.revisions import as_sent, same_data
from corral.cluster.workloads.steps import Answer, Event
from corral.kube.resources import CONTROLLERREVISIONS, DAEMONSETS, NODES, PODS
from corral.kube.types import Obj
from corral.runtime import Change, ConsistencyStore, Manager, Result, key_of

__all__ = ["DaemonSets", "register"]

WORKERS = 2
COMPONENT = "daemonset-controller"
SWEEP_SECONDS = 60.0
"""How often waits that nobody asked for any more are forgotten."""
FORGET_AFTER = timedelta(minutes=30)


class DaemonSets:
    """The reconciler."""

    def __init__(self, manager: Manager, *, now: Now = utc_now) -> None:
        self._now = now
        self.sets = manager.informer(DAEMONSETS)
        self.pods = manager.informer(PODS)
        self.nodes = manager.informer(NODES)
        self.revisions = manager.informer(CONTROLLERREVISIONS)
        self._backoff = NodeBackoff()
        self._consistency = ConsistencyStore(
            {DAEMONSETS: self.sets, PODS: self.pods, CONTROLLERREVISIONS: self.revisions}
        )
        client, recorder = manager.client, manager.recorder(COMPONENT)
        self._hands = Hands(client, recorder, self._consistency, field_manager=COMPONENT)
        self._control = PodControl(client, recorder, self._consistency, field_manager=COMPONENT)
        self.family, self.history = (
            Family(
                client,
                self.sets,
                children,
                consistency=self._consistency,
                field_manager=COMPONENT,
            )
            for children in (self.pods, self.revisions)
        )

    async def reconcile(self, key: str) -> Result | None:
        """One pass over one set."""
        self._consistency.ensure_ready(key)
        subject = self.sets.store.get(key)
        if subject is None:
            self._consistency.clear(key)
            return None
        if subject["spec"].get("selector") == {}:
            message = "This daemon set is selecting all pods. A non-empty selector is required."
            self._hands.emit(subject, (Event("Warning", "SelectingAll", message),))
            return None
        if is_deleting(subject):
            return None
        return await self._pass(subject)

    async def _pass(self, subject: Obj) -> Result | None:
        attempt = Attempt(self._hands, subject)
        revisions = await self._revisions(subject)
        current = await self._identify(attempt, subject, revisions)
        pods = await self.family.settle(
            subject, claim_pods(subject, self.family.candidates(subject))
        )
        nodes, now = list(self.nodes.store), self._now()
        short_hash = current["metadata"]["labels"]["controller-revision-hash"]
        plan = plan_pods(subject, nodes, pods, short_hash, now=now, backoff=self._backoff)
        self._hands.emit(subject, plan.events)
        failures = await self._carry_out(subject, plan.create, plan.delete)
        if not failures:
            for one in revisions_to_drop(subject, revisions, pods, current):
                _require(await attempt.delete(CONTROLLERREVISIONS, one))
        status = daemon_status(subject, nodes, pods, short_hash, now=now)
        if status is not None:
            await write_status(self._hands, DAEMONSETS, subject, status)
        if failures:
            raise PassFailed(str(failures[0])) from failures[0]
        waits = [plan.requeue_after, next_look(subject, pods, now)]
        return Result(min((wait for wait in waits if wait), default=0.0))

    # --- revisions -------------------------------------------------------------------------------

    async def _revisions(self, subject: Obj) -> list[Obj]:
        reference = controller_reference(subject, "apps/v1", "DaemonSet")
        selector = subject["spec"].get("selector")
        claims = claim(subject, self.history.candidates(subject), reference, selector=selector)
        return await self.history.settle(subject, claims)

    async def _identify(self, attempt: Attempt, subject: Obj, revisions: Sequence[Obj]) -> Obj:
        """The revision of the present template, made or made the newest where that is due."""
        plan = plan_history(subject, revisions)
        if plan.update:
            return _require(await attempt.replace(CONTROLLERREVISIONS, as_sent(plan.current)))
        if not plan.create:
            return plan.current
        answer = await attempt.create(CONTROLLERREVISIONS, as_sent(plan.current))
        if answer.existed and answer.found is not None:
            return await self._resolve_collision(subject, plan.current, answer.found)
        return _require(answer)

    async def _resolve_collision(self, subject: Obj, wanted: Obj, found: Obj) -> Obj:
        """One of our own, made by a pass that was cut short, is taken; else the next hash."""
        if same_data(wanted, found):
            return found
        status = subject.get("status") or {}
        count = (status.get("collisionCount") or 0) + 1
        await write_status(self._hands, DAEMONSETS, subject, {**status, "collisionCount": count})
        raise PassFailed(f"the name of revision {found['metadata']['name']} is taken")

    # --- pods ------------------------------------------------------------------------------------

    async def _carry_out(
        self, subject: Obj, create: Sequence[Obj], delete: Sequence[Obj]
    ) -> list[Failure]:
        made = await in_batches(lambda body: self._control.create(subject, body), create)
        gone = await at_once(lambda pod: self._control.delete(subject, pod), delete)
        return [one for one in (*made, *gone) if not namespace_is_going(one)]

    # --- nodes -----------------------------------------------------------------------------------

    def sets_on(self, change: Change) -> list[str]:
        """A mapper for nodes: the sets for which the change makes a difference."""
        old, new = change.old, change.new
        if old is not None and new is not None and _placement(old) == _placement(new):
            return []
        found = []
        for subject in self.sets.store:
            check = node_check(subject)
            before = check(old) if old is not None else (False, False)
            after = check(new) if new is not None else (False, False)
            if before != after:
                found.append(key_of(subject))
        return found

    async def sweep(self) -> None:
        """Forget old waits, for ever."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self._backoff.forget(self._now() - FORGET_AFTER)


def _placement(node: Obj) -> tuple[object, object]:
    """What decides whether pods may be on a node."""
    return node["metadata"].get("labels"), (node.get("spec") or {}).get("taints")


def _require(answer: Answer) -> Obj:
    if answer.error is not None:
        raise PassFailed(answer.error)
    return answer.found or {}


def register(manager: Manager, *, now: Now = utc_now) -> None:
    """Add the controller of DaemonSets to a manager."""
    sets = DaemonSets(manager, now=now)
    controller = manager.controller("daemonset", sets.reconcile, workers=WORKERS)
    controller.watch(sets.sets)
    controller.watch(sets.pods, sets.family.owners_of)
    controller.watch(sets.nodes, sets.sets_on)
    controller.watch(sets.revisions, sets.history.owners_of)
    manager.add_task("daemonset-backoff", sets.sweep)
