"""Cron schedules in the standard five-field syntax, descriptors included."""

from __future__ import annotations

import re
from functools import lru_cache
from zoneinfo import ZoneInfo

from corral.cluster.apiserver.errors import show

__all__ = ["known_zone", "schedule_error"]

_MONTHS = {
    name: i + 1 for i, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split())
}
_DAYS = {name: i for i, name in enumerate("sun mon tue wed thu fri sat".split())}
_BOUNDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
_DESCRIPTORS = frozenset(
    ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
)
_DURATION = re.compile(r"[-+]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)").fullmatch
_NUMBER = re.compile(r"[+-]?\d+").fullmatch


class _Bad(ValueError):
    """The schedule cannot be read; the text says why."""


def _number(text: str) -> int:
    if not _NUMBER(text):
        why = f"strconv.Atoi: parsing {show(text)}: invalid syntax"
        raise _Bad(f"failed to parse int from {text}: {why}")
    value = int(text)
    if value < 0:
        raise _Bad(f"negative number ({value}) not allowed: {text}")
    return value


def _number_or_name(text: str, names: dict[str, int]) -> int:
    found = names.get(text.lower())
    return _number(text) if found is None else found


def _check_range(expr: str, low: int, high: int, names: dict[str, int]) -> None:
    parts = expr.split("/")
    ends = parts[0].split("-")
    if ends[0] in ("*", "?"):
        start, end = low, high
    else:
        start = end = _number_or_name(ends[0], names)
        if len(ends) == 2:
            end = _number_or_name(ends[1], names)
        elif len(ends) > 2:
            raise _Bad(f"too many hyphens: {expr}")
    step = 1
    if len(parts) == 2:
        step = _number(parts[1])
        if len(ends) == 1:
            end = high
    elif len(parts) > 2:
        raise _Bad(f"too many slashes: {expr}")
    if start < low:
        raise _Bad(f"beginning of range ({start}) below minimum ({low}): {expr}")
    if end > high:
        raise _Bad(f"end of range ({end}) above maximum ({high}): {expr}")
    if start > end:
        raise _Bad(f"beginning of range ({start}) beyond end of range ({end}): {expr}")
    if step == 0:
        raise _Bad(f"step of range should be a positive number: {expr}")


def _check_descriptor(text: str) -> None:
    if text in _DESCRIPTORS:
        return
    if text.startswith("@every "):
        duration = text[len("@every ") :]
        if not _DURATION(duration):
            why = f"time: invalid duration {show(duration)}"
            raise _Bad(f"failed to parse duration {text}: {why}")
        return
    raise _Bad(f"unrecognized descriptor: {text}")


def _check(text: str) -> None:
    if text.startswith(("TZ=", "CRON_TZ=")):
        zone, space, rest = text.partition(" ")
        if not space:
            raise _Bad("invalid schedule format: runtime error: slice bounds out of range [3:-1]")
        name = zone.partition("=")[2]
        if not known_zone(name):
            raise _Bad(f"provided bad location {name}: unknown time zone {name}")
        text = rest.strip()
    if text.startswith("@"):
        _check_descriptor(text)
        return
    fields = text.split()
    if len(fields) != 5:
        shown = " ".join(fields)
        raise _Bad(f"expected exactly 5 fields, found {len(fields)}: [{shown}]")
    for field, (low, high, names) in zip(fields, _BOUNDS, strict=True):
        for expr in filter(None, field.split(",")):
            _check_range(expr, low, high, names)


def schedule_error(text: str) -> str:
    """Why a schedule cannot be read; empty when it can."""
    try:
        _check(text)
    except _Bad as bad:
        return str(bad)
    return ""


@lru_cache(maxsize=256)
def known_zone(name: str) -> bool:
    """Whether the time zone database knows the name."""
    if name in ("", "UTC", "Local"):
        return True
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return False
    return True
