"""The client's side of secure aggregation: four steps, each once."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from corral.learning.errors import AggregationFailed
from corral.learning.secure import shamir
from corral.learning.secure.masks import agreed, mask, to_ring
from corral.learning.secure.messages import Hello, Masked, Revealed, Share

_BYTES = 66  # of a share: 521 bits


class Member:
    """One client in one round; make a new one for every round, seeds are used once."""

    def __init__(self, client: str) -> None:
        self.client = client
        self._mask_key = X25519PrivateKey.generate()
        self._channel_key = X25519PrivateKey.generate()
        self._own_seed = secrets.token_bytes(32)
        self._peers: dict[str, Hello] = {}
        self._threshold = 0
        self._held: dict[str, tuple[Share, Share]] = {}
        self._revealed = False

    def hello(self) -> Hello:
        return Hello(
            self.client,
            self._mask_key.public_key().public_bytes_raw(),
            self._channel_key.public_key().public_bytes_raw(),
            hashlib.sha256(self._own_seed).digest(),
        )

    def share(self, hellos: Sequence[Hello], *, threshold: int) -> dict[str, bytes]:
        """Shares of this client's seeds for every client, each readable by that one only."""
        if self._peers:
            raise AggregationFailed("seeds are shared once")
        members = {hello.client: hello for hello in sorted(hellos, key=lambda one: one.client)}
        if self.client not in members or len(members) != len(hellos):
            raise AggregationFailed("the list of clients lacks this one or names one twice")
        if not len(members) // 2 < threshold <= len(members):
            raise AggregationFailed("the threshold must be more than half of the clients")
        self._peers, self._threshold = members, threshold
        keys = shamir.split(self._mask_key.private_bytes_raw(), len(members), threshold=threshold)
        own = shamir.split(self._own_seed, len(members), threshold=threshold)
        return {
            client: self._seal(client, key[1], seed[1])
            for client, key, seed in zip(members, keys, own, strict=True)
        }

    def _channel(self, client: str, sender: str) -> ChaCha20Poly1305:
        # a key for each direction, used for one message: the nonce may be constant
        purpose = f"share from {sender}".encode()
        private = self._channel_key.private_bytes_raw()
        return ChaCha20Poly1305(agreed(private, self._peers[client].channel_key, purpose=purpose))

    def _seal(self, client: str, key: int, seed: int) -> bytes:
        text = key.to_bytes(_BYTES, "big") + seed.to_bytes(_BYTES, "big")
        return self._channel(client, self.client).encrypt(bytes(12), text, client.encode())

    def receive(self, sealed: Mapping[str, bytes]) -> None:
        """The shares that the other clients (and this one itself) made for this client."""
        number = list(self._peers).index(self.client) + 1
        for sender, message in sealed.items():
            text = self._channel(sender, sender).decrypt(bytes(12), message, self.client.encode())
            key, seed = (int.from_bytes(part, "big") for part in (text[:_BYTES], text[_BYTES:]))
            self._held[sender] = ((number, key), (number, seed))

    def masked(self, values: npt.NDArray[np.floating], weight: int) -> Masked:
        """The update under the masks agreed with all whose shares were received."""
        if len(self._held) < self._threshold:
            raise AggregationFailed("too few clients have shared their seeds")
        total = to_ring(values, weight) + mask(self._own_seed, len(values))
        for peer in self._held:
            if peer != self.client:
                private = self._mask_key.private_bytes_raw()
                seed = agreed(private, self._peers[peer].mask_key, purpose=b"mask")
                pair = mask(seed, len(values))
                total = total + pair if self.client < peer else total - pair
        return Masked(self.client, total)

    def reveal(self, sent: Sequence[str]) -> Revealed:
        """Helps to remove the masks: once, and of each client one of the two secrets."""
        if self._revealed:
            raise AggregationFailed("shares are revealed once a round")
        if len(set(sent)) < self._threshold:
            raise AggregationFailed("too few clients have sent their update")
        self._revealed = True
        own = {client: seed for client, (_, seed) in self._held.items() if client in set(sent)}
        keys = {client: key for client, (key, _) in self._held.items() if client not in set(sent)}
        return Revealed(self.client, own, keys)
