"""Building blocks of field errors: the few rules that nearly every kind repeats.

Validators append to a list they are handed (``errs``) and get the path of the value they look at
as a plain string; both are cheap on the path where nothing is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from corral.cluster.apiserver.errors import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid_value,
    not_found_field,
    not_supported,
    required,
    too_long,
    too_many,
)

__all__ = [
    "IMMUTABLE",
    "NEGATIVE",
    "Errors",
    "FieldError",
    "duplicate",
    "forbidden_field",
    "immutable",
    "immutable_beta",
    "int_of",
    "internal",
    "invalid_omitted",
    "invalid_value",
    "invalid_with",
    "non_negative",
    "not_found_field",
    "not_supported",
    "one_of",
    "repeated",
    "required",
    "same",
    "too_long",
    "too_many",
]

Errors: TypeAlias = list[FieldError]
IMMUTABLE = "field is immutable"
NEGATIVE = "must be greater than or equal to 0"
MAX_REPEATED = 1 << 20
"""Characters of one text that all the errors of an object together repeat."""
_EMPTY = (list, type(None))


def int_of(value: Any) -> int:
    """An absent number is zero, as it is on the wire."""
    return int(value or 0)


def non_negative(errs: Errors, holder: Mapping[str, Any], path: str, *names: str) -> None:
    """Each named number of ``holder`` must not be below zero."""
    for name in names:
        value = holder.get(name)
        if value is not None and value < 0:
            errs.append(invalid_value(f"{path}.{name}", value, NEGATIVE))


def invalid_with(errs: Errors, path: str, value: Any, messages: Iterable[str]) -> None:
    """One invalid-value error per message."""
    for message in messages:
        errs.append(invalid_value(path, value, message))


def invalid_omitted(path: str, detail: str) -> FieldError:
    """An invalid value whose text is never printed."""
    return FieldError("FieldValueInvalid", path, f"Invalid value: {detail}")


def repeated(text: str, times: int) -> str:
    """A text that stands in ``times`` errors: cut where all of them would be too long together."""
    most = max(MAX_REPEATED // max(times, 1), 64)
    return text if len(text) <= most else f"{text[:most]}..."


def one_of(
    errs: Errors, path: str, value: Any, allowed: Sequence[str], *, needed: bool = True
) -> None:
    """``value`` must be one of ``allowed``; an empty one is missing where it is needed."""
    if value in allowed:
        return
    if value:
        errs.append(not_supported(path, value, allowed))
    elif needed:
        errs.append(required(path))


def same(a: Any, b: Any) -> bool:
    """Semantic equality of normal forms: nothing, null and an empty list are the same thing.

    An empty map is left out of a normal form, so ``{}`` is a struct that is there.
    """
    if a is b or a == b:
        return True
    if not a and not b:
        # Zero and "" are values of their own against a missing pointer.
        return isinstance(a, _EMPTY) and isinstance(b, _EMPTY)
    if isinstance(a, dict) and isinstance(b, dict):
        return all(same(a.get(k), b.get(k)) for k in a.keys() | b.keys())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return False


def immutable(errs: Errors, path: str, new: Any, old: Any) -> None:
    if new != old and not same(new, old):
        errs.append(invalid_value(path, new, IMMUTABLE))


def immutable_beta(errs: Errors, path: str, new: Any, old: Any) -> None:
    """Immutability that the API checks by declaration: it does not print the value."""
    if new != old and not same(new, old):
        errs.append(invalid_value(path, None, IMMUTABLE))


def internal(path: str, detail: str) -> FieldError:
    return FieldError("InternalError", path, f"Internal error: {detail}")
