"""Ending a round: the chosen updates become a model, and what was used for it is removed.

The order makes it safe to be killed anywhere: the model is in the registry before anything names
it, the next round's envelope is written before the round is Completed, and updates are deleted only
when it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import orjson

from corral.api.propeller.kinds import (
    AGGREGATED_ANNOTATION,
    COLLECTED_ANNOTATION,
    MODELCHECKPOINTS,
    TRAININGROUNDS,
    WASMTASKS,
)
from corral.families.federated.aggregation import Aggregator, Contribution, Made, Outcome, Plan
from corral.families.federated.envelopes import (
    ANNOTATION_LIMIT,
    Envelope,
    Rejected,
    collected_annotation,
    find_envelope,
)
from corral.families.federated.learning import LearningSettings
from corral.families.federated.rounds.caches import Caches
from corral.families.federated.rounds.conclusion import aggregated, checkpoint
from corral.families.federated.rounds.starting import StillThere
from corral.families.federated.rounds.state import (
    Rejection,
    envelope_of,
    least,
    received,
    selected,
)
from corral.families.federated.seeds import noise_seed
from corral.families.federated.view import RoundView, is_over, status_of
from corral.kube import errors
from corral.kube.client import KubeClient
from corral.kube.types import Obj
from corral.runtime import ChildWriter, controller_of, is_being_deleted, is_controlled_by
from corral.runtime.owners import set_controller

__all__ = ["Closer", "Collected"]


class Collected(NamedTuple):
    """The chosen updates as far as they can still be read."""

    contributions: list[Contribution]
    lost: list[Rejection]


@dataclass(frozen=True, slots=True)
class Closer:
    """For all rounds of one operator."""

    client: KubeClient
    caches: Caches
    writer: ChildWriter
    aggregator: Aggregator
    settings: LearningSettings

    # --- the updates -----------------------------------------------------------------------------

    async def keep(self, round_: Obj, view: RoundView, status: Obj) -> Obj:
        """Copy the envelopes that count into the round; the round as it is afterwards."""
        tasks = self.caches.tasks_named(round_, status)
        found = []
        for entry in received(status):
            task = tasks.get((entry.get("taskRef") or {}).get("name", ""))
            envelope = find_envelope(status_of(task).get("results")) if task is not None else None
            if envelope is not None:
                found.append({**envelope, "proplet_id": entry["propletId"]})
        notes = round_["metadata"].get("annotations") or {}
        # The global model of this round may be inline there; its own will be as large.
        room = ANNOTATION_LIMIT - max(len(notes.get(AGGREGATED_ANNOTATION) or ""), 4096)
        text = collected_annotation(found, room=room)
        if notes.get(COLLECTED_ANNOTATION) == text:
            return round_
        return await self._annotate(round_, {COLLECTED_ANNOTATION: text})

    def collect(self, round_: Obj, view: RoundView, status: Obj) -> Collected:
        """The envelopes of the chosen updates: of the tasks, or as the round has kept them."""
        tasks = self.caches.tasks_named(round_, status)
        kept = _kept(round_)
        out = Collected([], [])
        for entry in selected(status):
            name = entry["propletId"]
            task = tasks.get((entry.get("taskRef") or {}).get("name", ""))
            try:
                envelope = self._envelope(view, entry, task, kept.get(name))
            except Rejected as error:
                out.lost.append(Rejection(name, str(error)))
                continue
            out.contributions.append(Contribution(envelope, int(entry.get("roundsLate") or 0)))
        return out

    @staticmethod
    def _envelope(view: RoundView, entry: Obj, task: Obj | None, kept: Obj | None) -> Envelope:
        same = task is not None and task["metadata"].get("uid") == entry["taskRef"].get("uid")
        if not same and kept is None:
            raise Rejected("its task is gone, and its update with it")
        source = task if same and task is not None else {"status": {"results": kept}}
        envelope = envelope_of(view, entry, source)
        if envelope.digest != entry.get("updateDigest") or envelope.samples != entry["samples"]:
            raise Rejected("its results were changed after they had been counted")
        return envelope

    # --- the model -------------------------------------------------------------------------------

    async def aggregate(
        self, round_: Obj, view: RoundView, status: Obj, *, found: Collected, job: Obj | None
    ) -> Outcome:
        """The model of the chosen updates; see `Aggregator.aggregate` for what it raises."""
        seed = b""
        if view.privacy is not None:
            seed = await noise_seed(
                self.client,
                job if job is not None else round_,
                view.job,
                view.privacy,
                field_manager=self.settings.field_manager,
            )
        chosen = len(selected(status))
        needed = least(view, chosen)
        if len(found.contributions) < needed:
            return Outcome((), None)
        plan = Plan(
            view,
            found.contributions,
            base=str(status.get("baseModelRef") or ""),
            needed=needed,
            seed=seed,
        )
        return await self.aggregator.aggregate(plan)

    async def publish(self, round_: Obj, view: RoundView, made: Made, job: Obj | None) -> Obj:
        """Record the model, and leave its envelope for the next round; the round afterwards."""
        await self._record(round_, view, made, job)
        text = aggregated(view, made).annotation()
        notes = round_["metadata"].get("annotations") or {}
        if notes.get(AGGREGATED_ANNOTATION) == text:
            return round_
        changes = {AGGREGATED_ANNOTATION: text}
        collected = notes.get(COLLECTED_ANNOTATION) or ""
        if len(text) + len(collected) > ANNOTATION_LIMIT:
            room = max(ANNOTATION_LIMIT - len(text), 2)
            changes[COLLECTED_ANNOTATION] = collected_annotation(orjson.loads(collected), room=room)
        return await self._annotate(round_, changes)

    async def _record(self, round_: Obj, view: RoundView, made: Made, job: Obj | None) -> None:
        owner = job if job is not None else round_
        wanted = checkpoint(view, made)
        set_controller(wanted, owner)
        manager = self.settings.field_manager
        try:
            await self.client.create(MODELCHECKPOINTS, wanted, field_manager=manager)
        except errors.AlreadyExists:
            name = wanted["metadata"]["name"]
            found = await self.client.get(MODELCHECKPOINTS, name, namespace=view.namespace)
            if is_being_deleted(found):
                raise StillThere(f"ModelCheckpoint {name} has not gone yet") from None
            if is_controlled_by(found, owner) or controller_of(found) is None:
                patch = {"spec": wanted["spec"]}
                await self.client.patch(
                    MODELCHECKPOINTS,
                    name,
                    namespace=view.namespace,
                    patch=patch,
                    field_manager=manager,
                )
            else:
                raise StillThere(f"ModelCheckpoint {name} is of an earlier job") from None

    async def _annotate(self, round_: Obj, notes: dict[str, str]) -> Obj:
        metadata = round_["metadata"]
        guard = {"resourceVersion": metadata["resourceVersion"], "annotations": notes}
        written = await self.client.patch(
            TRAININGROUNDS,
            metadata["name"],
            namespace=metadata["namespace"],
            patch={"metadata": guard},
            field_manager=self.settings.field_manager,
        )
        return TRAININGROUNDS.stamp(written)

    # --- what is left over -----------------------------------------------------------------------

    async def cancel(self, round_: Obj, view: RoundView) -> None:
        """End the tasks that nobody waits for any more."""
        for task in self.caches.tasks_of(round_):
            if not is_over(task) and not is_being_deleted(task):
                await self.writer.delete(WASMTASKS, task)

    async def discard(self, round_: Obj, view: RoundView) -> None:
        """Delete the updates in the registry that are used up; raises `RegistryError`."""
        status = status_of(round_)
        used = {str(entry["updateRef"]) for entry in selected(status) if entry.get("updateRef")}
        if not view.parallel or status.get("phase") == "Failed":
            for task in self.caches.tasks_of(round_):
                envelope = find_envelope(status_of(task).get("results")) or {}
                reference = envelope.get("update_ref")
                if isinstance(reference, str) and reference:
                    used.add(reference)
        if used:
            await self.aggregator.discard(view, sorted(used))


def _kept(round_: Obj) -> dict[str, Obj]:
    text = (round_["metadata"].get("annotations") or {}).get(COLLECTED_ANNOTATION)
    if not text:
        return {}
    found = orjson.loads(text)
    return {str(each.get("proplet_id")): each for each in found if isinstance(each, dict)}
