"""A partition on disk: read from anywhere, found again after anything."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from corral.cluster.broker.errors import BrokerError
from corral.cluster.broker.settings import Limits
from corral.cluster.broker.storage import batches
from corral.cluster.broker.storage.log import PartitionLog
from corral.cluster.broker.topicconfig import TopicConfig
from tests.cluster.broker.broker_wire import batch

SEED = 20261116


def opened(folder: Path, **config: str) -> PartitionLog:
    own = {name.replace("_", "."): value for name, value in config.items()}
    return PartitionLog(folder / "p", TopicConfig(own, {}), Limits())


def offsets(log: PartitionLog, start: int, limit: int = 2**30) -> list[int]:
    """The first offsets of all batches from one on."""
    found: list[int] = []
    while (piece := log.read(start, limit, whole_first=True)) is not None:
        data = piece.read()
        for at, one in batches.batches_in(data):
            if at + one.size <= len(data):
                assert batches.is_whole(data, one, at)
                found.append(one.base_offset)
                start = one.next_offset
    return found


def test_batches_get_their_offsets(tmp_path: Path) -> None:
    log = opened(tmp_path)
    assert [log.append(batch(*[b"x"] * n)).base_offset for n in (1, 3, 2)] == [0, 1, 4]
    assert log.end == 6
    assert offsets(log, 0) == [0, 1, 4]
    assert offsets(log, 3) == [1, 4]  # the batch that has it
    assert offsets(log, 6) == []
    with pytest.raises(BrokerError):
        log.read(7, 100, whole_first=True)


def test_any_offset_is_found_in_many_segments(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    log = opened(tmp_path, segment_bytes=str(2**20))
    starts = []
    for _ in range(600):
        count = rng.randrange(1, 5)
        size = rng.choice((10, 500, 5000, 40_000))
        starts.append(log.append(batch(*[rng.randbytes(size // count)] * count)).base_offset)
    assert len(list((tmp_path / "p").glob("*.log"))) > 3
    assert offsets(log, 0) == starts
    for wanted in rng.sample(range(log.end), 60):
        piece = log.read(wanted, 100, whole_first=True)
        assert piece is not None
        one = batches.parse(piece.read())
        assert one is not None
        assert one.base_offset <= wanted < one.next_offset
    assert offsets(opened(tmp_path, segment_bytes=str(2**20)), 0) == starts


@pytest.mark.parametrize("flushed", [False, True])
def test_a_torn_end_is_cut_off(tmp_path: Path, flushed: bool) -> None:
    rng = random.Random(SEED)
    log = opened(tmp_path)
    starts = [log.append(batch(rng.randbytes(200))).base_offset for _ in range(20)]
    if flushed:
        asyncio.run(log.close())
    last = log.append(batch(rng.randbytes(200)))
    path = tmp_path / "p" / f"{0:020d}.log"
    whole = path.read_bytes()
    for cut in (1, 50, 150, 250):
        path.write_bytes(whole[:-cut])
        again = opened(tmp_path)
        assert offsets(again, 0) == starts
        assert again.append(batch(b"next")).base_offset == last.base_offset
        path.write_bytes(whole)
    path.write_bytes(whole[:-10] + bytes(10))
    assert offsets(opened(tmp_path), 0) == starts
    path.write_bytes(whole + bytes(5000))
    assert offsets(opened(tmp_path), 0) == [*starts, last.base_offset]


@pytest.mark.parametrize("flushed", [False, True])
def test_producers_are_known_again(tmp_path: Path, flushed: bool) -> None:
    log = opened(tmp_path)
    for number in range(8):
        log.append(batch(b"%d" % number, producer=5, epoch=0, sequence=number))
    if flushed:
        asyncio.run(log.close())
    log.append(batch(b"8", producer=5, epoch=0, sequence=8))
    again = opened(tmp_path)
    found = again.append(batch(b"7", producer=5, epoch=0, sequence=7))
    assert (found.base_offset, found.duplicate) == (7, True)
    assert again.append(batch(b"9", producer=5, epoch=0, sequence=9)).base_offset == 9


def test_a_damaged_state_is_not_believed(tmp_path: Path) -> None:
    log = opened(tmp_path)
    starts = [log.append(batch(b"x" * 100)).base_offset for _ in range(50)]
    asyncio.run(log.close())
    state = tmp_path / "p" / f"{0:020d}.state"
    data = bytearray(state.read_bytes())
    data[len(data) // 2] ^= 1
    state.write_bytes(data)
    assert offsets(opened(tmp_path), 0) == starts


def test_deleting_and_coming_back(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for _ in range(10):
        log.append(batch(b"x"))
    assert log.delete_before(4) == 4
    assert log.delete_before(2) == 4
    with pytest.raises(BrokerError):
        log.read(3, 100, whole_first=True)
    assert opened(tmp_path).start == 4
    assert log.delete_before(-1) == 10
    again = opened(tmp_path)
    assert (again.start, again.end) == (10, 10)
    assert again.append(batch(b"y")).base_offset == 10
    assert offsets(opened(tmp_path), 10) == [10]


def test_retention_by_age_and_size(tmp_path: Path) -> None:
    log = opened(tmp_path, segment_bytes=str(2**20), retention_ms="1000")
    for number in range(6):
        log.append(batch(b"x" * 600_000, timestamp=number * 1000))
    log.retain(now=3.5)
    assert log.start == 3
    log.retain(now=100)
    assert (log.start, log.end) == (6, 6)

    other = opened(tmp_path / "b", segment_bytes=str(2**20), retention_bytes=str(2_000_000))
    for _ in range(6):
        other.append(batch(b"x" * 600_000))
    other.retain(now=0)
    assert other.start == 2
    assert offsets(other, 2) == [2, 3, 4, 5]


def test_times(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for number in range(200):
        log.append(batch(b"x" * 500, b"y", timestamp=1000 + number * 10))
    assert log.offset_at(0) == (0, 1000)
    assert log.offset_at(1500) == (100, 1500)
    assert log.offset_at(1501) == (102, 1510)
    assert log.offset_at(9999) is None
    assert log.latest_time() == (398, 2990)
    log.delete_before(101)
    assert log.offset_at(0) == (101, 1000)


def test_whoever_waits_is_woken(tmp_path: Path) -> None:
    log = opened(tmp_path)
    calls: list[int] = []

    def wake() -> None:
        calls.append(log.end)

    log.on_change(wake)
    log.append(batch(b"x"))
    log.forget(wake)
    log.append(batch(b"x"))
    assert calls == [1]


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b"", "corrupt_message"),
        (batch(b"x")[:40], "corrupt_message"),
        (batch(b"x") + batch(b"y"), "invalid_record"),
        (batch(b"x")[:-1] + b"?", "corrupt_message"),
        (batch(b"x")[:16] + b"\x01" + batch(b"x")[17:], "unsupported_for_message_format"),
        (batch(), "corrupt_message"),
        (batch(b"x" * 2_000_000), "message_too_large"),
        (batch(b"x", producer=1, epoch=0, sequence=-1), "invalid_record"),
    ],
    ids=["nothing", "cut", "two", "damaged", "old-format", "empty", "large", "no-sequence"],
)
def test_what_is_refused(tmp_path: Path, data: bytes, wanted: str) -> None:
    log = opened(tmp_path)
    with pytest.raises(BrokerError) as error:
        log.append(data)
    assert error.value.code.name == wanted
    assert log.end == 0


def rest(log: PartitionLog) -> None:
    """As the upkeep does when nobody has used anything for long."""

    async def now() -> None:
        await log.flush()
        await log.checkpoint()
        for segment in log._segments:
            segment.rest(float("inf"))

    asyncio.run(now())


def test_what_rests_is_there_again(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    log = opened(tmp_path, segment_bytes=str(2**20), flush_ms="0")
    rest(log)
    assert log.read(0, 100, whole_first=True) is None
    starts = []
    for number in range(40):
        starts.append(log.append(batch(rng.randbytes(100_000), timestamp=number)).base_offset)
        if rng.random() < 0.5:
            rest(log)
        assert offsets(log, 0) == starts
        assert log.offset_at(number) == (number, number)
    log.delete_before(-1)
    rest(log)
    assert offsets(log, 40) == []
    assert log.append(batch(b"y")).base_offset == 40


def test_an_index_that_is_lost_is_made_again(tmp_path: Path) -> None:
    log = opened(tmp_path, segment_bytes=str(2**20))
    for number in range(300):
        log.append(batch(b"x" * 5000, timestamp=number))
    asyncio.run(log.close())
    for segment in log._segments:
        segment.rest(float("inf"))
    for path in (tmp_path / "p").glob("*.state"):
        path.unlink()
    assert offsets(log, 0) == list(range(300))
    assert log.offset_at(250) == (250, 250)
