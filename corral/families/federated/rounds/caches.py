"""What is known of the cluster without asking it: the informers that rounds need."""

from __future__ import annotations

from corral.api.propeller.kinds import FEDERATEDJOBS, TRAININGROUNDS, WASMTASKS
from corral.api.propeller.rules import round_name
from corral.families.federated.view import RoundView
from corral.kube.types import Obj
from corral.runtime import (
    CONTROLLER_UID_INDEX,
    ConsistencyStore,
    Manager,
    index_by_controller_uid,
    join_key,
    uid_of,
)

__all__ = ["Caches"]


class Caches:
    """The informers, shared with everybody who asks the manager for the same."""

    def __init__(self, manager: Manager) -> None:
        self.rounds = manager.informer(TRAININGROUNDS)
        self.jobs = manager.informer(FEDERATEDJOBS)
        self.tasks = manager.informer(WASMTASKS)
        self.tasks.add_index(CONTROLLER_UID_INDEX, index_by_controller_uid)
        self.written = ConsistencyStore({TRAININGROUNDS: self.rounds, WASMTASKS: self.tasks})
        """Call ``ensure_ready`` first thing in a reconcile."""

    def job_of(self, round_: Obj) -> Obj | None:
        """The job that a round names, where there is one."""
        name = (round_["spec"].get("federatedJobRef") or {}).get("name")
        if not name:
            return None
        return self.jobs.store.get(join_key(round_["metadata"]["namespace"], name))

    def tasks_of(self, round_: Obj) -> list[Obj]:
        """The tasks that this very round made."""
        found = self.tasks.store.by_index(CONTROLLER_UID_INDEX, uid_of(round_))
        return sorted(found, key=lambda task: str(task["metadata"]["name"]))

    def tasks_named(self, round_: Obj, status: Obj) -> dict[str, Obj]:
        """Those that the status names: its own, and late ones of earlier rounds."""
        namespace = round_["metadata"]["namespace"]
        names = [
            (entry.get("taskRef") or {}).get("name") for entry in status.get("participants") or ()
        ]
        found = {name: self.tasks.store.get(join_key(namespace, name)) for name in names if name}
        return {name: task for name, task in found.items() if task is not None}

    def before(self, view: RoundView) -> Obj | None:
        """The round before this one."""
        if view.number < 2:
            return None
        name = round_name(view.job, view.number - 1)
        return self.rounds.store.get(join_key(view.namespace, name))
