"""Federated aggregation: ours against Flower's and NVFlare's, on the same bytes.

Each side is a process of its own that holds the `.npy` payloads of all clients in memory and,
told so, goes from these bytes to the aggregated array; the sides take turns. The first call and
the warm ones are told apart, and the growth of peak memory of each. `ratio` = Flower's warm FedAvg
time over ours, in its fastest way (`aggregate_inplace`); `ratio_plain` in its older one, which
decodes all updates first (`aggregate`). The peers are installed from the package index into the
user's cache, once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from common import arguments, median, report

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "corral/bench/peers"
ROBUST = ("median", "trimmed-mean", "krum")


def peers_python() -> str:
    """The Python that has the peers; made when it is not there."""
    python = CACHE / "bin/python"
    packages = ["flwr", "nvflare"]
    if not python.exists():
        venv.create(CACHE, with_pip=True)
    check = [str(python), "-c", "import flwr, nvflare"]
    if subprocess.run(check, capture_output=True, check=False).returncode:
        subprocess.run([str(python), "-m", "pip", "install", "-q", *packages], check=True)
    return str(python)


def write_updates(folder: Path, clients: int, size: int) -> None:
    """Clients' models: one model and a little noise each, as after a local epoch."""
    rng = np.random.default_rng(7)
    base = rng.standard_normal(size, dtype=np.float32) * np.float32(0.05)
    for client in range(clients):
        noise = rng.standard_normal(size, dtype=np.float32) * np.float32(0.005)
        np.save(folder / f"{client}.npy", base + noise)
    samples = [int(count) for count in rng.integers(100, 2000, clients)]
    (folder / "samples.json").write_text(json.dumps(samples))


class Side:
    """One process of bench/aggregate_worker.py."""

    def __init__(self, name: str, python: str, folder: Path) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [python, str(HERE / "aggregate_worker.py"), name, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.rules = self._answer()["ready"]

    def run(self, command: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended with {self._process.wait(30)}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


def measure(sides: list[Side], rule: str, repeats: int) -> dict[str, dict[str, Any]]:
    """`repeats` calls of each side in turns; the first apart from the others."""
    calls: dict[str, list[dict[str, Any]]] = {side.name: [] for side in sides if rule in side.rules}
    for _ in range(repeats):
        for side in sides:
            if rule in side.rules:
                calls[side.name].append(side.run(rule))
    agree(rule, calls)
    figures = {
        name: {
            "first_s": round(answers[0]["seconds"], 4),
            "warm_s": round(median([a["seconds"] for a in answers[1:] or answers]), 4),
            "best_s": round(min(a["seconds"] for a in answers), 4),
            "memory_mb": round(max(a["memory_mb"] for a in answers), 1),
            "digests": len({a["digest"] for a in answers}),
        }
        for name, answers in calls.items()
    }
    for name, row in figures.items():
        print(f"{rule:14} {name:8} {row}")
    return figures


def agree(rule: str, calls: dict[str, list[dict[str, Any]]]) -> None:
    """The sides must have computed the same thing."""
    ours = np.array(calls["corral"][0]["sample"])
    for name, answers in calls.items():
        if not np.allclose(ours, answers[0]["sample"], rtol=1e-4, atol=1e-6):
            raise SystemExit(f"{rule}: the results of corral and {name} differ")


def start(stack: ExitStack, clients: int, size: int, names: list[str]) -> list[Side]:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    write_updates(folder, clients, size)
    peers = peers_python()
    sides = []
    for name in names:
        side = Side(name, sys.executable if name == "corral" else peers, folder)
        stack.callback(side.close)
        sides.append(side)
    return sides


def main() -> None:
    options = arguments(__doc__ or "")
    clients, size = (10, 1_000_000) if options.quick else (50, 10_000_000)
    few, small = (10, 100_000) if options.quick else (50, 500_000)
    repeats = options.repeats or (5 if options.quick else 7)
    with ExitStack() as stack:
        sides = start(stack, clients, size, ["corral", "flower", "nvflare"])
        fedavg = measure(sides, "fedavg", repeats)
        plain = measure(sides[:2], "fedavg-plain", 2)
        single = measure(sides[:1], "one-by-one", 2)["corral"]
        order = len({sides[0].run(rule)["digest"] for rule in ("fedavg", "one-by-one")}) == 1
        decoding = sides[0].run("json 200000")
    with ExitStack() as stack:
        sides = start(stack, few, small, ["corral", "flower"])
        robust = {rule: measure(sides, rule, 2) for rule in ROBUST}
    ours, flower = fedavg["corral"], fedavg["flower"]
    report(
        {
            "name": "aggregate",
            "ratio": round(flower["warm_s"] / ours["warm_s"], 2),
            "ratio_first": round(flower["first_s"] / ours["first_s"], 2),
            "ratio_plain": round(plain["flower"]["warm_s"] / plain["corral"]["warm_s"], 2),
            "ratio_plain_first": round(plain["flower"]["first_s"] / ours["first_s"], 2),
            "ratio_nvflare": round(fedavg["nvflare"]["warm_s"] / ours["warm_s"], 2),
            "ratio_json_decode": round(decoding["cpython"] / decoding["corral"], 2),
            "ratio_robust": {
                rule: round(row["flower"]["best_s"] / row["corral"]["best_s"], 2)
                for rule, row in robust.items()
            },
            "clients": clients,
            "parameters": size,
            "model_mb": size * 4 / 1e6,
            "any_order_same_bits": order,
            "fedavg": fedavg,
            "fedavg_plain": plain,
            "one_by_one": single,
            "robust": {"clients": few, "parameters": small, **robust},
            "json_ns_per_number": decoding,
        }
    )


if __name__ == "__main__":
    main()
