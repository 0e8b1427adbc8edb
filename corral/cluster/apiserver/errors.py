"""What the API server says when it refuses: field errors and the well-known Status messages.

The texts are part of the protocol: clients and people's scripts match on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from corral.kube import errors

__all__ = [
    "FieldError",
    "already_exists",
    "conflict",
    "duplicate",
    "forbidden",
    "forbidden_field",
    "internal",
    "invalid",
    "invalid_value",
    "not_found",
    "not_supported",
    "required",
    "too_long",
    "too_many",
    "type_invalid",
]


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing wrong with one field; ``type`` is the reason of the cause."""

    type: str
    field: str
    body: str
    """The message without the field, as it stands in the cause."""

    def __str__(self) -> str:
        return f"{self.field}: {self.body}" if self.field else self.body


def show(value: Any) -> str:
    """Print a value the way Kubernetes prints bad values: JSON, strings in quotes."""
    return orjson.dumps(value, default=str).decode()


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


def _qualified(name: str, group: str) -> str:
    return f"{name}.{group}" if group else name


def invalid(group: str, kind: str, name: str, problems: Sequence[FieldError]) -> errors.Invalid:
    """422 with every problem as a cause."""
    texts = list(dict.fromkeys(str(p) for p in problems))
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    message = f'{_qualified(kind, group)} "{name}" is invalid'
    details: dict[str, Any] = {"name": name, "group": group, "kind": kind}
    details = {k: v for k, v in details.items() if v}
    if problems:
        message += f": {text}"
        details["causes"] = [
            {"reason": p.type, "message": p.body, "field": p.field} for p in problems
        ]
    return errors.Invalid(message, details=details)


def _details(group: str, plural: str, name: str) -> dict[str, Any]:
    details = {"name": name, "group": group, "kind": plural}
    return {k: v for k, v in details.items() if v}


def not_found(group: str, plural: str, name: str) -> errors.NotFound:
    message = f'{_qualified(plural, group)} "{name}" not found'
    return errors.NotFound(message, details=_details(group, plural, name))


def already_exists(group: str, plural: str, name: str) -> errors.AlreadyExists:
    message = f'{_qualified(plural, group)} "{name}" already exists'
    return errors.AlreadyExists(message, details=_details(group, plural, name))


STALE = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def conflict(group: str, plural: str, name: str, why: str = STALE) -> errors.Conflict:
    message = f'Operation cannot be fulfilled on {_qualified(plural, group)} "{name}": {why}'
    return errors.Conflict(message, details=_details(group, plural, name))


def forbidden(group: str, plural: str, name: str, why: str) -> errors.Forbidden:
    subject = _qualified(plural, group)
    named = f'{subject} "{name}" is forbidden' if name else f"{subject} is forbidden"
    return errors.Forbidden(f"{named}: {why}", details=_details(group, plural, name))


def internal(why: str) -> errors.InternalError:
    return errors.InternalError(
        f"Internal error occurred: {why}", details={"causes": [{"message": why}]}
    )
