"""Spot placement: expected cost to finish against the rules that people use, on replayed traces.

Each seed of each shape is one trace and one job; every rule meets the same prices, refusals and
losses, and has the same deadline guard. `ratio` = cost of the best of on-demand, same-zone and
next-region (chosen shape by shape, among those that miss no more deadlines) over ours;
`ratio_in_cloud` = the same against next-region kept within the cloud that holds the data;
`ratio_tuned` = against the best of all four with our checkpoint interval and checkpoints on notice.
"""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor

from common import arguments, report

from corral.spot import SHAPES, Outcome, cost_ratio, outcomes, summarize

RULES = ("on-demand", "same-zone", "next-region")
STRONGER = "next-region-in-cloud"
OURS = "corral"
SPOT_RULES = ("same-zone", "next-region", STRONGER)

Runs = dict[str, dict[str, list[Outcome]]]


def one(job: tuple[str, int]) -> dict[str, Outcome]:
    """All rules on one trace; the tuned ones under a name of their own."""
    shape, seed = job
    found = outcomes(shape, seed, [*RULES, STRONGER, OURS])
    tuned = outcomes(shape, seed, SPOT_RULES, tuned=True)
    return {**found, **{f"{name} (tuned)": run for name, run in tuned.items()}}


def run(seeds: int) -> Runs:
    jobs = [(shape, seed) for shape in SHAPES for seed in range(seeds)]
    runs: Runs = {shape: {} for shape in SHAPES}
    with ProcessPoolExecutor(min(os.cpu_count() or 1, 8)) as pool:
        for (shape, _), found in zip(jobs, pool.map(one, jobs, chunksize=2), strict=True):
            for name, outcome in found.items():
                runs[shape].setdefault(name, []).append(outcome)
    return runs


def best(runs: Runs, shape: str, names: tuple[str, ...]) -> str:
    """The cheapest rule that misses no more deadlines than ours."""
    allowed = summarize(runs[shape][OURS]).missed
    known = {name: summarize(runs[shape][name]) for name in names}
    equal = [name for name in names if known[name].missed <= allowed]
    return min(equal or list(names), key=lambda name: known[name].cost)


def against(runs: Runs, names: tuple[str, ...]) -> dict[str, object]:
    chosen = {shape: best(runs, shape, names) for shape in runs}
    theirs = {shape: costs(runs, shape, name) for shape, name in chosen.items()}
    ours = {shape: costs(runs, shape, OURS) for shape in runs}
    whole = cost_ratio(theirs, ours)
    parts = {shape: cost_ratio({shape: theirs[shape]}, {shape: ours[shape]}) for shape in runs}
    rows = {
        shape: {
            "rule": chosen[shape],
            "ratio": round(part.value, 3),
            "ci95": [round(part.low, 3), round(part.high, 3)],
        }
        for shape, part in parts.items()
    }
    return {
        "ratio": round(whole.value, 3),
        "ci95": [round(whole.low, 3), round(whole.high, 3)],
        "shapes": rows,
    }


def costs(runs: Runs, shape: str, name: str) -> list[float]:
    return [outcome.cost for outcome in runs[shape][name]]


def show(runs: Runs) -> None:
    head = ("rule", "cost", "makespan h", "missed", "losses", "lost h", "on demand", "transfers")
    for shape, rules in runs.items():
        print(f"\n{shape}: {len(rules[OURS])} seeds")
        print(f"{head[0]:30}" + "".join(f"{word:>11}" for word in head[1:]))
        for name, found in rules.items():
            row = summarize(found)
            figures = (row.cost, row.makespan_h, row.missed, row.losses, row.lost_work_h)
            figures = (*figures, row.on_demand, row.transfers)
            print(f"{name:30}" + "".join(f"{figure:11.1f}" for figure in figures))


def main() -> None:
    options = arguments(__doc__ or "")
    seeds = options.repeats or (8 if options.quick else 100)
    runs = run(seeds)
    show(runs)
    first = against(runs, RULES)
    stronger = against(runs, (STRONGER,))
    tuned = against(runs, ("on-demand", *(f"{name} (tuned)" for name in SPOT_RULES)))
    report(
        {
            "name": "spot",
            "ratio": first["ratio"],
            "ci95": first["ci95"],
            "shapes": first["shapes"],
            "ratio_in_cloud": stronger["ratio"],
            "in_cloud": stronger,
            "ratio_tuned": tuned["ratio"],
            "tuned": tuned,
            "missed": {
                shape: {name: summarize(found).missed for name, found in rules.items()}
                for shape, rules in runs.items()
            },
            "seeds": seeds,
        }
    )


if __name__ == "__main__":
    main()
