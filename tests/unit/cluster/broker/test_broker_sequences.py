from __future__ import annotations

from dataclasses import replace

import pytest

from corral.cluster.broker.errors import BrokerError
from corral.cluster.broker.storage.batches import Batch
from corral.cluster.broker.storage.producers import Producers

LAST = 0x7FFFFFFF


def batch(
    sequence: int, count: int = 1, *, producer: int = 7, epoch: int = 0, at: int = 1
) -> Batch:
    return Batch(0, 100, 0, 0, count - 1, at, at, producer, epoch, sequence, count)


def fed(*batches: Batch, limit: int = 10) -> Producers:
    producers = Producers(limit)
    offset = 0
    for one in batches:
        assert producers.check(one) is None
        producers.note(one, offset, float(one.max_timestamp))
        offset += one.count
    return producers


def refusal(producers: Producers, one: Batch) -> str:
    with pytest.raises(BrokerError) as error:
        producers.check(one)
    return error.value.code.name


def test_who_is_not_idempotent_is_not_remembered() -> None:
    producers = fed(batch(-1, producer=-1), batch(-1, producer=-1))
    assert len(producers) == 0


def test_a_row_goes_on() -> None:
    fed(batch(0, 3), batch(3), batch(4, 2))


def test_duplicates_have_their_offset() -> None:
    producers = fed(batch(0, 3), batch(3), batch(4, 2))
    found = producers.check(batch(3))
    assert found is not None
    assert found.base_offset == 3
    # the same beginning is not the same batch
    assert refusal(producers, batch(3, 2)) == "out_of_order_sequence_number"


def test_numbers_go_round() -> None:
    producers = fed(batch(LAST - 1, 3), batch(1))
    found = producers.check(batch(LAST - 1, 3))
    assert found is not None
    assert found.base_offset == 0


def test_epochs() -> None:
    producers = fed(batch(0), batch(1), batch(0, epoch=2))
    assert refusal(producers, batch(2)) == "invalid_producer_epoch"
    assert refusal(producers, batch(3, epoch=3)) == "out_of_order_sequence_number"
    assert producers.check(batch(1, epoch=2)) is None


def test_the_oldest_is_forgotten_first() -> None:
    producers = fed(*(batch(0, producer=n) for n in range(5)), batch(1, producer=0), limit=3)
    assert len(producers) == 3
    assert producers.check(batch(0, producer=4)) is not None
    assert producers.check(batch(1, producer=0)) is not None
    assert producers.check(batch(9, producer=1)) is None


def test_the_silent_are_forgotten() -> None:
    producers = fed(batch(0, producer=1, at=100), batch(0, producer=2, at=200))
    producers.forget_before(150)
    assert len(producers) == 1
    assert producers.check(batch(9, producer=1)) is None


def test_kept_and_read_again() -> None:
    producers = fed(*(batch(n) for n in range(8)), batch(0, producer=9, epoch=3))
    again = Producers.from_json(producers.to_json(), 10)
    assert again.to_json() == producers.to_json()
    found = again.check(batch(5))
    assert found is not None
    assert found.base_offset == 5
    assert refusal(again, replace(batch(0), producer_id=9)) == "invalid_producer_epoch"


@pytest.mark.parametrize("rows", [[[1, 2]], [["x", 0, 0, [[0, 0, 0]]]], [[1, 0, 0, []]], [None]])
def test_what_was_never_kept(rows: list[object]) -> None:
    with pytest.raises((ValueError, TypeError)):
        Producers.from_json(rows, 10)
