"""What can be wrong with what is given to this package."""

from __future__ import annotations

__all__ = ["InvalidTrace", "NoOffers", "SpotError", "UnknownRule"]


class SpotError(Exception):
    """Base of all errors of this package."""


class InvalidTrace(SpotError):
    """A trace, or a history, that cannot be read; the message says what to mend."""


class NoOffers(SpotError):
    """There is nothing to choose from: no machine is offered that the job may use."""


class UnknownRule(SpotError):
    """No rule or shape of that name; the message names those there are."""
