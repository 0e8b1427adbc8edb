from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from corral.podtools.kafka.client import Record
from corral.podtools.kafka.messages import ClientControl
from corral.podtools.kafka.ranges import Range
from corral.podtools.kafkaml.rounds import (
    Close,
    Extend,
    Fail,
    Finish,
    Publish,
    Rounds,
    RoundSettings,
    Wait,
)
from corral.podtools.kafkaml.streams import read_so_far, readable, seconds

RAW = {"data_type": "float32", "data_reshape": "2", "label_type": "uint8", "label_reshape": "1"}


def record(offset: int, key: bytes | None, value: bytes | None) -> Record:
    return Record(offset, key, value, (), 0.0)


def test_what_cannot_be_read_is_left_out() -> None:
    good = np.array([1, 2], np.float32).tobytes()
    found = readable(
        [
            record(0, b"\x01", good),
            record(1, None, good),
            record(2, b"\x01", b"short"),
            record(3, b"\x00", None),
            record(4, b"\x02", good),
        ],
        "RAW",
        RAW,
    )
    assert found is not None
    x, y = found
    assert x.tolist() == [[1, 2], [1, 2]]
    assert y.tolist() == [1, 2]
    assert readable([record(0, None, good)], "RAW", RAW) is None


def test_records_of_another_shape_are_left_out() -> None:
    found = readable([record(0, b"1", b"[1, 2]"), record(1, b"1", b"[1]")], "JSON", {})
    assert found is not None
    assert found[0].tolist() == [[1, 2]]


def test_times() -> None:
    assert seconds(1500) == 1.5
    assert seconds(-1) == math.inf
    assert seconds(None) == 60


def test_updates_say_how_far_a_stream_was_read() -> None:
    def update(data: str) -> bytes:
        return ClientControl([Range("w", 0, 0, 1)], 1, 5, {}, data=data).encode()

    found = read_so_far(
        [
            (b"me", update("t:0:0:10,t:1:0:4")),
            (b"me", update("t:0:0:16,other:0:0:99")),
            (b"other", update("t:0:0:90")),
            (b"me", b"garbage"),
            (b"me", update("t:x")),
            (b"me", update("")),
            (None, None),
        ],
        b"me",
        "t",
    )
    assert found == {0: 16, 1: 4}


class Play:
    def __init__(self, **settings: Any) -> None:
        self.rounds = Rounds(RoundSettings(streams=True, rounds=5, timeout=10, **settings))
        self.offset = 0

    def publish(self) -> None:
        self.rounds.take(
            {"type": "published", "version": self.rounds.version, "range": "m:0:0:1"}, 0.0
        )

    def update(self, client: str) -> None:
        self.rounds.take(
            {
                "type": "update", "client": client, "version": self.rounds.version, "num_data": 1,
                "range": "x:0:0:1", "offset": self.offset,
            },
            0.0,
        )  # fmt: skip
        self.offset += 1

    def aggregate(self, *clients: str) -> None:
        version = self.rounds.version
        self.rounds.take({"type": "closed", "version": version, "clients": clients}, 0.0)
        self.rounds.take({"type": "aggregated", "version": version}, 0.0)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_streams_that_are_over_end_the_deployment_well(mode: str) -> None:
    play = Play(mode=mode)
    play.publish()
    play.update("a")
    key = "a" if mode == "sync" else "a@0"
    assert play.rounds.next(1.0, ["a"]) == Close(0, (key,))
    play.aggregate(key)
    assert play.rounds.next(1.0, ["a", "b"], ["b"]) == Publish(1)
    assert play.rounds.next(1.0, ["a", "b"], ["a", "b"]) == Finish(1)
    play.publish()
    assert isinstance(play.rounds.next(1.0, ["a"]), Wait)
    assert play.rounds.next(1.0, ["a"], ["a"]) == Finish(1)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_round_waits_for_data_as_long_as_somebody_does(mode: str) -> None:
    play = Play(mode=mode)
    play.publish()
    for extensions in range(10):
        assert play.rounds.next(100.0 * (extensions + 1), ["a"]) == Extend(0)
        play.rounds.take({"type": "extended", "version": 0}, 100.0 * (extensions + 1))


def test_the_last_one_need_not_wait_for_those_whose_data_is_over() -> None:
    play = Play()
    play.publish()
    play.update("a")
    assert isinstance(play.rounds.next(1.0, ["a", "b"]), Wait)
    assert play.rounds.next(1.0, ["a", "b"], ["b"]) == Close(0, ("a",))


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_nobody_who_had_any_data_is_a_failure(mode: str) -> None:
    play = Play(mode=mode)
    play.publish()
    assert isinstance(play.rounds.next(1.0, ["a"], ["a"]), Fail)
