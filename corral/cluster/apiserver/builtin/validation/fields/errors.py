"""The list that validators fill, and the comparisons that nearly every kind needs.

Validators append to the `Errors` they are handed and get the path of the value they look at as
a plain string; both are cheap on the path where nothing is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

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

__all__ = ["IMMUTABLE", "NEGATIVE", "Errors", "FieldError", "int_of", "repeated",
           "same"]  # fmt: skip

IMMUTABLE = "field is immutable"
NEGATIVE = "must be greater than or equal to 0"
MAX_REPEATED = 1 << 20
"""Characters of one text that all the errors of an object together repeat."""
_EMPTY = (list, type(None))


class Errors(list[FieldError]):
    """The errors found so far; each method appends those of one path."""

    __slots__ = ()

    def required(self, path: str, detail: str = "") -> None:
        self.append(required(path, detail))

    def invalid(self, path: str, value: Any, detail: str) -> None:
        self.append(invalid_value(path, value, detail))

    def invalid_each(self, path: str, value: Any, messages: Iterable[str]) -> None:
        """One invalid-value error per message."""
        for message in messages:
            self.append(invalid_value(path, value, message))

    def format(self, path: str, value: Any, rule: Callable[[Any], Iterable[str]]) -> None:
        """``value`` must be well formed: ``rule`` returns the messages about it."""
        for message in rule(value):
            self.append(invalid_value(path, value, message))

    def omitted(self, path: str, detail: str) -> None:
        """An invalid value whose text is never printed."""
        self.append(FieldError("FieldValueInvalid", path, f"Invalid value: {detail}"))

    def not_supported(self, path: str, value: Any, supported: Iterable[str]) -> None:
        self.append(not_supported(path, value, supported))

    def duplicate(self, path: str, value: Any) -> None:
        self.append(duplicate(path, value))

    def forbidden(self, path: str, detail: str) -> None:
        self.append(forbidden_field(path, detail))

    def not_found(self, path: str, value: Any) -> None:
        self.append(not_found_field(path, value))

    def too_long(self, path: str, maximum: int) -> None:
        self.append(too_long(path, maximum))

    def too_many(self, path: str, actual: int, maximum: int) -> None:
        self.append(too_many(path, actual, maximum))

    def one_of(self, path: str, value: Any, allowed: Sequence[str]) -> None:
        """``value`` must be one of ``allowed``; an empty one is missing."""
        if not value:
            self.append(required(path))
        elif value not in allowed:
            self.append(not_supported(path, value, allowed))

    def immutable(self, path: str, new: Any, old: Any) -> None:
        """The value may not change."""
        if new != old and not same(new, old):
            self.append(invalid_value(path, new, IMMUTABLE))

    def immutable_beta(self, path: str, new: Any, old: Any) -> None:
        """Immutability that the API checks by declaration: it does not print the value."""
        if new != old and not same(new, old):
            self.append(invalid_value(path, None, IMMUTABLE))


def int_of(value: Any) -> int:
    """An absent number is zero, as it is on the wire."""
    return int(value or 0)


def repeated(text: str, times: int) -> str:
    """A text that stands in ``times`` errors: cut where all of them would be too long together."""
    most = max(MAX_REPEATED // max(times, 1), 64)
    return text if len(text) <= most else f"{text[:most]}..."


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
