"""One attempt to place a gang: all of it, or nothing.

A gang never holds a part of what it needs while it waits for the rest, so two of them cannot block
each other. Members that are bound already count (after a crash in the middle of it, say): the rest
is then placed beside them, or reported as impossible. Members beyond the minimum are placed like
any other pods once the minimum has places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from corral.cluster.scheduler.evictions import Evictions, Preemptor
from corral.cluster.scheduler.gangs import Gang, Gangs
from corral.cluster.scheduler.placement import (
    ClusterState,
    GangPreemption,
    GangRejection,
    Placement,
    PodInfo,
    SchedulingQueue,
    awaits_victims,
    missing_members,
    schedule_group,
)
from corral.cluster.scheduler.statuses import PodStatuses
from corral.kube.types import Obj

__all__ = ["GangCycle"]

_PLUGIN = "GangScheduling"


@dataclass(slots=True)
class GangCycle:
    """Decides for gangs, with what the scheduler has."""

    state: ClusterState
    queue: SchedulingQueue
    gangs: Gangs
    statuses: PodStatuses
    evictions: Evictions
    rng: Random
    budgets: Callable[[], Sequence[Obj]]
    take_up: Callable[[Placement], None]
    """Binds a pod to its place."""
    try_pod: Callable[[PodInfo], None]
    """Tries one pod by itself."""
    withdraw: Callable[[PodInfo], None]
    """Ends a pod's nomination."""
    wake: Callable[[], None]

    def attempt(self, gang: Gang, members: Sequence[PodInfo]) -> None:
        """Try a gang; ``members`` are those that wait, all taken from the queue."""
        if gang.spec is None:
            family, namespace, name = gang.key
            missing = f"PodGroup {namespace}/{name} of {family} not found"
            self._wait(gang, members, missing, reason="PodGroupNotFound")
            return
        if gang.making_room:
            self._wait(gang, members, gang.problem, reason=gang.problem_reason)
            return
        placed, done = self._placed(gang), gang.succeeded()
        have = len(placed) + done
        if have < gang.spec.minimum:
            waiting = missing_members(gang.spec, members[0], have + len(members))
            if waiting:
                self._wait(gang, members, waiting, reason="NotEnoughTasks")
                return
            self._place(gang, members, placed=placed, done=done)
            return
        self.gangs.blame(gang, "")
        for pod in members:
            self.try_pod(pod)

    def _placed(self, gang: Gang) -> list[PodInfo]:
        """The members that have a node and mean to stay there."""
        infos = (self.state.known(key) for key in gang.pods)
        return [pod for pod in infos if pod and not pod.deleting and self.state.node_of(pod)]

    def _place(
        self, gang: Gang, members: Sequence[PodInfo], *, placed: Sequence[PodInfo], done: int
    ) -> None:
        assert gang.spec is not None
        wanted = replace(gang.spec, minimum=gang.spec.minimum - done) if done else gang.spec
        result = schedule_group(
            self.state,
            wanted,
            members,
            rng=self.rng,
            running=placed,
            budgets=self.budgets(),
        )
        if isinstance(result, GangPreemption):
            self._preempt(gang, members, result)
        elif isinstance(result, GangRejection):
            self._reject(gang, members, result)
        else:
            self.gangs.blame(gang, "")
            for placement in result:
                self.take_up(placement)
            taken = {placement.pod.key for placement in result}
            for pod in members:
                if pod.key not in taken:
                    self.try_pod(pod)

    def _wait(self, gang: Gang, members: Sequence[PodInfo], why: str, *, reason: str) -> None:
        """The gang is not complete: only more of it can help."""
        self.gangs.blame(gang, why, reason)
        for pod in members:
            self.statuses.unschedulable(pod, why)
            self.queue.park(pod, (_PLUGIN,))

    def _reject(self, gang: Gang, members: Sequence[PodInfo], why: GangRejection) -> None:
        """There is no room for the whole gang."""
        keeps = awaits_victims(self.state, members)
        self.gangs.blame(gang, str(why), "NotEnoughResources")
        for pod in members:
            if not keeps:
                self.state.nominate(pod, "")
            self.statuses.unschedulable(pod, str(why), nominated=None if keeps else "")
            self.queue.park(pod, why.plugins)

    def _preempt(self, gang: Gang, members: Sequence[PodInfo], result: GangPreemption) -> None:
        """Evict what is in the way; the gang is tried again when that is gone."""
        why = f"{result.rejection}; preempting {len(result.victims)} victims"
        nodes = {placement.pod.key: placement.node for placement in result.placements}
        own, priority = {pod.key for pod in members}, min(pod.priority for pod in members)
        for node in sorted(set(nodes.values())):
            for other in list(self.state.nominated_on(node).values()):
                if other.priority < priority and other.key not in own:
                    self.withdraw(other)
        self.gangs.blame(gang, why, "NotEnoughResources")
        for pod in members:
            node = nodes.get(pod.key, "")
            self.state.nominate(pod, node)
            self.statuses.unschedulable(pod, why, nominated=node)
        gang.making_room = True

        def done(success: bool) -> None:
            gang.making_room = False
            for pod in members:
                if success:
                    self.queue.park(pod, result.rejection.plugins)
                else:
                    self.queue.retry(pod)
            self.wake()

        uid = gang.obj["metadata"]["uid"] if gang.obj is not None else ""
        self.evictions.evict(Preemptor("podgroup", uid, done), result.victims)
