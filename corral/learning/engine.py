"""One round of aggregation: updates in, in any order; a global model out.

Guarantees: an update counts once or not at all; one that cannot count is refused with a reason and
leaves no trace; the result depends on the set of accepted updates, bit for bit, not on their
order or grouping; it never holds a NaN or an infinity. Averages need memory for twice a
float32 model whatever the number of clients; rules that compare updates keep them in bounded
memory and files.

Which layout is right is said by `current`; without it, by the first update.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from corral.learning.averages import mean_of
from corral.learning.codecs import OPAQUE
from corral.learning.collected import MEMORY
from corral.learning.errors import AggregationFailed, UpdateRejected
from corral.learning.exact import MAX_TOTAL_WEIGHT
from corral.learning.strategies import Averaging, Outcome, Strategy
from corral.learning.strategies.base import Collector, Limits
from corral.learning.strategies.concat import Concat, in_order
from corral.learning.tensors import Layout, Model, Update, matches

LIKELY_SAMPLES = 1 << 18
"""Samples of a round for which nobody has said how many; more are slower, not wrong."""


@dataclass(frozen=True)
class Result:
    """What a round gave: a model and the strategy's state, or joined bytes."""

    clients: tuple[str, ...]
    samples: int
    model: Model | None = None
    state: Model | None = None
    payload: bytes = b""
    algorithm: str = ""
    rejected: tuple[UpdateRejected, ...] = field(default=(), compare=False)

    @property
    def metrics(self) -> dict[str, object]:
        return {
            "num_clients": len(self.clients),
            "total_samples": self.samples,
            "algorithm": self.algorithm,
        }


