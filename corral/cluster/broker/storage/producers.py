"""What idempotent producers sent last to a partition: no record twice, none missing. No I/O.

A producer numbers the records it sends to a partition. A batch is new when its first number
follows the last one, and a duplicate when it is one of the last five: a producer has at most five
requests under way. A larger epoch begins at 0 again and fences the smaller one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from corral.cluster.broker.errors import BrokerError, ErrorCode
from corral.cluster.broker.storage.batches import Batch
from corral.cluster.broker.storage.usage import Usage

__all__ = ["Producers", "Sent"]

_REMEMBERED: Final = 5
_SEQUENCES: Final = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class Sent:
    """A batch that is in the log."""

    first: int
    last: int
    base_offset: int


@dataclass(slots=True)
class _Producer:
    epoch: int
    seen: float
    """When its last batch came, a Unix time; not what the batch says."""
    batches: deque[Sent] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))


class Producers:
    """Of one partition; the oldest is forgotten when there are too many."""

    def __init__(self, limit: int, usage: Usage | None = None) -> None:
        self._limit = limit
        self._usage = usage or Usage(2**63)
        """Counts those of all partitions of a tenant."""
        self._known: dict[int, _Producer] = {}
        """In the order of their last batches."""

    def __len__(self) -> int:
        return len(self._known)

    def check(self, batch: Batch) -> Sent | None:
        """None when the batch is new; the earlier one when it is a duplicate.

        Raises:
            BrokerError: the producer was fenced, or a batch before this one is missing.
        """
        if batch.producer_id < 0:
            return None
        known = self._known.get(batch.producer_id)
        if known is None:
            # one we never knew, or have forgotten: where it goes on is its own affair
            return None
        if batch.producer_epoch < known.epoch:
            raise BrokerError(
                ErrorCode.invalid_producer_epoch,
                f"producer {batch.producer_id} has epoch {known.epoch} by now",
            )
        if batch.producer_epoch > known.epoch:
            self._begin(batch)
            return None
        for sent in known.batches:
            if (sent.first, sent.last) == (batch.base_sequence, batch.last_sequence):
                return sent
        self._follow(batch, known.batches[-1].last)
        return None

    def _begin(self, batch: Batch) -> None:
        if batch.base_sequence != 0:
            raise BrokerError(
                ErrorCode.out_of_order_sequence_number,
                f"a new epoch begins at 0, not at {batch.base_sequence}",
            )

    def _follow(self, batch: Batch, last: int) -> None:
        wanted = (last + 1) & _SEQUENCES
        if batch.base_sequence == wanted:
            return
        raise BrokerError(
            ErrorCode.out_of_order_sequence_number,
            f"producer {batch.producer_id}: {wanted} was to come, not {batch.base_sequence}",
        )

    def note(self, batch: Batch, base_offset: int, now: float) -> None:
        """The batch is in the log."""
        if batch.producer_id < 0:
            return
        known = self._known.pop(batch.producer_id, None)
        self._usage.producers += known is None
        if known is None or known.epoch != batch.producer_epoch:
            known = _Producer(batch.producer_epoch, now)
        known.seen = now
        known.batches.append(Sent(batch.base_sequence, batch.last_sequence, base_offset))
        self._known[batch.producer_id] = known
        while len(self._known) > self._limit or (
            len(self._known) > 1 and self._usage.producers > self._usage.most_producers
        ):
            self._forget(next(iter(self._known)))

    def _forget(self, number: int) -> None:
        del self._known[number]
        self._usage.producers -= 1

    def clear(self) -> None:
        """The partition goes."""
        for number in tuple(self._known):
            self._forget(number)

    def forget_before(self, then: float) -> None:
        """Forget those whose batches all came earlier."""
        old = [number for number, known in self._known.items() if known.seen < then]
        for number in old:
            self._forget(number)

    def to_json(self) -> list[list[Any]]:
        return [
            [
                number,
                known.epoch,
                known.seen,
                [[s.first, s.last, s.base_offset] for s in known.batches],
            ]
            for number, known in self._known.items()
        ]

    @classmethod
    def from_json(cls, rows: Iterable[Any], limit: int, usage: Usage | None = None) -> Producers:
        """Raises ValueError, TypeError where it is not what `to_json` gives."""
        known: dict[int, _Producer] = {}
        for number, epoch, seen, batches in rows:
            one = known[int(number)] = _Producer(int(epoch), float(seen))
            one.batches.extend(Sent(*map(int, sent)) for sent in batches)
            if not one.batches:
                raise ValueError("a producer without batches")
        producers = cls(limit, usage)
        producers._known = known
        producers._usage.producers += len(known)
        return producers
