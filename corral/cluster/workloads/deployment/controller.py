"""The loop that runs Deployments through their ReplicaSets.

Decisions are those of `sync_deployment`; this module finds what it decides on, writes what it asks
for and sees to it that a deployment is looked at again: when one of its sets changes, when a pod
that the Recreate strategy waits for is gone, and when its progress deadline has passed.
"""

from __future__ import annotations

from collections.abc import Sequence

from corral.cluster.workloads.attempts import Attempt, Hands, NamespaceGoing, Now, drive, utc_now
from corral.cluster.workloads.claiming import Family
from corral.cluster.workloads.deployment.sets import is_rolling
from corral.cluster.workloads.deployment.steps import (
    CreateSet,
    DeleteSet,
    Step,
    UpdateDeployment,
    UpdateSet,
    WriteStatus,
)
from corral.cluster.workloads.deployment.sync import claim_sets, sync_deployment
from corral.cluster.workloads.pods import controller_of, is_terminal, uid
from corral.cluster.workloads.steps import Answer, Emit
from corral.kube.resources import DEPLOYMENTS, PODS, REPLICASETS
from corral.kube.types import Obj
from corral.runtime import (
    CONTROLLER_UID_INDEX,
    UID_INDEX,
    Change,
    ConsistencyStore,
    Manager,
    Result,
    index_by_controller_uid,
    index_by_uid,
    key_of,
)

__all__ = ["Deployments", "register"]

WORKERS = 5
COMPONENT = "deployment-controller"


class Deployments:
    """The reconciler."""

    def __init__(self, manager: Manager, *, now: Now = utc_now) -> None:
        self._now = now
        self.deployments = manager.informer(DEPLOYMENTS)
        self.sets = manager.informer(REPLICASETS)
        self.pods = manager.informer(PODS)
        self.sets.add_index(UID_INDEX, index_by_uid)
        self.pods.add_index(CONTROLLER_UID_INDEX, index_by_controller_uid)
        self._consistency = ConsistencyStore(
            {DEPLOYMENTS: self.deployments, REPLICASETS: self.sets}
        )
        recorder = manager.recorder(COMPONENT)
        self._hands = Hands(manager.client, recorder, self._consistency, field_manager=COMPONENT)
        self.family = Family(
            manager.client,
            self.deployments,
            self.sets,
            consistency=self._consistency,
            field_manager=COMPONENT,
        )

    async def reconcile(self, key: str) -> Result | None:
        """One pass over one deployment."""
        self._consistency.ensure_ready(key)
        deployment = self.deployments.store.get(key)
        if deployment is None:
            self._consistency.clear(key)
            return None
        sets: Sequence[Obj] = ()
        if deployment["spec"].get("selector") != {}:
            claims = claim_sets(deployment, self.family.candidates(deployment))
            sets = await self.family.settle(deployment, claims)
        pods = {} if is_rolling(deployment) else {uid(one): self._pods_of(one) for one in sets}
        attempt = Attempt(self._hands, deployment)
        steps = sync_deployment(deployment, sets, pods, now=self._now())
        try:
            verdict = await drive(steps, lambda step: _perform(attempt, step))
        except NamespaceGoing:
            return None
        return attempt.conclude(verdict)

    def _pods_of(self, replica_set: Obj) -> list[Obj]:
        return self.pods.store.by_index(CONTROLLER_UID_INDEX, uid(replica_set))

    def recreated_by(self, change: Change) -> list[str]:
        """A mapper for pods: the deployment that waits for this one to end, if one does."""
        pod = change.object
        if change.new is not None and not is_terminal(pod):
            return []
        reference = controller_of(pod)
        if reference is None or reference.get("kind") != "ReplicaSet":
            return []
        sets = self.sets.store.by_index(UID_INDEX, str(reference.get("uid", "")))
        owners = [owner for owner in map(self.family.owner_of, sets) if owner is not None]
        return [key_of(owner) for owner in owners if not is_rolling(owner)]


async def _perform(attempt: Attempt, step: Step) -> Answer:
    match step:
        case CreateSet(body, events):
            return await attempt.create(REPLICASETS, body, events)
        case UpdateSet(body, events):
            return await attempt.replace(REPLICASETS, body, events=events)
        case DeleteSet(replica_set):
            return await attempt.delete(REPLICASETS, replica_set)
        case WriteStatus(deployment):
            return await attempt.replace(DEPLOYMENTS, deployment, subresource="status")
        case UpdateDeployment(deployment, events):
            return await attempt.replace(DEPLOYMENTS, deployment, events=events)
        case Emit(events):
            return attempt.emit(events)


def register(manager: Manager, *, now: Now = utc_now) -> None:
    """Add the controller of Deployments to a manager."""
    deployments = Deployments(manager, now=now)
    controller = manager.controller("deployment", deployments.reconcile, workers=WORKERS)
    controller.watch(deployments.deployments)
    controller.watch(deployments.sets, deployments.family.owners_of)
    controller.watch(deployments.pods, deployments.recreated_by)
