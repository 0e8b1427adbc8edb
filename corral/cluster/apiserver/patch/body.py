"""Reading patch bodies, and the ways to refuse one."""

from __future__ import annotations

from typing import Any, NoReturn

import orjson

from corral.cluster.apiserver.codec.duplicates import duplicate_fields
from corral.cluster.apiserver.errors import invalid, invalid_value
from corral.kube.errors import BadRequest, Invalid

__all__ = ["MAX_DEPTH", "duplicates", "parse", "refuse", "reject_as_document"]

MAX_DEPTH = 250
"""Deepest nesting of a body. The JSON encoder stops at 254 levels, so nothing deeper can be stored,
and the recursive walks over a body stay far from the interpreter's own limit."""

_REFUSED = "the server rejected our request due to an error in our request"
_NOT_AN_OBJECT = (
    "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of "
    'type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
    'Kind string "json:\\"kind,omitempty\\"" }'
)


def parse(body: bytes) -> Any:
    """Decode a patch body of any JSON type.

    Raises:
        BadRequest: it is not JSON, or nested deeper than ``MAX_DEPTH``.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadRequest("invalid JSON patch") from error
    # Counting brackets costs nothing; only a body with many of them can be deep.
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH and _deeper_than(value, MAX_DEPTH):
        raise BadRequest("invalid JSON patch")
    return value


def duplicates(body: bytes) -> list[str]:
    """``duplicate field "spec.x"`` for every key that the body has twice."""
    value = orjson.loads(body)
    return duplicate_fields(body, value) if isinstance(value, dict) else []


def _deeper_than(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [
            child
            for node in level
            if isinstance(node, dict | list)
            for child in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return False
    return any(isinstance(node, dict | list) for node in level)


class _Refused(Invalid):
    """The one refusal whose details are there and empty."""

    @property
    def status(self) -> dict[str, Any]:
        return {**super().status, "details": {}}


def refuse(cause: Exception | None = None) -> NoReturn:
    """422 for a well-formed patch that does not apply; clients are never told more than that."""
    raise _Refused(_REFUSED) from cause


def reject_as_document(patched: Any) -> NoReturn:
    """422 for a patch that leaves a list where the object was."""
    text = orjson.dumps(patched).decode()
    raise invalid("", "", "", [invalid_value("patch", text, _NOT_AN_OBJECT)])
