"""One round of a simulation, from its beginning to its end."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from corral.api.propeller.kinds import AGGREGATED_ANNOTATION
from corral.families.federated.aggregation import AggregationImpossible, Contribution, Made
from corral.families.federated.rounds import conclusion, state
from corral.families.federated.rounds.state import Step
from corral.families.federated.rounds.tasks import global_update, task_of
from corral.families.federated.simulator.arrivals import Arrivals
from corral.families.federated.simulator.models import Models
from corral.families.federated.view import RoundView, round_view
from corral.kube.types import Obj
from corral.learning.simulation import Answer, Work
from corral.runtime.keys import format_time
from corral.runtime.pods.states import moment

__all__ = ["Clients", "RoundSimulation"]


class Clients(Protocol):
    """Who trains."""

    async def run(self, works: list[Work], *, model: str = "") -> list[Answer]: ...


@dataclass(slots=True)
class _Running:
    """A task that has not ended yet."""

    task: Obj
    ends: float
    number: int
    """Of the round that it was made for."""
    model: str


@dataclass(slots=True)
class RoundSimulation:
    """The rounds of one job; `clock` goes on from one to the next."""

    clients: Clients
    models: Models
    arrivals: Arrivals
    folder: Path
    environment: dict[str, dict[str, str]] = field(default_factory=dict)
    """What each client is told beyond its task: where its data is."""
    clock: float = 0.0
    trained: int = 0
    """How often a client has trained."""
    busy: float = 0.0
    """Seconds that clients took, really and together."""
    _running: dict[str, _Running] = field(default_factory=dict)
    _ended: dict[str, Obj] = field(default_factory=dict)
    """The tasks that have ended in this round, by participant."""
    _made: Made | None = None

    async def run(self, round_: Obj, job: Obj) -> Obj:
        """The round as it is at its end."""
        view = round_view(round_, job)
        status = state.begin(view, self.clock)
        round_ = {**round_, "status": status}
        if view.needed <= 0:
            said = "kOfN must be greater than 0"
            conclusion.fail(view, status, "InvalidSpec", said, now=self.clock)
            return round_
        self._ended, self._made = {}, None
        self._start(round_, view, status)
        with tempfile.TemporaryDirectory(dir=self.folder) as updates:
            while status["phase"] in ("Running", "Aggregating"):
                status = await self._step(view, status, updates)
        if not view.parallel or status["phase"] == "Failed":
            self._running.clear()
        round_["status"] = status
        if status["phase"] == "Completed":
            self._publish(round_, view)
        return round_

    # --- tasks -----------------------------------------------------------------------------------

    def _start(self, round_: Obj, view: RoundView, status: Obj) -> None:
        base = self.models.base
        status |= {"phase": "Running", "baseModelRef": base.reference if base else ""}
        update = global_update(round_) if view.number > 1 else {}
        model = str(base.model) if base is not None else ""
        for participant in view.participants:
            late = self._running.get(participant)
            if late is None:
                task = task_of(view, participant, update)
                task["metadata"]["uid"] = task["metadata"]["name"]
                task["status"] = {"phase": "Running", "startTime": format_time(self.clock)}
                ends = self.clock + self.arrivals.seconds(participant, view.number)
                late = _Running(task, ends, view.number, model)
                self._running[participant] = late
            state.fill(status, participant, late.task, rounds_late=view.number - late.number)

    async def _step(self, view: RoundView, status: Obj, updates: str) -> Obj:
        decision = state.decide(view, status, self.clock)
        match decision.step:
            case Step.WAIT:
                return await self._wait(view, status, updates)
            case Step.EXTEND:
                state.extend(view, status, self.clock)
            case Step.FAIL:
                conclusion.fail(view, status, decision.reason, decision.message, now=self.clock)
            case Step.AGGREGATE:
                state.choose(status, self.clock)
                await self._aggregate(view, status)
        return status

    async def _wait(self, view: RoundView, status: Obj, updates: str) -> Obj:
        """Go on to when enough others have answered, or to the deadline."""
        missing = max(view.needed - len(state.received(status)), 1)
        deadline = moment(status.get("deadline"))
        open_ = [each["propletId"] for each in status["participants"] if state.is_open(each)]
        coming = sorted(open_, key=lambda name: (self._running[name].ends, name))
        if deadline is not None:
            coming = [name for name in coming if self._running[name].ends <= deadline]
        if not coming:
            assert deadline is not None
            self.clock = max(self.clock, deadline)
            return status
        last = self._running[coming[min(missing, len(coming)) - 1]].ends
        now = [name for name in coming if self._running[name].ends <= last]
        self.clock = max(self.clock, last)
        await self._train(now, updates)
        tasks = [*self._ended.values(), *(running.task for running in self._running.values())]
        by_name = {task["metadata"]["name"]: task for task in tasks}
        observed, _ = state.observe(view, status, by_name, self.clock)
        return observed

    async def _train(self, names: Iterable[str], updates: str) -> None:
        """The tasks of these participants come to their end."""
        ended = {name: self._running.pop(name) for name in names}
        answers: dict[str, Answer] = {}
        for model in sorted({running.model for running in ended.values()}):
            works = [
                self._work(name, running, updates)
                for name, running in ended.items()
                if running.model == model and not self.arrivals.fails(name, running.number)
            ]
            for answer in await self.clients.run(works, model=model):
                answers[answer.client] = answer
                self.busy += answer.seconds
            self.trained += len(works)
        for name, running in ended.items():
            status = running.task["status"]
            status["finishTime"] = format_time(running.ends)
            given = answers.get(name)
            if given is None or given.error:
                said = given.error if given is not None else "the simulation lets it fail"
                status |= {"phase": "Failed", "error": said}
            else:
                status |= {"phase": "Completed", "results": given.results}
            self._ended[name] = running.task

    def _work(self, name: str, running: _Running, updates: str) -> Work:
        task = running.task
        env = {**task["spec"]["env"], "TASK_ID": task["metadata"]["name"]}
        return Work(name, {**env, **self.environment.get(name, {})}, keep=updates)

    # --- the model -------------------------------------------------------------------------------

    async def _aggregate(self, view: RoundView, status: Obj) -> None:
        chosen = [
            Contribution(
                state.envelope_of(view, entry, self._ended[entry["propletId"]]),
                int(entry.get("roundsLate") or 0),
            )
            for entry in state.selected(status)
        ]
        needed = state.least(view, len(chosen))
        try:
            outcome = await asyncio.to_thread(self.models.aggregate, view, chosen, needed=needed)
        except AggregationImpossible as error:
            conclusion.fail(view, status, "AggregationFailed", str(error), now=self.clock)
            return
        state.reject(status, outcome.rejections)
        if outcome.made is None:
            state.reopen(status)
            return
        conclusion.complete(view, status, outcome.made, self.clock)
        self._made = outcome.made

    def _publish(self, round_: Obj, view: RoundView) -> None:
        """Leave the envelope of the model for the next round."""
        assert self._made is not None
        text = conclusion.aggregated(view, self._made).annotation()
        round_["metadata"].setdefault("annotations", {})[AGGREGATED_ANNOTATION] = text
