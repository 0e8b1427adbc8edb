"""The leaf values whose JSON form is not their Go form: times, durations, bytes.

Each function takes the text of a JSON string and gives it back as Go would print it; ``ValueError``
carries Go's message.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache

__all__ = ["base64_text", "duration_text", "from_unix", "micro_time_text", "time_text"]

_RFC3339 = "2006-01-02T15:04:05Z07:00"
_MICRO = "2006-01-02T15:04:05.000000Z07:00"
_PLAIN = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_OFFSET = re.compile(r"([+-])([0-9]{2}):([0-9]{2})")
_ZERO = datetime(1, 1, 1, tzinfo=UTC)
# What Go's parser expects piece by piece: the layout piece, its pattern, its range and its name.
_PIECES: tuple[tuple[str, re.Pattern[str], int, int, str], ...] = (
    ("2006", re.compile(r"[0-9]{4}"), 0, 9999, "year"),
    ("-", re.compile(r"-"), 0, 0, ""),
    ("01", re.compile(r"[0-9]{2}"), 1, 12, "month"),
    ("-", re.compile(r"-"), 0, 0, ""),
    ("02", re.compile(r"[0-9]{2}"), 1, 31, "day"),
    ("T", re.compile(r"T"), 0, 0, ""),
    ("15", re.compile(r"[0-9]{1,2}"), 0, 23, "hour"),
    (":", re.compile(r":"), 0, 0, ""),
    ("04", re.compile(r"[0-9]{2}"), 0, 59, "minute"),
    (":", re.compile(r":"), 0, 0, ""),
    ("05", re.compile(r"[0-9]{2}"), 0, 59, "second"),
)
_FRACTION = re.compile(r"[.,]([0-9]+)")
_MICROS = re.compile(r"[.,]([0-9]{6})")


@lru_cache(maxsize=8192)
def time_text(text: str) -> str | None:
    """A ``metav1.Time``: whole seconds in UTC; None for the zero time."""
    if _PLAIN.fullmatch(text) and text != "0001-01-01T00:00:00Z":
        try:
            datetime.fromisoformat(text)
        except ValueError:
            pass
        else:
            return text
    moment = _parse(text, _RFC3339)
    return None if moment == _ZERO else f"{moment:%Y-%m-%dT%H:%M:%SZ}".rjust(20, "0")


@lru_cache(maxsize=8192)
def micro_time_text(text: str) -> str | None:
    """A ``metav1.MicroTime``: six decimals in UTC; None for the zero time."""
    moment = _parse(text, _MICRO)
    return None if moment == _ZERO else f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}".rjust(27, "0")


def from_unix(seconds: int, nanos: int, *, micro: bool) -> str | None:
    """The JSON form of a protobuf timestamp.

    Raises:
        ValueError: it is outside the years 1 to 9999.
    """
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(
            seconds=seconds, microseconds=nanos // 1000 if micro else 0
        )
    except OverflowError:
        raise ValueError("timestamp out of range") from None
    if moment == _ZERO:
        return None
    # %Y does not fill up the years before 1000.
    if micro:
        return f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}".rjust(27, "0")
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}".rjust(20, "0")


_Refuse = Callable[[str, str], ValueError]


def _parse(text: str, layout: str) -> datetime:
    def refuse(value: str, piece: str) -> ValueError:
        return ValueError(
            f'parsing time "{text}" as "{layout}": cannot parse "{value}" as "{piece}"'
        )

    def out_of_range(name: str) -> ValueError:
        return ValueError(f'parsing time "{text}": {name} out of range')

    numbers: list[int] = []
    at, late = 0, ""
    for piece, pattern, low, high, name in _PIECES:
        match = pattern.match(text, at)
        if match is None:
            raise refuse(text[at:], piece)
        at = match.end()
        if name:
            numbers.append(int(match.group()))
            if not low <= numbers[-1] <= high:
                # Go sees a wrong day only once the whole text is read.
                if name != "day":
                    raise out_of_range(name)
                late = "day"
    at, micros = _fraction(text, at, layout, refuse)
    shift = _zone(text, at, refuse)
    if late:
        raise out_of_range(late)
    try:
        return datetime(*numbers, micros, tzinfo=UTC) - shift  # type: ignore[arg-type,misc]
    except (ValueError, OverflowError):
        raise out_of_range("day") from None


def _fraction(text: str, at: int, layout: str, refuse: _Refuse) -> tuple[int, int]:
    if layout == _MICRO:
        match = _MICROS.match(text, at)
        if match is None:
            raise refuse(text[at:], ".000000")
    else:
        match = _FRACTION.match(text, at)
        if match is None:
            return at, 0
    return match.end(), int(match.group(1)[:6].ljust(6, "0"))


def _zone(text: str, at: int, refuse: _Refuse) -> timedelta:
    rest = text[at:]
    if rest[:1] == "Z":
        shift, rest = timedelta(), rest[1:]
    else:
        match = _OFFSET.match(rest)
        if match is None:
            raise refuse(rest, "Z07:00")
        for unit, group, most in (("hour", 2, 24), ("minute", 3, 60)):
            if int(match.group(group)) > most:
                raise ValueError(f'parsing time "{text}": time zone offset {unit} out of range')
        shift = timedelta(hours=int(match.group(2)), minutes=int(match.group(3)))
        shift, rest = (-shift if match.group(1) == "-" else shift), rest[6:]
    if rest:
        raise ValueError(f'parsing time "{text}": extra text: "{rest}"')
    return shift


def base64_text(text: str) -> str:
    """Standard base64 as Go prints it: no line breaks, no stray bits at the end."""
    plain = text.replace("\n", "").replace("\r", "") if "\n" in text or "\r" in text else text
    try:
        data = binascii.a2b_base64(plain, strict_mode=True)
    except ValueError:
        data = None
    if data is None or len(plain) % 4:
        raise ValueError(f"illegal base64 data at input byte {_bad_byte(text)}")
    return binascii.b2a_base64(data, newline=False).decode()


_ALPHABET = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")


def _bad_byte(text: str) -> int:
    """Where Go's decoder stops: the first wrong byte, or the end of what came before."""
    data = text.encode()
    group = 0
    for at, byte in enumerate(data):
        if byte in b"\r\n":
            continue
        if byte in _ALPHABET:
            group = (group + 1) % 4
            continue
        if byte != ord("=") or group < 2:
            return at
        return _after_padding(data, at, group)
    # Too few digits in the last group: Go names the byte that group started at.
    return len(data) - group


