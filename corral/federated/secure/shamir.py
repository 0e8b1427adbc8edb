"""Secrets of 32 bytes in shares: any `threshold` of them give it back, fewer tell nothing."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from corral.federated.errors import AggregationFailed
from corral.federated.secure.messages import Share

PRIME = (1 << 521) - 1


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


def join(shares: Sequence[Share], *, threshold: int) -> bytes:
    points = dict(shares)
    if len(points) < threshold:
        raise AggregationFailed(f"{len(points)} shares of a secret that needs {threshold}")
    chosen = sorted(points.items())[:threshold]
    secret = 0
    for x, y in chosen:
        above = below = 1
        for other, _ in chosen:
            if other != x:
                above = above * -other % PRIME
                below = below * (x - other) % PRIME
        secret = (secret + y * above * pow(below, -1, PRIME)) % PRIME
    if secret >> 256:
        raise AggregationFailed("the shares of a secret do not belong together")
    return secret.to_bytes(32, "big")
