"""What clients and the server tell each other, in the order of the protocol."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ring = npt.NDArray[np.uint64]
"""Integers modulo 2**64: where masks cancel without a trace."""

Share = tuple[int, int]
"""A point of a polynomial: the member's number and the value there."""


@dataclass(frozen=True)
class Hello:
    """A client's public keys, for masks and for messages to other clients, and its commitment."""

    client: str
    mask_key: bytes
    channel_key: bytes
    seed_digest: bytes = b""
    """The SHA-256 of the seed of its own mask: by that false shares of it are known."""


@dataclass(frozen=True)
class Masked:
    """A client's weighted integers under masks."""

    client: str
    values: Ring


@dataclass(frozen=True)
class Revealed:
    """What a client tells of the others: own-mask shares of those who sent, key shares of the rest.

    Never both for one client: with both, its update could be seen.
    """

    client: str
    own_masks: dict[str, Share]
    keys: dict[str, Share]
