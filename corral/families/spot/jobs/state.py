"""One look at a spot job: what it has come to, and what is wished next. No I/O, no clock.

The result is a status. It is written first; what must be done in the cluster follows from it alone
(`jobs_actions`), so that a controller that is killed between any two writes goes on where it was.
A machine is wished by a placement without an end; one with a reason to end but no end yet is left
as soon as its copy has saved and gone.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from corral.api.spot.kinds import JOB_LABEL
from corral.api.spot.status import FAILED, LOST, RUNNING, SUCCEEDED
from corral.families.spot.jobs import replica_states as copies
from corral.families.spot.jobs.changes import News
from corral.families.spot.jobs.conditions import describe
from corral.families.spot.jobs.costs import charge, note_loss, note_start
from corral.families.spot.jobs.observation import Look, is_over, wished
from corral.families.spot.jobs.reports import note_reports
from corral.families.spot.jobs.view import condition_time
from corral.families.spot.names import copy_name, vm_name
from corral.families.spot.placement.choice import offer_of, save_seconds
from corral.kube.types import Obj
from corral.runtime.pods.states import moment
from corral.spot import Action, Decision, NoOffers

__all__ = ["Outcome", "Step"]

PENDING: Final = "Pending"
RESTARTING: Final = "Restarting"
SUSPENDED: Final = "Suspended"
MOVED: Final = "Moved"
PAUSED: Final = "Paused"
SCALED: Final = "Scaled"
FINISHED: Final = "Finished"
DELETED: Final = "Deleted"
_DEFAULT_BACKOFF: Final = 6


@dataclass(slots=True)
class Outcome:
    """What a look has led to."""

    status: Obj
    review_at: float
    """When to look again, if nothing happens before."""
    news: list[News] = field(default_factory=list)
    reviews: dict[int, float] = field(default_factory=dict)
    """By copy: when its machine is to be thought about again."""


class Step(Look):
    """One look."""

    # --- the look --------------------------------------------------------------------------------

    def run(self) -> Outcome:
        status = self.status
        status.setdefault("startTime", self.time)
        status["observedGeneration"] = self.world.job["metadata"].get("generation")
        status["selector"] = f"{JOB_LABEL}={self.world.job['metadata']['name']}"
        note_reports(status, self.world)
        if not is_over(self.world.job):
            self._read_copies()
            if not self.world.external:
                self._read_machines()
            if not self._judge():
                self._go_on()
                self._note_stuck()
        self._settle()
        return self._outcome()

    def delete(self) -> Outcome:
        """The job is being deleted: no machine is wanted."""
        for placement in wished(self.status):
            self._end(placement, DELETED)
        return self._outcome()

    def fail(self, why: str) -> Outcome:
        """The job cannot be run at all."""
        self._finish(FAILED, why)
        return self._outcome()

    def _outcome(self) -> Outcome:
        status = self.status
        status["jobStatuses"] = [self.copies[r] for r in sorted(self.copies)]
        running = [e for e in self.copies.values() if e.get("phase") == copies.RUNNING]
        status["activeReplicas"] = len(running)
        if not is_over({"status": status}):
            status["phase"] = self._phase(bool(running))
        charge(
            status,
            now=self.now,
            replicas=self.world.spec.replicas,
            on_demand=lambda p: self.market.on_demand_price(
                str(p.get("machineType")), str(p.get("cloud"))
            ),
        )
        if any(p.get("readyTime") and p.get("pricePerHour") for p in wished(status)):
            self._look_at(self.now + self.settings.cost_period)
        describe(status, self.waits, now=self.time, generation=status.get("observedGeneration"))
        self._forget()
        return Outcome(status, self.review_at, self.news, self.reviews)

    def _phase(self, running: bool) -> str:
        if self.world.spec.suspend and not any(map(copies.is_live, self.copies.values())):
            return SUSPENDED
        if running:
            return RUNNING
        ran = (self.world.job.get("status") or {}).get("phase") in (RUNNING, RESTARTING)
        return RESTARTING if ran else PENDING

    def _forget(self) -> None:
        """Machines that have ended long ago; their costs are in the sums."""
        ended = [p for p in self.placements if p.get("endTime")]
        dropped = [id(p) for p in ended[: max(len(ended) - self.settings.kept_placements, 0)]]
        self.status["placements"] = [p for p in self.placements if id(p) not in dropped]

    # --- whether it is over ----------------------------------------------------------------------

    def _judge(self) -> bool:
        done = next((e for e in self.copies.values() if e["phase"] == copies.SUCCEEDED), None)
        if done is not None:
            return self._finish(SUCCEEDED, f"copy {done.get('replica')} is done")
        spec = self.world.job["spec"]["jobTemplate"]["spec"]
        limit = spec.get("backoffLimit")
        failures = int(self.status.get("failures") or 0)
        if failures > (int(limit) if limit is not None else _DEFAULT_BACKOFF):
            failed = [e for e in self.copies.values() if e["phase"] == copies.FAILED]
            why = copies.words_of(failed[-1], self.world) if failed else "copies failed too often"
            return self._finish(FAILED, why)
        longest, start = spec.get("activeDeadlineSeconds"), moment(self.status["startTime"])
        if longest is not None and start is not None:
            end = self._since(start) + int(longest)
            if self.now >= end:
                return self._finish(FAILED, f"it ran for longer than {longest} s")
            self._look_at(end)
        return False

    def _finish(self, phase: str, why: str) -> bool:
        self.status |= {"phase": phase, "message": why, "completionTime": self.time}
        self.status.pop("checkpointRequest", None)
        for entry in self.copies.values():
            if copies.is_live(entry):
                entry["phase"] = copies.STOPPED
        for placement in wished(self.status):
            self._end(placement, FINISHED)
        self._tell("Succeeded" if phase == SUCCEEDED else "JobFailed", why)
        return True

    # --- what is next ----------------------------------------------------------------------------

    def _go_on(self) -> None:
        wanted = 0 if self.world.spec.suspend else self.world.spec.replicas
        for replica in sorted({*range(wanted), *self.copies, *self._placed()}):
            if replica >= wanted:
                self._retire(replica, PAUSED if self.world.spec.suspend else SCALED)
            elif self.world.external:
                self._external(replica)
            else:
                self._replica(replica)
        if not self.world.spec.suspend:
            for replica in [r for r in self.copies if r >= self.world.spec.replicas]:
                if not copies.is_live(self.copies[replica]):
                    del self.copies[replica]

    def _placed(self) -> set[int]:
        return {int(p.get("replica") or 0) for p in wished(self.status)}

    def _retire(self, replica: int, reason: str) -> None:
        for placement in self._wishes(replica):
            placement["endReason"] = reason
        entry = self.copies.get(replica)
        if entry is not None and copies.is_live(entry):
            self._stop(entry)

    def _replica(self, replica: int) -> None:
        entry = self.copies.get(replica)
        wishes = self._wishes(replica)
        if entry is not None and copies.is_live(entry):
            self._while_running(replica, entry, wishes)
            return
        usable = [p for p in wishes if p.get("readyTime") and self._deadline(p) is None]
        for placement in wishes:
            if placement.get("readyTime") and placement not in usable:
                placement["endReason"] = LOST  # it would be taken before it is of any use
        if usable:
            if not self._must_wait(entry):
                self._start(replica, usable[-1])
                for placement in wishes:
                    if placement is not usable[-1] and not placement.get("endReason"):
                        placement["endReason"] = MOVED
        elif not [p for p in wishes if not p.get("readyTime")]:
            self._launch(replica)

    def _must_wait(self, entry: Obj | None) -> bool:
        """Whether a copy that failed by itself is not yet started again."""
        if entry is None or entry.get("phase") != copies.FAILED:
            return False
        job = self.world.jobs.get(str(entry["name"]))
        failed = condition_time(job, "Failed") if job is not None else None
        times = max(int(self.status.get("failures") or 1), 1)
        wait = min(self.settings.retry * 2.0 ** (times - 1), self.settings.retry_cap)
        again = (self._since(failed) if failed is not None else self.now) + wait
        if failed is None or self.now < again:
            self._look_at(again)
            return job is not None
        return False

    def _while_running(self, replica: int, entry: Obj, wishes: list[Obj]) -> None:
        here = copies.machine_of(entry, self.placements)
        others = [p for p in wishes if p is not here]
        if here is None or entry["phase"] == copies.STOPPING:
            if here is not None and here.get("endReason") == LOST and not others:
                self._launch(replica)
            return
        ready = [p for p in others if p.get("readyTime") and self._deadline(p) is None]
        deadline = self._deadline(here)
        if deadline is not None:
            self._flee(replica, entry, here, deadline=deadline, others=others, ready=bool(ready))
        elif ready:
            self._leave(entry, here, MOVED)
        elif not others and entry["phase"] == copies.RUNNING:
            self._review(replica, entry, here)

    def _flee(
        self,
        replica: int,
        entry: Obj,
        here: Obj,
        *,
        deadline: float,
        others: list[Obj],
        ready: bool,
    ) -> None:
        """A notice came: ask for another machine, and save here while there is time."""
        if not others:
            self._launch(replica)
        self._ask_for_checkpoint(replica, here)
        needed = save_seconds(self.world, here, self.settings) + self.settings.notice_margin
        latest = deadline - needed
        if ready or (self._noticed(here) <= latest <= self.now):
            self._leave(entry, here, LOST)
        elif self.now < latest:
            self._look_at(latest)

    def _noticed(self, placement: Obj) -> float:
        machine = self.world.machines.get(placement["instance"])
        noticed = machine.noticed if machine is not None else None
        return noticed if noticed is not None else self.now

    def _ask_for_checkpoint(self, replica: int, here: Obj) -> None:
        """Another copy saves now: what is started next goes on from there."""
        asked = self.status.get("checkpointRequest") or {}
        if asked.get("id") == here["instance"]:
            return
        self._tell("Noticed", f"machine {here['instance']} will be taken", replica, placement=here)
        for other, entry in sorted(self.copies.items()):
            placement = copies.machine_of(entry, self.placements)
            safe = placement is not None and self._deadline(placement) is None
            if other != replica and entry.get("phase") == copies.RUNNING and safe:
                request = {"id": here["instance"], "replica": other, "time": self.time}
                self.status["checkpointRequest"] = request
                return
        self.status["checkpointRequest"] = {"id": here["instance"], "time": self.time}

    def _review(self, replica: int, entry: Obj, here: Obj) -> None:
        due = self.reviews.get(replica, 0.0)
        if self.now < due:
            self._look_at(due)
            return
        decision = self._decide(running=here)
        if decision is None:
            return
        self.reviews[replica] = decision.review_at
        self._look_at(decision.review_at)
        self._note_interval(decision)
        if decision.action is Action.MOVE and decision.offer is not None:
            self._wish(replica, decision)
        elif decision.action is Action.PAUSE:
            self._leave(entry, here, PAUSED)

    def _launch(self, replica: int) -> None:
        decision = self._decide()
        if decision is None:
            return
        if decision.action is Action.LAUNCH:
            decision = self._apart(replica, decision)
            self._wish(replica, decision)
            self._note_interval(decision)
        else:
            self.waits.append(f"copy {replica} waits: {decision.reason}")
            self._look_at(decision.review_at)

    def _apart(self, replica: int, best: Decision) -> Decision:
        """Where no other copy is, if that costs about the same: they are not lost together."""
        others = [p for p in wished(self.status) if int(p.get("replica") or 0) != replica]
        zones = {(str(p.get("cloud")), str(p.get("zone"))) for p in others}
        if not zones or best.offer is None:
            return best
        if (best.offer.place.cloud, best.offer.place.zone) not in zones:
            return best
        found = self._decide(without=zones)
        if found is None or found.action is not Action.LAUNCH or found.offer is None:
            return best
        dear = best.expected_cost * (1 + self.settings.apart)
        same = found.offer.spot is best.offer.spot
        return found if same and found.expected_cost <= dear else best

    def _decide(
        self, running: Obj | None = None, *, without: Collection[tuple[str, str]] = ()
    ) -> Decision | None:
        offer = offer_of(running, self.market) if running is not None else None
        try:
            return self.market.decide(
                self.world,
                self.memory,
                self.settings,
                now=self.now,
                running=offer,
                without=without,
            )
        except NoOffers:
            if without:
                return None
            missing = [name for name in self.world.spec.vm_names if name not in self.world.vms]
            found = f"there is no SpotInstanceVM {', '.join(missing)}"
            self.waits.append(found if missing else "no machine may be used")
            return None

    def _note_interval(self, decision: Decision) -> None:
        if self.world.spec.checkpoint_config.checkpoint_interval == "auto":
            if decision.interval_s is not None:
                self.status["checkpointIntervalSeconds"] = round(decision.interval_s, 1)

    def _external(self, replica: int) -> None:
        """Others make the machines: a copy is started, and an autoscaler finds it a node."""
        entry = self.copies.get(replica)
        if entry is None or not copies.is_live(entry):
            if not self._must_wait(entry):
                self._start(replica, None)
            return
        node = str(entry.get("nodeName") or "")
        if not node or entry["phase"] == copies.STOPPING:
            return
        if not self.world.node_alive(node):
            entry["phase"] = copies.LOST
            self._tell("Lost", f"node {node} is gone", replica)
            self._start(replica, None)
        elif self.world.node_deadline(node) is not None:
            self._stop(entry)

    # --- steps -----------------------------------------------------------------------------------

    def _wish(self, replica: int, decision: Decision) -> None:
        assert decision.offer is not None
        choice = self.market.find(decision.offer)
        if choice is None:
            return
        number = int(self.status.get("machines") or 0) + 1
        self.status["machines"] = number
        instance = vm_name(self.world.job, replica, number)
        placement = choice.as_placement(instance, replica, self.time)
        self.placements.append(placement)
        model = placement["provisioningModel"]
        why = f"{model} machine {instance} in {choice.offer.place}: {decision.reason}"
        self._tell("Wished", why, replica, placement=placement)

    def _start(self, replica: int, placement: Obj | None) -> None:
        attempt = int(self.status.get("attempt") or 0) + 1
        self.status["attempt"] = attempt
        name = copy_name(self.world.job, replica, attempt)
        entry: Obj = {"name": name, "replica": replica, "attempt": attempt}
        if placement is not None:
            entry["nodeName"] = placement["nodeName"]
        self.copies[replica] = {**entry, "phase": copies.STARTING}
        self.reviews.pop(replica, None)
        note_start(self.status)
        self._tell("Started", f"copy {replica} is started as {name}", replica, placement=placement)

    def _leave(self, entry: Obj, here: Obj, reason: str) -> None:
        here["endReason"] = reason
        self._stop(entry)

    def _stop(self, entry: Obj) -> None:
        if entry["phase"] == copies.STARTING and str(entry["name"]) not in self.world.jobs:
            entry["phase"] = copies.STOPPED
        else:
            entry["phase"] = copies.STOPPING

    def _settle(self) -> None:
        """Machines that are being left are given back when their copy has gone."""
        for placement in wished(self.status):
            if not placement.get("endReason"):
                continue
            entry = self.copies.get(int(placement.get("replica") or 0))
            live = entry is not None and copies.is_live(entry)
            if live and entry is not None:
                if copies.machine_of(entry, self.placements) is placement:
                    continue
            reason = str(placement["endReason"])
            self._end(placement, reason)
            if reason == LOST:
                note_loss(self.status, placement, 0.0)
                why = f"machine {placement['instance']} is left before it is taken"
                replica = int(placement.get("replica") or 0)
                self._tell("Lost", why, replica, placement=placement, reason="Preempted")
