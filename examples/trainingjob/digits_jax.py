"""Data-parallel training of a small network on handwritten digits, with JAX.

Given the step, training is the same bit for bit: batches are chosen by the step alone, every batch
is cut into `PARTS` parts whatever the number of replicas, and the gradients of the parts are added
in their order. So a run that was stopped and resumed anywhere, and a run of another number of
replicas (one, for example), end in the same weights on machines of one kind.

One program for every number of replicas: without `JAX_COORDINATOR_ADDRESS` it trains alone. It ends
with one line of JSON: the accuracy on digits it has not seen, and the SHA-256 of the weights.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import socket
import sys
import time
import traceback
from pathlib import Path

# Before jax is imported: replicas share cores, and one thread adds in one order.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import corral.inpod as corral

PARTS = 12
"""Parts of a batch; the replicas share them evenly, so 1, 2, 3, 4, 6 or 12 replicas will do."""
PART_SIZE = 16
INPUTS, HIDDEN, CLASSES = 64, 32, 10
RATE, MOMENTUM = 0.1, 0.9
SEED = 7


def load_digits() -> tuple[np.ndarray, np.ndarray]:
    """As `sklearn.datasets.load_digits`, which imports much more than it needs at every restart."""
    package = importlib.util.find_spec("sklearn")
    if package is None or package.origin is None:
        raise SystemExit("scikit-learn, which brings the digits, is not installed")
    table = np.loadtxt(Path(package.origin).parent / "datasets/data/digits.csv.gz", delimiter=",")
    return table[:, :-1], table[:, -1].astype(int)


def split_digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Images and labels to learn from, and every fifth one to be judged by."""
    images, labels = load_digits()
    images = (images / 16).astype(np.float32)
    unseen = np.arange(len(labels)) % 5 == 0
    return images[~unseen], labels[~unseen], images[unseen], labels[unseen]


def batch_of(step: int, size: int) -> np.ndarray:
    """Indexes of the samples of a step: each epoch goes through them all in an order of its own."""
    per_epoch = size // (PARTS * PART_SIZE)
    epoch, place = divmod(step - 1, per_epoch)
    order = np.random.default_rng([SEED, epoch]).permutation(size)
    return order[place * PARTS * PART_SIZE :][: PARTS * PART_SIZE].reshape(PARTS, PART_SIZE)


# --- the model: all weights in one vector, so that they are sent and saved as one --------------

_SHAPES = ((INPUTS, HIDDEN), (HIDDEN,), (HIDDEN, CLASSES), (CLASSES,))
WEIGHTS = sum(int(np.prod(shape)) for shape in _SHAPES)


def first_weights() -> np.ndarray:
    rng = np.random.default_rng(SEED)
    parts = [
        rng.normal(0, 1 / np.sqrt(shape[0]), shape) if len(shape) == 2 else np.zeros(shape)
        for shape in _SHAPES
    ]
    return np.concatenate([part.ravel() for part in parts]).astype(np.float32)


def logits_of(weights: jax.Array, images: jax.Array) -> jax.Array:
    parts, begin = [], 0
    for shape in _SHAPES:
        end = begin + int(np.prod(shape))
        parts.append(weights[begin:end].reshape(shape))
        begin = end
    hidden = jnp.tanh(images @ parts[0] + parts[1])
    return hidden @ parts[2] + parts[3]


def loss_of(weights: jax.Array, images: jax.Array, labels: jax.Array) -> jax.Array:
    scores = jax.nn.log_softmax(logits_of(weights, images))
    return -jnp.mean(jnp.take_along_axis(scores, labels[:, None], axis=1))


@jax.jit
def gradient(weights: jax.Array, images: jax.Array, labels: jax.Array) -> jax.Array:
    """The gradient of one part of a batch, and the loss behind it."""
    loss, slope = jax.value_and_grad(loss_of)(weights, images, labels)
    return jnp.append(slope, loss)


@jax.jit
def update(weights: jax.Array, speed: jax.Array, rows: jax.Array) -> tuple[jax.Array, ...]:
    """Weights and speed after a step, and its loss; `rows` are the gradients of all parts."""
    total = rows[0]
    for row in rows[1:]:
        total = total + row
    mean = total / PARTS
    speed = MOMENTUM * speed + mean[:-1]
    return weights - RATE * speed, speed, mean[-1]


# --- the replicas ------------------------------------------------------------------------------


