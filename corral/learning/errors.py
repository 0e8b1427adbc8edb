"""What can be wrong with updates and rounds.

Every error says which client, which tensor and what; a caller that goes on with the other
clients catches `UpdateRejected`, one that ends the round catches `AggregationFailed`.
"""

from __future__ import annotations


class FederatedError(ValueError):
    """The base class of everything that this package refuses."""


class UpdateRejected(FederatedError):
    """One update cannot be counted; the others are not touched by it."""

    def __init__(self, reason: str, *, client: str = "") -> None:
        super().__init__(f"update of {client}: {reason}" if client else reason)
        self.reason = reason
        self.client = client


class AggregationFailed(FederatedError):
    """The round has no result."""


class InvalidConfig(FederatedError):
    """A strategy or a codec was asked for with parameters that it does not take."""


class BudgetExhausted(FederatedError):
    """Another round would spend more privacy than the job may."""
