"""A whole FederatedJob, simulated."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

from corral.api.propeller.kinds import FederatedJob
from corral.families.federated.jobs import budget, state
from corral.families.federated.jobs.rounds import round_of, total_of
from corral.families.federated.simulator.arrivals import Arrivals
from corral.families.federated.simulator.models import Kept, Models
from corral.families.federated.simulator.rounds import Clients, RoundSimulation
from corral.families.federated.view import Privacy, phase_of, status_of
from corral.kube.types import Obj
from corral.runtime import find_condition

__all__ = ["CannotSimulate", "Setting", "Simulation", "with_clients"]


class CannotSimulate(Exception):
    """The manifest or the setting cannot be used; the message says what to change."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Where a simulation finds and leaves things, and how its clients behave."""

    out: Path
    """A folder for the models: ``round-<n>.<format>``."""
    data: Path | None = None
    """A folder with one folder of data for each client, by its name."""
    shared: tuple[str, ...] = ()
    """The folders that clients without one of their own take turns with; all if empty."""
    model: Path | None = None
    """What the first round starts from; in the aggregator's format."""
    arrivals: Arrivals = field(default_factory=Arrivals)


def with_clients(job: Obj, count: int) -> Obj:
    """The job with so many virtual participants; as large a share of them makes a round."""
    spec = job.get("spec") or {}
    before = len(spec.get("participants") or ()) or 1
    needed = -(-int(spec.get("kOfN") or 0) * count // before)
    width = len(str(count))
    names = [{"propletId": f"client-{number:0{width}}"} for number in range(1, count + 1)]
    changed = deepcopy(job)
    changed["spec"] = {**changed["spec"], "participants": names, "kOfN": needed}
    return changed


class Simulation:
    """One job; `rounds` runs it, afterwards `job` has its status."""

    def __init__(self, manifest: Obj, setting: Setting) -> None:
        """Raises `CannotSimulate` for a manifest that the API server would not take."""
        job = deepcopy(manifest)
        job.setdefault("metadata", {}).setdefault("namespace", "default")
        problems = FederatedJob.validate(job) if job.get("kind") == "FederatedJob" else None
        if problems is None:
            raise CannotSimulate(f"it is a {job.get('kind')}, not a FederatedJob")
        if problems:
            raise CannotSimulate("; ".join(map(str, problems)))
        FederatedJob.default(job)
        self.job = job
        self._setting = setting
        self._privacy = Privacy.read(job["spec"]["aggregator"])
        self.rounds_done: RoundSimulation | None = None

    async def rounds(self, clients: Clients) -> AsyncIterator[Obj]:
        """The rounds, each when it is over; the job's status goes with them."""
        status: Obj = {"phase": "Pending", "currentRound": 0, "completedRounds": 0}
        self.job["status"] = status
        state.follow(self.job, status, None)
        played = self._played(clients)
        self.rounds_done = played
        before: Obj | None = None
        for number in range(1, total_of(self.job) + 1):
            if await self._stops(status, number, played.clock):
                return
            status |= {"phase": "Running", "currentRound": number}
            round_ = await played.run(round_of(self.job, number, before=before), self.job)
            if phase_of(round_) == "Failed":
                state.follow(self.job, status, round_)
                self._end(status, "Failed", "RoundFailed", _why(round_), played.clock)
                yield round_
                return
            spent = await budget.spent(self._privacy, number) if self._privacy else None
            state.record(self.job, status, round_, number, epsilon=spent)
            before = round_
            if number == total_of(self.job):
                said = "All rounds completed"
                self._end(status, "Completed", "Completed", said, played.clock)
            yield round_

    def _played(self, clients: Clients) -> RoundSimulation:
        setting = self._setting
        setting.out.mkdir(parents=True, exist_ok=True)
        seed = hashlib.sha256(f"corral-simulation/{setting.arrivals.seed}".encode()).digest()
        models = Models(setting.out, first=self._first(), seed=seed)
        return RoundSimulation(clients, models, setting.arrivals, setting.out, self._environment())

    def _first(self) -> Kept | None:
        path = self._setting.model
        if path is None:
            return None
        if not path.is_file():
            raise CannotSimulate(f"there is no model {path}")
        config = self.job["spec"]["aggregator"].get("config") or {}
        form = config.get("format") or path.suffix.removeprefix(".") or "json-f64"
        return Kept(f"file://{path.resolve()}", path.resolve(), form)

    def _environment(self) -> dict[str, dict[str, str]]:
        """Where each client's data is: its own folder, or the next one of those there are."""
        data = self._setting.data
        if data is None:
            return {}
        names = [each["propletId"] for each in self.job["spec"]["participants"]]
        if not data.is_dir():
            raise CannotSimulate(f"there is no folder {data}")
        folders = sorted(path for path in data.resolve().iterdir() if path.is_dir())
        if not folders:
            raise CannotSimulate(f"{data} has no folders: one is needed for a client's data")
        own = {path.name: path for path in folders}
        others = [own[name] for name in self._setting.shared if name in own] or folders
        return {
            name: {"DATA_DIR": str(own.get(name, others[index % len(others)]))}
            for index, name in enumerate(names)
        }

    async def _stops(self, status: Obj, number: int, now: float) -> bool:
        """Whether there is no further round, and says why."""
        why = state.problem(self.job)
        if why:
            self._end(status, "Failed", "InvalidSpec", why, now)
            return True
        why = await budget.exhausted(self._privacy, number) if self._privacy else ""
        if why:
            said = f"stopped after {number - 1} of {total_of(self.job)} rounds: {why}"
            phase = "Completed" if number > 1 else "Failed"
            self._end(status, phase, "PrivacyBudgetExhausted", said, now)
        return bool(why)

    def _end(self, status: Obj, phase: str, reason: str, message: str, now: float) -> None:
        state.end(status, phase=phase, reason=reason, message=message, now=now)


def _why(round_: Obj) -> str:
    ready = find_condition(status_of(round_).get("conditions"), "Ready") or {}
    name = round_["metadata"]["name"]
    return f"Training round failed: {name}: {ready.get('reason', '')}: {ready.get('message', '')}"
