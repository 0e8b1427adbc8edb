"""How often to save, and whether a notice leaves the time for it."""

from __future__ import annotations

from math import inf, sqrt
from typing import Final

__all__ = ["checkpoint_interval", "notice_allows", "young_daly"]

LONGEST: Final = 4 * 3600.0
SHORTEST: Final = 60.0


def young_daly(cost_s: float, mtbf_s: float) -> float:
    """Daly's interval between checkpoints: least expected waste for a checkpoint's cost.

    Young's square root of ``2 * cost * mtbf`` is its first term; where a checkpoint costs more than
    twice the mean time between losses, saving less often than losing is pointless either way.
    """
    if mtbf_s == inf:
        return inf
    if cost_s >= 2 * mtbf_s:
        return mtbf_s
    part = cost_s / (2 * mtbf_s)
    return sqrt(2 * cost_s * mtbf_s) * (1 + sqrt(part) / 3 + part / 9) - cost_s


def checkpoint_interval(
    *,
    stage_s: float,
    upload_s: float,
    upload_cost: float,
    per_second: float,
    hazard: float,
    shortest: float = SHORTEST,
    longest: float = LONGEST,
) -> float:
    """The interval of least expected cost.

    A checkpoint costs the time that training stands still and what its transfer is charged, which
    counts as the machine time that the same money buys. One upload is over before the next begins.

    Args:
        stage_s: How long training stands still.
        upload_s: How long the upload goes on beside training.
        upload_cost: What the transfer is charged.
        per_second: Price of the machines.
        hazard: Losses per second that no checkpoint on notice saves from.
        shortest: No interval is below this.
        longest: None is above this.
    """
    cost = stage_s + (upload_cost / per_second if per_second > 0 else 0.0)
    best = young_daly(cost, 1 / hazard) if hazard > 0 else inf
    return min(max(best, shortest, upload_s), max(longest, upload_s))


def notice_allows(remaining_s: float, *, stage_s: float, upload_s: float, margin_s: float) -> bool:
    """Whether a checkpoint begun now is safe before the machine is taken."""
    return remaining_s > stage_s + upload_s + margin_s
