"""What is known of the cluster without asking it: the informers that MPIJobs need.

Objects of jobs have no label of their own beside ``app``, so those of others that have one are seen
too: only their metadata is kept. An object of somebody else without the label has a name that looks
free here; creation finds out. Secrets are nobody's to list, and are not watched.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from corral.api.mpi.kinds import GROUP, MPIJOBS
from corral.families.mpijob import names
from corral.families.mpijob.lifecycle.endings import is_finished
from corral.families.mpijob.lifecycle.limits import MPISettings
from corral.families.mpijob.lifecycle.stranded import dead_nodes
from corral.families.mpijob.objects.podgroup import pod_groups
from corral.kube.resources import (
    CONFIGMAPS,
    JOBS,
    NETWORKPOLICIES,
    NODES,
    PODS,
    PRIORITYCLASSES,
    ROLEBINDINGS,
    ROLES,
    SERVICEACCOUNTS,
    SERVICES,
    Resource,
)
from corral.kube.types import Obj
from corral.runtime import (
    CONTROLLER_UID_INDEX,
    Change,
    ConsistencyStore,
    Informer,
    Manager,
    controller_of,
    index_by_controller_uid,
    join_key,
    key_of,
    uid_of,
)
from corral.runtime.owners import refers_to

__all__ = ["CHILDREN", "FOR_AGENTS", "JOB_INDEX", "Caches", "index_by_job", "keep_ours"]

CHILDREN: Final[tuple[Resource, ...]] = (
    SERVICES,
    CONFIGMAPS,
    JOBS,
    NETWORKPOLICIES,
)
"""What jobs have beside pods, Secrets and PodGroups."""
FOR_AGENTS: Final[tuple[Resource, ...]] = (SERVICEACCOUNTS, ROLES, ROLEBINDINGS)
"""What launchers have besides that use our agent."""


JOB_INDEX: Final = "mpijob"


def index_by_job(pod: Obj) -> tuple[str, ...]:
    """For stores: the job that a pod says it is of."""
    metadata = pod["metadata"]
    name = (metadata.get("labels") or {}).get(names.JOB_NAME_LABEL)
    return (join_key(metadata["namespace"], name),) if name else ()


def keep_ours(obj: Obj) -> Obj:
    """For informers: all of what belongs to an MPIJob, of everything else the metadata."""
    obj["metadata"].pop("managedFields", None)
    reference = controller_of(obj)
    if reference is not None and refers_to(reference, GROUP, MPIJOBS.kind):
        return obj
    return {key: obj[key] for key in ("apiVersion", "kind", "metadata") if key in obj}


class Caches:
    """The informers, shared with everybody who asks the manager for the same."""

    def __init__(self, manager: Manager, settings: MPISettings) -> None:
        self.jobs = manager.informer(MPIJOBS)
        self.pods = manager.informer(
            PODS, label_selector=f"{names.OPERATOR_NAME_LABEL}={names.OPERATOR_NAME}"
        )
        self.pods.add_index(CONTROLLER_UID_INDEX, index_by_controller_uid)
        self.pods.add_index(JOB_INDEX, index_by_job)
        self.nodes = manager.informer(NODES)
        self.children: dict[Resource, Informer] = {
            resource: manager.informer(
                resource, label_selector=names.APP_LABEL, transform=keep_ours
            )
            for resource in (*CHILDREN, *(FOR_AGENTS if settings.agent else ()))
        }
        groups = pod_groups(settings.objects)
        self.priorities: Informer | None = None
        if groups is not None:
            self.children[groups] = manager.informer(groups)
            self.priorities = manager.informer(PRIORITYCLASSES)
        self._ended: dict[str, Obj] = {}
        self.children[JOBS].add_handler(self._note_end)
        self.consistency = ConsistencyStore({PODS: self.pods, **self.children})
        """Call ``ensure_ready`` first thing in a reconcile."""

    def child(self, resource: Resource, namespace: str, name: str) -> Obj | None:
        return self.children[resource].store.get(join_key(namespace, name))

    def last_launcher(self, job: Obj) -> Obj | None:
        """A launcher that had finished when it was deleted: it must not be made again."""
        return self._ended.get(uid_of(job))

    def forget(self, uid: str) -> None:
        """The job with this UID is over or gone."""
        self._ended.pop(uid, None)

    def _note_end(self, change: Change) -> None:
        """Its time to live may end before anybody has looked at how it ended."""
        if change.type == "deleted" and change.old is not None and is_finished(change.old):
            reference = controller_of(change.old)
            if reference is not None and refers_to(reference, GROUP, MPIJOBS.kind):
                self._ended[reference["uid"]] = change.old

    def controlled(self, owner: Obj) -> list[Obj]:
        """The pods that this very object controls; shared: copy before a change."""
        return self.pods.store.by_index(CONTROLLER_UID_INDEX, uid_of(owner))

    def dead_nodes(self, pods: Iterable[Obj]) -> tuple[set[str], set[str]]:
        """The nodes of deleted pods that do not answer, and those of them that do not exist."""
        return dead_nodes(pods, self.nodes.store.get)

    def launcher_pods(self, job: Obj) -> list[Obj]:
        """The launcher's pods of a job, though its Job may be gone already."""
        launcher = names.launcher_name(job["metadata"]["name"])
        return [
            pod
            for pod in self.pods.store.by_index(JOB_INDEX, key_of(job))
            if (controller_of(pod) or {}).get("name") == launcher
        ]

    def priority_values(self) -> dict[str, int]:
        """The values of PriorityClasses."""
        if self.priorities is None:
            return {}
        classes = self.priorities.store
        return {found["metadata"]["name"]: int(found.get("value") or 0) for found in classes}
