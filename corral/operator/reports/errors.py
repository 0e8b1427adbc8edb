"""What the report endpoint refuses, and with which status."""

from __future__ import annotations

from corral.kube.types import Obj

__all__ = [
    "Fenced",
    "Forbidden",
    "Malformed",
    "NotHere",
    "Refused",
    "ReportError",
    "TooMany",
    "TooSlow",
    "Unauthorized",
    "Unavailable",
]


class ReportError(Exception):
    """An answer other than success; the message is for whoever reads the pod's log."""

    status = 500

    def body(self) -> Obj:
        return {"error": str(self)}


class Malformed(ReportError):
    """The request is not as it should be; sending it again is of no use."""

    status = 400


class Unauthorized(ReportError):
    """The token is missing or no good."""

    status = 401


class Forbidden(ReportError):
    """The pod is not one of this job."""

    status = 403


class NotHere(ReportError):
    """No such job, checkpoint or upload."""

    status = 404


class Refused(ReportError):
    """Not in this state of things: files are missing, or storage cannot be used."""

    status = 409


class Fenced(ReportError):
    """A newer attempt of the job has begun: the pod must stop."""

    status = 409

    def body(self) -> Obj:
        return {"error": str(self), "fenced": True}


class TooMany(ReportError):
    """More requests than a pod may send."""

    status = 429


class TooSlow(ReportError):
    """The body took too long to come."""

    status = 408


class Unavailable(ReportError):
    """The API server or the store does not answer now: try again later."""

    status = 503
