"""Data-parallel training of a small network on handwritten digits, with PyTorch.

The same promises as `digits_jax.py`: given the step, training is the same bit for bit, because
batches are chosen by the step alone, every batch is cut into `PARTS` parts whatever the number of
replicas, and the gradients of the parts are added in their order. It runs alone where `WORLD_SIZE`
is not set, and ends with one line of JSON.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
import traceback
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import Tensor, nn

import corral.inpod as corral

PARTS = 12
"""Parts of a batch; the replicas share them evenly, so 1, 2, 3, 4, 6 or 12 replicas will do."""
PART_SIZE = 16
RATE, MOMENTUM = 0.1, 0.9
SEED = 7


def split_digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Images and labels to learn from, and every fifth one to be judged by."""
    images, labels = load_digits(return_X_y=True)
    pixels, classes = torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels)
    unseen = torch.arange(len(classes)) % 5 == 0
    return pixels[~unseen], classes[~unseen], pixels[unseen], classes[unseen]


def batch_of(step: int, size: int) -> Tensor:
    """Indexes of the samples of a step: each epoch goes through them all in an order of its own."""
    per_epoch = size // (PARTS * PART_SIZE)
    epoch, place = divmod(step - 1, per_epoch)
    order = np.random.default_rng([SEED, epoch]).permutation(size)
    chosen = order[place * PARTS * PART_SIZE :][: PARTS * PART_SIZE]
    return torch.from_numpy(chosen.reshape(PARTS, PART_SIZE))


class Training:
    """Weights, speed, and the number of steps that led to them."""

    def __init__(self, total: int) -> None:
        self.rank, self.size = 0, 1
        if dist.is_initialized():
            self.rank, self.size = dist.get_rank(), dist.get_world_size()
        if PARTS % self.size:
            raise SystemExit(f"{self.size} replicas cannot share {PARTS} parts evenly")
        self.total = total
        self.step = 0
        self.loss = float("nan")
        torch.manual_seed(SEED)
        self.model = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))
        self.weights = nn.utils.parameters_to_vector(self.model.parameters()).detach()
        self.speed = torch.zeros_like(self.weights)
        self.images, self.labels, self.unseen, self.answers = split_digits()

    def restore(self) -> None:
        """Replica 0 reads the newest checkpoint, and the others have it from there."""
        found = corral.restore() if self.rank == 0 else None
        if found is not None:
            state = torch.load(found.path / "state.pt", weights_only=True)
            self.step, self.weights, self.speed = state["step"], state["weights"], state["speed"]
        if self.size > 1:
            step = torch.tensor([self.step])
            for tensor in (step, self.weights, self.speed):
                dist.broadcast(tensor, src=0)
            self.step = int(step)
        self._load()

    def _load(self) -> None:
        nn.utils.vector_to_parameters(self.weights, self.model.parameters())

    def save(self, folder: str | os.PathLike[str]) -> None:
        state = {"step": self.step, "weights": self.weights, "speed": self.speed}
        torch.save(state, Path(folder) / "state.pt")
        if self.step == self.total:
            (Path(folder) / "result.json").write_text(json.dumps(self.result()))

    def advance(self) -> None:
        """One step; nothing has changed if it fails."""
        share = PARTS // self.size
        mine = batch_of(self.step + 1, len(self.labels))[self.rank * share :][:share]
        rows = self._gather(torch.stack([self._gradient(part) for part in mine]))
        total = rows[0].clone()
        for row in rows[1:]:
            total += row
        mean = total / PARTS
        self.speed = MOMENTUM * self.speed + mean[:-1]
        self.weights = self.weights - RATE * self.speed
        self.loss = float(mean[-1])
        self.step += 1
        self._load()

    def _gradient(self, part: Tensor) -> Tensor:
        """The gradient of one part of a batch, and the loss behind it."""
        loss = nn.functional.cross_entropy(self.model(self.images[part]), self.labels[part])
        slopes = torch.autograd.grad(loss, list(self.model.parameters()))
        return torch.cat([*(slope.ravel() for slope in slopes), loss.detach().ravel()])

    def _gather(self, rows: Tensor) -> Tensor:
        """The rows of all replicas, in their order. Raises when a replica is gone."""
        if self.size == 1:
            return rows
        every = [torch.empty_like(rows) for _ in range(self.size)]
        dist.all_gather(every, rows)
        return torch.cat(every)

    def result(self) -> dict[str, float | int | str]:
        with torch.no_grad():
            guesses = self.model(self.unseen).argmax(dim=1)
        return {
            "accuracy": round(float((guesses == self.answers).float().mean()), 6),
            "weights": hashlib.sha256(self.weights.numpy().tobytes()).hexdigest(),
            "step": self.step,
        }


def train(training: Training, pace: float) -> None:
    """All steps that are left."""
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
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        dist.init_process_group("gloo", timeout=timedelta(seconds=120))
    training = Training(chosen.steps)
    training.restore()
    start = f"replica {training.rank} of {training.size} begins after step {training.step}"
    sys.stdout.write(start + "\n")
    sys.stdout.flush()
    train(training, chosen.pace)
    corral.maybe_checkpoint(training.save, step=training.step, force=True)
    result = json.dumps(training.result())
    sys.stdout.write(result + "\n")
    if chosen.result is not None:
        chosen.result.write_text(result)
    corral.flush()
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    try:
        main()
    except BaseException as error:
        # An orderly exit of the process group would wait for the replica that is gone.
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
