"""What a broker refuses, as the protocol says it."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

__all__ = ["BrokerError", "DataError", "ErrorCode"]


class BrokerError(Exception):
    """A refusal with the code that clients know."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message or code.name)
        self.code = code


class DataError(Exception):
    """The data folder cannot be used; the words say why and what to do."""
