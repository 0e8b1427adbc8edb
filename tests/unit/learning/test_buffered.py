"""Asynchronous rounds: versions, staleness, and what is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from corral.learning import AggregationFailed, InvalidConfig, Model, Update, UpdateRejected
from corral.learning.buffered import Buffered, BufferSettings


def change(client, numbers):
    return Update(client, 1, Model.vector(np.array(numbers, np.float32)))


def buffer(**settings):
    start = Model.vector(np.zeros(2, np.float32))
    return Buffered(start, settings=BufferSettings(**settings))


def test_a_full_buffer_makes_a_version():
    one = buffer(size=2, learning_rate=0.5)
    assert not one.add(change("a", [1, 2]), started_from=0)
    assert one.waiting == 1
    assert one.add(change("b", [3, 4]), started_from=0)
    assert (one.version, one.waiting) == (1, 0)
    assert one.model.vectors[0].tolist() == [1.0, 1.5]


def test_a_stale_change_counts_less():
    one = buffer(size=1)
    for _ in range(3):
        one.add(change("fast", [0, 0]), started_from=one.version)
    one.add(change("slow", [1, 2]), started_from=0)
    assert one.model.vectors[0].tolist() == pytest.approx([0.5, 1.0])


def test_within_a_buffer_the_order_does_not_matter_bit_for_bit():
    rng = np.random.default_rng(6)
    changes = [(change(f"c{k}", rng.standard_normal(2)), k % 3) for k in range(4)]
    results = set()
    for order in itertools.permutations(changes):
        one = Buffered(
            Model.vector(np.ones(2, np.float32)), version=5, settings=BufferSettings(size=4)
        )
        for update, age in order:
            one.add(update, started_from=5 - age)
        results.add(one.model.vectors[0].tobytes())
    assert len(results) == 1


@pytest.mark.parametrize(
    ("update", "version", "reason"),
    [
        (change("a", [1, 1]), 9, "counted already"),
        (change("b", [1, 1]), 10, "does not exist yet"),
        (change("b", [1, 1]), 5, "4 versions old"),
        (change("b", [1]), 9, "mismatched"),
        (change("b", [1, np.nan]), 9, "NaN"),
        (Update("b", 1), 9, "no model"),
    ],
)
def test_what_cannot_count_is_refused_and_leaves_no_trace(update, version, reason):
    start = Model.vector(np.zeros(2, np.float32))
    one = Buffered(start, version=9, settings=BufferSettings(size=2, max_staleness=3))
    one.add(change("a", [1, 1]), started_from=9)
    with pytest.raises(UpdateRejected, match=reason):
        one.add(update, started_from=version)
    one.add(change("c", [3, 3]), started_from=9)
    assert one.model.vectors[0].tolist() == [2.0, 2.0]


def test_settings_are_checked():
    for settings in ({"size": 0}, {"learning_rate": 0}, {"max_staleness": -1}):
        with pytest.raises(InvalidConfig):
            BufferSettings(**settings)


def test_a_version_too_large_is_an_error_and_the_model_stays():
    one = Buffered(Model.vector(np.full(2, 3e38, np.float32)), settings=BufferSettings(size=1))
    with pytest.raises(AggregationFailed, match="too large"):
        one.add(change("a", [3e38, 3e38]), started_from=0)
    assert one.version == 0
    assert one.model.is_finite()
