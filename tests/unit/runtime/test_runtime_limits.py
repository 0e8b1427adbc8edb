from __future__ import annotations

import pytest
from runtime_fakes import Clock

from corral.runtime import (
    Backoff,
    BucketLimiter,
    ExponentialLimiter,
    MaxLimiter,
    compare_versions,
    default_limiter,
    format_micro_time,
    format_time,
    join_key,
    key_of,
    split_key,
)
from corral.runtime.keys import InvalidVersion


def test_exponential_doubles_up_to_its_cap() -> None:
    limiter = ExponentialLimiter()
    waits = [limiter.when("a") for _ in range(400)]
    assert waits[:4] == [0.005, 0.01, 0.02, 0.04]
    assert waits[17] == pytest.approx(655.36) and set(waits[18:]) == {1000.0}
    assert limiter.when("b") == 0.005
    assert limiter.retries("a") == 400
    limiter.forget("a")
    assert limiter.retries("a") == 0 and limiter.when("a") == 0.005


def test_bucket_lets_a_burst_through_and_then_its_rate() -> None:
    clock = Clock()
    bucket = BucketLimiter(10, 3, clock=clock)
    assert [bucket.when() for _ in range(5)] == pytest.approx([0, 0, 0, 0.1, 0.2])
    clock.now = 0.3
    assert bucket.when() == pytest.approx(0)
    clock.now = 1000
    assert [bucket.when() for _ in range(4)] == pytest.approx([0, 0, 0, 0.1])


def test_bucket_try_take_reserves_nothing() -> None:
    clock = Clock()
    bucket = BucketLimiter(1, 2, clock=clock)
    assert [bucket.try_take() for _ in range(4)] == [True, True, False, False]
    clock.now = 1
    assert [bucket.try_take() for _ in range(2)] == [True, False]


def test_max_takes_the_longest_wait() -> None:
    clock = Clock()
    limiter = MaxLimiter(ExponentialLimiter(1, 60), BucketLimiter(0.1, 1, clock=clock))
    assert [limiter.when("a"), limiter.when("a"), limiter.when("b")] == [1, 10, 20]
    assert limiter.retries("a") == 2
    limiter.forget("a")
    assert limiter.retries("a") == 0


def test_default_is_that_of_client_go() -> None:
    limiter = default_limiter(clock=Clock())
    waits = [limiter.when(n) for n in range(102)]
    assert set(waits[:100]) == {0.005}
    assert waits[100:] == pytest.approx([0.1, 0.2])


def test_backoff_grows_and_recovers() -> None:
    clock = Clock()
    backoff = Backoff(clock=clock, rng=lambda: 0.0)
    assert [backoff.next() for _ in range(8)] == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30]
    clock.now = 120
    assert backoff.next() == 30
    clock.now = 241
    assert backoff.next() == 0.8
    assert Backoff(clock=clock, rng=lambda: 0.5).next() == pytest.approx(1.2)


def test_keys() -> None:
    assert key_of({"metadata": {"name": "a", "namespace": "n"}}) == "n/a" == join_key("n", "a")
    assert key_of({"metadata": {"name": "a"}}) == "a" == join_key(None, "a")
    assert split_key("n/a") == ("n", "a") and split_key("a") == ("", "a")


def test_times() -> None:
    assert format_time(1700000000.9) == "2023-11-14T22:13:20Z"
    assert format_micro_time(1700000000.25) == "2023-11-14T22:13:20.250000Z"


VERSIONS = [("1", "2", -1), ("2", "10", -1), ("10", "9", 1), ("7", "7", 0), ("9" * 30, "1", 1)]


@pytest.mark.parametrize(("a", "b", "expected"), VERSIONS)
def test_versions(a: str, b: str, expected: int) -> None:
    assert compare_versions(a, b) == expected


@pytest.mark.parametrize("bad", ["", "0", "01", "a", "-1", "1.5", "²"])
def test_versions_that_cannot_be_compared(bad: str) -> None:
    with pytest.raises(InvalidVersion, match="resource version is not well formed"):
        compare_versions("1", bad)