class Aggregation:
    """The updates of one round. Not for several threads at once; it uses all cores itself."""

    def __init__(
        self,
        strategy: Strategy,
        *,
        current: Model | None = None,
        state: Model | None = None,
        participants: Sequence[str] = (),
        expected_samples: int = 0,
        memory: int = MEMORY,
        folder: Path | None = None,
    ) -> None:
        self._strategy = strategy
        self._current = current
        self._state = state
        self._participants = tuple(participants)
        self._expected = expected_samples
        self._memory = memory
        self._folder = folder
        self._layout: Layout | None = current.layout if current is not None else None
        self._collector: Collector | None = None
        self._joined: list[Update] = []
        self._clients: set[str] = set()
        self._samples = 0
        self._rejected: list[UpdateRejected] = []
        self._finished = False

    @property
    def clients(self) -> frozenset[str]:
        """Those whose update is counted."""
        return frozenset(self._clients)

    @property
    def samples(self) -> int:
        return self._samples

    def add(self, update: Update) -> None:
        """Counts an update; raises `UpdateRejected`, and the round goes on."""
        for rejection in self.add_many([update]):
            raise rejection

    def add_many(self, updates: Sequence[Update]) -> list[UpdateRejected]:
        """Counts updates that are there at once: faster than one by one, the same result."""
        before = len(self._rejected)
        self._rejected += self._collect(self._check(updates))
        return self._rejected[before:]

    def _check(self, updates: Sequence[Update]) -> list[Update]:
        """The updates that can count as far as can be seen; the others are refused."""
        if self._finished:
            raise AggregationFailed("the round is over")
        good: list[Update] = []
        pending = self._samples
        names: set[str] = set()
        for update in updates:
            reason = self._refuse(update, names, pending) or self._too_large(update)
            if reason:
                self._rejected.append(UpdateRejected(reason, client=update.client))
            else:
                good.append(update)
                names.add(update.client)
                pending += update.samples
        return good

    def _refuse(self, update: Update, names: set[str], pending: int) -> str:
        """Why an update cannot count, from what can be seen without reading its values."""
        if update.client in self._clients or update.client in names:
            return "it has been counted already"
        if self._participants and update.client not in self._participants:
            return "it is not of a participant of this round"
        if isinstance(update.samples, bool) or not isinstance(update.samples, int):
            return f"num_samples is {update.samples!r}, not a whole number"
        if update.samples < 1:
            return f"num_samples is {update.samples}"
        if pending + update.samples > MAX_TOTAL_WEIGHT:
            return f"total_samples would be more than {MAX_TOTAL_WEIGHT}"
        if isinstance(self._strategy, Concat):
            return "it has no payload" if not update.payload else ""
        if update.model is None:
            return "it has no model"
        if self._layout is None:
            self._layout = update.model.layout
        return matches(self._layout, update.model.layout)

    def _too_large(self, update: Update) -> str:
        """One client's square that is no number would leave the round without a result."""
        if not self._strategy.squares or update.model is None:
            return ""
        reason = update.model.too_large()
        if reason and not self._clients:
            self._start_again()
        return reason

    def _collect(self, updates: Sequence[Update]) -> list[UpdateRejected]:
        bad: set[int] = set()
        if isinstance(self._strategy, Concat):
            self._joined += updates
        elif updates:
            bad = set(self._taker(updates).add(updates))
        for index, update in enumerate(updates):
            if index not in bad:
                self._clients.add(update.client)
                self._samples += update.samples
        if not self._clients:
            self._start_again()
        return [_not_finite(updates[index]) for index in sorted(bad)]

    def _start_again(self) -> None:
        """What nobody countable has sent does not decide what the others must look like."""
        self._collector = None
        self._layout = self._current.layout if self._current is not None else None

    def _taker(self, updates: Sequence[Update]) -> Collector:
        if self._collector is None:
            example = updates[0].model
            assert example is not None
            there = sum(update.samples for update in updates)
            clients = max(len(self._participants), 64)
            guess = self._expected or max(LIKELY_SAMPLES, updates[0].samples * clients)
            limits = Limits(self._memory, self._folder, max(guess, there))
            self._collector = self._strategy.collector(example, limits)
        return self._collector

    def finish_with(self, updates: Sequence[Update]) -> Result:
        """Counts the last updates and ends the round.

        When these are all of it, a mean needs no memory but its own; the bits are the same.
        """
        if self._collector is not None or not isinstance(self._strategy, Averaging):
            self.add_many(updates)
            return self.finish()
        good = self._check(updates)
        while good:
            models = [update.model for update in good if update.model is not None]
            mean, bad = mean_of(models, [update.samples for update in good])
            self._rejected += [_not_finite(good[index]) for index in bad]
            good = [update for index, update in enumerate(good) if index not in bad]
            if mean is not None:
                self._finished = True
                self._clients = {update.client for update in good}
                self._samples = sum(update.samples for update in good)
                return self._checked(self._strategy.combine(mean, self._current, self._state))
        return self.finish()

    def _checked(self, outcome: Outcome) -> Result:
        if not outcome.model.is_finite():
            raise AggregationFailed(f"{self._strategy.name}: the result is too large for its type")
        return self._result(model=outcome.model, state=outcome.state)

    def finish(self) -> Result:
        """Ends the round; raises `AggregationFailed` when it has no result."""
        if self._finished:
            raise AggregationFailed("the round is over")
        self._finished = True
        if not self._clients:
            raise AggregationFailed(self._nothing())
        if isinstance(self._strategy, Concat):
            ordered = in_order(self._joined, self._participants)
            return self._result(payload=OPAQUE.join(update.payload for update in ordered))
        assert self._collector is not None
        outcome = self._strategy.finish(self._collector, self._current, self._state)
        self._collector = None
        return self._checked(outcome)

    def _nothing(self) -> str:
        if any(rejection.reason == "num_samples is 0" for rejection in self._rejected):
            return "cannot aggregate: total_samples is zero"
        return "no updates to aggregate"

    def _result(
        self, *, model: Model | None = None, state: Model | None = None, payload: bytes = b""
    ) -> Result:
        return Result(
            tuple(sorted(self._clients)),
            self._samples,
            model=model,
            state=state,
            payload=payload,
            algorithm=self._strategy.name,
            rejected=tuple(self._rejected),
        )


def _not_finite(update: Update) -> UpdateRejected:
    return UpdateRejected("it holds a NaN or an infinity", client=update.client)
