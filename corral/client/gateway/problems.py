"""Answers of a gateway that are refusals, as the errors that a cluster would have raised."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from corral.client import errors
from corral.client.errors import FieldProblem, JobError
from corral.kube.types import Obj

__all__ = ["error_of"]

_URN: Final = "urn:corral:problem:"
_TYPES: Final[dict[str, type[JobError]]] = {
    "bad-request": errors.BadRequest,
    "unauthenticated": errors.Unauthorized,
    "not-found": errors.NotFound,
    "not-installed": errors.NotInstalled,
    "method-not-allowed": errors.NotSupported,
    "not-supported": errors.NotSupported,
    "conflict": errors.Conflict,
    "already-exists": errors.AlreadyExists,
    "gone": errors.Expired,
    "precondition-failed": errors.PreconditionFailed,
    "too-large": errors.TooLarge,
    "invalid": errors.Invalid,
    "too-many-requests": errors.TooManyRequests,
    "unavailable": errors.Unavailable,
    "timeout": errors.Unavailable,
}
_BY_STATUS: Final[Mapping[int, type[JobError]]] = {
    kind.code: kind
    for kind in (
        errors.BadRequest, errors.Unauthorized, errors.NotFound, errors.NotSupported,
        errors.Conflict, errors.Expired, errors.PreconditionFailed, errors.TooLarge,
        errors.Invalid, errors.TooManyRequests, errors.Unavailable,
    )
} | {502: errors.Unavailable, 504: errors.Unavailable}  # fmt: skip


def error_of(status: int, problem: Any) -> JobError:
    """The error for an answer; a body that is no problem (a proxy's) will do."""
    body: Obj = problem if isinstance(problem, dict) else {}
    kind = str(body.get("type") or "").removeprefix(_URN)
    message = str(body.get("detail") or body.get("title") or f"the gateway answered {status}")
    hint = str(body.get("hint") or "")
    made = _SPECIAL.get(kind)
    if made is not None:
        return made(message, hint, body)
    if status == 403:
        return errors.Forbidden(message, hint=hint)
    retry = body.get("retryAfter")
    return (_TYPES.get(kind) or _BY_STATUS.get(status, errors.ServerError))(
        message,
        hint=hint,
        fields=_fields(body),
        retry_after=float(retry) if isinstance(retry, (int, float)) else None,
    )


def _fields(body: Obj) -> tuple[FieldProblem, ...]:
    found = body.get("errors")
    return tuple(
        FieldProblem(str(entry.get("field") or ""), str(entry.get("detail") or ""))
        for entry in (found if isinstance(found, list) else ())
        if isinstance(entry, dict)
    )


def _incomplete(message: str, hint: str, body: Obj) -> JobError:
    return errors.RestartIncomplete(message, hint=hint, manifest=dict(body.get("manifest") or {}))


_SPECIAL: Final[dict[str, Callable[[str, str, Obj], JobError]]] = {
    "restart-incomplete": _incomplete,
    "quota-exceeded": lambda message, hint, body: errors.QuotaExceeded(message, hint=hint),
}
