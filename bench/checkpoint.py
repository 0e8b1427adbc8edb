"""Checkpoints against `cp` and `sha256sum` of the same bytes, and the pause of a training loop.

Each repeat measures, one after the other: the peer (`cp`, then `sha256sum`; once as it is and
once with a sync of the copy), our write with digests (not synced and synced), our verified
restore into memory, and our save in the background. The synced figures compare like with like;
the others are the literal demand. `ratio` is the smallest of all throughput ratios. Each pause of
the loop is compared with a synced write just before it: what the loop would wait without a
background; `pause_share` is the median of those pairs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from common import arguments, median, report

from corral.checkpoints import About, LocalStore, Repository, Saver, load_state
from corral.checkpoints.state import add_state, lay_out

STATE = About(kind="state")


def timed(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


class Bench:
    def __init__(self, folder: Path, size: int) -> None:
        self.folder = folder
        self.size = size
        block = os.urandom(1 << 20)
        pieces = 16
        self.state = {
            f"layer-{n}": bytearray(block * (size // pieces // len(block))) for n in range(pieces)
        }
        self.source = folder / "source"
        with self.source.open("wb") as file:
            for piece in self.state.values():
                file.write(piece)
        self.results: dict[str, list[float]] = {}
        self.shares: list[float] = []

    def note(self, name: str, seconds: float) -> None:
        self.results.setdefault(name, []).append(seconds)

    def peer(self, *, synced: bool) -> float:
        copy = self.folder / "copy"

        def action() -> None:
            run("cp", str(self.source), str(copy))
            if synced:
                run("sync", str(copy))
            run("sha256sum", str(copy))

        seconds = timed(action)
        copy.unlink()
        return seconds

    def repository(self, *, synced: bool) -> Repository:
        shutil.rmtree(self.folder / "store", ignore_errors=True)
        return Repository(LocalStore(self.folder / "store", durable=synced))

    def write(self, repository: Repository, step: int) -> None:
        with repository.begin(step, STATE) as writer:
            add_state(writer, lay_out(self.state))
            writer.commit()

    def restore(self, repository: Repository) -> float:
        restored = None

        def action() -> None:
            nonlocal restored
            restored = load_state(repository)

        seconds = timed(action)
        assert restored is not None
        assert all(restored.value[name] == piece for name, piece in self.state.items())
        return seconds

    def repeat(self) -> None:
        for synced in (False, True):
            suffix = "_synced" if synced else ""
            self.note("peer" + suffix, self.peer(synced=synced))
            repository = self.repository(synced=synced)
            self.note("write" + suffix, timed(partial(self.write, repository, 1)))
        self.note("restore", self.restore(repository))
        self.pauses(repository)

    def pauses(self, repository: Repository) -> None:
        """Each pause beside a synchronous write of the same moment: load hits both alike."""
        with Saver(repository) as saver:
            saver.reserve(self.state)
            for step in (2, 4):
                written = timed(partial(self.write, repository, step))
                saver.save(self.state, step + 1, STATE)
                self.note("pause", saver.timing.pause)
                self.shares.append(saver.timing.pause / written)
                saver.wait()


def main() -> None:
    options = arguments(__doc__ or "")
    size = (128 << 20) if options.quick else (1 << 30)
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name), size)
        for _ in range(options.repeats or (2 if options.quick else 3)):
            bench.repeat()
    found = {key: median(values) for key, values in bench.results.items()}
    ratios = {
        "write": found["peer"] / found["write"],
        "write_synced": found["peer_synced"] / found["write_synced"],
        "restore": found["peer"] / found["restore"],
    }
    for key, seconds in found.items():
        print(f"{key:14} {seconds:8.3f} s  {size / seconds / (1 << 20):8.0f} MiB/s")
    share = median(bench.shares)
    print(f"pause is {share:.1%} of the synchronous write")
    report(
        {
            "name": "checkpoint",
            "ratio": round(min(ratios.values()), 3),
            "target_ratio": 0.8,
            "ratios": {key: round(value, 3) for key, value in ratios.items()},
            "pause_share": round(share, 4),
            "target_pause_share": 0.1,
            "pause_shares": [round(value, 4) for value in bench.shares],
            "bytes": size,
            "seconds": {key: round(value, 4) for key, value in found.items()},
            "repeats": len(bench.results["write"]),
        }
    )


if __name__ == "__main__":
    main()
