"""The next version of a model, made of updates that are read one after the other.

Means are made array by array, as arrays come: memory is that of the sums, twice a float32 model,
and of one array, whatever the number of clients; the current version is not needed for them. Other
strategies have one update at a time in memory beside it. Both give the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from corral.federated import Aggregation, UpdateRejected
from corral.federated.strategies import Averaging, Strategy
from corral.federated.tensors import Model, Tensor, Update

__all__ = ["Made", "by_array", "fold", "mixed", "model_of", "whole"]

Array = NDArray[Any]
Entry = Mapping[str, Any]
Read = Callable[[Entry, Callable[[int, Array], None]], None]
"""Reads the arrays of an update, and tells each with its place."""
Remark = Callable[[str, str], None]
MIXING: Final = 0.6
"""How far one update moves the model in async mode."""


@dataclass(frozen=True, slots=True)
class Made:
    """A version, what the strategy keeps for the next one, and the updates that count."""

    arrays: list[Array]
    state: Model | None
    counted: list[Entry]


def by_array(rule: Strategy) -> bool:
    """Whether an array of the result depends on nothing but the same array of the updates."""
    return isinstance(rule, Averaging) and not rule.needs_current


def fold(rule: Strategy, updates: Sequence[Entry], count: int, read: Read, remark: Remark) -> Made:
    """The mean of updates of ``count`` arrays. Raises AggregationFailed."""
    counted = list(updates)
    while True:
        folding = _Folding(rule, counted, count)
        for update in counted:
            try:
                read(update, folding.taker(update))
            except UpdateRejected as error:
                # a part of it is in the sums already: they are made anew without it
                remark(str(update["client"]), str(error))
                counted = [other for other in counted if other is not update]
                break
        else:
            return Made(folding.finish(), None, counted)


class _Folding:
    """An aggregation for each array."""

    def __init__(self, rule: Strategy, updates: Sequence[Entry], count: int) -> None:
        self._engines = [
            Aggregation(
                rule,
                participants=[str(update["client"]) for update in updates],
                expected_samples=_samples(updates),
            )
            for _ in range(count)
        ]
        self._empty: dict[int, Array] = {}

    def taker(self, update: Entry) -> Callable[[int, Array], None]:
        client, samples = str(update["client"]), int(update["num_data"])

        def take(place: int, array: Array) -> None:
            if not array.size:
                self._empty[place] = array
                return
            model = Model((Tensor.of(str(place), array),))
            self._engines[place].add(Update(client, samples, model))

        return take

    def finish(self) -> list[Array]:
        out: list[Array] = []
        for place, engine in enumerate(self._engines):
            if place in self._empty:
                out.append(self._empty[place])
                continue
            made = engine.finish().model
            assert made is not None
            out.append(made.tensors[0].array)
        return out


def whole(
    rule: Strategy,
    updates: Sequence[Entry],
    current: Sequence[Array],
    state: Model | None,
    read: Read,
    remark: Remark,
    *,
    stale: Callable[[Entry], int] | None = None,
) -> Made:
    """What a strategy makes of whole updates; ``stale``: mix them by it. Raises AggregationFailed.

    An update that does not count is remarked upon, and the others count.
    """
    model = model_of(current)
    engine = Aggregation(
        rule,
        participants=[str(update["client"]) for update in updates],
        current=model,
        state=state,
        expected_samples=_samples(updates),
    )
    counted = []
    for update in updates:
        found: dict[int, Array] = {}
        try:
            read(update, found.__setitem__)
            arrays = [found[place] for place in range(len(found))]
            if stale is not None:
                arrays = mixed(model, arrays, stale(update))
            engine.add(Update(str(update["client"]), int(update["num_data"]), model_of(arrays)))
            counted.append(update)
        except UpdateRejected as error:
            remark(str(update["client"]), str(error))
        found, arrays = {}, []  # one update at a time is in memory
    result = engine.finish()
    assert result.model is not None
    return Made([tensor.array for tensor in result.model], result.state, counted)


def model_of(arrays: Sequence[Array]) -> Model:
    """Arrays as the engine has them, named by their places."""
    return Model(tuple(Tensor.of(str(place), array) for place, array in enumerate(arrays)))


def mixed(current: Model, arrays: Sequence[Array], stale: int) -> list[Array]:
    """The current model, moved towards an update: less the older what that began from."""
    share = MIXING / math.sqrt(1 + stale)
    return [
        np.asarray(tensor.array + share * (array - tensor.array)).astype(array.dtype)
        for tensor, array in zip(current, arrays, strict=True)
    ]


def _samples(updates: Sequence[Entry]) -> int:
    return max(sum(int(update["num_data"]) for update in updates), 1)
