"""What has happened to a spot job since it was looked at last: the first half of a look. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Final

from corral.api.spot.status import FAILED, LOST, SUCCEEDED
from corral.families.spot.jobs import replica_states as copies
from corral.families.spot.jobs.changes import News, learn
from corral.families.spot.jobs.costs import note_loss
from corral.families.spot.jobs.view import Machine, World
from corral.families.spot.placement.choice import Market, offer_of
from corral.families.spot.settings import SpotSettings
from corral.kube.types import Obj
from corral.runtime.keys import format_time
from corral.runtime.pods.failures import UNSCHEDULABLE, stuck_reason
from corral.runtime.pods.states import moment
from corral.runtime.sightings import Sightings
from corral.spot import Memory, Offer, PlannerSettings

__all__ = ["REFUSED", "Look", "is_over", "wished"]

REFUSED: Final = "Refused"


def is_over(job: Obj) -> bool:
    return (job.get("status") or {}).get("phase") in (SUCCEEDED, FAILED)


def wished(status: Obj) -> list[Obj]:
    """The machines that are wanted."""
    return [p for p in status.get("placements") or () if not p.get("endTime")]


class Look:
    """The status that becomes of a job, and how copies and machines are read into it."""

    def __init__(
        self,
        world: World,
        memory: Memory,
        *,
        now: float,
        settings: SpotSettings,
        reviews: Mapping[int, float] | None = None,
        sightings: Sightings | None = None,
    ) -> None:
        """What this process knows beside the cluster.

        ``reviews`` says when the machine of a copy is to be thought about again, ``sightings``
        since when times are known that a wrong clock wrote.
        """
        self.world, self.now, self.settings = world, now, settings
        self.memory, self.learnt = memory, False
        self.time = format_time(now)
        self._sightings = sightings or Sightings()
        self.status: Obj = deepcopy(world.job.get("status") or {})
        self.placements: list[Obj] = self.status.setdefault("placements", [])
        entries = self.status.get("jobStatuses") or []
        self.copies: dict[int, Obj] = {int(entry.get("replica") or 0): entry for entry in entries}
        self.market = Market(world)
        # what is later was chosen by a clock that has been set back since
        latest = now + PlannerSettings().review_s
        self.reviews = {r: at for r, at in (reviews or {}).items() if at <= latest}
        self.news: list[News] = []
        self.waits: list[str] = []
        """Why copies have no machine."""
        self.review_at = now + settings.resync

    def _read_copies(self) -> None:
        for replica, entry in self.copies.items():
            before = entry.get("phase")
            if before in copies.ENDED:
                continue
            phase = entry["phase"] = copies.phase_now(entry, self.world, self.placements)
            if phase == copies.RUNNING and self.world.external:
                entry["nodeName"] = self._pod_node(entry)
            if phase == before:
                continue
            if phase == copies.FAILED:
                self.status["failures"] = int(self.status.get("failures") or 0) + 1
                self._tell("Failed", copies.words_of(entry, self.world), replica)
            elif phase == copies.RUNNING:
                self._tell("Running", f"copy {replica} runs as {entry['name']}", replica)
            elif phase == copies.LOST:
                self._tell("CopyLost", f"copy {replica} was lost with its pod", replica)

    def _note_stuck(self) -> None:
        """Copies whose machine is there, and which do not start all the same."""
        for replica, entry in self.copies.items():
            if entry.get("phase") != copies.PENDING:
                continue
            for pod in self.world.live_pods(str(entry["name"])):
                reason, message = stuck_reason(pod)
                if reason and reason != UNSCHEDULABLE:
                    self.waits.append(f"copy {replica} does not start: {reason}: {message}")

    def _pod_node(self, entry: Obj) -> str | None:
        pods = self.world.live_pods(str(entry["name"]))
        found = (pods[-1].get("spec") or {}).get("nodeName") if pods else None
        return str(found) if found else entry.get("nodeName")

    def _read_machines(self) -> None:
        for placement in wished(self.status):
            machine = self.world.machines.get(placement["instance"])
            if machine is None:
                if placement.get("readyTime"):
                    self._gone(placement, Machine(placement["instance"], reason="Lost"))
                continue
            price = machine.price if machine.price is not None else self._price(placement)
            if price is not None:
                placement["pricePerHour"] = price
            if machine.gone:
                self._gone(placement, machine)
            elif machine.joined and machine.node and not placement.get("readyTime"):
                placement |= {"readyTime": self.time, "nodeName": machine.node}
                self._tell("Given", f"machine {machine.name} is a node", placement=placement)

    def _price(self, placement: Obj) -> float | None:
        """What its machine costs, where that was not told when it was asked for."""
        known = placement.get("pricePerHour")
        choice = self.market.find(self.offer(placement))
        if known is not None or choice is None or not choice.priced:
            return known
        return choice.offer.price

    def _gone(self, placement: Obj, machine: Machine) -> None:
        replica = int(placement.get("replica") or 0)
        if machine.refused:
            self._end(placement, REFUSED)
            why = f"{machine.name}: {machine.message or machine.reason}"
            self._tell("Refused", why, replica, placement=placement, reason=machine.reason)
            return
        entry = self.copies.get(replica)
        if entry is not None and copies.is_live(entry):
            if copies.machine_of(entry, self.placements) is placement:
                entry["phase"] = copies.LOST
        leaving = placement.get("endReason") or LOST
        self._end(placement, str(leaving))
        if leaving == LOST:
            note_loss(self.status, placement, self._lost_work(placement))
            why = f"machine {machine.name} was taken"
            self._tell("Lost", why, replica, placement=placement, reason=machine.reason)

    def _lost_work(self, placement: Obj) -> float:
        """Seconds of work that no copy has any more; none where another copy goes on."""
        if any(e.get("phase") == copies.RUNNING for e in self.copies.values()):
            return 0.0
        since = [moment(placement.get("readyTime")), moment(self.status.get("lastCheckpointTime"))]
        known = [each for each in since if each is not None]
        return max(self.now - max(known), 0.0) if known else 0.0

    # --- parts -----------------------------------------------------------------------------------

    def _wishes(self, replica: int) -> list[Obj]:
        """The machines of a copy that are not being left."""
        found = [p for p in wished(self.status) if int(p.get("replica") or 0) == replica]
        return [p for p in found if not p.get("endReason")]

    def offer(self, placement: Obj) -> Offer:
        """The machine of a placement as it is offered now."""
        return offer_of(placement, self.market)

    def _end(self, placement: Obj, reason: str) -> None:
        placement |= {"endTime": self.time, "endReason": reason}
        self._tell("Ended", f"machine {placement['instance']}: {reason}", placement=placement)

    def _deadline(self, placement: Obj) -> float | None:
        machine = self.world.machines.get(placement["instance"])
        return machine.deadline if machine is not None else None

    def _since(self, at: float) -> float:
        """A time that is past, whatever clock wrote it."""
        return self._sightings.since(at, now=self.now)

    def _look_at(self, at: float) -> None:
        self.review_at = min(self.review_at, max(at, self.now + 0.05))

    def _tell(
        self,
        kind: str,
        message: str,
        replica: int | None = None,
        *,
        placement: Obj | None = None,
        reason: str = "",
    ) -> None:
        news = News(kind, message, replica, placement, reason)
        self.news.append(news)
        if kind in ("Refused", "Lost"):
            if not self.learnt:
                # what is decided next must know it; everybody else when it is written
                self.memory, self.learnt = Memory.of_object(self.memory.as_object()), True
            learn(self.memory, [news], self.market, now=self.now)