def _after_padding(data: bytes, at: int, group: int) -> int:
    following = [i for i in range(at + 1, len(data)) if data[i] not in b"\r\n"]
    if group == 2:
        if not following:
            return len(data)
        if data[following[0]] != ord("="):
            return following[0] - 1
        following = following[1:]
    return following[0] if following else len(data)


_UNITS = {
    "ns": 1, "us": 10**3, "\u00b5s": 10**3, "\u03bcs": 10**3, "ms": 10**6, "s": 10**9,
    "m": 60 * 10**9, "h": 3600 * 10**9,
}  # fmt: skip
_DURATION = re.compile(r"([0-9]*+(?:\.[0-9]*+)?)(ns|us|\u00b5s|\u03bcs|ms|s|m|h)")


def duration_text(text: str) -> str:
    """A ``metav1.Duration`` as Go prints it, e.g. ``1h0m0s``."""
    sign, rest = ("-", text[1:]) if text[:1] == "-" else ("", text.removeprefix("+"))
    if rest == "0":
        return "0s"
    total, at = 0, 0
    while at < len(rest):
        match = _DURATION.match(rest, at)
        if match is None or match.group(1) in ("", "."):
            break
        whole, _, fraction = match.group(1).partition(".")
        unit = _UNITS[match.group(2)]
        total += int(whole or 0) * unit + int(fraction or 0) * unit // 10 ** len(fraction)
        at = match.end()
    if not rest or at < len(rest):
        raise ValueError(f'time: invalid duration "{text}"')
    return sign + nanoseconds_text(total) if total else "0s"


def nanoseconds_text(total: int) -> str:
    """Print a positive number of nanoseconds as Go prints a duration."""
    for limit, unit, name in ((10**3, 1, "ns"), (10**6, 10**3, "\u00b5s"), (10**9, 10**6, "ms")):
        if total < limit:
            return f"{_decimal(total, unit)}{name}" if total else "0s"
    minutes, rest = divmod(total, 60 * 10**9)
    seconds = f"{_decimal(rest, 10**9)}s"
    if not minutes:
        return seconds
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{seconds}" if hours else f"{minutes}m{seconds}"


def _decimal(value: int, unit: int) -> str:
    whole, rest = divmod(value, unit)
    if not rest:
        return str(whole)
    return f"{whole}.{str(rest).rjust(len(str(unit)) - 1, '0').rstrip('0')}"
