"""Beginning a round: which model it starts from, and a task for every participant.

Everything here may be done again: tasks have fixed names, and what a round starts from is decided
by one write of its status, together with its tasks.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

from corral.api.propeller.kinds import WASMTASKS
from corral.api.propeller.rules import task_name
from corral.families.federated.aggregation import Aggregator
from corral.families.federated.models import Places
from corral.families.federated.rounds.caches import Caches
from corral.families.federated.rounds.state import fill, is_open
from corral.families.federated.rounds.tasks import global_update, task_of
from corral.families.federated.view import RoundView, phase_of, status_of
from corral.kube import errors
from corral.kube.client import KubeClient
from corral.kube.resources import NAMESPACES
from corral.kube.types import Obj
from corral.oci import InvalidReference, Reference
from corral.runtime import ChildWriter, is_being_deleted, is_controlled_by, join_key, uid_of
from corral.runtime.family.batches import in_batches

__all__ = ["Starter", "StillThere"]

CONCURRENCY = 32


class StillThere(Exception):
    """The task of an earlier round of the same name has not gone yet."""


@dataclass(frozen=True, slots=True)
class Starter:
    """For all rounds of one operator."""

    client: KubeClient
    caches: Caches
    writer: ChildWriter
    aggregator: Aggregator
    places: Places

    async def base(self, round_: Obj, view: RoundView) -> str:
        """The model that a round starts from, fixed by its digest; empty where none is known.

        Only registries that the operator knows are asked: others are the participants' affair.

        Raises:
            RegistryError: the registry does not answer.
        """
        known = status_of(round_).get("baseModelRef")
        if known is not None:
            return str(known)
        try:
            reference = Reference.parse(view.model_ref)
            if not self._may_be_asked(reference, view):
                return ""
        except InvalidReference:
            return ""
        if await self._is_of_others(reference, view):
            return ""
        return await self.aggregator.resolve(view)

    def _may_be_asked(self, reference: Reference, view: RoundView) -> bool:
        if self.places.knows(reference.registry):
            return True
        own = view.repository
        return bool(own) and Reference.parse(f"{own}/any").registry == reference.registry

    async def _is_of_others(self, reference: Reference, view: RoundView) -> bool:
        """Whether it is another namespace's: the operator may read there, the job may not."""
        first = self.places.within(reference).partition("/")[0]
        if first == view.namespace or not self.places.knows(reference.registry):
            return False
        try:
            await self.client.get(NAMESPACES, first)
        except errors.NotFound:
            return False
        return True

    async def tasks(self, round_: Obj, view: RoundView, status: Obj) -> Obj:
        """The status with a task for every participant who may still send an update."""
        new = deepcopy(status)
        if view.parallel:
            self._take_late(view, new)
        missing = [
            entry
            for entry in new["participants"]
            if is_open(entry) and not (entry.get("taskRef") or {}).get("uid")
        ]
        update = global_update(round_) if view.number > 1 else {}
        await in_batches(
            lambda entry: self._task(round_, view, new, entry=entry, update=update),
            missing,
            limit=CONCURRENCY,
        )
        return new

    def _take_late(self, view: RoundView, status: Obj) -> None:
        """Who is still at work for an earlier round sends that update, and gets no new task."""
        before = self.caches.before(view)
        if before is None:
            return
        known = {entry["propletId"]: entry for entry in status_of(before).get("participants") or ()}
        for entry in status["participants"]:
            old = known.get(entry["propletId"])
            if old is None or (entry.get("taskRef") or {}).get("uid"):
                continue
            if old.get("selected") or old.get("rejected") or old.get("status") == "Failed":
                continue
            task = self._late_task(view, old)
            if task is not None:
                late = int(old.get("roundsLate") or 0) + 1
                fill(status, entry["propletId"], task, rounds_late=late)

    def _late_task(self, view: RoundView, old: Obj) -> Obj | None:
        reference = old.get("taskRef") or {}
        task = self.caches.tasks.store.get(join_key(view.namespace, reference.get("name") or ""))
        if task is None or uid_of(task) != reference.get("uid") or is_being_deleted(task):
            return None
        return task if phase_of(task) != "Failed" else None

    async def _task(
        self, round_: Obj, view: RoundView, status: Obj, *, entry: Obj, update: Obj
    ) -> None:
        participant = entry["propletId"]
        try:
            task = await self._there(round_, view, participant, update)
        except (errors.Invalid, errors.BadRequest) as error:
            entry |= {"status": "Failed", "message": f"its task cannot be made: {error}"[:512]}
            return
        if task is None:
            name = task_name(view.name, participant)
            told = f"WasmTask {name} exists already and is not of this round: remove it"
            entry |= {"status": "Failed", "message": told}
            return
        fill(status, participant, WASMTASKS.stamp(task))

    async def _there(
        self, round_: Obj, view: RoundView, participant: str, update: Obj
    ) -> Obj | None:
        """The task, made if there is none; nothing where somebody else's has its name."""
        name = task_name(view.name, participant)
        found = self.caches.tasks.store.get(join_key(view.namespace, name))
        if found is None:
            try:
                made = task_of(view, participant, update)
                return await self.writer.create(round_, WASMTASKS, made)
            except errors.AlreadyExists:
                found = await self.client.get(WASMTASKS, name, namespace=view.namespace)
        if is_being_deleted(found):
            raise StillThere(f"WasmTask {name} of an earlier run has not gone yet")
        return found if is_controlled_by(found, round_) else None
