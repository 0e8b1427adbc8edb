"""The loop that runs StatefulSets: pods with names and order, claims, revisions.

Decisions are those of `sync_stateful_set`; this module finds what it decides on, writes what it
asks for, and adopts the pods and revisions an earlier set of the same kind left behind. A set is
looked at again when one of its pods changes and when a ready pod becomes available.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from corral.cluster.workloads.attempts import Attempt, Hands, NamespaceGoing, Now, drive, utc_now
from corral.cluster.workloads.claiming import Family
from corral.cluster.workloads.pods import claim, controller_reference, slow_start
from corral.cluster.workloads.revisions import as_sent
from corral.cluster.workloads.statefulset import identity as ids
from corral.cluster.workloads.statefulset.sync import (
    Create,
    Delete,
    Part,
    Step,
    Together,
    Update,
    WriteStatus,
    claim_pods,
    sync_stateful_set,
)
from corral.cluster.workloads.steps import Answer, Emit, Failed
from corral.kube.resources import (
    CONTROLLERREVISIONS,
    PERSISTENTVOLUMECLAIMS,
    PODS,
    STATEFULSETS,
    Resource,
)
from corral.kube.types import Obj
from corral.runtime import ConsistencyStore, Manager, Result, join_key

__all__ = ["StatefulSets", "register"]

WORKERS = 5
COMPONENT = "statefulset-controller"
_RESOURCES: Final[dict[str, Resource]] = {
    one.kind: one for one in (PODS, PERSISTENTVOLUMECLAIMS, CONTROLLERREVISIONS)
}


class StatefulSets:
    """The reconciler."""

    def __init__(self, manager: Manager, *, now: Now = utc_now) -> None:
        self._now = now
        self.sets = manager.informer(STATEFULSETS)
        self.pods = manager.informer(PODS)
        self._claims = manager.informer(PERSISTENTVOLUMECLAIMS)
        revisions = manager.informer(CONTROLLERREVISIONS)
        self._consistency = ConsistencyStore(
            {
                STATEFULSETS: self.sets,
                PODS: self.pods,
                PERSISTENTVOLUMECLAIMS: self._claims,
                CONTROLLERREVISIONS: revisions,
            }
        )
        client = manager.client
        self._hands = Hands(
            client, manager.recorder(COMPONENT), self._consistency, field_manager=COMPONENT
        )
        self.family, self._history = (
            Family(
                client,
                self.sets,
                children,
                consistency=self._consistency,
                field_manager=COMPONENT,
            )
            for children in (self.pods, revisions)
        )

    async def reconcile(self, key: str) -> Result | None:
        """One pass over one set."""
        self._consistency.ensure_ready(key)
        subject = self.sets.store.get(key)
        if subject is None:
            self._consistency.clear(key)
            return None
        revisions = await self._revisions(subject)
        pods = await self.family.settle(
            subject, claim_pods(subject, self.family.candidates(subject))
        )
        attempt = Attempt(self._hands, subject)
        claims = self._claims_of(subject, pods)
        steps = sync_stateful_set(subject, pods, revisions, claims, now=self._now())
        try:
            verdict = await drive(steps, lambda step: _perform(attempt, step))
        except NamespaceGoing:
            return None
        return attempt.conclude(verdict)

    async def _revisions(self, subject: Obj) -> list[Obj]:
        """The set's revisions; those that nobody owns are adopted, none is released."""
        reference = controller_reference(subject, ids.API_VERSION, ids.KIND)
        selector = subject["spec"].get("selector")
        claims = claim(subject, self._history.candidates(subject), reference, selector=selector)
        return await self._history.settle(subject, replace(claims, release=()))

    def _claims_of(self, subject: Obj, pods: list[Obj]) -> dict[str, Obj]:
        """The volume claims there are for the places of the set and for its pods, by name."""
        if not subject["spec"].get("volumeClaimTemplates"):
            return {}
        places = {*range(ids.start_ordinal(subject), ids.end_ordinal(subject))}
        places |= {ids.ordinal(pod) for pod in pods}
        names = [
            body["metadata"]["name"]
            for place in places
            if place >= 0
            for body in ids.claim_bodies(subject, place)
        ]
        namespace, store = subject["metadata"].get("namespace"), self._claims.store
        found = ((name, store.get(join_key(namespace, name))) for name in names)
        return {name: one for name, one in found if one is not None}


async def _perform(attempt: Attempt, step: Step) -> Answer:
    match step:
        case Create(body, events):
            return await attempt.create(_RESOURCES[body["kind"]], _on_wire(body), events)
        case Update(body, events):
            return await attempt.replace(_RESOURCES[body["kind"]], _on_wire(body), events=events)
        case Delete(kind, obj, events):
            return await attempt.delete(_RESOURCES[kind], obj, events)
        case WriteStatus(status):
            return await attempt.write_status(STATEFULSETS, status)
        case Emit(events):
            return attempt.emit(events)
        case Together(parts):
            return await _together(attempt, parts)


def _on_wire(body: Obj) -> Obj:
    return as_sent(body) if body["kind"] == CONTROLLERREVISIONS.kind else body


async def _together(attempt: Attempt, parts: Sequence[tuple[Step, Part]]) -> Answer:
    done = 0
    for size in slow_start(len(parts)):
        batch = parts[done : done + size]
        errors = await asyncio.gather(*(_go_on(attempt, *begun) for begun in batch))
        for error in errors:
            if error is not None:
                return Answer(error=error)
        done += size
    return Answer()


async def _go_on(attempt: Attempt, step: Step, part: Part) -> str | None:
    """Do the rest of a part; why it failed, if it did."""
    try:
        while True:
            step = part.send(await _perform(attempt, step))
    except StopIteration:
        return None
    except Failed as failure:
        return str(failure)


def register(manager: Manager, *, now: Now = utc_now) -> None:
    """Add the controller of StatefulSets to a manager."""
    sets = StatefulSets(manager, now=now)
    controller = manager.controller("statefulset", sets.reconcile, workers=WORKERS)
    controller.watch(sets.sets)
    controller.watch(sets.pods, sets.family.owners_of)
