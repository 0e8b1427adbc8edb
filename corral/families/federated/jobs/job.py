"""One FederatedJob: which round is on, and what follows from how it ended."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

from corral.api.propeller.kinds import TRAININGROUNDS, WASMTASKS
from corral.api.propeller.rules import round_name
from corral.families.federated.jobs import budget, state
from corral.families.federated.jobs.rounds import round_of, total_of
from corral.families.federated.rounds.conclusion import condition
from corral.families.federated.view import JOB_LABEL, Privacy, is_over, phase_of, status_of
from corral.kube import errors
from corral.kube.client import KubeClient
from corral.kube.types import Obj
from corral.runtime import (
    ChildWriter,
    EventRecorder,
    Informer,
    find_condition,
    is_being_deleted,
    is_controlled_by,
    join_key,
)
from corral.runtime.family.statuses import StatusController
from corral.runtime.keys import format_time

__all__ = ["JobController", "StillThere"]


class StillThere(Exception):
    """The round of an earlier job of the same name has not gone yet."""


@dataclass(frozen=True, slots=True)
class JobController:
    """For all jobs of one operator."""

    client: KubeClient
    rounds: Informer
    tasks: Informer
    writer: ChildWriter
    statuses: StatusController
    recorder: EventRecorder
    wall: Callable[[], float]

    async def sync(self, job: Obj) -> None:
        """Take a job as far as it goes."""
        if phase_of(job) == "":
            status = {"phase": "Pending", "currentRound": 0, "completedRounds": 0}
            job = await self._write(job, status)
        if is_over(job):
            await self._cancel_late(job)
            return
        if phase_of(job) == "Pending":
            await self._begin(job)
        else:
            await self._go_on(job)

    # --- beginning -------------------------------------------------------------------------------

    async def _begin(self, job: Obj) -> None:
        status = deepcopy(status_of(job))
        state.follow(job, status, None)
        await self._next(job, status, 1, before=None)

    async def _next(self, job: Obj, status: Obj, number: int, *, before: Obj | None) -> None:
        """Begin a round, unless something is against it."""
        now = self.wall()
        if job["spec"].get("suspend"):
            await self._suspend(job, status)
            return
        why = state.problem(job)
        if why:
            await self._end(job, status, phase="Failed", reason="InvalidSpec", message=why)
            return
        privacy = Privacy.read(job["spec"]["aggregator"])
        if privacy is not None:
            why = await budget.exhausted(privacy, number)
            if why:
                await self._spent(job, status, number, why)
                return
        round_ = await self._round(job, number, before)
        if round_ is None:
            name = round_name(job["metadata"]["name"], number)
            told = f"TrainingRound {name} exists already and is not of this job: remove it"
            await self._end(job, status, phase="Failed", reason="NameTaken", message=told)
            return
        started = status.get("phase") != "Running"
        status |= {"phase": "Running", "currentRound": number}
        status.setdefault("startTime", format_time(now))
        state.set_suspended(status, suspended=False, now=now)
        condition(
            status, state.READY, holds=True, reason="Running", message="Job is running", now=now
        )
        state.follow(job, status, round_)
        job = await self._write(job, status)
        if started:
            self.recorder.normal(job, "Started", f"begins with {total_of(job)} rounds to do")

    async def _round(self, job: Obj, number: int, before: Obj | None) -> Obj | None:
        """The round of this number, made if there is none; nothing where it is somebody else's."""
        wanted = round_of(job, number, before=before)
        metadata = wanted["metadata"]
        found = self.rounds.store.get(join_key(metadata["namespace"], metadata["name"]))
        if found is None:
            try:
                return await self.writer.create(job, TRAININGROUNDS, wanted)
            except errors.AlreadyExists:
                found = await self.client.get(
                    TRAININGROUNDS, metadata["name"], namespace=metadata["namespace"]
                )
        if is_being_deleted(found):
            raise StillThere(f"TrainingRound {metadata['name']} has not gone yet")
        return found if is_controlled_by(found, job) else None

    # --- going on --------------------------------------------------------------------------------

    async def _go_on(self, job: Obj) -> None:
        status = deepcopy(status_of(job))
        number = int(status.get("currentRound") or 1)
        round_ = self._known(job, number)
        if round_ is None:
            await self._next(job, status, number, before=self._known(job, number - 1))
            return
        match phase_of(round_):
            case "Completed":
                await self._completed(job, status, round_, number)
            case "Failed":
                state.follow(job, status, round_)
                ready = find_condition(status_of(round_).get("conditions"), "Ready") or {}
                why = f"{round_['metadata']['name']}: {ready.get('reason')}: {ready.get('message')}"
                said = "Training round failed"
                await self._end(
                    job, status, phase="Failed", reason="RoundFailed", message=said, detail=why
                )
            case _:
                state.follow(job, status, round_)
                state.set_suspended(
                    status, suspended=bool(job["spec"].get("suspend")), now=self.wall()
                )
                await self._write(job, status)

    async def _completed(self, job: Obj, status: Obj, round_: Obj, number: int) -> None:
        privacy = Privacy.read(round_["spec"].get("aggregator") or {})
        epsilon = await budget.spent(privacy, number) if privacy is not None else None
        state.record(job, status, round_, number, epsilon=epsilon)
        if privacy is not None and epsilon is not None:
            status["privacy"] = {"epsilon": epsilon, "delta": privacy.delta, "rounds": number}
            if privacy.epsilon is not None:
                status["privacy"]["budget"] = privacy.epsilon
        if number >= total_of(job):
            said = "All rounds completed"
            await self._end(job, status, phase="Completed", reason="Completed", message=said)
        else:
            await self._next(job, status, number + 1, before=round_)

    def _known(self, job: Obj, number: int) -> Obj | None:
        """The job's own round of this number."""
        metadata = job["metadata"]
        key = join_key(metadata["namespace"], round_name(metadata["name"], number))
        found = self.rounds.store.get(key)
        return found if found is not None and is_controlled_by(found, job) else None

    # --- ending ----------------------------------------------------------------------------------

    async def _suspend(self, job: Obj, status: Obj) -> None:
        news = state.set_suspended(status, suspended=True, now=self.wall())
        written = await self._write(job, status)
        if news:
            self.recorder.normal(written, "Suspended", "no further round begins")

    async def _spent(self, job: Obj, status: Obj, number: int, why: str) -> None:
        """The budget is spent: what there is, is the result."""
        said = f"stopped after {number - 1} of {total_of(job)} rounds: {why}"
        phase = "Completed" if number > 1 else "Failed"
        await self._end(job, status, phase=phase, reason="PrivacyBudgetExhausted", message=said)

    async def _end(
        self, job: Obj, status: Obj, *, phase: str, reason: str, message: str, detail: str = ""
    ) -> None:
        state.end(
            status, phase=phase, reason=reason, message=message, now=self.wall(), detail=detail
        )
        written = await self._write(job, status)
        kind = self.recorder.normal if phase == "Completed" else self.recorder.warning
        kind(written, reason, f"{message}: {detail}" if detail else message)
        await self._cancel_late(written)

    async def _cancel_late(self, job: Obj) -> None:
        """End the tasks that no round waits for any more: there is no later round."""
        if (job["spec"].get("rounds") or {}).get("strategy") != "parallel":
            return
        metadata = job["metadata"]
        for task in self.tasks.store.objects(metadata["namespace"]):
            if (task["metadata"].get("labels") or {}).get(JOB_LABEL) != metadata["name"]:
                continue
            if not is_over(task) and not is_being_deleted(task) and self._is_of(task, job):
                await self.writer.delete(WASMTASKS, task)

    def _is_of(self, task: Obj, job: Obj) -> bool:
        return any(
            is_controlled_by(task, round_)
            for round_ in self.rounds.store.objects(job["metadata"]["namespace"])
            if is_controlled_by(round_, job)
        )

    async def _write(self, job: Obj, status: Obj) -> Obj:
        status["observedGeneration"] = job["metadata"].get("generation", 0)
        return await self.statuses.write(job, status)
