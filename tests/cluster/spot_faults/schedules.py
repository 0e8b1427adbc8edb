"""Things that go wrong around a spot job, drawn from a seed. Pure."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

__all__ = ["Act", "Blow", "schedule"]

KINDS: Final = {
    "kill": 5,
    "kill all": 2,
    "notice": 4,
    "operator": 4,
    "agent": 1,
    "program": 1,
    "refuse": 2,
    "lose create": 2,
    "slow create": 1,
    "lose delete": 1,
    "slow delete": 1,
}
"""What may happen, and how often in comparison."""
NOTICES: Final = (0.0, 0.5, 2.0, 5.0, 15.0, 30.0)
FURTHEST: Final = 80
"""Steps after which nothing more begins to go wrong."""


@dataclass(frozen=True, slots=True)
class Act:
    """One thing."""

    kind: str
    replica: int
    after: float
    """Seconds since the one before."""
    notice: float = 0.0


@dataclass(frozen=True, slots=True)
class Blow:
    """Things that come one upon the other, so that the later ones meet what heals the first."""

    at: int
    """The step that some copy has done by then."""
    acts: tuple[Act, ...]


def schedule(seed: int, *, replicas: int) -> list[Blow]:
    """One to three blows of one to three acts each; among them at least one loss of a machine."""
    rng = random.Random(seed)
    blows = []
    for at in sorted(rng.sample(range(FURTHEST), rng.randint(1, 3))):
        kinds = rng.choices(list(KINDS), weights=list(KINDS.values()), k=rng.randint(1, 3))
        acts = [
            Act(
                kind,
                rng.randrange(replicas),
                round(rng.choice((0.0, 0.1, rng.uniform(0.2, 2.0))), 2),
                rng.choice(NOTICES),
            )
            for kind in kinds
        ]
        blows.append(Blow(at, tuple(acts)))
    if not any(act.kind in ("kill", "kill all", "notice") for blow in blows for act in blow.acts):
        loss = Act("kill", rng.randrange(replicas), 0.0)
        blows[-1] = Blow(blows[-1].at, (*blows[-1].acts, loss))
    return blows
