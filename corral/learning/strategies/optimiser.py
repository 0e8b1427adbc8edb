"""Servers that take the mean update as a gradient (Reddi et al., 2021).

`delta = mean - current` goes through an optimiser whose moments are kept as the strategy's state, a
model with tensors `m/NAME` and, for the adaptive ones, `v/NAME`. All arithmetic is float64 on one
block after another. The first round of a job that has no model yet gives the mean.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from corral.learning.errors import AggregationFailed
from corral.learning.strategies.base import Averaging, Outcome
from corral.learning.tensors import Model, Tensor, Vector, matches
from corral.learning.workers import spread

Floats = npt.NDArray[np.float64]
_BLOCK = 64 * 1024


class ServerOptimiser(Averaging):
    """One step of an optimiser per round."""

    moments: ClassVar[tuple[str, ...]] = ("m",)
    needs_current: ClassVar[bool] = True
    squares: ClassVar[bool] = True

    @abstractmethod
    def step(self, delta: Floats, moments: list[Floats]) -> Floats:
        """Updates the moments in place; what to add to the model."""

    def combine(self, mean: Model, current: Model | None, state: Model | None) -> Outcome:
        if current is None:
            return Outcome(mean, None)
        kept = state or self._zeros(current)
        wanted = self._layout(current)
        if matches(kept.layout, wanted):
            raise AggregationFailed(f"the state kept for {self.name} is of another model")
        olds = current.vectors
        count = len(olds)
        moments: list[list[Vector]] = [
            [
                _own(kept.vectors[index + number * count], state)
                for number in range(len(self.moments))
            ]
            for index in range(count)
        ]
        news: list[Vector] = mean.vectors
        pieces = [
            (index, start) for index in range(count) for start in range(0, len(olds[index]), _BLOCK)
        ]

        def piece(where: tuple[int, int]) -> None:
            index, start = where
            block = slice(start, start + _BLOCK)
            old = olds[index][block].astype(np.float64)
            parts = [moment[block].astype(np.float64) for moment in moments[index]]
            change = self.step(news[index][block] - old, parts)
            news[index][block] = old + change
            for moment, part in zip(moments[index], parts, strict=True):
                moment[block] = part

        spread(piece, pieces)
        flat = [
            moments[index][number] for number in range(len(self.moments)) for index in range(count)
        ]
        return Outcome(mean, kept.like(flat))

    def _layout(self, model: Model) -> tuple[tuple[str, tuple[int, ...], str], ...]:
        return tuple(
            (f"{moment}/{name}", shape, kind)
            for moment in self.moments
            for name, shape, kind in model.layout
        )

    def _zeros(self, model: Model) -> Model:
        return Model(
            tuple(
                Tensor(f"{moment}/{tensor.name}", tensor.shape, np.zeros_like(tensor.values))
                for moment in self.moments
                for tensor in model
            )
        )


def _own(values: Vector, state: Model | None) -> Vector:
    """Memory that may be written to: a copy of what was given, zeros of our own as they are."""
    return values.copy() if state is not None else values
