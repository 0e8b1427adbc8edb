"""What is wrong with an object, field by field, in the words of Kubernetes.

The texts are part of the protocol: people's scripts match on them, and every API server says the
same about the same mistake. `invalid` makes one error of all of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from corral.kube.errors import Invalid

__all__ = [
    "FieldError",
    "duplicate",
    "forbidden_field",
    "invalid",
    "invalid_value",
    "not_found_field",
    "not_supported",
    "qualified",
    "required",
    "show",
    "too_long",
    "too_many",
    "type_invalid",
]


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing wrong with one field."""

    type: str
    """The reason of the cause: ``FieldValueInvalid``, …"""
    field: str
    """The path, as in ``spec.template.spec.containers[0].image``."""
    body: str
    """The message without the field, as it stands in the cause."""

    def __str__(self) -> str:
        return f"{self.field}: {self.body}" if self.field else self.body

    @property
    def cause(self) -> dict[str, str]:
        """The entry of ``details.causes`` of a Status."""
        return {"reason": self.type, "message": self.body, "field": self.field}


def show(value: Any) -> str:
    """Print a value the way Kubernetes prints bad values: JSON, strings in quotes."""
    try:
        return orjson.dumps(value, default=str).decode()
    except TypeError:  # numbers beyond 64 bits, texts that are no Unicode
        return json.dumps(value, default=str)


def required(field: str, detail: str = "") -> FieldError:
    return FieldError("FieldValueRequired", field, _join("Required value", detail))


def invalid_value(field: str, value: Any, detail: str) -> FieldError:
    return FieldError("FieldValueInvalid", field, _join(f"Invalid value: {show(value)}", detail))


def type_invalid(field: str, value: Any, detail: str) -> FieldError:
    return FieldError(
        "FieldValueTypeInvalid", field, _join(f"Invalid value: {show(value)}", detail)
    )


def not_supported(field: str, value: Any, supported: Iterable[str]) -> FieldError:
    listed = ", ".join(f'"{s}"' for s in supported)
    detail = f"supported values: {listed}" if listed else ""
    body = _join(f"Unsupported value: {show(value)}", detail)
    return FieldError("FieldValueNotSupported", field, body)


def duplicate(field: str, value: Any) -> FieldError:
    return FieldError("FieldValueDuplicate", field, f"Duplicate value: {show(value)}")


def forbidden_field(field: str, detail: str) -> FieldError:
    return FieldError("FieldValueForbidden", field, _join("Forbidden", detail))


def too_long(field: str, maximum: int) -> FieldError:
    """The value itself is never printed: it is too long for that."""
    detail = f"may not be more than {maximum} bytes"
    return FieldError("FieldValueTooLong", field, f"Too long: {detail}")


def too_many(field: str, actual: int, maximum: int) -> FieldError:
    items = "item" if maximum == 1 else "items"
    body = f"Too many: {actual}: must have at most {maximum} {items}"
    return FieldError("FieldValueTooMany", field, body)


def not_found_field(field: str, value: Any) -> FieldError:
    return FieldError("FieldValueNotFound", field, f"Not found: {show(value)}")


def _join(head: str, detail: str) -> str:
    return f"{head}: {detail}" if detail else head


def qualified(name: str, group: str) -> str:
    """A kind or plural with its group, where it has one."""
    return f"{name}.{group}" if group else name


def invalid(group: str, kind: str, name: str, problems: Sequence[FieldError]) -> Invalid:
    """422 with every problem as a cause."""
    texts = list(dict.fromkeys(str(p) for p in problems))
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    message = f'{qualified(kind, group)} "{name}" is invalid'
    details: dict[str, Any] = {"name": name, "group": group, "kind": kind}
    details = {k: v for k, v in details.items() if v}
    if problems:
        message += f": {text}"
        details["causes"] = [problem.cause for problem in problems]
    return Invalid(message, details=details)
