"""The server's side of secure aggregation: adds what is masked, then removes what is left."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from corral.federated.errors import AggregationFailed, UpdateRejected
from corral.federated.secure import shamir
from corral.federated.secure.masks import MAX_TOTAL_WEIGHT, agreed, from_ring, mask
from corral.federated.secure.messages import Hello, Masked, Revealed, Share


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
            shares = [one.own_masks[client] for one in revealed if client in one.own_masks]
            total -= mask(shamir.join(shares, threshold=self._threshold), len(total))
        for client in self.sharers:
            if client not in self._weights:
                self._remove_pairs(client, revealed, total)
        return from_ring(total, sum(self._weights.values()))

    def _remove_pairs(
        self, gone: str, revealed: Sequence[Revealed], total: npt.NDArray[np.uint64]
    ) -> None:
        """What the others have added for a client that never sent its own."""
        shares: list[Share] = [one.keys[gone] for one in revealed if gone in one.keys]
        private = shamir.join(shares, threshold=self._threshold)
        public = X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()
        if public != self._hellos[gone].mask_key:
            raise AggregationFailed(f"the shares of the key of {gone} are false")
        for client in self.sent:
            seed = agreed(private, self._hellos[client].mask_key, purpose=b"mask")
            pair = mask(seed, len(total))
            if client < gone:
                total -= pair
            else:
                total += pair
