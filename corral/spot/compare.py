"""Rules side by side on the same traces: means, misses, and how sure a ratio of costs is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import mean

from corral.spot.generate import generate
from corral.spot.markets import HOUR, Home
from corral.spot.rules import rule
from corral.spot.simulate import Outcome, simulate
from corral.spot.trace import Trace
from corral.spot.workload import Workload

__all__ = ["Ratio", "Summary", "cost_ratio", "job_of", "outcomes", "summarize"]


@dataclass(frozen=True, slots=True)
class Summary:
    """Means of one rule over many runs."""

    runs: int
    cost: float
    makespan_h: float
    missed: int
    losses: float
    lost_work_h: float
    on_demand: float
    transfers: float


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times as much one rule costs as another, and where that lies 95 times of 100."""

    value: float
    low: float
    high: float


def job_of(trace: Trace, seed: int) -> Workload:
    """A job that a seed draws: one to three days on demand, a deadline, data in any region."""
    rng = Random(f"job/{seed}")
    regions = sorted({(found.place.cloud, found.place.region) for found in trace.markets})
    work_s = rng.choice((24, 48, 72)) * HOUR
    home = Home(*rng.choice(regions))
    return Workload(
        work_s=work_s,
        home=home,
        deadline=work_s * rng.choice((1.25, 1.5, 2.0)),
        checkpoint_gib=rng.choice((10.0, 25.0, 50.0)),
        network=trace.network,
    )


def outcomes(
    shape: str, seed: int, names: Sequence[str], *, tuned: bool = False
) -> dict[str, Outcome]:
    """One generated trace, one job, every rule."""
    trace = generate(shape, seed)
    job = job_of(trace, seed)
    return {name: simulate(trace, job, rule(name, tuned=tuned)) for name in names}


def summarize(found: Sequence[Outcome]) -> Summary:
    return Summary(
        runs=len(found),
        cost=mean(one.cost for one in found),
        makespan_h=mean(one.makespan_s for one in found) / HOUR,
        missed=sum(one.missed for one in found),
        losses=mean(one.ledger.losses for one in found),
        lost_work_h=mean(one.ledger.lost_work_s for one in found) / HOUR,
        on_demand=mean(one.ledger.on_demand for one in found),
        transfers=mean(one.ledger.transfers for one in found),
    )


def cost_ratio(
    theirs: Mapping[str, Sequence[float]],
    ours: Mapping[str, Sequence[float]],
    *,
    resamples: int = 2000,
) -> Ratio:
    """Total cost of theirs over that of ours, with a paired bootstrap over the runs of each group.

    The n-th cost of both sides of a group is of the same trace and job, so they are drawn together.
    """
    rng = Random("bootstrap")
    draws = []
    for _ in range(resamples):
        above = below = 0.0
        for group, costs in theirs.items():
            picked = rng.choices(range(len(costs)), k=len(costs))
            above += sum(costs[n] for n in picked) / len(costs)
            below += sum(ours[group][n] for n in picked) / len(costs)
        draws.append(above / below)
    draws.sort()
    value = sum(mean(costs) for costs in theirs.values()) / sum(mean(c) for c in ours.values())
    return Ratio(value, draws[int(0.025 * resamples)], draws[int(0.975 * resamples) - 1])
