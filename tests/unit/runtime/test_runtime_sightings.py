"""Times that a wrong clock wrote count from when they were first seen."""

from __future__ import annotations

from corral.runtime import sightings
from corral.runtime.sightings import SKEW_S, Sightings

NOW = 1_800_000_000.0
AHEAD = NOW + 730 * 86400


def test_a_time_that_is_past_is_itself() -> None:
    known = Sightings()
    for at in (0.0, NOW - 1, NOW, NOW + SKEW_S):
        assert known.since(at, now=NOW) == at


def test_a_time_ahead_counts_from_when_it_was_first_seen() -> None:
    known = Sightings()
    assert known.since(AHEAD, now=NOW) == NOW
    assert known.since(AHEAD, now=NOW + 40) == NOW
    assert known.left(AHEAD, 60, now=NOW + 40) == 20
    assert known.left(AHEAD, 60, now=NOW + 70) == -10


def test_a_time_is_itself_again_once_it_has_come() -> None:
    """The own clock was behind for a moment."""
    known = Sightings()
    behind = NOW - 400 * 86400
    assert known.since(NOW, now=behind) == behind
    assert known.since(NOW, now=NOW + 1) == NOW
    assert known.since(NOW, now=behind + 2) == behind + 2


def test_it_was_never_seen_later_than_now() -> None:
    known = Sightings()
    assert known.since(AHEAD, now=NOW) == NOW
    assert known.since(AHEAD, now=NOW - 1000) == NOW - 1000


def test_only_so_many_are_remembered() -> None:
    known = Sightings()
    for number in range(sightings._KNOWN + 1):
        known.since(AHEAD + number, now=NOW)
    assert len(known._first) == sightings._KNOWN
    assert known.since(AHEAD + 1, now=NOW + 1) == NOW
    assert known.since(AHEAD, now=NOW + 1) == NOW + 1
