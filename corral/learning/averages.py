"""The weighted mean of models: each update is added when it comes and needed no more.

The sums are exact (`corral.learning.exact`), so the mean is the same bit for bit in whatever
order and grouping the updates came. An update with a value that is not finite leaves no trace:
what was added of it before the value was met is taken out again, exactly.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from corral.learning import native
from corral.learning.errors import AggregationFailed
from corral.learning.exact import MAX_TOTAL_WEIGHT, ExactSum
from corral.learning.exact.sums import SEGMENT, empty
from corral.learning.exact.verified import mean_of_piece, settle
from corral.learning.pages import give_back
from corral.learning.tensors import Model, Tensor, Vector
from corral.learning.workers import spread

Piece = tuple[int, int]  # a tensor, and a segment of it


class Average:
    """The mean of models of one layout, in memory of twice a float32 model."""

    def __init__(self, example: Model, *, expected: int) -> None:
        self._like = [(tensor.name, tensor.shape, tensor.values.dtype) for tensor in example]
        self._sums = [
            ExactSum(len(values), values.dtype, expected=expected) for values in example.vectors
        ]
        self._pieces: list[Piece] = [
            (tensor, segment)
            for tensor, sums in enumerate(self._sums)
            for segment in range(sums.segments)
        ]
        self.weight = 0

    def add(self, models: Sequence[Model], weights: Sequence[int]) -> list[int]:
        """Adds many at once, each block of all of them while it is in the cache.

        Returns the indexes of models that hold values that are not finite: they are not counted.
        """
        total = self.weight + sum(weights)
        if total > MAX_TOTAL_WEIGHT:
            raise AggregationFailed(f"total weight {total} is more than {MAX_TOTAL_WEIGHT}")
        for sums in self._sums:
            sums.reserve(total)
        vectors = [[model.vectors[tensor] for model in models] for tensor in range(len(self._sums))]

        def add(piece: Piece) -> list[tuple[int, int]]:
            tensor, segment = piece
            refused = self._sums[tensor].add(segment, vectors[tensor], weights)
            start = segment * SEGMENT
            for values in vectors[tensor]:
                give_back(values, start, min(start + SEGMENT, len(values)))
            return refused

        refused = spread(add, self._pieces)
        bad = sorted({model for pairs in refused for _, model in pairs})
        if bad:
            self._take_out(bad, vectors, weights=weights, refused=refused)
        self.weight = total - sum(weights[index] for index in bad)
        return bad

    def _take_out(
        self,
        bad: Sequence[int],
        vectors: Sequence[Sequence[Vector]],
        *,
        weights: Sequence[int],
        refused: Sequence[Sequence[tuple[int, int]]],
    ) -> None:
        for piece, pairs in zip(self._pieces, refused, strict=True):
            without: dict[int, set[int]] = defaultdict(set)
            for block, model in pairs:
                without[model].add(block)
            tensor, segment = piece
            for model in bad:
                self._sums[tensor].remove(
                    segment,
                    vectors[tensor][model],
                    weights[model],
                    without=frozenset(without[model]),
                )

    def take(self) -> Model:
        """The mean; the sums are freed while it is written, and gone afterwards."""
        if not self.weight:
            raise AggregationFailed("cannot aggregate: total_samples is zero")
        results: list[Vector] = [empty(sums.size, sums.dtype) for sums in self._sums]

        def take(piece: Piece) -> None:
            tensor, segment = piece
            self._sums[tensor].take(segment, float(self.weight), results[tensor])

        spread(take, self._pieces)
        return Model(
            tuple(
                Tensor(name, shape, values)
                for (name, shape, _), values in zip(self._like, results, strict=True)
            )
        )


def mean_of(models: Sequence[Model], weights: Sequence[int]) -> tuple[Model | None, list[int]]:
    """The mean of models that are all there, with no memory but the result's.

    It is, bit for bit, what `Average` gives. When some hold values that are not finite: their
    indexes, and no mean.
    """
    if sum(weights) > MAX_TOTAL_WEIGHT:
        raise AggregationFailed(f"total weight {sum(weights)} is more than {MAX_TOTAL_WEIGHT}")
    results: list[Vector] = []
    bad: set[int] = set()
    for tensor in range(len(models[0].tensors)):
        vectors = [model.vectors[tensor] for model in models]
        mean = _mean32 if vectors[0].dtype == np.float32 else _mean64
        result, refused = mean(vectors, weights)
        results.append(result)
        bad.update(refused)
    return (None, sorted(bad)) if bad else (models[0].like(results), [])


def _mean32(vectors: Sequence[Vector], weights: Sequence[int]) -> tuple[Vector, set[int]]:
    size = len(vectors[0])
    singles = [values.view(np.float32) for values in vectors]
    out = np.empty(size, np.float32)
    if native.kernel is not None:
        wrong, left = native.kernel.mean(singles, weights, out, native.threads(size * len(singles)))
        if left and not wrong:
            settle(singles, weights, out, where=np.frombuffer(left, np.int64))
        return out, set(wrong)

    def work(start: int) -> tuple[set[int], list[np.ndarray[tuple[int, ...], np.dtype[np.int64]]]]:
        stop = min(start + SEGMENT, size)
        piece = mean_of_piece(singles, weights, out, start=start, stop=stop)
        return piece.bad, piece.undecided

    pieces = spread(work, range(0, size, SEGMENT))
    bad = {index for refused, _ in pieces for index in refused}
    undecided = [where for _, places in pieces for where in places]
    if undecided and not bad:
        settle(singles, weights, out, where=np.concatenate(undecided))
    return out, bad


def _mean64(vectors: Sequence[Vector], weights: Sequence[int]) -> tuple[Vector, set[int]]:
    sums = ExactSum(len(vectors[0]), np.float64)
    out = np.empty(len(vectors[0]))

    def work(segment: int) -> set[int]:
        refused = sums.add(segment, vectors, weights)
        sums.take(segment, float(sum(weights)), out)
        return {index for _, index in refused}

    return out, set().union(*spread(work, range(sums.segments)))
