"""Data sets that can be put into topics: made up, of a package, or of a file. No cluster, no Kafka.

Samples are float32 arrays; labels are one-hot (``onehot``), the class in one byte (``index``), or
the numbers as they are (``value``).
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

__all__ = ["LABELS", "SampleError", "Samples", "Shard", "load", "parts", "shards"]

Array = NDArray[Any]
Labels = Literal["onehot", "index", "value"]
LABELS: Final[tuple[str, ...]] = get_args(Labels)
_SIDE: Final = 28
_CLASSES: Final = 10


class SampleError(ValueError):
    """Data that cannot be used; one line that says why."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples and their labels, ready to be sent."""

    x: Array
    y: Array

    def __len__(self) -> int:
        return len(self.x)

    @property
    def input_config(self) -> dict[str, str]:
        """How the records of these samples are read."""
        return {
            "data_type": str(self.x.dtype),
            "data_reshape": _shape(self.x),
            "label_type": str(self.y.dtype),
            "label_reshape": _shape(self.y),
        }


def _shape(array: Array) -> str:
    return " ".join(map(str, array.shape[1:])) or "1"


def load(
    source: str,
    *,
    count: int,
    seed: int = 0,
    labels: str = "onehot",
    label_column: str = "",
    label_file: Path | None = None,
    reshape: str = "",
) -> Samples:
    """So many samples of ``mnist``, ``digits``, or a .csv, .npy or .npz file; all if 0.

    Raises:
        SampleError: there are none, or fewer.
    """
    if source == "mnist":
        x, y = mnist_like(count or 550, seed)
    elif source == "digits":
        x, y = _digits(seed)
    else:
        x, y = _file(Path(source), label_column, label_file)
    if len(x) != len(y):
        raise SampleError(f"{source} has {len(x)} samples and {len(y)} labels")
    if not len(x) or len(x) < count:
        raise SampleError(f"{source} has {len(x)} samples, but {count or 'some'} are needed")
    if count:
        x = x[:count]
    classes = _CLASSES if source in ("mnist", "digits") else 2
    made = _encoded(y, labels, classes)[: len(x)]
    return Samples(_reshaped(np.ascontiguousarray(x, np.float32), reshape), made)


