"""Times of the API in and out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from corral.kube.times import (
    format_datetime,
    format_micro_time,
    format_time,
    parse_datetime,
    parse_time,
)


@pytest.mark.parametrize(
    "text", ["2024-05-01T10:00:00Z", "2024-05-01T12:00:00+02:00", "2024-05-01T10:00:00.000000Z"]
)
def test_every_spelling_of_a_time_is_the_same_moment(text: str) -> None:
    assert parse_time(text) == 1714557600.0
    assert parse_datetime(text) == datetime(2024, 5, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize("text", [None, ""])
def test_no_time(text: str | None) -> None:
    assert parse_time(text) is None
    assert parse_datetime(text) is None


def test_what_is_no_time_is_refused() -> None:
    with pytest.raises(ValueError, match="yesterday"):
        parse_time("yesterday")


def test_times_are_written_in_utc() -> None:
    assert format_time(1714557600.9) == "2024-05-01T10:00:00Z"
    assert format_micro_time(1714557600.25) == "2024-05-01T10:00:00.250000Z"
    there = datetime(2024, 5, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    assert format_datetime(there) == "2024-05-01T10:00:00Z"
