"""Clipping and noise.

Every client's change of the model is scaled to at most `clip` (its length over all tensors), every
client counts the same, and the mean gets Gaussian noise of `noise * clip / clients`. Noise of one
seed and round is one and the same, so a round that is done again after a crash gives the same
model; whoever knows the seed can take the noise away, so it is a secret of the server. The noise
is that of a statistical generator in float64: it stands against readers of the model, not
against an attack on the generator or on the last bits of floating-point numbers.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from corral.learning.errors import InvalidConfig, UpdateRejected
from corral.learning.tensors import Model, Vector, matches

_BLOCK = 1 << 20


@dataclass(frozen=True)
class Privacy:
    """How updates are made private: `noise` is the noise multiplier."""

    clip: float
    noise: float
    seed: bytes

    def __post_init__(self) -> None:
        if not 0 < self.clip < float("inf"):
            raise InvalidConfig("clip must be more than 0")
        if not 0 <= self.noise < float("inf"):
            raise InvalidConfig("noise must not be negative")
        if len(self.seed) < 16:
            raise InvalidConfig("the seed of the noise must have at least 16 bytes")

    def clipped(self, model: Model, current: Model) -> Model:
        """The model with its change from `current` scaled to at most `clip`."""
        difference = matches(current.layout, model.layout)
        if difference:
            raise UpdateRejected(difference)
        length = change_length(model, current)
        if not np.isfinite(length):
            raise UpdateRejected("it holds a NaN or an infinity")
        if length <= self.clip:
            return model
        scale = self.clip / length
        vectors: list[Vector] = []
        for new, old in zip(model.vectors, current.vectors, strict=True):
            scaled = np.empty_like(new)
            for start in range(0, len(new), _BLOCK):
                block = slice(start, start + _BLOCK)
                base = old[block].astype(np.float64)
                scaled[block] = base + (new[block] - base) * scale
            vectors.append(scaled)
        return model.like(vectors)

    def noised(self, mean: Model, *, clients: int, job: str, round_number: int) -> Model:
        """The mean of so many clipped models, with noise."""
        deviation = self.noise * self.clip / clients
        if not deviation:
            return mean
        context = f"{job}/{round_number}".encode()
        seed = hashlib.blake2b(context, key=self.seed[:64], digest_size=32).digest()
        generator = np.random.Generator(np.random.PCG64(int.from_bytes(seed, "big")))
        vectors: list[Vector] = []
        for values in mean.vectors:
            noisy = values.copy()
            for start in range(0, len(values), _BLOCK):
                block = slice(start, start + _BLOCK)
                noise = generator.normal(0.0, deviation, len(values[block]))
                noisy[block] = values[block] + noise
            vectors.append(noisy)
        return mean.like(vectors)


def change_length(model: Model, current: Model) -> float:
    """The Euclidean length of the change over all tensors."""
    total = 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for new, old in zip(model.vectors, current.vectors, strict=True):
            for start in range(0, len(new), _BLOCK):
                block = slice(start, start + _BLOCK)
                change = new[block] - old[block].astype(np.float64)
                total += float(change @ change)
    return float(np.sqrt(total))
