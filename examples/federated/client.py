"""A federated client as a Python process: NumPy and nothing else.

It does what the WebAssembly client in `client/` does, operation by operation in the same order, so
that both give the same model, bit for bit: sums go from first to last, and `exp` is our own.

It reads the global model (`$FL_DIR/model`, else `FL_GLOBAL_UPDATE_B64`; without either, the round
starts from what `seed` gives), trains on `$DATA_DIR/train.bin`, and writes `$FL_DIR/update` and
`$FL_DIR/result.json`. Without `FL_DIR` it prints the whole envelope.
"""

from __future__ import annotations

import base64
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
MAGIC = b"FLS1"
MASK = (1 << 64) - 1


class ClientError(Exception):
    """The client cannot take part; the text says why."""


# --- data ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shard:
    """Samples of one client: `MAGIC`, three uint32, float32 features row by row, uint8 labels."""

    features: Array
    labels: NDArray[np.intp]
    classes: int

    @staticmethod
    def read(path: Path) -> Shard:
        try:
            content = path.read_bytes()
        except OSError as err:
            raise ClientError(f"cannot read {path}: {err.strerror}") from err
        if len(content) < 16 or content[:4] != MAGIC:
            raise ClientError(f"{path} is no shard")
        samples, width, classes = np.frombuffer(content, "<u4", count=3, offset=4).tolist()
        if len(content) != 16 + samples * (4 * width + 1):
            raise ClientError(f"{path} is cut off")
        features = np.frombuffer(content, "<f4", count=samples * width, offset=16)
        labels = np.frombuffer(content, np.uint8, offset=16 + 4 * samples * width)
        if samples == 0 or width == 0 or classes < 2 or labels.max() >= classes:
            raise ClientError(f"{path} holds no samples of a problem with classes")
        wide = features.reshape(samples, width).astype(np.float64)
        return Shard(wide, labels.astype(np.intp), classes)


# --- numbers that are the same everywhere --------------------------------------------------------


class Chance:
    """splitmix64."""

    def __init__(self, seed: int) -> None:
        self._state = seed & MASK

    def next(self) -> int:
        self._state = (self._state + 0x9E3779B97F4A7C15) & MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & MASK
        return mixed ^ (mixed >> 31)

    def between(self, bound: float) -> float:
        """From [-bound, bound)."""
        return ((self.next() >> 11) * 2.0**-52 - 1.0) * bound

    def shuffled(self, count: int) -> list[int]:
        order = list(range(count))
        for last in range(count - 1, 0, -1):
            other = self.next() % (last + 1)
            order[last], order[other] = order[other], order[last]
        return order


def fingerprint(text: str) -> int:
    """FNV-1a of the text."""
    found = 0xCBF29CE484222325
    for byte in text.encode():
        found = ((found ^ byte) * 0x100000001B3) & MASK
    return found


def exponential(values: Array) -> Array:
    """Euler's number to these powers, none of which is above 0."""
    bounded = np.where(values < -700.0, -700.0, values)
    powers = np.floor(bounded * 1.4426950408889634 + 0.5)
    rest = bounded - powers * 0.6931471803691238
    rest = rest - powers * 1.9082149292705877e-10
    total = np.ones_like(rest)
    for divisor in range(13, 0, -1):
        total = total * rest / divisor + 1.0
    return np.ldexp(total, powers.astype(np.int32))


def total(rows: Array) -> Array:
    """The sum of each row, from first to last."""
    found = rows[:, 0].copy()
    for column in range(1, rows.shape[1]):
        found += rows[:, column]
    return found


def product(left: Array, right: Array, start: Array) -> Array:
    """`start + left @ right`, added up from first to last."""
    found = np.repeat(start[None, :], len(left), axis=0)
    for at in range(left.shape[1]):
        found += left[:, at, None] * right[at]
    return found


def outer(left: Array, right: Array) -> Array:
    """`left.T @ right`, added up from first to last."""
    found = np.zeros((left.shape[1], right.shape[1]))
    for row, column in zip(left, right, strict=True):
        found += row[:, None] * column
    return found


