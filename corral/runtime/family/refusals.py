"""What a refusal of the API server means for what was asked of it."""

from __future__ import annotations

from typing import Final

from corral.kube import errors
from corral.runtime.children import NameTaken
from corral.runtime.family.decision import Refusal

__all__ = ["is_passing", "namespace_is_going", "refusal_of"]

_PASSING: Final = (
    errors.Conflict,
    errors.TooManyRequests,
    errors.Timeout,
    errors.Unauthorized,
)
"""Refusals that are not about what was asked for."""


def is_passing(error: errors.ApiError) -> bool:
    """Whether the same may be granted soon, though nobody changes anything."""
    return error.status_code >= 500 or isinstance(error, _PASSING)


def namespace_is_going(error: Exception) -> bool:
    """Whether a creation was refused because the namespace is being deleted."""
    causes = error.details.get("causes") or () if isinstance(error, errors.ApiError) else ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)


def refusal_of(error: errors.ApiError) -> Refusal:
    """What to show of a refusal that does not pass by itself."""
    message = error.message or str(error)
    if isinstance(error, NameTaken):
        return Refusal("NameTaken", message)
    if "exceeded quota" in message:
        return Refusal("QuotaExceeded", message)
    return Refusal("Forbidden" if isinstance(error, errors.Forbidden) else "Refused", message)
