"""Rules that look at every element by itself, block by block on all cores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from corral.federated.collected import Collected, Span
from corral.federated.tensors import Model
from corral.federated.workers import spread

Rows = npt.NDArray[np.floating]


def blockwise(updates: Collected, rule: Callable[[Rows, Span], npt.NDArray[Any]]) -> Model:
    """The model of `rule(rows of all clients)` of every block."""
    results = updates.empty()

    def reduce(span: Span) -> None:
        results[span.tensor][span.start : span.stop] = rule(updates.rows(span), span)

    spread(reduce, updates.spans())
    return updates.example.like(results)


def sorted_rows(rows: Rows) -> Rows:
    """Element by element, the values of all clients from low to high, one element a row."""
    elements = np.ascontiguousarray(rows.T)
    elements.sort(axis=1)
    return elements
