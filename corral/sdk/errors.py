"""What can go wrong in the SDK, as one tree over that of `corral.jobs`.

    CorralError
      CannotShip         the function, script or folder cannot be sent to pods
      NoCluster          no cluster or gateway was found, or it does not answer
      JobFailed          a job that was waited for has failed; `.explanation` says why
      WaitTimeout        a wait was over before the job got there; `.phase` is where it is
      Refused            the API or the gateway said no; `.code`, `.fields`, `.hint`
        NotFound  AlreadyExists  Conflict  Forbidden  Unauthorized  Invalid  NotInstalled
        UnknownKind  Unavailable

The same classes come from a cluster and from a gateway; the cause is chained.
"""

from __future__ import annotations

__all__ = ["CannotShip", "CorralError"]


class CorralError(Exception):
    """Any error of the SDK; the text is made for people."""


class CannotShip(CorralError):
    """What was given cannot be sent to pods; the words say why and what to do."""
