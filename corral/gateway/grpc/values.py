"""JSON values as ``corral.v1.Value``, and back, exactly.

`read_value` of what `write_value` wrote is equal to what it was given and of the same types: null,
integers of any size, 3 apart from 3.0, empty lists and objects.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

from corral.v1.value_pb2 import Value

__all__ = ["Unreadable", "read_value", "write_value"]

_DEEPEST: Final = 16
"""Parsers of messages give up at 100 messages inside each other; a JSON level takes three."""
_INT64: Final = range(-(1 << 63), 1 << 63)
_DIGITS: Final = re.compile(r"-?[0-9]{1,4000}")


class Unreadable(ValueError):
    """A message that stands for no JSON; ``field`` is the path of what is wrong."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def write_value(out: Value, value: Any, *, depth: int = 0) -> None:
    """Make ``out``, a new message, hold a JSON value."""
    match value:
        case None:
            out.SetInParent()
        case bool():
            out.bool_value = value
        case int() if value in _INT64:
            out.int_value = value
        case int():
            out.big_int_value = str(value)
        case float():
            out.double_value = value
        case str():
            out.string_value = value
        case dict() | list() if depth >= _DEEPEST:
            out.json_value = json.dumps(value, separators=(",", ":")).encode()
        case dict():
            out.map_value.SetInParent()
            for key, item in value.items():
                write_value(out.map_value.fields[key], item, depth=depth + 1)
        case list() | tuple():
            out.list_value.SetInParent()
            for item in value:
                write_value(out.list_value.values.add(), item, depth=depth + 1)
        case _:
            raise TypeError(f"{type(value).__name__} is not a JSON value")


def read_value(value: Value, path: str) -> Any:
    """The JSON value that a message holds; ``path`` is where it is, for errors.

    Raises:
        Unreadable: it is no JSON value.
    """
    match value.WhichOneof("kind"):
        case None:
            return None
        case "list_value":
            items = value.list_value.values
            return [read_value(item, f"{path}[{at}]") for at, item in enumerate(items)]
        case "map_value":
            fields = value.map_value.fields
            return {key: read_value(item, f"{path}.{key}") for key, item in fields.items()}
        case "big_int_value":
            return _integer(value.big_int_value, path)
        case "double_value":
            return finite(value.double_value, path)
        case "json_value":
            return _parsed(value.json_value, path)
        case kind:
            return getattr(value, str(kind))


def finite(number: float, path: str) -> float:
    """The number, which JSON can write."""
    if not math.isfinite(number):
        raise Unreadable(path, f"{number} is not a number of JSON")
    return number


def _integer(digits: str, path: str) -> int:
    if not _DIGITS.fullmatch(digits):
        raise Unreadable(path, "big_int_value must be at most 4000 decimal digits")
    return int(digits)


def _parsed(content: bytes, path: str) -> Any:
    try:
        return json.loads(content, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Unreadable(path, f"json_value is not JSON: {error}") from error


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is not a number of JSON")
