"""What is known of the cluster without asking it: the informers that TrainingJobs need.

Of the objects that jobs have, only those with a job's label are kept, so what others have in the
cluster costs no memory. An object of somebody else can therefore have a name that looks free here;
creation finds out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from corral.api.training.kinds import JOB_LABEL, TRAININGJOBS
from corral.families.trainingjob.names import replica_of
from corral.families.trainingjob.objects.gangs import POD_GROUPS
from corral.kube.resources import (
    NAMESPACES,
    NETWORKPOLICIES,
    NODES,
    PERSISTENTVOLUMECLAIMS,
    PODS,
    SERVICEACCOUNTS,
    SERVICES,
    Resource,
)
from corral.kube.types import Obj
from corral.runtime import (
    CONTROLLER_UID_INDEX,
    ConsistencyStore,
    Informer,
    Manager,
    index_by_controller_uid,
    join_key,
    uid_of,
)

__all__ = ["CHILDREN", "Caches"]

CHILDREN: tuple[Resource, ...] = (
    SERVICES,
    SERVICEACCOUNTS,
    NETWORKPOLICIES,
    PERSISTENTVOLUMECLAIMS,
)
"""What jobs have beside pods and PodGroups; the latter's kind depends on the cluster."""


@dataclass(frozen=True, slots=True)
class _Later:
    """The version of an informer that there may be one day."""

    informers: Mapping[Resource, Informer]
    resource: Resource

    @property
    def version(self) -> str:
        informer = self.informers.get(self.resource)
        return informer.version if informer is not None else ""


class Caches:
    """The informers, shared with everybody who asks the manager for the same."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self.jobs = manager.informer(TRAININGJOBS)
        self.pods = manager.informer(PODS, label_selector=JOB_LABEL)
        self.pods.add_index(CONTROLLER_UID_INDEX, index_by_controller_uid)
        self.namespaces = manager.informer(NAMESPACES)
        self.nodes = manager.informer(NODES)
        self._children = {
            resource: manager.informer(resource, label_selector=JOB_LABEL) for resource in CHILDREN
        }
        groups = {resource: _Later(self._children, resource) for resource in POD_GROUPS}
        self.consistency = ConsistencyStore({PODS: self.pods, **self._children, **groups})
        """Call ``ensure_ready`` first thing in a reconcile."""

    @property
    def children(self) -> dict[Resource, Informer]:
        """The informers of what jobs have beside pods; PodGroups once they were asked for."""
        return dict(self._children)

    def child(self, resource: Resource, namespace: str, name: str) -> Obj | None:
        return self._children[resource].store.get(join_key(namespace, name))

    async def watch(self, resource: Resource) -> None:
        """Keep the objects of jobs of this kind as well; returns when they are known."""
        informer = self._children.get(resource)
        if informer is None:
            informer = self._manager.informer(resource, label_selector=JOB_LABEL)
            self._children[resource] = informer
        await informer.wait_synced()

    def pods_of(self, job: Obj) -> list[Obj]:
        """The pods that this very job controls, by index; shared: copy before a change."""
        found = self.pods.store.by_index(CONTROLLER_UID_INDEX, uid_of(job))
        return sorted(found, key=lambda pod: (replica_of(pod) or 0, pod["metadata"]["name"]))

    def namespace_metadata(self, namespace: str) -> Obj:
        """The metadata of a namespace; nothing in it if the namespace is not known."""
        found = self.namespaces.store.get(namespace)
        return found["metadata"] if found is not None else {}
