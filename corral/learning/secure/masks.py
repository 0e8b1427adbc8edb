"""Masks from seeds, and floats as integers of the ring."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from corral.learning.errors import UpdateRejected
from corral.learning.secure.messages import Ring

FRACTION = 32
"""Bits behind the point: values are rounded to multiples of 2**-32."""

LARGEST = float(1 << 10)
"""Values beyond are refused: with it a total weight below 2**20 cannot wrap around."""

MAX_TOTAL_WEIGHT = (1 << 20) - 1


def mask(seed: bytes, size: int) -> Ring:
    """The mask of a seed: the key stream of ChaCha20."""
    stream = Cipher(algorithms.ChaCha20(seed, bytes(16)), mode=None).encryptor()
    return np.frombuffer(stream.update(bytes(8 * size)), "<u8").astype(np.uint64, copy=False)


def agreed(private: bytes, public: bytes, *, purpose: bytes) -> bytes:
    """The secret that two clients have in common, for one purpose."""
    own = X25519PrivateKey.from_private_bytes(private)
    shared = own.exchange(X25519PublicKey.from_public_bytes(public))
    return HKDF(hashes.SHA256(), length=32, salt=None, info=purpose).derive(shared)


def to_ring(values: npt.NDArray[np.floating], weight: int) -> Ring:
    """The values times the weight, as fixed-point integers of the ring."""
    wide = values.astype(np.float64)
    if not np.isfinite(wide).all() or np.abs(wide).max(initial=0.0) > LARGEST:
        raise UpdateRejected(f"secure aggregation takes values up to {LARGEST:g} only")
    return np.rint(np.ldexp(wide, FRACTION)).astype(np.int64).view(np.uint64) * np.uint64(weight)


def from_ring(total: Ring, weight: int) -> npt.NDArray[np.float64]:
    """The weighted mean behind a sum."""
    result: npt.NDArray[np.float64] = total.view(np.int64) / np.ldexp(float(weight), FRACTION)
    return result
