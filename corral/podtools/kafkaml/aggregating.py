"""The next version of a model, made of updates that are read one after the other.

Means are made array by array, as arrays come: memory is that of the sums, twice a float32 model,
and of one array, whatever the number of clients; the current version is not needed for them. Other
strategies have one update at a time in memory beside it. Both give the same bits.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from corral.learning import Aggregation, AggregationFailed, UpdateRejected
from corral.learning.strategies import Averaging, Strategy
from corral.learning.tensors import Model, Tensor, Update
from corral.learning.weights import bounded, fitting

__all__ = ["Made", "NothingCounts", "by_array", "fold", "mixed", "model_of", "whole"]

logger = logging.getLogger(__name__)

Array = NDArray[Any]
Entry = Mapping[str, Any]
Read = Callable[[Entry, Callable[[int, Array], None]], None]
"""Reads the arrays of an update, and tells each with its place."""
Remark = Callable[[str, str], None]
MIXING: Final = 0.6
"""How far one update moves the model in async mode."""


class NothingCounts(AggregationFailed):
    """None of the updates is one; the round can go on without them."""


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
    counted = _weighed(updates)
    while counted:
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
    raise NothingCounts("no updates to aggregate")


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
    model, updates = model_of(current), _weighed(updates)
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
    if not counted:
        raise NothingCounts("no updates to aggregate")
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


def _weighed(updates: Sequence[Entry]) -> list[Entry]:
    """The updates with the samples that they count for: nobody's word takes the whole model."""
    counts = fitting(bounded([int(update["num_data"]) for update in updates]))
    for update, count in zip(updates, counts, strict=True):
        if count < int(update["num_data"]):
            logger.warning(
                "the update of %s counts for %d samples, not %s",
                *(update["client"], count, update["num_data"]),
            )
    return [{**update, "num_data": count} for update, count in zip(updates, counts, strict=True)]


def _samples(updates: Sequence[Entry]) -> int:
    return max(sum(int(update["num_data"]) for update in updates), 1)
