"""Cron schedules: five fields, descriptors, ``@every``, time zones; and the next time of one.

What cannot be read is refused in the words that clients of Kubernetes know.
Times skipped by a change to summer time do not occur; times that occur twice in the change back
occur twice. With both a day of the month and a day of the week given, either is enough.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final, Protocol
from zoneinfo import ZoneInfo

__all__ = [
    "FieldSchedule",
    "IntervalSchedule",
    "Schedule",
    "ScheduleError",
    "known_zone",
    "parse",
    "zone",
]

_MONTHS = {
    name: i + 1 for i, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split())
}
_DAYS = {name: i for i, name in enumerate("sun mon tue wed thu fri sat".split())}
_NO_NAMES: Final[Mapping[str, int]] = {}
_BOUNDS: Final[tuple[tuple[int, int, Mapping[str, int]], ...]] = (
    (0, 59, _NO_NAMES),
    (0, 23, _NO_NAMES),
    (1, 31, _NO_NAMES),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
_DESCRIPTORS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_YEARS_AHEAD: Final = 5
"""A schedule with no time in so many years has none."""
_DURATION = re.compile(
    r"[-+]?(?:0|(?:(?:\d++(?:\.\d*+)?|\.\d++)(?:ns|us|µs|μs|ms|s|m|h))+)"
).fullmatch
_DURATION_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)").findall
_NUMBER = re.compile(r"[+-]?[0-9]+").fullmatch
_UNIT_SECONDS: Final = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}


_LONGEST: Final = 2**63 / 1e9
"""Seconds: what Go has room for."""


class ScheduleError(ValueError):
    """The schedule cannot be read, or never comes; the text says why."""


class Schedule(Protocol):
    """A rule that says when a job runs next."""

    def next(self, after: datetime) -> datetime | None:
        """The first moment later than ``after``; None if there is none in five years."""


@dataclass(frozen=True, slots=True)
class IntervalSchedule:
    """``@every``: a fixed time after the last one, on whole seconds."""

    every: timedelta

    def next(self, after: datetime) -> datetime | None:
        return after.replace(microsecond=0) + self.every


@dataclass(frozen=True, slots=True)
class FieldSchedule:
    """The five fields, as the values each may have, in one time zone."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    """One of the two day fields is a star: then both have to match, else one is enough."""
    zone: tzinfo = UTC

    def next(self, after: datetime) -> datetime | None:
        # Steps are taken in UTC: local arithmetic would lose or repeat an hour.
        at = after.astimezone(UTC).replace(microsecond=0) + timedelta(seconds=1)
        last_year = at.astimezone(self.zone).year + _YEARS_AHEAD
        while True:
            local = at.astimezone(self.zone)
            if local.year > last_year:
                return None
            if local.month not in self.months:
                at = _month_after(local)
            elif not self._day_matches(local):
                at = _day_after(local)
            elif local.hour not in self.hours:
                at += timedelta(hours=1, minutes=-local.minute, seconds=-local.second)
            elif local.minute not in self.minutes:
                at += timedelta(minutes=1, seconds=-local.second)
            elif local.second:
                at += timedelta(seconds=60 - local.second)
            else:
                return at

    def _day_matches(self, local: datetime) -> bool:
        day = local.day in self.days
        weekday = local.isoweekday() % 7 in self.weekdays
        return (day and weekday) if self.any_day else (day or weekday)


def _month_after(local: datetime) -> datetime:
    year, month = local.year + local.month // 12, local.month % 12 + 1
    return _midnight(local.replace(year=year, month=month, day=1))


def _day_after(local: datetime) -> datetime:
    return _midnight(local + timedelta(days=1))


def _midnight(local: datetime) -> datetime:
    """The start of the local day, in UTC; where midnight is skipped, the first time there is."""
    return local.replace(hour=0, minute=0, second=0, fold=0).astimezone(UTC)


@lru_cache(maxsize=512)
def parse(text: str, zone_name: str | None = None) -> Schedule:
    """Reads a schedule. A zone in the text (``TZ=``, ``CRON_TZ=``) wins over ``zone_name``.

    Raises:
        ScheduleError: The text or a time zone cannot be read.
    """
    if not text:
        raise ScheduleError("empty spec string")
    where: tzinfo = UTC
    if text.startswith(("TZ=", "CRON_TZ=")):
        where, text = _split_zone(text)
    elif zone_name:
        where = zone(zone_name)
    if text.startswith("@every "):
        return IntervalSchedule(_interval(text))
    if text.startswith("@"):
        if text not in _DESCRIPTORS:
            raise ScheduleError(f"unrecognized descriptor: {text}")
        text = _DESCRIPTORS[text]
    return _from_fields(text.split(), where)


def _split_zone(text: str) -> tuple[tzinfo, str]:
    head, space, rest = text.partition(" ")
    equals = text.index("=") + 1
    if not space:
        why = f"runtime error: slice bounds out of range [{equals}:-1]"
        raise ScheduleError(f"invalid schedule format: {why}")
    name = head[equals:]
    try:
        return zone(name), rest.strip()
    except ScheduleError as err:
        raise ScheduleError(f"provided bad location {name}: {err}") from err


@lru_cache(maxsize=256)
def zone(name: str) -> tzinfo:
    """The time zone of that name; the local one of a server is UTC.

    Raises:
        ScheduleError: There is none.
    """
    if name in ("", "UTC", "Local"):
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as err:
        raise ScheduleError(f"unknown time zone {name}") from err


def known_zone(name: str) -> bool:
    """Whether there is a time zone of that name."""
    try:
        zone(name)
    except ScheduleError:
        return False
    return True


def _interval(text: str) -> timedelta:
    duration = text.removeprefix("@every ")
    parts = _DURATION_PART(duration) if _DURATION(duration) else [("inf", "h")]
    seconds = sum(float(n) * _UNIT_SECONDS[unit] for n, unit in parts)
    if seconds >= _LONGEST:
        why = f"time: invalid duration {_quoted(duration)}"
        raise ScheduleError(f"failed to parse duration {text}: {why}")
    # Shorter than a second, or back in time: once a second is all there is.
    return timedelta(seconds=1 if duration.startswith("-") else max(1, int(seconds)))


def _from_fields(fields: list[str], where: tzinfo) -> FieldSchedule:
    if len(fields) != len(_BOUNDS):
        shown = " ".join(fields)
        raise ScheduleError(f"expected exactly 5 fields, found {len(fields)}: [{shown}]")
    values: list[frozenset[int]] = []
    stars: list[bool] = []
    for text, (low, high, names) in zip(fields, _BOUNDS, strict=True):
        ranges = [_range(part, low, high, names) for part in text.split(",") if part]
        values.append(frozenset(value for found, _ in ranges for value in found))
        stars.append(any(star for _, star in ranges))
    minutes, hours, days, months, weekdays = values
    return FieldSchedule(
        minutes, hours, days, months, weekdays, any_day=stars[2] or stars[4], zone=where
    )


def _range(expr: str, low: int, high: int, names: Mapping[str, int]) -> tuple[range, bool]:
    """The values of one part of a field, and whether it is a star (``*/2`` is not)."""
    span, *steps = expr.split("/")
    ends = span.split("-")
    star = ends[0] in ("*", "?")
    if star:
        start, end = low, high
    else:
        start = end = _value(ends[0], names)
        if len(ends) == 2:
            end = _value(ends[1], names)
        elif len(ends) > 2:
            raise ScheduleError(f"too many hyphens: {expr}")
    if len(steps) > 1:
        raise ScheduleError(f"too many slashes: {expr}")
    step = _value(steps[0], _NO_NAMES) if steps else 1
    if steps and len(ends) == 1:
        end = high
    _check(expr, start, end, step=step, low=low, high=high)
    return range(start, end + 1, step), star and step == 1


def _check(expr: str, start: int, end: int, *, step: int, low: int, high: int) -> None:
    if start < low:
        raise ScheduleError(f"beginning of range ({start}) below minimum ({low}): {expr}")
    if end > high:
        raise ScheduleError(f"end of range ({end}) above maximum ({high}): {expr}")
    if start > end:
        raise ScheduleError(f"beginning of range ({start}) beyond end of range ({end}): {expr}")
    if step == 0:
        raise ScheduleError(f"step of range should be a positive number: {expr}")


def _value(text: str, names: Mapping[str, int]) -> int:
    named = names.get(text.lower())
    if named is not None:
        return named
    if not _NUMBER(text):
        why = f"strconv.Atoi: parsing {_quoted(text)}: invalid syntax"
        raise ScheduleError(f"failed to parse int from {text}: {why}")
    number = int(text)
    if number < 0:
        raise ScheduleError(f"negative number ({number}) not allowed: {text}")
    return number


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
