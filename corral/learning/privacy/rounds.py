"""One private round: every update clipped, every client equal, noise on the mean.

Only strategies that need the mean and nothing else can be private this way: the noise is measured
by what one client can change of a mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from corral.learning.engine import Aggregation, Result
from corral.learning.errors import AggregationFailed, InvalidConfig, UpdateRejected
from corral.learning.privacy.mechanism import Privacy
from corral.learning.strategies import Averaging, Strategy, strategy
from corral.learning.tensors import Model, Update


class PrivateRound:
    """As `Aggregation`, with privacy; the current model is needed, changes are counted from it."""

    def __init__(
        self,
        rule: Strategy,
        privacy: Privacy,
        *,
        current: Model,
        job: str,
        round_number: int,
        state: Model | None = None,
        participants: Sequence[str] = (),
    ) -> None:
        if not isinstance(rule, Averaging):
            raise InvalidConfig(f"{rule.name} cannot be private: it is not made of a mean")
        self._rule = rule
        self._privacy = privacy
        self._current = current
        self._state = state
        self._job = job
        self._round = round_number
        self._inner = Aggregation(strategy("fedavg"), current=current, participants=participants)

    def add(self, update: Update) -> None:
        """Counts an update once; raises `UpdateRejected`, and the round goes on."""
        if update.model is None:
            raise UpdateRejected("it has no model", client=update.client)
        if update.samples < 1:
            raise UpdateRejected(f"num_samples is {update.samples}", client=update.client)
        try:
            clipped = self._privacy.clipped(update.model, self._current)
        except UpdateRejected as error:
            raise UpdateRejected(error.reason, client=update.client) from error
        self._inner.add(replace(update, samples=1, model=clipped))

    def finish(self) -> Result:
        result = self._inner.finish()
        assert result.model is not None
        noisy = self._privacy.noised(
            result.model, clients=len(result.clients), job=self._job, round_number=self._round
        )
        outcome = self._rule.combine(noisy, self._current, self._state)
        if not outcome.model.is_finite():
            raise AggregationFailed(f"{self._rule.name}: the result is too large for its type")
        return replace(result, model=outcome.model, state=outcome.state, algorithm=self._rule.name)
