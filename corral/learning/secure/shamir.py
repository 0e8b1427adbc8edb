"""Secrets of 32 bytes in shares: any `threshold` of them give it back, fewer tell nothing."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from itertools import combinations, islice

from corral.learning.errors import AggregationFailed
from corral.learning.secure.messages import Share

PRIME = (1 << 521) - 1
TRIES = 2048
"""Sets of shares that are tried for one that belongs together."""


def split(secret: bytes, count: int, *, threshold: int) -> list[Share]:
    """One share for each of the numbers 1..count."""
    coefficients = [int.from_bytes(secret, "big")]
    coefficients += [secrets.randbelow(PRIME) for _ in range(threshold - 1)]
    shares = []
    for x in range(1, count + 1):
        y = 0
        for coefficient in reversed(coefficients):
            y = (y * x + coefficient) % PRIME
        shares.append((x, y))
    return shares


def join(
    shares: Sequence[Share], *, threshold: int, valid: Callable[[bytes], bool] | None = None
) -> bytes:
    """The secret, if ``valid`` says so; of more shares than are needed some may be false."""
    points = dict(shares)
    if len(points) < threshold:
        raise AggregationFailed(f"{len(points)} shares of a secret that needs {threshold}")
    for chosen in islice(combinations(sorted(points.items()), threshold), TRIES):
        secret = _at_zero(chosen)
        if secret >> 256:
            continue
        found = secret.to_bytes(32, "big")
        if valid is None or valid(found):
            return found
    raise AggregationFailed("the shares of a secret do not belong together")


def _at_zero(chosen: Sequence[Share]) -> int:
    secret = 0
    for x, y in chosen:
        above = below = 1
        for other, _ in chosen:
            if other != x:
                above = above * -other % PRIME
                below = below * (x - other) % PRIME
        secret = (secret + y * above * pow(below, -1, PRIME)) % PRIME
    return secret