# --- models --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """Logistic regression (`hidden` 0), or one hidden layer of rectifiers."""

    inputs: int
    hidden: int
    classes: int

    @property
    def pairs(self) -> list[tuple[int, int]]:
        if not self.hidden:
            return [(self.inputs, self.classes)]
        return [(self.inputs, self.hidden), (self.hidden, self.classes)]

    @property
    def size(self) -> int:
        return sum(rows * columns + columns for rows, columns in self.pairs)

    def layers(self, model: Array) -> list[tuple[Array, Array]]:
        """Weights and biases, as views of the model."""
        found, at = [], 0
        for rows, columns in self.pairs:
            weights = model[at : at + rows * columns].reshape(rows, columns)
            at += rows * columns
            found.append((weights, model[at : at + columns]))
            at += columns
        return found

    def initial(self, seed: int) -> Array:
        """Zeros for logistic regression; else small numbers that are the same for everybody."""
        model = np.zeros(self.size)
        if self.hidden:
            chance = Chance(seed)
            for weights, _ in self.layers(model):
                bound = math.sqrt(6.0 / (weights.shape[0] + weights.shape[1]))
                for at in np.ndindex(weights.shape):
                    weights[at] = chance.between(bound)
        return model

    def forward(self, model: Array, inputs: Array) -> list[Array]:
        """What each layer puts out; the last are probabilities."""
        layers = self.layers(model)
        found = []
        for weights, biases in layers[:-1]:
            raw = product(inputs, weights, biases)
            inputs = np.where(raw > 0.0, raw, 0.0)
            found.append(inputs)
        weights, biases = layers[-1]
        raw = product(inputs, weights, biases)
        raw = exponential(raw - raw.max(axis=1)[:, None])
        found.append(raw / total(raw)[:, None])
        return found

    def gradient(self, model: Array, inputs: Array, labels: NDArray[np.intp]) -> Array:
        """Of the sum of the losses of these samples."""
        outputs = self.forward(model, inputs)
        found = np.empty(self.size)
        slots, layers = self.layers(found), self.layers(model)
        error = outputs[-1].copy()
        error[np.arange(len(labels)), labels] -= 1.0
        for at in range(len(layers) - 1, -1, -1):
            before = outputs[at - 1] if at else inputs
            slots[at][0][:] = outer(before, error)
            slots[at][1][:] = outer(np.ones((len(error), 1)), error)[0]
            if at:
                back = product(error, layers[at][0].T, np.zeros(layers[at][0].shape[0]))
                error = np.where(before > 0.0, back, 0.0)
        return found


@dataclass(frozen=True)
class Settings:
    """What `HYPERPARAMS` may say; `FL_CLIENT_CONFIG`, and `local.json` of the data, come before."""

    hidden: int
    epochs: int
    batch: int
    rate: float
    mu: float
    seed: int
    format: str

    @staticmethod
    def of(values: Mapping[str, Any], env: Mapping[str, str]) -> Settings:
        def number(default: float, *names: str) -> float:
            for name in names:
                if name in values:
                    value = values[name]
                    if not isinstance(value, int | float) or isinstance(value, bool):
                        raise ClientError(f"{name} is no number")
                    return float(value)
            return default

        model = values.get("model", "logistic")
        if model not in ("logistic", "mlp"):
            raise ClientError(f"model is {model!r}, and must be logistic or mlp")
        format_ = str(values.get("format", "")) or env.get("FL_GLOBAL_UPDATE_FORMAT") or "f32-le"
        if format_ not in ("f32-le", "json-f64"):
            raise ClientError(f"format is {format_!r}, and must be f32-le or json-f64")
        found = Settings(
            hidden=int(number(32, "hidden")) if model == "mlp" else 0,
            epochs=int(number(10, "epochs", "local_epochs", "localEpochs")),
            batch=int(number(16, "batch_size", "batchSize")),
            rate=number(0.5, "lr", "learning_rate", "learningRate"),
            mu=number(0.0, "mu"),
            seed=int(number(1, "seed")),
            format=format_,
        )
        if found.epochs < 1 or found.batch < 1 or (model == "mlp" and found.hidden < 1):
            raise ClientError("epochs, batch_size and hidden must be at least 1")
        return found


