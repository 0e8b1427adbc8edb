"""What rounds cost in privacy, and whether another one may be paid for.

The cost depends on the number of rounds alone: all participants are asked in every one of them, so
nothing is saved by sampling. The accountant is the engine's, and loaded when it is first needed.
"""

from __future__ import annotations

import asyncio
import math
from functools import lru_cache

from corral.families.federated.view import Privacy

__all__ = ["exhausted", "spent"]


async def spent(privacy: Privacy, rounds: int) -> float | None:
    """Epsilon after so many rounds; none where there is no noise that would bound it."""
    if not privacy.noise or rounds < 1:
        return 0.0 if not rounds else None
    return await asyncio.to_thread(_epsilon, privacy, rounds)


async def exhausted(privacy: Privacy, rounds: int) -> str:
    """Why there must not be so many rounds; empty where there may."""
    if privacy.epsilon is None:
        return ""
    cost = await spent(privacy, rounds)
    if cost is None:
        return "without noise there is no budget that would last: set noise, or no epsilon"
    if cost <= privacy.epsilon:
        return ""
    return (
        f"another round would cost epsilon {cost:.3f} of {privacy.epsilon:g}"
        f" at delta {privacy.delta:g}"
    )


@lru_cache(maxsize=1024)
def _epsilon(privacy: Privacy, rounds: int) -> float:
    from corral.learning.privacy import Accountant

    account = Accountant().after(1.0, privacy.noise, rounds=rounds)
    epsilon = account.epsilon(privacy.delta)
    return round(epsilon, 9) if math.isfinite(epsilon) else epsilon