class Group:
    """The replicas that train together; one that is alone needs nobody."""

    def __init__(self) -> None:
        self.rank = int(os.environ.get("JAX_PROCESS_ID", "0"))
        self.size = int(os.environ.get("JAX_NUM_PROCESSES", "1"))
        if self.size > 1:
            self._join(os.environ["JAX_COORDINATOR_ADDRESS"])
        mesh = Mesh(np.array(jax.devices()), ("replica",))
        self._spread = NamedSharding(mesh, PartitionSpec("replica"))
        self._gather = jax.jit(
            lambda rows: rows, out_shardings=NamedSharding(mesh, PartitionSpec())
        )

    def _join(self, coordinator: str) -> None:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        # SIGTERM belongs to the package, which makes a checkpoint then.
        jax.config.update("jax_enable_preemption_service", False)
        host, _, port = coordinator.rpartition(":")
        own = address_of(socket.gethostname())
        jax.distributed.initialize(
            f"{own if self.rank == 0 else address_of(host)}:{port}",
            num_processes=self.size,
            process_id=self.rank,
            coordinator_bind_address=f"{own}:{port}",
            initialization_timeout=120,
            heartbeat_timeout_seconds=10,
            shutdown_timeout_seconds=10,
        )

    def gather(self, rows: np.ndarray) -> np.ndarray:
        """The rows of all replicas, in their order. Raises when a replica is gone."""
        if self.size == 1:
            return rows
        mine = jax.make_array_from_process_local_data(self._spread, rows)
        return np.asarray(self._gather(mine).addressable_data(0))

    def leave(self) -> None:
        """Wait until all have come to the end."""
        if self.size > 1:
            jax.distributed.shutdown()


def address_of(host: str, *, seconds: float = 120) -> str:
    """The address of a replica, once its name is known. Raises OSError when it does not appear."""
    end = time.monotonic() + seconds
    while True:
        try:
            return socket.gethostbyname(host)
        except socket.gaierror:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


# --- training ----------------------------------------------------------------------------------


class Training:
    """Weights, speed, and the number of steps that led to them."""

    def __init__(self, group: Group, total: int) -> None:
        self.group = group
        self.total = total
        self.step = 0
        self.loss = float("nan")
        self.weights = first_weights()
        self.speed = np.zeros_like(self.weights)
        self.images, self.labels, self.unseen, self.answers = split_digits()

    def restore(self) -> None:
        """Replica 0 reads the newest checkpoint, and the others have it from there."""
        found = corral.restore() if self.group.rank == 0 else None
        if found is not None:
            with np.load(found.path / "state.npz") as state:
                self.step = int(state["step"])
                self.weights, self.speed = state["weights"], state["speed"]
        self.step = int(self.group.gather(np.array([[self.step]], np.int32))[0, 0])
        state = self.group.gather(np.stack([self.weights, self.speed])[None])[0]
        self.weights, self.speed = state

    def save(self, folder: str | os.PathLike[str]) -> None:
        np.savez(Path(folder) / "state.npz", step=self.step, weights=self.weights, speed=self.speed)
        if self.step == self.total:
            (Path(folder) / "result.json").write_text(json.dumps(self.result()))

    def advance(self) -> None:
        """One step; nothing has changed if it fails."""
        batch = batch_of(self.step + 1, len(self.labels))
        share = PARTS // self.group.size
        mine = batch[self.group.rank * share :][:share]
        rows = [gradient(self.weights, self.images[part], self.labels[part]) for part in mine]
        every = self.group.gather(np.stack([np.asarray(row) for row in rows]))
        weights, speed, loss = update(self.weights, self.speed, every)
        self.weights, self.speed = np.asarray(weights), np.asarray(speed)
        self.loss = float(loss)
        self.step += 1

    def result(self) -> dict[str, float | int | str]:
        guesses = np.argmax(np.asarray(logits_of(self.weights, self.unseen)), axis=1)
        return {
            "accuracy": round(float(np.mean(guesses == self.answers)), 6),
            "weights": hashlib.sha256(self.weights.tobytes()).hexdigest(),
            "step": self.step,
        }


def train(training: Training, pace: float) -> None:
    """All steps that are left."""
    if training.step == 0:
        corral.report(step=0, total=training.total)
    while training.step < training.total:
        begin = time.monotonic()
        try:
            training.advance()
        except Exception:
            # A replica is gone. What is here is whole, and the next attempt can begin with it.
            corral.maybe_checkpoint(training.save, step=training.step, force=True)
            raise
        corral.report(step=training.step, total=training.total, loss=training.loss)
        if training.step < training.total:
            corral.maybe_checkpoint(
                training.save, step=training.step, metrics={"loss": training.loss}
            )
            time.sleep(max(0.0, pace - (time.monotonic() - begin)))


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="train on scikit-learn's digits")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--pace", type=float, default=0.0, help="least seconds of a step")
    parser.add_argument("--result", type=Path, help="a file for the result, beside the output")
    return parser.parse_args()


def main() -> None:
    chosen = options()
    group = Group()
    if PARTS % group.size:
        raise SystemExit(f"{group.size} replicas cannot share {PARTS} parts evenly")
    training = Training(group, chosen.steps)
    training.restore()
    sys.stdout.write(f"replica {group.rank} of {group.size} begins after step {training.step}\n")
    sys.stdout.flush()
    train(training, chosen.pace)
    corral.maybe_checkpoint(training.save, step=training.step, force=True)
    result = json.dumps(training.result())
    sys.stdout.write(result + "\n")
    if chosen.result is not None:
        chosen.result.write_text(result)
    corral.flush()
    group.leave()


if __name__ == "__main__":
    try:
        main()
    except BaseException as error:
        # An orderly exit of JAX would wait for the replica that is gone.
        code = error.code if isinstance(error, SystemExit) else 1
        if not isinstance(code, int):
            sys.stderr.write(f"{code}\n")
            code = 1
        elif not isinstance(error, SystemExit):
            traceback.print_exc()
        corral.flush()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
