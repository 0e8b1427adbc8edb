"""What can go wrong in the SDK: the tree of `corral.client.errors`, and these.

    JobError
      CannotShip         400  the function, script or folder cannot be sent to pods
      JobFailed          409  a job that was waited for has failed; ``job``, ``explanation``

The same classes come from a cluster and from a gateway; the cause is chained. Every error has
``message``, ``hint`` (may be empty), ``fields`` (of an object that is not valid) and ``code``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from corral.client.errors import JobError, NoCluster

if TYPE_CHECKING:
    from corral.sdk.explained import Explained
    from corral.sdk.views import Job

__all__ = ["CannotShip", "JobFailed", "NoCluster"]


class CannotShip(JobError):
    """What was given cannot be sent to pods; the words say why and what to do."""

    code, reason = 400, "CannotShip"


class JobFailed(JobError):
    """A job that was waited for has failed; it is as ``job`` says."""

    code, reason = 409, "JobFailed"

    def __init__(self, message: str, *, job: Job, explanation: Explained | None = None) -> None:
        super().__init__(message)
        self.job = job
        self.explanation = explanation
