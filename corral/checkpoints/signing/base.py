"""What a signer of any store offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

WEEK = 7 * 24 * 3600.0
"""Seconds; no store signs for longer."""


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """One request that whoever holds this may send."""

    method: str
    url: str
    expires: float
    """When it expires, in seconds since the epoch."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """To be sent exactly so."""


@dataclass(frozen=True, slots=True)
class Upload:
    """An upload in parts that has begun."""

    path: str
    id: str
    parts: tuple[SignedRequest, ...]
    """One for each part, in order; all parts but the last are of equal size."""


class UrlSigner(Protocol):
    """Signs for one store. Paths are relative to the store's address."""

    def get(self, path: str, *, ttl: float) -> SignedRequest:
        """A signed request that reads an object."""
        ...

    def put(self, path: str, *, ttl: float, create: bool = False) -> SignedRequest:
        """To write an object; with `create`, only if there is none yet."""
        ...

    def start(self, path: str, *, parts: int, ttl: float) -> Upload:
        """Begins an upload in parts."""
        ...

    def complete(self, upload: Upload, etags: Sequence[str], *, create: bool = False) -> None:
        """Makes the object of all parts, given the ETag of each part's answer.

        Raises:
            AlreadyExists: with `create`, if the object is there already.
        """
        ...

    def abort(self, upload: Upload) -> None:
        """Gives an upload up; doing it twice is no error."""
        ...

    def sweep(self, prefix: str, *, before: float) -> int:
        """Gives up all uploads below a folder that began before that time; how many."""
        ...


def check_ttl(ttl: float) -> int:
    """Whole seconds.

    Raises:
        ValueError: if no store would sign for so long.
    """
    if not 1 <= ttl <= WEEK:
        raise ValueError(f"a URL can be signed for 1 second up to 7 days, not for {ttl} seconds")
    return int(ttl)
