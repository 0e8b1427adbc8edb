"""Errors of this package: one tree, each message says what to do.

`Unavailable` is worth another try later; everything else is final until somebody changes the
reference, the credentials or what is stored.
"""

from __future__ import annotations

__all__ = [
    "Denied",
    "DigestMismatch",
    "InvalidArtifact",
    "InvalidReference",
    "NotFound",
    "RegistryError",
    "TooLarge",
    "Unavailable",
]


class RegistryError(Exception):
    """Base of all errors of this package; by itself: the registry refused the request."""

    status: int = 0
    """Of the HTTP answer it stands for; 0 without one."""


class InvalidReference(RegistryError, ValueError):
    """A reference or a digest that cannot be understood."""


class InvalidArtifact(RegistryError):
    """A manifest that is malformed, or not of a kind that is wanted."""


class NotFound(RegistryError):
    """The registry has no such repository, tag, manifest or blob."""


class Denied(RegistryError):
    """The credentials are missing, wrong, expired, or not allowed to do this."""


class Unavailable(RegistryError):
    """The registry did not answer properly after all retries."""


class DigestMismatch(RegistryError):
    """The bytes are not the ones that the digest stands for."""


class TooLarge(RegistryError):
    """What the registry offers is larger than we take."""
