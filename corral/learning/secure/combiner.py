"""The server's side of secure aggregation: adds what is masked, then removes what is left."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from corral.learning.errors import AggregationFailed, UpdateRejected
from corral.learning.secure import shamir
from corral.learning.secure.masks import MAX_TOTAL_WEIGHT, agreed, from_ring, mask
from corral.learning.secure.messages import Hello, Masked, Revealed, Share


class Combiner:
    """One round. `sharers`: clients whose shares were passed on, all by default."""

    def __init__(
        self,
        hellos: Sequence[Hello],
        *,
        threshold: int,
        size: int,
        sharers: Sequence[str] | None = None,
    ) -> None:
        self._hellos = {hello.client: hello for hello in hellos}
        self._threshold = threshold
        self._total = np.zeros(size, np.uint64)
        self._weights: dict[str, int] = {}
        self.sharers = sorted(self._hellos if sharers is None else sharers)

    def add(self, masked: Masked, weight: int) -> None:
        """Adds one masked update; memory stays that of one."""
        if masked.client not in self.sharers:
            raise UpdateRejected("it is not of a participant of this round", client=masked.client)
        if masked.client in self._weights:
            raise UpdateRejected("it has been counted already", client=masked.client)
        if len(masked.values) != len(self._total):
            raise UpdateRejected(
                "cannot aggregate: mismatched vector dimensions", client=masked.client
            )
        if weight < 1 or sum(self._weights.values()) + weight > MAX_TOTAL_WEIGHT:
            raise UpdateRejected(f"weight {weight} is not allowed", client=masked.client)
        self._total += masked.values
        self._weights[masked.client] = weight

    @property
    def sent(self) -> list[str]:
        """Those whose update is in the sum; it must not change once shares are asked for."""
        return sorted(self._weights)

    def mean(self, revealed: Sequence[Revealed]) -> npt.NDArray[np.float64]:
        """The weighted mean of the updates that were sent."""
        if len(self._weights) < self._threshold:
            raise AggregationFailed(
                f"{len(self._weights)} updates of at least {self._threshold} arrived"
            )
        total = self._total.copy()
        for client in self.sent:
            shares = self._own(revealed, [one.own_masks.get(client) for one in revealed])
            total -= mask(self._joined(shares, self._is_seed_of(client)), len(total))
        for client in self.sharers:
            if client not in self._weights:
                self._remove_pairs(client, revealed, total)
        return from_ring(total, sum(self._weights.values()))

    def _own(self, revealed: Sequence[Revealed], shares: Sequence[Share | None]) -> list[Share]:
        """The shares that their senders hold themselves: nobody speaks in another's place."""
        numbers = {client: number for number, client in enumerate(sorted(self._hellos), 1)}
        return [
            share
            for one, share in zip(revealed, shares, strict=True)
            if share is not None and share[0] == numbers.get(one.client)
        ]

    def _joined(self, shares: Sequence[Share], valid: Callable[[bytes], bool]) -> bytes:
        return shamir.join(shares, threshold=self._threshold, valid=valid)

    def _is_seed_of(self, client: str) -> Callable[[bytes], bool]:
        digest = self._hellos[client].seed_digest
        return lambda seed: not digest or hashlib.sha256(seed).digest() == digest

    def _is_key_of(self, client: str) -> Callable[[bytes], bool]:
        def valid(private: bytes) -> bool:
            key = X25519PrivateKey.from_private_bytes(private)
            return key.public_key().public_bytes_raw() == self._hellos[client].mask_key

        return valid

    def _remove_pairs(
        self, gone: str, revealed: Sequence[Revealed], total: npt.NDArray[np.uint64]
    ) -> None:
        """What the others have added for a client that never sent its own."""
        shares = self._own(revealed, [one.keys.get(gone) for one in revealed])
        private = self._joined(shares, self._is_key_of(gone))
        for client in self.sent:
            seed = agreed(private, self._hellos[client].mask_key, purpose=b"mask")
            pair = mask(seed, len(total))
            if client < gone:
                total -= pair
            else:
                total += pair