def mnist_like(count: int, seed: int) -> tuple[Array, Array]:
    """Images of 28 by 28 in ten classes that can be learned: a pattern each, moved and noisy."""
    coarse = np.random.default_rng(2024).random((_CLASSES, _SIDE // 4, _SIDE // 4)) > 0.6
    patterns = np.kron(coarse, np.ones((4, 4)))
    rng = np.random.default_rng(seed)
    y = rng.integers(0, _CLASSES, count)
    x = np.empty((count, _SIDE, _SIDE), np.float32)
    for row, (label, shift) in enumerate(zip(y, rng.integers(-2, 3, (count, 2)), strict=True)):
        image = np.roll(patterns[label], (int(shift[0]), int(shift[1])), (0, 1))
        x[row] = np.clip(image * 0.6 + rng.normal(0.2, 0.4, image.shape), 0, 1)
    return x.reshape(count, -1), y


def _digits(seed: int) -> tuple[Array, Array]:
    try:
        from sklearn.datasets import load_digits  # type: ignore[import-untyped]  # no types
    except ImportError:
        raise SampleError("digits need scikit-learn: pip install scikit-learn") from None
    found: Any = load_digits()
    order = np.random.default_rng(seed).permutation(len(found.target))
    return (found.data[order] / 16).astype(np.float32), found.target[order]


def _file(path: Path, label_column: str, label_file: Path | None) -> tuple[Array, Array]:
    if not path.is_file():
        raise SampleError(f"{path} is not mnist, digits or an existing file")
    try:
        if path.suffix == ".csv":
            return _csv(path, label_column)
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as found:
                return _pair(path, {name: found[name] for name in found.files})
        if path.suffix == ".npy":
            if label_file is None:
                raise SampleError(f"{path} contains no labels: name their file with --label-file")
            return (
                np.load(path, allow_pickle=False),
                np.load(label_file, allow_pickle=False),
            )
    except (OSError, ValueError) as error:
        if isinstance(error, SampleError):
            raise
        raise SampleError(f"{path} cannot be read: {error}") from error
    raise SampleError(f"{path} is not a .csv, .npy or .npz")


def _pair(path: Path, arrays: dict[str, Array]) -> tuple[Array, Array]:
    for first, second in (("x", "y"), ("x_train", "y_train"), ("data", "labels")):
        if first in arrays and second in arrays:
            return arrays[first], arrays[second]
    names = ", ".join(arrays) or "nothing"
    raise SampleError(f"{path} contains {names}: name the arrays x and y")


def _csv(path: Path, label_column: str) -> tuple[Array, Array]:
    with path.open(newline="") as file:
        rows = [row for row in csv.reader(file) if row]
    if not rows:
        raise SampleError(f"{path} is empty")
    header = rows[0] if not all(map(_is_number, rows[0])) else None
    body = rows[1:] if header else rows
    width = len(rows[0])
    place = width - 1
    if label_column:
        names = header or [str(n) for n in range(width)]
        if label_column not in names:
            raise SampleError(f"{path} has no column {label_column}: {', '.join(names[:20])}")
        place = names.index(label_column)
    for number, row in enumerate(body, start=2 if header else 1):
        if len(row) != width:
            raise SampleError(f"{path}, line {number}: {len(row)} columns, not {width}")
    if width < 2:
        raise SampleError(f"{path} has one column: a label and at least one feature are needed")
    detail = [row[place] for row in body]
    if all(map(_is_number, detail)):
        y = np.array(detail, np.float32)
    else:
        known = {word: n for n, word in enumerate(sorted(set(detail)))}
        y = np.array([known[word] for word in detail], np.float32)
    return np.array([row[:place] + row[place + 1 :] for row in body], np.float32), y


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False


def _encoded(y: Array, labels: str, least: int) -> Array:
    """``least``: classes that there are, even where none of their samples is."""
    if labels == "value" or y.ndim > 1:
        return np.ascontiguousarray(y, np.float32)
    if np.any(y < 0) or np.any(y != np.floor(y)):
        raise SampleError("labels are not classes 0, 1, 2, …: send them with --labels value")
    classes = np.asarray(y, np.int64)
    if labels == "index":
        if classes.max() > 255:
            raise SampleError(f"class {classes.max()} does not fit one byte: use --labels onehot")
        return classes.astype(np.uint8)
    if classes.max() >= 100_000:
        raise SampleError("there are more than 100000 classes: send labels with --labels value")
    return np.eye(max(int(classes.max()) + 1, least), dtype=np.float32)[classes]


def _reshaped(x: Array, reshape: str) -> Array:
    if not reshape:
        return x
    try:
        return x.reshape(len(x), *(int(word) for word in reshape.split()))
    except ValueError as error:
        raise SampleError(
            f"samples of shape {_shape(x)} cannot take the shape {reshape!r}: {error}"
        ) from error


# --- shards --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shard:
    """What one client gets: its training samples, then its test samples."""

    number: int
    rows: Array
    """Places of its samples."""
    test: int

    @property
    def test_rate(self) -> float:
        """So that exactly the training samples come before it; never a hair too much."""
        total = len(self.rows)
        return math.floor(self.test / total * 1e9) / 1e9 if total else 0.0


def parts(text: str) -> list[float]:
    """``3``: as many even parts; ``0.6,0.3,0.1``: those. Raises SampleError."""
    try:
        if "," not in text and "." not in text:
            count = int(text)
            weights = [1.0] * count
        else:
            weights = [float(word) for word in text.split(",")]
    except ValueError:
        raise SampleError(f"{text!r} is not a valid split: write 3, or 0.6,0.3,0.1") from None
    if not weights or not all(0 < w < math.inf for w in weights) or len(weights) > 10_000:
        raise SampleError(
            f"{text!r} is not a valid split: use positive weights, at most 10000 of them"
        )
    return weights


def shards(train: int, test: int, weights: Sequence[float]) -> list[Shard]:
    """Samples 0 to train for training, the next for tests, each divided by weight."""
    out = []
    cuts = [_cuts(train, weights), [train + cut for cut in _cuts(test, weights)]]
    for n in range(len(weights)):
        own = [np.arange(bounds[n], bounds[n + 1]) for bounds in cuts]
        if not len(own[0]):
            raise SampleError(
                f"shard {n} of {len(weights)} has no sample: send more samples, or use fewer shards"
            )
        out.append(Shard(n, np.concatenate(own), len(own[1])))
    return out


def _cuts(count: int, weights: Sequence[float]) -> list[int]:
    total, sum_, out = math.fsum(weights), 0.0, [0]
    for weight in weights:
        sum_ += weight
        out.append(round(count * sum_ / total))
    out[-1] = count
    return out
