"""What can go wrong when somebody asks about a job, in words for people.

    JobError                      code, reason, message, hint, fields
      UnknownKind                 404  no such kind; names that look alike
      BadRequest                  400  the request itself is wrong (sort key, page token, …)
      Unauthorized                401  the credentials are missing, wrong or expired
      Forbidden                   403  who may not do what, where, and how to find who may
        QuotaExceeded             403  there is no room left for it in the namespace
      NotFound                    404
        NotInstalled              404  the cluster does not know the kind
      NotSupported                405  the kind cannot be suspended, scaled, …
      Conflict                    409  it is in the wrong state
        Changed                   409  meanwhile, by somebody else
        AlreadyExists             409
        RestartIncomplete         409  deleted but not created again; has the manifest
      PreconditionFailed          412  If-Match did not match
      Expired                     410  the point to resume from is no longer kept
      TooLarge                    413
      Invalid                     422  every field that is wrong
      TooManyRequests             429
      Unavailable                 503  no answer, or the server cannot answer now
        NoCluster                 503  no cluster or gateway was found, or it does not answer
      WaitTimeout                 504  what was waited for did not happen in time
      NeverHappens                409  what was waited for cannot happen any more
      ServerError                 500  anything else the server says

Every error is raised from the `ApiError` or connection error behind it. ``message`` is one line
without a secret in it, ``hint`` says what to do and may be empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from corral.kube.printable import printable
from corral.kube.types import Obj

__all__ = [
    "AlreadyExists",
    "BadRequest",
    "Changed",
    "Conflict",
    "Expired",
    "FieldProblem",
    "Forbidden",
    "Invalid",
    "JobError",
    "NeverHappens",
    "NoCluster",
    "NotFound",
    "NotInstalled",
    "NotSupported",
    "PreconditionFailed",
    "QuotaExceeded",
    "RestartIncomplete",
    "ServerError",
    "TooLarge",
    "TooManyRequests",
    "Unauthorized",
    "Unavailable",
    "UnknownKind",
    "WaitTimeout",
]


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One thing wrong with one field."""

    field: str
    """The path, such as ``spec.mpiReplicaSpecs[Worker].replicas``; empty for the whole object."""
    message: str
    reason: str = ""
    """``FieldValueInvalid``, …"""


class JobError(Exception):
    """Base of all errors of this package."""

    code: ClassVar[int] = 500
    """As an HTTP status."""
    reason: ClassVar[str] = "Error"
    """One word, for programs."""

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        fields: tuple[FieldProblem, ...] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.fields = fields
        self.retry_after = retry_after
        """Seconds to wait before asking again, where the server said so."""

    def __str__(self) -> str:
        """As tracebacks and notebooks show it: nothing in it acts on a terminal."""
        return printable(self.message)


class BadRequest(JobError):
    code, reason = 400, "BadRequest"


class Unauthorized(JobError):
    code, reason = 401, "Unauthorized"


class Forbidden(JobError):
    """Who may not do what, where; ``hint`` says how to find who may."""

    code, reason = 403, "Forbidden"

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        user: str = "",
        verb: str = "",
        resource: str = "",
        namespace: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.user = user
        self.verb = verb
        self.resource = resource
        self.namespace = namespace


class QuotaExceeded(Forbidden):
    code, reason = 403, "QuotaExceeded"


class NotFound(JobError):
    code, reason = 404, "NotFound"


class NotInstalled(NotFound):
    """The API server does not know the kind."""

    code, reason = 404, "NotInstalled"


class UnknownKind(JobError):
    """No kind of ours has this name."""

    code, reason = 404, "UnknownKind"

    def __init__(self, name: str, *, close: tuple[str, ...] = (), known: tuple[str, ...]) -> None:
        meant = f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(known)}"
        super().__init__(f"there is no kind of job called {name!r}", hint=meant)
        self.name = name
        self.close = close


class NotSupported(JobError):
    code, reason = 405, "NotSupported"


class Conflict(JobError):
    code, reason = 409, "Conflict"


class Changed(Conflict):
    """Somebody else changed it meanwhile."""


class AlreadyExists(Conflict):
    code, reason = 409, "AlreadyExists"


class RestartIncomplete(Conflict):
    """The old job is gone and the new one could not be made; ``manifest`` is what is missing."""

    code, reason = 409, "RestartIncomplete"

    def __init__(self, message: str, *, hint: str = "", manifest: Obj) -> None:
        super().__init__(message, hint=hint)
        self.manifest = manifest


class NeverHappens(Conflict):
    """What was waited for cannot happen any more; ``object`` is the job as it is."""

    code, reason = 409, "NeverHappens"

    def __init__(self, message: str, *, hint: str = "", obj: Obj) -> None:
        super().__init__(message, hint=hint)
        self.object = obj


class Expired(JobError):
    code, reason = 410, "Expired"


class PreconditionFailed(JobError):
    code, reason = 412, "PreconditionFailed"


class TooLarge(JobError):
    code, reason = 413, "TooLarge"


class Invalid(JobError):
    """``fields`` has every problem."""

    code, reason = 422, "Invalid"


class TooManyRequests(JobError):
    code, reason = 429, "TooManyRequests"


class ServerError(JobError):
    code, reason = 500, "ServerError"


class Unavailable(JobError):
    code, reason = 503, "Unavailable"


class NoCluster(Unavailable):
    """There is no cluster to talk to, or it does not answer."""

    code, reason = 503, "NoCluster"


class WaitTimeout(JobError):
    """``object`` is the job as it was seen last."""

    code, reason = 504, "WaitTimeout"

    def __init__(self, message: str, *, hint: str = "", obj: Obj | None = None) -> None:
        super().__init__(message, hint=hint)
        self.object = obj