def train(
    shard: Shard, layout: Layout, settings: Settings, start: Array, chance: Chance
) -> Iterator[Array]:
    """The model after each epoch; always the same array."""
    model = start.copy()
    for _ in range(settings.epochs):
        order = chance.shuffled(len(shard.labels))
        for at in range(0, len(order), settings.batch):
            chosen = order[at : at + settings.batch]
            slope = layout.gradient(model, shard.features[chosen], shard.labels[chosen])
            step = settings.rate / len(chosen) * slope
            if settings.mu:
                step += settings.rate * settings.mu * (model - start)
            model -= step
        if not np.isfinite(model).all():
            raise ClientError("the training diverged: take a smaller learning rate")
        yield model


def score(shard: Shard, layout: Layout, model: Array) -> dict[str, float]:
    """Mean loss, and the share of right answers."""
    chances = layout.forward(model, shard.features)[-1]
    right = chances[np.arange(len(shard.labels)), shard.labels]
    loss = -sum(math.log(max(float(value), 1e-300)) for value in right) / len(right)
    accuracy = float((chances.argmax(axis=1) == shard.labels).sum()) / len(right)
    return {"loss": round(loss, 6), "accuracy": round(accuracy, 6)}


# --- payloads ------------------------------------------------------------------------------------


def encode(model: Array, format_: str) -> bytes:
    if format_ == "json-f64":
        return ("[" + ",".join(repr(float(value)) for value in model) + "]").encode()
    return model.astype("<f4").tobytes()


def decode(payload: bytes, format_: str, size: int) -> Array:
    try:
        if format_ == "json-f64":
            found = np.array(json.loads(payload), np.float64)
        else:
            found = np.frombuffer(payload, "<f4").astype(np.float64)
    except ValueError as err:
        raise ClientError(f"the global model is not {format_}: {err}") from err
    if found.shape != (size,):
        raise ClientError(f"the global model has {found.size} parameters, and must have {size}")
    return found


def global_model(env: Mapping[str, str], format_: str) -> bytes | None:
    """What was given to start from."""
    path = Path(env["FL_DIR"]) / "model" if env.get("FL_DIR") else None
    if path is not None and path.exists():
        return path.read_bytes()
    if env.get("FL_GLOBAL_UPDATE_B64"):
        return base64.b64decode(env["FL_GLOBAL_UPDATE_B64"], validate=True)
    return None


# --- the program ---------------------------------------------------------------------------------


def take_part(env: Mapping[str, str]) -> None:
    """One round."""
    data = Path(env.get("DATA_DIR") or "/data")
    values = json.loads(env.get("HYPERPARAMS") or "{}") or {}
    values |= json.loads(env.get("FL_CLIENT_CONFIG") or "{}")
    if (data / "local.json").exists():
        values |= json.loads((data / "local.json").read_text())
    settings = Settings.of(values, env)
    shard = Shard.read(data / "train.bin")
    layout = Layout(shard.features.shape[1], settings.hidden, shard.classes)
    digits = "".join(filter(str.isdigit, env.get("ROUND_ID", "")))
    number = int(digits or 1)
    given = global_model(env, settings.format)
    format_ = env.get("FL_GLOBAL_UPDATE_FORMAT") or settings.format
    start = layout.initial(settings.seed) if given is None else decode(given, format_, layout.size)
    me = env.get("PROPLET_ID", "")
    chance = Chance(settings.seed ^ fingerprint(me) ^ number)
    folder = Path(env["FL_DIR"]) if env.get("FL_DIR") else None
    model = start
    for done, model in enumerate(train(shard, layout, settings, start, chance), 1):  # noqa: B007 - the last one is used
        if folder is not None:
            _write(folder / "progress.json", json.dumps({"epoch": done, "of": settings.epochs}))
    envelope = {
        "task_id": env.get("TASK_ID", ""),
        "job_id": env.get("FL_JOB_ID", ""),
        "round_id": number,
        "global_version": env.get("FL_GLOBAL_VERSION", ""),
        "proplet_id": me,
        "num_samples": len(shard.labels),
        "format": settings.format,
        "metrics": score(shard, layout, model),
    }
    payload = encode(model, settings.format)
    if folder is None:
        print(json.dumps({**envelope, "update_b64": base64.b64encode(payload).decode()}))
        return
    (folder / "update").write_bytes(payload)
    _write(folder / "result.json", json.dumps(envelope))


def _write(path: Path, text: str) -> None:
    """All of it or nothing: others read it at any moment."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.rename(path)


if __name__ == "__main__":
    try:
        take_part(os.environ)
    except ClientError as error:
        sys.exit(f"the client cannot take part: {error}")
