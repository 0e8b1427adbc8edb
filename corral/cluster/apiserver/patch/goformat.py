"""Values in the notation Go prints them, because refused patches are quoted back that way."""

from __future__ import annotations

from math import isfinite
from typing import Any

__all__ = ["go_format", "go_string", "go_type", "json_type"]

_GO_TYPES: dict[type, str] = {
    dict: "map[string]interface {}",
    list: "[]interface {}",
    str: "string",
    int: "int64",
    float: "float64",
    bool: "bool",
}
_JSON_TYPES: dict[type, str] = {
    dict: "object",
    list: "array",
    str: "string",
    int: "number",
    float: "number",
    bool: "bool",
}


def json_type(value: Any) -> str:
    """The word Go's JSON decoder has for a value's type."""
    return _JSON_TYPES.get(type(value), "null")


def go_type(value: Any) -> str:
    """The Go type of a decoded JSON value; nil has none and prints as a formatting error."""
    return _GO_TYPES.get(type(value), "%!s(<nil>)")


def go_string(value: Any) -> str:
    """``fmt.Sprintf("%s", value)``: anything but a string is marked as the wrong type."""
    if isinstance(value, str):
        return value
    if value is None:
        return "%!s(<nil>)"
    if isinstance(value, dict | list):
        return go_format(value)
    return f"%!s({go_type(value)}={go_format(value)})"


def go_format(value: Any) -> str:
    """``fmt.Sprintf("%v", value)`` of a decoded JSON value."""
    if isinstance(value, str):
        return value
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return f"map[{' '.join(f'{k}:{go_format(value[k])}' for k in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(go_format, value))}]"
    if isinstance(value, float):
        return _format_float(value)
    return str(value)


def _format_float(value: float) -> str:
    """Shortest digits; exponents only below 1e-4 and from 1e21 on."""
    if isfinite(value) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return repr(value)
