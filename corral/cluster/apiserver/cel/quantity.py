"""Resource quantities as exact numbers, for the CEL quantity library."""

from __future__ import annotations

from fractions import Fraction

from corral.kube.quantity import Quantity

__all__ = ["is_quantity", "parse_quantity"]


def is_quantity(text: str) -> bool:
    try:
        Quantity.parse(text)
    except ValueError:
        return False
    return True


def parse_quantity(text: str) -> Fraction:
    """The exact value. Raises ValueError with Kubernetes' message."""
    return Fraction(Quantity.parse(text).nano, 10**9)
