"""Handwritten digits, split unevenly over clients, as files that the clients read.

    python digits.py FOLDER proplet-1=0.7 proplet-2=0.3
    python digits.py FOLDER --score MODEL [--hidden 32]

writes `FOLDER/<client>/train.bin` for every client, `FOLDER/all/train.bin` with the samples of all,
and `FOLDER/test.bin`, which nobody trains on. Every client has classes of its own: seven samples of
ten go to the client that their digit belongs to, the rest to anybody, by the shares that are given.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import client
import numpy as np
from numpy.typing import NDArray

CLASSES = 10
AT_HOME = 0.7
TEST = 599


def load() -> tuple[client.Shard, client.Shard]:
    """Samples to train with, and samples to judge by."""
    from sklearn.datasets import load_digits

    found = load_digits()
    features = (found.data / 16).astype(np.float32).astype(np.float64)
    order = np.random.default_rng(7).permutation(len(features))
    labels = found.target.astype(np.intp)
    train, test = order[TEST:], order[:TEST]
    return (
        client.Shard(features[train], labels[train], CLASSES),
        client.Shard(features[test], labels[test], CLASSES),
    )


def owners(
    labels: NDArray[np.intp], shares: NDArray[np.float64], at_home: float
) -> NDArray[np.intp]:
    """The client that each sample goes to."""
    chance = np.random.default_rng(7)
    ends = np.cumsum(shares) * CLASSES - 1e-9
    home = np.minimum(np.searchsorted(ends, labels), len(shares) - 1)
    anybody = chance.choice(len(shares), size=len(labels), p=shares)
    return np.where(chance.random(len(labels)) < at_home, home, anybody)


def write(shard: client.Shard, path: Path) -> None:
    samples, width = shard.features.shape
    head = np.array([samples, width, shard.classes], "<u4").tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    features, labels = shard.features.astype("<f4"), shard.labels.astype(np.uint8)
    path.write_bytes(client.MAGIC + head + features.tobytes() + labels.tobytes())


def split(folder: Path, shares: Mapping[str, float], *, at_home: float = AT_HOME) -> None:
    """Write the files of these clients, and of all of them together."""
    train, test = load()
    parts = np.array(list(shares.values()), np.float64)
    owner = owners(train.labels, parts / parts.sum(), at_home)
    for number, name in enumerate(shares):
        mine = owner == number
        shard = client.Shard(train.features[mine], train.labels[mine], CLASSES)
        write(shard, folder / name / "train.bin")
    write(train, folder / "all" / "train.bin")
    write(test, folder / "test.bin")


def accuracy(test: Path, payload: bytes, *, hidden: int = 0, format_: str = "f32-le") -> float:
    """The share of right answers that a model gives."""
    shard = client.Shard.read(test)
    layout = client.Layout(shard.features.shape[1], hidden, shard.classes)
    model = client.decode(payload, format_, layout.size)
    return client.score(shard, layout, model)["accuracy"]


def main() -> None:
    parser = argparse.ArgumentParser(description="Digits for federated clients.")
    parser.add_argument(
        "--score", metavar="MODEL", type=Path, help="judge a model by FOLDER/test.bin"
    )
    parser.add_argument("--hidden", type=int, default=0, help="units of the model's hidden layer")
    parser.add_argument(
        "--at-home",
        type=float,
        default=AT_HOME,
        help="share of samples that go to their own client",
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("shares", nargs="*", metavar="CLIENT=SHARE")
    asked = parser.parse_args()
    if asked.score is not None:
        found = accuracy(asked.folder / "test.bin", asked.score.read_bytes(), hidden=asked.hidden)
        print(f"accuracy {found:.4f}")
        return
    pairs = (text.partition("=") for text in asked.shares or ("proplet-1=0.7", "proplet-2=0.3"))
    shares = {name: float(share) for name, _, share in pairs}
    split(asked.folder, shares, at_home=asked.at_home)
    print(f"written to {asked.folder}")


if __name__ == "__main__":
    main()
