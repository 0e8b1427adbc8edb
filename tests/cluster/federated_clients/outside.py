"""What a federated job should give, computed without any of it: exact means, central training."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from tests.cluster.federated_clients.digits import client


def mean(updates: Sequence[tuple[int, bytes]]) -> bytes:
    """The mean of float32 vectors weighted by samples: exact, and rounded once."""
    total = sum(samples for samples, _ in updates)
    vectors = [(samples, np.frombuffer(payload, "<f4")) for samples, payload in updates]
    found = np.empty(len(vectors[0][1]), "<f4")
    for at in range(len(found)):
        exact = sum((Fraction(float(v[at])) * samples for samples, v in vectors), Fraction(0))
        found[at] = nearest(exact / total)
    return found.tobytes()


def median(updates: Sequence[tuple[int, bytes]]) -> bytes:
    """The median of an even number of float32 vectors: exact, and rounded once."""
    rows = np.sort([np.frombuffer(payload, "<f4") for _, payload in updates], axis=0)
    low, high = rows[len(rows) // 2 - 1], rows[len(rows) // 2]
    pairs = zip(low.tolist(), high.tolist(), strict=True)
    return np.array([nearest((Fraction(a) + Fraction(b)) / 2) for a, b in pairs], "<f4").tobytes()


def nearest(exact: Fraction) -> np.float32:
    """The float32 that is nearest; an even one of two that are equally near."""
    guess = np.float32(float(exact))
    near = [
        guess,
        np.nextafter(guess, np.float32(np.inf)),
        np.nextafter(guess, -np.float32(np.inf)),
    ]
    return min(near, key=lambda v: (abs(Fraction(float(v)) - exact), int(v.view(np.uint32)) & 1))


def train(
    data: Path,
    proplet: str,
    number: int,
    start: bytes | None,
    hyperparams: Mapping[str, Any] | None = None,
) -> tuple[int, bytes]:
    """What a client with this data gives in a round: its samples, and its update."""
    values = dict(hyperparams or {})
    local = data / "local.json"
    if local.exists():
        values |= json.loads(local.read_text())
    settings = client.Settings.of(values, {})
    shard = client.Shard.read(data / "train.bin")
    layout = client.Layout(shard.features.shape[1], settings.hidden, shard.classes)
    begin = (
        layout.initial(settings.seed)
        if start is None
        else client.decode(start, "f32-le", layout.size)
    )
    chance = client.Chance(settings.seed ^ client.fingerprint(proplet) ^ number)
    *_, model = client.train(shard, layout, settings, begin, chance)
    return len(shard.labels), client.encode(model, "f32-le")


def centrally(data: Path, rounds: int, hyperparams: Mapping[str, Any] | None = None) -> bytes:
    """The model of one who has all the data, and trains as long."""
    model: bytes | None = None
    for number in range(1, rounds + 1):
        _, model = train(data / "all", "all", number, model, hyperparams)
    assert model is not None
    return model
