"""One side of bench/aggregate.py: holds the updates' bytes, aggregates when told to.

Usage: aggregate_worker.py SIDE FOLDER. Reads one command a line (a rule's name, or `json N`) and
answers with one JSON line: seconds, the growth of peak memory in MB, a digest of the result.
The clock runs from the bytes that arrived to the aggregated arrays.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SIDE, FOLDER = sys.argv[1], Path(sys.argv[2])
SAMPLES: list[int] = json.loads((FOLDER / "samples.json").read_text())
PAYLOADS: list[bytes] = [(FOLDER / f"{n}.npy").read_bytes() for n in range(len(SAMPLES))]


def corral_rules() -> dict[str, Callable[[], Any]]:
    sys.path.insert(0, str(Path(__file__).parent.parent))
    from corral.learning import Aggregation, Update, codec, strategy

    npy = codec("npy")
    assert npy is not None

    def updates() -> list[Update]:
        pairs = enumerate(zip(PAYLOADS, SAMPLES, strict=True))
        return [Update(f"{n:04}", samples, npy.decode(data)) for n, (data, samples) in pairs]

    def together(name: str, config: dict[str, object]) -> Any:
        # what arrived is in memory already, as it is for the others: nothing is gained by files
        aggregation = Aggregation(strategy(name, config), memory=1 << 40)
        return aggregation.finish_with(updates()).model.vectors[0]  # type: ignore[union-attr]

    def one_by_one() -> Any:
        aggregation = Aggregation(strategy("fedavg"), expected_samples=sum(SAMPLES))
        for update in reversed(updates()):
            aggregation.add(update)
        return aggregation.finish().model.vectors[0]  # type: ignore[union-attr]

    return {
        "fedavg": lambda: together("fedavg", {}),
        "fedavg-plain": lambda: together("fedavg", {}),
        "one-by-one": one_by_one,
        "median": lambda: together("median", {}),
        "trimmed-mean": lambda: together("trimmed-mean", {"fraction": 0.2}),
        "krum": lambda: together("krum", {"byzantine": 2}),
    }


def flower_rules() -> dict[str, Callable[[], Any]]:
    from flwr.common import Code, FitRes, Parameters, Status, parameters_to_ndarrays
    from flwr.server.strategy import aggregate as rules

    def results() -> list[tuple[Any, int]]:
        return [
            (parameters_to_ndarrays(Parameters([data], "numpy.ndarray")), samples)
            for data, samples in zip(PAYLOADS, SAMPLES, strict=True)
        ]

    def inplace() -> Any:
        fits = [
            (None, FitRes(Status(Code.OK, ""), Parameters([data], "numpy.ndarray"), samples, {}))
            for data, samples in zip(PAYLOADS, SAMPLES, strict=True)
        ]
        return rules.aggregate_inplace(fits)[0]

    return {
        "fedavg": inplace,
        "fedavg-plain": lambda: rules.aggregate(results())[0],
        "median": lambda: rules.aggregate_median(results())[0],
        "trimmed-mean": lambda: rules.aggregate_trimmed_avg(results(), 0.2)[0],
        "krum": lambda: rules.aggregate_krum(results(), 2, 0)[0],
    }


def nvflare_rules() -> dict[str, Callable[[], Any]]:
    from nvflare.app_common.aggregators.weighted_aggregation_helper import (
        WeightedAggregationHelper,
    )
    from nvflare.app_common.decomposers.numpy_decomposers import NumpyArrayDecomposer

    decomposer = NumpyArrayDecomposer()

    def fedavg() -> Any:
        helper = WeightedAggregationHelper()
        for n, (data, samples) in enumerate(zip(PAYLOADS, SAMPLES, strict=True)):
            helper.add({"model": decomposer.native_recompose(data)}, samples, str(n), 0)
        return helper.get_result()["model"]

    return {"fedavg": fedavg}


def json_rate(count: int) -> dict[str, float]:
    """Nanoseconds a number: the standard library and NumPy, and our codec."""
    import numpy as np

    from corral.learning import codec

    text = json.dumps(np.random.default_rng(1).standard_normal(count).tolist()).encode()
    floats = codec("json-f64")
    assert floats is not None
    best = {"cpython": float("inf"), "corral": float("inf")}
    for _ in range(5):
        for side, decode in (
            ("cpython", lambda: np.array(json.loads(text))),
            ("corral", lambda: floats.decode(text)),
        ):
            start = time.perf_counter()
            decode()
            best[side] = min(best[side], (time.perf_counter() - start) / count * 1e9)
    return best


def memory(field: str) -> float:
    found = re.search(rf"{field}:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def measured(function: Callable[[], Any]) -> dict[str, Any]:
    Path("/proc/self/clear_refs").write_text("5")
    before = memory("VmRSS")
    start = time.perf_counter()
    result = function()
    seconds = time.perf_counter() - start
    grown = memory("VmHWM") - before
    digest = hashlib.sha256(memoryview(result).cast("B")).hexdigest()[:16]
    sample = [float(value) for value in result[:: max(len(result) // 50, 1)]]
    return {"seconds": seconds, "memory_mb": grown, "digest": digest, "sample": sample}


def main() -> None:
    rules = {"corral": corral_rules, "flower": flower_rules, "nvflare": nvflare_rules}[SIDE]()
    print(json.dumps({"ready": sorted(rules)}), flush=True)
    for line in sys.stdin:
        command, _, argument = line.strip().partition(" ")
        answer: dict[str, Any]
        answer = json_rate(int(argument)) if command == "json" else measured(rules[command])
        print(json.dumps(answer), flush=True)


main()
