"""The family of Greetings."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from corral.kube.resources import CONFIGMAPS
from corral.kube.types import Obj
from corral.runtime.family.caches import Caches
from corral.runtime.family.conditions import condition_of, with_condition
from corral.runtime.family.decision import Child, Decision, Deletion, Refusal
from corral.runtime.family.declaration import Family, Owned
from corral.runtime.family.events import normal
from tests.cluster.families.greetings.kind import GREETINGS, Greeting, GreetingStatus
from tests.cluster.families.greetings.settings import GreetingSettings

__all__ = ["Greetings", "Observation"]

LABEL: Final = f"{GREETINGS.group}/greeting"


@dataclass(frozen=True, slots=True)
class Observation:
    """A greeting and its cards."""

    greeting: Greeting
    cards: Sequence[Obj]
    now: float

    @property
    def name(self) -> str:
        return str(self.greeting.metadata["name"])


class Greetings(Family[Observation, GreetingStatus]):
    """Keeps a ConfigMap with the text for every card."""

    kind = Greeting
    component = "corral-greeting"
    owns = (Owned(CONFIGMAPS, label=LABEL),)

    def __init__(
        self, settings: GreetingSettings, *, wall: Callable[[], float] = time.time
    ) -> None:
        self.settings = settings
        self._wall = wall

    async def observe(self, obj: Obj, caches: Caches) -> Observation:
        return Observation(Greeting.read(obj), caches.children(CONFIGMAPS, obj), self._wall())

    def decide(self, observed: Observation) -> Decision[GreetingStatus]:
        wanted = [f"{observed.name}-{number}" for number in range(observed.greeting.spec.cards)]
        there = [card for card in observed.cards if card["metadata"]["name"] in wanted]
        ready = len(there) == len(wanted)
        before = (observed.greeting.status or GreetingStatus()).conditions
        status = GreetingStatus(
            phase="Ready" if ready else "Pending",
            observed_generation=observed.greeting.metadata["generation"],
            cards=len(there),
            conditions=with_condition(
                before,
                "Ready",
                status="True" if ready else "False",
                reason="Written" if ready else "Writing",
                message=f"{len(there)} of {len(wanted)} cards are written",
                now=observed.now,
            ),
        )
        known = condition_of(before, "Ready")
        news = ready and (known is None or known.status != "True")
        return Decision(
            status,
            events=(normal("Written", "all cards are written"),) if news else (),
            delete=tuple(
                Deletion(CONFIGMAPS, card) for card in observed.cards if card not in there
            ),
            apply=tuple(Child(CONFIGMAPS, name) for name in wanted),
            requeue_after=None if ready else 1.0,
        )

    def refused(
        self, decision: Decision[GreetingStatus], refusal: Refusal, observed: Observation
    ) -> Decision[GreetingStatus]:
        status = decision.status or GreetingStatus()
        status.conditions = with_condition(
            status.conditions,
            "Ready",
            status="False",
            reason=refusal.reason,
            message=refusal.message,
            now=observed.now,
        )
        return replace(decision, status=status, events=())

    def build(self, child: Child, observed: Observation) -> Obj:
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": child.name,
                "namespace": observed.greeting.metadata["namespace"],
                "labels": {LABEL: observed.name},
            },
            "data": {"text": observed.greeting.spec.text},
        }
