"""What is known of the cluster without asking it: the informers that WasmTasks need."""

from __future__ import annotations

from typing import Final

from corral.families.federated.groups.pools import Pools
from corral.families.federated.tasks import names
from corral.families.federated.tasks.state import attempt_of
from corral.families.federated.tasks.status import is_over
from corral.kube.resources import DEPLOYMENTS, JOBS, PODS, Resource
from corral.kube.types import Obj
from corral.runtime import ConsistencyStore, Manager, is_controlled_by, join_key, key_of

__all__ = ["TASK_INDEX", "WAITING_INDEX", "Caches", "index_by_task", "waits_for"]

TASK_INDEX: Final = "task"
WAITING_INDEX: Final = "waiting"


def index_by_task(obj: Obj) -> tuple[str, ...]:
    """For stores: the task that an object says it is of."""
    metadata = obj["metadata"]
    name = (metadata.get("labels") or {}).get(names.TASK_LABEL)
    return (join_key(metadata["namespace"], name),) if name else ()


def waits_for(task: Obj) -> tuple[str, ...]:
    """For stores: what a task without a proplet waits for."""
    if is_over(task) or (task.get("status") or {}).get("propletId"):
        return ()
    spec = task.get("spec") or {}
    if spec.get("propletId"):
        return (f"proplet/{spec['propletId']}",)
    group = (spec.get("propletGroupRef") or {}).get("name")
    return (f"group/{task['metadata']['namespace']}/{group}",) if group else ("any",)


class Caches:
    """The informers, shared with everybody who asks the manager for the same."""

    def __init__(self, manager: Manager, pools: Pools) -> None:
        self.tasks = pools.tasks
        self.tasks.add_index(WAITING_INDEX, waits_for)
        self.pods = manager.informer(PODS, label_selector=names.TASK_LABEL)
        self.pods.add_index(TASK_INDEX, index_by_task)
        self.workloads = {
            resource: manager.informer(resource, label_selector=names.TASK_LABEL)
            for resource in (JOBS, DEPLOYMENTS)
        }
        self.consistency = ConsistencyStore({PODS: self.pods, **self.workloads})
        """Call ``ensure_ready`` first thing in a reconcile."""

    def workload(self, task: Obj, resource: Resource) -> Obj | None:
        """The Job or Deployment that this very task controls."""
        metadata = task["metadata"]
        key = join_key(metadata["namespace"], names.job_name(metadata["name"]))
        found = self.workloads[resource].store.get(key)
        if found is None or not is_controlled_by(found, task):
            return None
        return resource.stamp(found)

    def pods_of(self, task: Obj, workload: Obj) -> list[Obj]:
        """The pods of a workload's own attempt."""
        attempt = attempt_of(workload)
        found = self.pods.store.by_index(TASK_INDEX, key_of(task))
        return [pod for pod in found if attempt_of(pod) == attempt]

    def waiting(self, *values: str) -> list[str]:
        """The keys of tasks that wait for one of these."""
        store = self.tasks.store
        return [key for value in values for key in store.keys_by_index(WAITING_INDEX, value)]
