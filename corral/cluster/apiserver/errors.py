"""What the API server says when it refuses: field errors and the well-known Status messages.

The texts are part of the protocol: clients and people's scripts match on them.
"""

from __future__ import annotations

from typing import Any

from corral.kube import errors
from corral.kube.problems import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid,
    invalid_value,
    not_found_field,
    not_supported,
    qualified,
    required,
    show,
    too_long,
    too_many,
    type_invalid,
)

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
    "not_found_field",
    "not_supported",
    "required",
    "show",
    "too_long",
    "too_many",
    "type_invalid",
]


def _details(group: str, plural: str, name: str) -> dict[str, Any]:
    details = {"name": name, "group": group, "kind": plural}
    return {k: v for k, v in details.items() if v}


def not_found(group: str, plural: str, name: str) -> errors.NotFound:
    message = f'{qualified(plural, group)} "{name}" not found'
    return errors.NotFound(message, details=_details(group, plural, name))


def already_exists(group: str, plural: str, name: str) -> errors.AlreadyExists:
    message = f'{qualified(plural, group)} "{name}" already exists'
    return errors.AlreadyExists(message, details=_details(group, plural, name))


STALE = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def conflict(group: str, plural: str, name: str, why: str = STALE) -> errors.Conflict:
    message = f'Operation cannot be fulfilled on {qualified(plural, group)} "{name}": {why}'
    return errors.Conflict(message, details=_details(group, plural, name))


def forbidden(group: str, plural: str, name: str, why: str) -> errors.Forbidden:
    subject = qualified(plural, group)
    named = f'{subject} "{name}" is forbidden' if name else f"{subject} is forbidden"
    return errors.Forbidden(f"{named}: {why}", details=_details(group, plural, name))


def internal(why: str) -> errors.InternalError:
    return errors.InternalError(
        f"Internal error occurred: {why}", details={"causes": [{"message": why}]}
    )


def too_deep(err: BaseException) -> errors.BadRequest | None:
    """The refusal of what is nested deeper than can be worked on; None for any other error."""
    if isinstance(err, RecursionError) or (
        isinstance(err, TypeError) and str(err).startswith("Recursion limit")
    ):
        return errors.BadRequest("the object is nested too deeply")
    return None
