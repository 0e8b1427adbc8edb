from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from corral.learning import AggregationFailed, strategy
from corral.podtools.kafka.names import Names
from corral.podtools.kafkaml.aggregating import by_array, fold, whole
from corral.podtools.kafkaml.server import deployment_of

SHAPES = [(70_000,), (3, 5), (0, 4), (), (2, 2, 2)]


class Updates:
    """Updates of clients, and what is said of them."""

    def __init__(self, clients: int, seed: int = 1) -> None:
        rng = np.random.default_rng(seed)
        self.arrays = {
            f"c{n}": [np.asarray(rng.normal(size=s) * 10.0**n, np.float32) for s in SHAPES]
            for n in range(clients)
        }
        self.entries = [
            {"client": name, "num_data": 10 * (n + 1)} for n, name in enumerate(self.arrays)
        ]
        self.remarks: list[tuple[str, str]] = []

    def read(self, entry: Mapping[str, Any], take: Callable[[int, np.ndarray], None]) -> None:
        for place, array in enumerate(self.arrays[entry["client"]]):
            take(place, array)

    def remark(self, client: str, why: str) -> None:
        self.remarks.append((client, why))

    def fold(self) -> list[np.ndarray]:
        rule = strategy("fedavg")
        return fold(rule, self.entries, len(SHAPES), self.read, self.remark).arrays

    def whole(self, name: str = "fedavg") -> list[np.ndarray]:
        current = [np.zeros(shape, np.float32) for shape in SHAPES]
        rule = strategy(name)
        return whole(rule, self.entries, current, None, self.read, self.remark).arrays


def same(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    return len(one) == len(other) and all(
        a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
        for a, b in zip(one, other, strict=True)
    )


def test_arrays_one_by_one_give_the_same_bits() -> None:
    updates = Updates(5)
    found = updates.fold()
    assert same(found, updates.whole())
    updates.entries.reverse()
    assert same(found, updates.fold())


@pytest.mark.parametrize("place", [0, 1, 4])
def test_an_update_that_turns_out_bad_leaves_no_trace(place: int) -> None:
    updates, others = Updates(4), Updates(4)
    updates.arrays["c2"][place].reshape(-1)[-1] = np.nan
    others.entries = [entry for entry in others.entries if entry["client"] != "c2"]
    assert same(updates.fold(), others.fold())
    assert [client for client, _ in updates.remarks] == ["c2"]


def test_nothing_to_make_a_version_of() -> None:
    updates = Updates(1)
    updates.arrays["c0"][0][0] = np.inf
    with pytest.raises(AggregationFailed):
        updates.fold()


@pytest.mark.parametrize(
    ("name", "yes"),
    [("fedavg", True), ("fedprox", True), ("fedadam", False), ("median", False), ("krum", False)],
)
def test_which_strategies_go_array_by_array(name: str, yes: bool) -> None:
    assert by_array(strategy(name)) is yes


@pytest.mark.parametrize(
    ("said", "name"),
    [("FedAvg", "fedavg"), ("FedOpt", "fedavgm"), ("FedAvg+", "krum"), ("FedYogi", "fedyogi")],
)
def test_strategies_by_the_names_people_know(said: str, name: str) -> None:
    made = deployment_of({"aggregation": {"strategy": said}}, Names.of("abcd1234"), {}, 1)
    assert made.rule().name == name


def test_clients_are_told_what_a_strategy_wants_of_them() -> None:
    said = {
        "aggregation": {"strategy": "fedprox", "config": {"mu": 0.5}},
        "kwargsFit": {"epochs": 2},
    }
    made = deployment_of(said, Names.of("abcd1234"), {}, 1)
    assert made.training_settings["kwargs_fit"] == {"mu": 0.5, "epochs": 2}
