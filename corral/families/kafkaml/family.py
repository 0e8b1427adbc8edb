"""What the families of ``kafkaml.corral.dev`` have in common."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, Literal, Protocol, TypeVar

from corral.api.fields import Conditions, Model
from corral.families.kafkaml.settings import KafkaMLSettings
from corral.runtime.family.conditions import with_condition
from corral.runtime.family.decision import Decision, Refusal
from corral.runtime.family.declaration import Family

__all__ = ["COMPONENT", "KafkaMLFamily", "Observation", "Ready"]

COMPONENT: Final = "corral-kafkaml"
Ready = Literal["True", "False", "Unknown"]


class _Status(Model):
    """What all statuses of the group have."""

    conditions: Conditions | None = None


class Observation(Protocol):
    """What all observations have."""

    @property
    def status(self) -> Any:
        """As it is; an empty one where the object has none."""

    @property
    def now(self) -> float:
        """Seconds since the epoch."""


O = TypeVar("O", bound=Observation)  # noqa: E741 - an observation
S = TypeVar("S", bound=Model)


class KafkaMLFamily(Family[O, S]):
    """Statuses have a phase and the condition ``Ready``."""

    component = COMPONENT

    def __init__(self, settings: KafkaMLSettings, *, wall: Callable[[], float] = time.time) -> None:
        self.settings: KafkaMLSettings = settings
        self._wall = wall

    @staticmethod
    def ready(observed: Observation, status: Ready, reason: str, message: str) -> Any:
        """The conditions, with ``Ready`` as given."""
        return with_condition(
            observed.status.conditions,
            "Ready",
            status=status,
            reason=reason,
            message=message,
            now=observed.now,
        )

    def refused(self, decision: Decision[S], refusal: Refusal, observed: O) -> Decision[S]:
        """It waits until what it needs is granted."""
        said = {
            "phase": "Pending",
            "conditions": self.ready(observed, "False", refusal.reason, refusal.message),
        }
        shown = (decision.status or observed.status).model_copy(update=said)
        return replace(decision, status=shown, events=())
