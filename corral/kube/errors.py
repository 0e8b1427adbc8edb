"""Kubernetes Status errors as exceptions, for both ends of the wire.

The client raises them from a server's answer, the embedded API server raises them to give one.
Every error carries the whole ``Status`` object; the class says which reason it has:

    ApiError
      BadRequest  Unauthorized  Forbidden  NotFound  MethodNotSupported  NotAcceptable
      AlreadyExists  Conflict  Gone (Expired included)  RequestEntityTooLarge
      UnsupportedMediaType  Invalid  TooManyRequests  InternalError  Timeout
      ServerTimeout  ServiceUnavailable
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from corral.kube.printable import printable_lines

__all__ = [
    "AlreadyExists",
    "ApiError",
    "BadRequest",
    "Conflict",
    "Forbidden",
    "Gone",
    "InternalError",
    "Invalid",
    "MethodNotSupported",
    "NotAcceptable",
    "NotFound",
    "RequestEntityTooLarge",
    "ServerTimeout",
    "ServiceUnavailable",
    "Timeout",
    "TooManyRequests",
    "Unauthorized",
    "UnsupportedMediaType",
    "error_from_status",
]


class ApiError(Exception):
    """A failed API request, as the ``Status`` object that describes it."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = ""

    def __init__(
        self,
        message: str = "",
        *,
        details: Mapping[str, Any] | None = None,
        code: int | None = None,
        reason: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details: dict[str, Any] = dict(details or {})
        self.status_code = self.code if code is None else code
        self.status_reason = self.reason if reason is None else reason

    @property
    def status(self) -> dict[str, Any]:
        """The error as a Kubernetes ``Status`` object."""
        out: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.status_reason:
            out["reason"] = self.status_reason
        if self.details:
            out["details"] = self.details
        out["code"] = self.status_code
        return out

    @property
    def retry_after(self) -> float | None:
        """Seconds the server asks the client to wait, where it said so."""
        seconds = self.details.get("retryAfterSeconds")
        return float(seconds) if seconds else None

    def __str__(self) -> str:
        """As tracebacks show it: nothing in it acts on a terminal."""
        return printable_lines(f"{self.message} ({self.status_code} {self.status_reason})")


class BadRequest(ApiError):
    code, reason = 400, "BadRequest"


class Unauthorized(ApiError):
    code, reason = 401, "Unauthorized"


class Forbidden(ApiError):
    code, reason = 403, "Forbidden"


class NotFound(ApiError):
    code, reason = 404, "NotFound"


class MethodNotSupported(ApiError):
    code, reason = 405, "MethodNotAllowed"


class NotAcceptable(ApiError):
    code, reason = 406, "NotAcceptable"


class Conflict(ApiError):
    code, reason = 409, "Conflict"


class AlreadyExists(ApiError):
    code, reason = 409, "AlreadyExists"


class Gone(ApiError):
    """Reason ``Gone`` or ``Expired``: the resource version is no longer kept."""

    code, reason = 410, "Expired"


class RequestEntityTooLarge(ApiError):
    code, reason = 413, "RequestEntityTooLarge"


class UnsupportedMediaType(ApiError):
    code, reason = 415, "UnsupportedMediaType"


class Invalid(ApiError):
    code, reason = 422, "Invalid"


class TooManyRequests(ApiError):
    code, reason = 429, "TooManyRequests"


class InternalError(ApiError):
    code, reason = 500, "InternalError"


class ServiceUnavailable(ApiError):
    code, reason = 503, "ServiceUnavailable"


class Timeout(ApiError):
    code, reason = 504, "Timeout"


class ServerTimeout(ApiError):
    code, reason = 500, "ServerTimeout"


_TYPES: tuple[type[ApiError], ...] = (
    BadRequest, Unauthorized, Forbidden, NotFound, MethodNotSupported, NotAcceptable, Conflict,
    AlreadyExists, Gone, RequestEntityTooLarge, UnsupportedMediaType, Invalid, TooManyRequests,
    InternalError, ServiceUnavailable, Timeout, ServerTimeout,
)  # fmt: skip
_BY_REASON: dict[str, type[ApiError]] = {cls.reason: cls for cls in _TYPES} | {"Gone": Gone}
_BY_CODE: dict[int, type[ApiError]] = {
    cls.code: cls for cls in _BY_REASON.values() if cls not in (AlreadyExists, ServerTimeout)
}


def error_from_status(status: Mapping[str, Any], code: int | None = None) -> ApiError:
    """Build the typed error for a ``Status`` object (or anything a proxy answered instead)."""
    code = int(status.get("code") or code or 500)
    reason = str(status.get("reason") or "")
    cls = _BY_REASON.get(reason) or _BY_CODE.get(code, ApiError)
    return cls(
        str(status.get("message") or f"HTTP {code}"),
        details=status.get("details") or {},
        code=code,
        reason=reason or cls.reason,
    )
