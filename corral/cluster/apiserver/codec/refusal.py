"""The two ways an API server refuses a body it cannot decode; both are a 400."""

from __future__ import annotations

from typing import Any

from corral.cluster.apiserver.codec.types import Message
from corral.kube import errors

__all__ = [
    "NO_KIND",
    "cannot_handle",
    "no_text",
    "not_an_object",
    "other_kind",
    "unmarshal",
    "unrecognized",
]

NO_KIND = "couldn't get version/kind; json parse error: "

_SUMMARY = 30
_TYPE_META = (
    r'struct { APIVersion string "json:\"apiVersion,omitempty\""; '
    r'Kind string "json:\"kind,omitempty\"" }'
)
_WORDS = {dict: "object", list: "array", str: "string", bool: "bool"}


def cannot_handle(msg: Message, kind: str, version: str, why: str) -> errors.BadRequest:
    """The body said what it is, and cannot be read as what is expected here."""
    return errors.BadRequest(
        f'{kind} in version "{version}" cannot be handled as a {msg.kind}: {why}'
    )


def unrecognized(expected: str, why: str, body: bytes) -> errors.BadRequest:
    """The body does not even say what it is; ``expected`` is the kind it should be."""
    return errors.BadRequest(
        f"the object provided is unrecognized (must be of type {expected}): "
        f"{why} ({_summary(body)})"
    )


def other_kind(
    msg: Message, actual: Message | None, api_version: str, kind: str
) -> errors.BadRequest:
    """The body says it is an ``actual`` (None: nothing known), not a ``msg``."""
    version = api_version.rpartition("/")[2]
    if actual is None:
        why = (
            f'no kind "{kind}" is registered for version "{api_version}" '
            'in scheme "pkg/runtime/scheme.go:111"'
        )
        return cannot_handle(msg, kind, version, why)
    if (actual.kind, actual.group) == (msg.kind, msg.group):
        return errors.BadRequest(
            f"the API version in the data ({api_version}) does not match "
            f"the expected API version ({msg.api_version})"
        )
    internal = msg.name.partition("/")[0]
    why = f"converting ({version}.{kind}) to ({internal}.{msg.kind}): unknown conversion"
    return cannot_handle(msg, kind, version, why)


def not_an_object(expected: str, value: Any, body: bytes) -> errors.BadRequest:
    """The body is a list, a number or the like."""
    why = f"{unmarshal(value)} into Go value of type {_TYPE_META}"
    return unrecognized(expected, NO_KIND + why, body)


def no_text(expected: str, name: str, value: Any, body: bytes) -> errors.BadRequest:
    """``kind`` or ``apiVersion`` is not a string."""
    why = f"{unmarshal(value)} into Go struct field .{name} of type string"
    return unrecognized(expected, NO_KIND + why, body)


def unmarshal(value: Any) -> str:
    """How Go begins to say that a value is of the wrong type."""
    return f"json: cannot unmarshal {_WORDS.get(type(value), 'number')}"


def _summary(body: bytes) -> str:
    if not body:
        return "<empty>"
    more = " ..." if len(body) > _SUMMARY else ""
    head = body[:_SUMMARY]
    return (head.decode("utf-8", "replace") if body[:1] == b"{" else head.hex()) + more
