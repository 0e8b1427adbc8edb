"""Field errors of value validation, worded as kube-apiserver's OpenAPI validator words them."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from corral.cluster.apiserver.errors import FieldError, invalid_value, type_invalid

__all__ = ["NO_PATH", "bad_value", "breach", "go_number", "name_of", "whole", "wrong_type"]

NO_PATH = "<nil>"
_PLAIN_DIGITS = 6


def name_of(path: str) -> str:
    """The field of an error at ``path``: empty and ``.`` are the object itself."""
    return path.removeprefix(".") or NO_PATH


def wrong_type(path: str, expected: str, found: str) -> FieldError:
    """``found`` is a type name, a format name, or the text that lacks the format."""
    detail = f"{path} in body must be of type {expected}: {json.dumps(found, ensure_ascii=False)}"
    return type_invalid(name_of(path), found, detail)


def breach(path: str, value: Any, what: str) -> FieldError:
    return bad_value(name_of(path), value, f"{path} in body {what}")


def bad_value(field: str, value: Any, detail: str) -> FieldError:
    """As ``invalid_value``, with floats printed as Go prints them."""
    if type(value) is float:
        body = f"Invalid value: {go_number(value)}: {detail}"
        return FieldError("FieldValueInvalid", field, body)
    return invalid_value(field, value, detail)


def whole(text: str) -> FieldError:
    """An error of a junctor, which names its path in the text only."""
    return invalid_value(NO_PATH, "", text)


def go_number(value: float) -> str:
    """A number as Go's ``%v`` prints it."""
    if isinstance(value, int) or value == 0:
        return str(int(value))
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    power = len(digits) + int(exponent) - 1
    if -4 <= power < _PLAIN_DIGITS:
        return f"{Decimal(repr(value)).normalize():f}"
    text = "".join(map(str, digits))
    mantissa = f"{text[0]}.{text[1:]}" if len(text) > 1 else text
    return f"{'-' if sign else ''}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"
