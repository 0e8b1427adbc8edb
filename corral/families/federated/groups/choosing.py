"""Which proplet gets a task: pure functions of the proplets and their loads.

Every algorithm sees the same candidates: proplets that are alive, have room, and have the labels
that the task demands. Of equals the least loaded wins, then the first by id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from corral.api.propeller.tasks import Placement, Scheduling, Weights
from corral.families.federated.groups.proplets import Proplet

__all__ = ["Choice", "Demand", "choose"]


@dataclass(frozen=True, slots=True)
class Demand:
    """What a choice depends on beside the proplets."""

    algorithm: str = "least-loaded"
    limit: int = 0
    """Tasks that a proplet may have at once; 0: any number."""
    weights: Weights = field(default_factory=Weights)
    placement: Placement = field(default_factory=Placement)
    last: str = ""
    """The id that was chosen last, for round-robin."""

    @classmethod
    def of(cls, scheduling: Scheduling, placement: Placement | None, *, last: str = "") -> Demand:
        return cls(
            algorithm=scheduling.algorithm,
            limit=scheduling.max_tasks_per_proplet or 0,
            weights=scheduling.weights or Weights(),
            placement=placement or Placement(),
            last=last,
        )


@dataclass(frozen=True, slots=True)
class Choice:
    """A proplet, or why there is none."""

    proplet: Proplet | None = None
    reason: str = ""
    """A word for a condition."""
    message: str = ""


def choose(
    proplets: Sequence[Proplet], loads: Mapping[str, int], demand: Demand, rng: Random
) -> Choice:
    """One of the proplets, by the algorithm of the demand."""
    if not proplets:
        return Choice(reason="NoProplets", message="there are no proplets")
    alive = [proplet for proplet in proplets if proplet.alive]
    if not alive:
        first = proplets[0]
        why = f"none of {len(proplets)} proplets is alive: {first.id}: {first.why}"
        return Choice(reason="NoAliveProplet", message=why)
    open_ = [proplet for proplet in alive if not proplet.cordoned]
    if not open_:
        why = f"the nodes of all {len(alive)} proplets that are alive are cordoned"
        return Choice(reason="PropletsCordoned", message=why)
    wanted = demand.placement.match_labels or {}
    suited = [p for p in open_ if all(p.labels.get(key) == wanted[key] for key in wanted)]
    if not suited:
        labels = ", ".join(f"{key}={value}" for key, value in sorted(wanted.items()))
        why = f"none of {len(open_)} proplets that are alive has the labels {labels}"
        return Choice(reason="NoSuitableProplet", message=why)
    free = [p for p in suited if not demand.limit or loads.get(p.id, 0) < demand.limit]
    if not free:
        why = f"all {len(suited)} proplets have maxTasksPerProplet={demand.limit} tasks"
        return Choice(reason="PropletsFull", message=why)
    ordered = sorted(free, key=lambda proplet: proplet.id)
    return Choice(_ALGORITHMS[demand.algorithm](ordered, loads, demand, rng))


Candidates = Sequence[Proplet]
Loads = Mapping[str, int]


def _round_robin(found: Candidates, loads: Loads, demand: Demand, rng: Random) -> Proplet:
    """The next by id after the one that was chosen last, whether or not that is still there."""
    return next((proplet for proplet in found if proplet.id > demand.last), found[0])


def _least_loaded(found: Candidates, loads: Loads, demand: Demand, rng: Random) -> Proplet:
    return min(found, key=lambda proplet: loads.get(proplet.id, 0))


def _random(found: Candidates, loads: Loads, demand: Demand, rng: Random) -> Proplet:
    return rng.choice(found)


def _by_affinity(found: Candidates, loads: Loads, demand: Demand, rng: Random) -> Proplet:
    return _best(found, loads, lambda proplet: _affinity(proplet, demand.placement))


def _by_locality(found: Candidates, loads: Loads, demand: Demand, rng: Random) -> Proplet:
    return _best(found, loads, lambda proplet: _locality(proplet, demand.placement))


def _advanced(found: Candidates, loads: Loads, demand: Demand, rng: Random) -> Proplet:
    weights = demand.weights
    room = demand.limit or max(loads.get(proplet.id, 0) for proplet in found) + 1

    def score(proplet: Proplet) -> float:
        return (
            weights.load * (1 - loads.get(proplet.id, 0) / room)
            + weights.affinity * _affinity(proplet, demand.placement)
            + weights.data_locality * _locality(proplet, demand.placement)
        )

    return _best(found, loads, score)


def _best(found: Candidates, loads: Loads, score: Callable[[Proplet], float]) -> Proplet:
    return min(found, key=lambda proplet: (-score(proplet), loads.get(proplet.id, 0)))


def _affinity(proplet: Proplet, placement: Placement) -> float:
    """The share of what is preferred that the proplet has, by weight."""
    wanted = placement.preferred or ()
    total = sum(preference.weight for preference in wanted)
    has = sum(
        preference.weight
        for preference in wanted
        if all(proplet.labels.get(k) == v for k, v in preference.match_labels.items())
    )
    return has / total if total else 0.0


def _locality(proplet: Proplet, placement: Placement) -> float:
    """The share of the data that is where the proplet is."""
    wanted = set(placement.datasets or ())
    return len(wanted & proplet.datasets) / len(wanted) if wanted else 0.0


_ALGORITHMS: Final[Mapping[str, Callable[[Candidates, Loads, Demand, Random], Proplet]]] = {
    "round-robin": _round_robin,
    "least-loaded": _least_loaded,
    "random": _random,
    "affinity": _by_affinity,
    "data-locality": _by_locality,
    "advanced": _advanced,
}
