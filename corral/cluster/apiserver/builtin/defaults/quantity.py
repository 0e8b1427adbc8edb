"""Rounding of quantities: the API keeps nothing finer than a thousandth in resource lists."""

from __future__ import annotations

from corral.kube.quantity import Quantity
from corral.kube.types import Obj

__all__ = ["round_up_to_milli"]


def round_up_to_milli(resources: Obj | None) -> None:
    """Round every quantity of a resource list up to thousandths, in place."""
    if not resources:
        return
    for name, value in resources.items():
        # Canonical spellings finer than milli end in n or u, or carry a negative exponent.
        if isinstance(value, str) and (value[-1:] in ("n", "u") or "." in value or "e-" in value):
            try:
                quantity = Quantity.parse(value)
            except ValueError:
                continue  # validation names it
            resources[name] = str(Quantity(quantity.milli(), -3, quantity.format))
