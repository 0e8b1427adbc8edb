"""The query parameters of pod subresources, read and checked as kube-apiserver does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import urlencode

from multidict import MultiMapping

from corral.cluster.apiserver import errors as say
from corral.cluster.streaming.commands import Options
from corral.kube import errors
from corral.kube.podstreams.logs import SINCE_EXACTLY

_NUMBERS = ("tailLines", "limitBytes", "sinceSeconds")
_FLAGS = ("follow", "previous", "timestamps")
MAX_INT64 = 2**63 - 1
_EXACT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z")
"""A time as the lines of our nodes have it."""


class LogOptions(NamedTuple):
    """What of a log is wanted, ready for the kubelet."""

    container: str
    follow: bool
    query: str


def flag(query: MultiMapping[str], name: str) -> bool:
    """A parameter without a value is true, as are all values but false and 0."""
    value = query.get(name)
    return value is not None and value.lower() not in ("false", "0")


def number(query: MultiMapping[str], name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not digits.isascii() or not digits.isdigit():
        raise errors.BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    if abs(int(text)) > MAX_INT64:
        raise errors.BadRequest(f'strconv.ParseInt: parsing "{text}": value out of range')
    return int(text)


def instant(text: str) -> str:
    """A time in RFC 3339, to the second and in UTC."""
    try:
        if len(text) < 20 or text[10] not in "Tt":
            raise ValueError(text)
        found = datetime.fromisoformat(text)
        if found.tzinfo is None:
            raise ValueError(text)
    except ValueError:
        raise errors.BadRequest(
            f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse "{text}" as "2006"'
        ) from None
    return found.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def log_options(query: MultiMapping[str], pod: str) -> LogOptions:
    """Raises BadRequest for what cannot be read, Invalid for what makes no sense."""
    numbers = {name: number(query, name) for name in _NUMBERS}
    since = query.get("sinceTime") or ""
    values = {name: str(value) for name, value in numbers.items() if value is not None}
    if since:
        values["sinceTime"] = instant(since)
    if _EXACT.fullmatch(query.get(SINCE_EXACTLY, "")):
        values[SINCE_EXACTLY] = query[SINCE_EXACTLY]
    values |= {name: "true" for name in _FLAGS if flag(query, name)}
    problems = _problems(numbers, since=bool(since), stream="stream" in query)
    if problems:
        raise say.invalid("", "PodLogOptions", pod, problems)
    return LogOptions(
        query.get("container", ""), "follow" in values, urlencode(sorted(values.items()))
    )


def _problems(numbers: dict[str, int | None], *, since: bool, stream: bool) -> list[say.FieldError]:
    problems: list[say.FieldError] = []
    tail, limit, seconds = (numbers[name] for name in _NUMBERS)
    positive = "must be greater than 0"
    if tail is not None and tail < 0:
        problems.append(say.invalid_value("tailLines", tail, "must be greater than or equal to 0"))
    if limit is not None and limit < 1:
        problems.append(say.invalid_value("limitBytes", limit, positive))
    if seconds is not None and since:
        both = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        problems.append(say.forbidden_field("[]", both))
    elif seconds is not None and seconds < 1:
        problems.append(say.invalid_value("sinceSeconds", seconds, positive))
    if stream:
        problems.append(say.forbidden_field("stream", "may not be specified"))
    return problems


def command_options(query: MultiMapping[str]) -> Options:
    return Options(*(flag(query, name) for name in ("stdin", "stdout", "stderr", "tty")))


def command_query(options: Options, command: Sequence[str]) -> str:
    """The same in the words of a kubelet."""
    pairs = [("command", word) for word in command]
    pairs += [("error", "1")] if options.stderr else []
    pairs += [("input", "1")] if options.stdin else []
    pairs += [("output", "1")] if options.stdout else []
    pairs += [("tty", "1")] if options.tty else []
    return urlencode(pairs)


def forward_ports(query: MultiMapping[str]) -> list[int]:
    """The ports a client names; only old WebSocket clients do."""
    ports: list[int] = []
    for value in query.getall("ports", []):
        for text in value.split(","):
            digits = text[1:] if text[:1] in ("-", "+") else text
            if not digits.isascii() or not digits.isdigit():
                raise errors.BadRequest(
                    f'cannot convert to []int32: strconv.ParseUint: parsing "{text}": '
                    "invalid syntax"
                )
            ports.append(int(text))
    return ports
