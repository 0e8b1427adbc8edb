"""Quantities as validation needs them: what is no quantity counts as zero, others say so."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from corral.kube import quantity as kube

__all__ = ["NANO", "canonical", "cmp_quantity", "is_whole", "nano", "value_of"]

NANO = 10**9
_ZERO = kube.Quantity(0)


@lru_cache(maxsize=4096)
def _parse(text: str) -> kube.Quantity:
    try:
        return kube.Quantity.parse(text)
    except ValueError:
        return _ZERO


def _read(quantity: Any) -> kube.Quantity:
    return _parse(quantity if type(quantity) is str else str(quantity))


def nano(quantity: Any) -> int:
    """The quantity in billionths."""
    return _read(quantity).nano


def cmp_quantity(a: Any, b: Any) -> int:
    return (nano(a) > nano(b)) - (nano(a) < nano(b))


def value_of(quantity: Any) -> int:
    """The quantity as a whole number, rounded away from zero."""
    return _read(quantity).to_int()


def is_whole(quantity: Any) -> bool:
    """Whether the quantity has no fraction, looking no finer than thousandths."""
    return _read(quantity).milli() % 1000 == 0


def canonical(quantity: Any) -> str:
    """The quantity as the API prints it."""
    return str(_read(quantity))
