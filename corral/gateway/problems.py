"""Refusals as RFC 9457 problem details: what is wrong, in which fields, and for which request.

`problem_of` turns every error that can happen into one; what nobody foresaw becomes a plain 500
that says nothing of the inside. The ``type`` of a problem is stable: programs may rely on it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from corral.client.errors import JobError, RestartIncomplete
from corral.gateway.auth import Unauthenticated, redacted
from corral.gateway.limits import Busy, RateLimited
from corral.kube.connection.config import ConfigError
from corral.kube.connection.transport import KubeConnectionError
from corral.kube.errors import ApiError
from corral.kube.types import Obj

__all__ = ["MEDIA_TYPE", "TITLES", "Problem", "Refused", "problem_of"]

MEDIA_TYPE: Final = "application/problem+json"
_URN: Final = "urn:corral:problem:"

TITLES: Final[Mapping[str, tuple[int, str]]] = {
    "bad-request": (400, "The request cannot be understood"),
    "unauthenticated": (401, "It is not known who asks"),
    "forbidden": (403, "The caller may not do this"),
    "quota-exceeded": (403, "There is no room left for this in the namespace"),
    "not-found": (404, "There is no such thing"),
    "not-installed": (404, "The cluster does not know this kind"),
    "unknown-kind": (404, "There is no such kind"),
    "method-not-allowed": (405, "This cannot be done here"),
    "not-supported": (405, "Objects of this kind cannot do that"),
    "not-acceptable": (406, "The answer cannot be had in that form"),
    "conflict": (409, "The object is not in a state for this"),
    "already-exists": (409, "There is one already"),
    "restart-incomplete": (409, "The job is gone and could not be created again"),
    "gone": (410, "What was asked for is no longer kept"),
    "precondition-failed": (412, "The object has changed"),
    "too-large": (413, "The body is too large"),
    "unsupported-media-type": (415, "The body is in a form that is not understood"),
    "invalid": (422, "The object is not valid"),
    "too-many-requests": (429, "Too many requests"),
    "internal": (500, "The gateway failed"),
    "bad-upstream": (502, "The Kubernetes API failed"),
    "unavailable": (503, "Not available now"),
    "timeout": (504, "It took too long"),
}
"""Every type of problem: its status and its title."""

_BY_REASON: Final[Mapping[str, str]] = {
    "AlreadyExists": "already-exists",
    "NotInstalled": "not-installed",
    "NotSupported": "not-supported",
    "QuotaExceeded": "quota-exceeded",
    "RestartIncomplete": "restart-incomplete",
    "ServerTimeout": "timeout",
    "UnknownKind": "unknown-kind",
}
_BY_STATUS: Final[Mapping[int, str]] = {
    400: "bad-request",
    401: "unauthenticated",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    406: "not-acceptable",
    409: "conflict",
    410: "gone",
    412: "precondition-failed",
    413: "too-large",
    415: "unsupported-media-type",
    422: "invalid",
    429: "too-many-requests",
    503: "unavailable",
    504: "timeout",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One refusal."""

    kind: str
    """A key of `TITLES`."""
    detail: str
    errors: tuple[tuple[str, str], ...] = ()
    """Fields and what is wrong with them."""
    retry_after: int = 0
    """Seconds; 0 where it is not said."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Members beyond those that every problem has."""

    @property
    def status(self) -> int:
        return TITLES[self.kind][0]

    def as_object(self, *, instance: str = "", request_id: str = "") -> Obj:
        """The body of the answer."""
        out: Obj = {
            "type": _URN + self.kind,
            "title": TITLES[self.kind][1],
            "status": self.status,
            "detail": self.detail,
        }
        if instance:
            out["instance"] = instance
        if request_id:
            out["requestId"] = request_id
        if self.errors:
            out["errors"] = [{"field": name, "detail": reported} for name, reported in self.errors]
        if self.retry_after:
            out["retryAfter"] = self.retry_after
        return {**out, **self.more}


class Refused(Exception):
    """The gateway itself says no, before or after it has asked the API server."""

    def __init__(self, kind: str, detail: str, *, errors: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(detail)
        self.problem = Problem(kind, detail, errors)


def problem_of(error: BaseException) -> Problem:
    """The problem that an error is to the caller."""
    match error:
        case Refused():
            return error.problem
        case Unauthenticated():
            return Problem("unauthenticated", str(error))
        case RateLimited():
            return Problem("too-many-requests", str(error), retry_after=error.retry_after)
        case Busy():
            return Problem("unavailable", str(error), retry_after=error.retry_after)
        case JobError():
            return _of_job(error)
        case ApiError():
            return _of_api(error)
        case KubeConnectionError() | ConfigError():
            reported = f"the gateway cannot reach the Kubernetes API: {redacted(str(error))}"
            return Problem("unavailable", reported, retry_after=1)
        case TimeoutError():
            return Problem("timeout", "the Kubernetes API did not answer in time")
        case _:
            return Problem("internal", "the gateway made a mistake; its log says more")


def _kind(reason: str, status: int) -> str:
    kind = _BY_REASON.get(reason) or _BY_STATUS.get(status)
    return kind or ("bad-upstream" if status >= 500 else "bad-request")


def _of_job(error: JobError) -> Problem:
    kind = _kind(error.reason, error.code)
    more: Obj = {"hint": redacted(error.hint)} if error.hint else {}
    if isinstance(error, RestartIncomplete):
        more["manifest"] = error.manifest
    return Problem(
        kind,
        redacted(error.message) or TITLES[kind][1],
        tuple(dict.fromkeys((found.field, found.message) for found in error.fields)),
        math.ceil(error.retry_after or 0),
        more,
    )


def _of_api(error: ApiError) -> Problem:
    kind = _kind(error.status_reason, error.status_code)
    return Problem(
        kind,
        redacted(error.message) or TITLES[kind][1],
        tuple(_causes(error)),
        math.ceil(error.retry_after or 0),
    )


def _causes(error: ApiError) -> list[tuple[str, str]]:
    """The fields that a Status names, each once."""
    causes = error.details.get("causes") or ()
    found = [
        (str(cause.get("field") or ""), str(cause.get("message") or ""))
        for cause in causes
        if isinstance(cause, Mapping)
    ]
    return list(dict.fromkeys(entry for entry in found if entry[0]))
