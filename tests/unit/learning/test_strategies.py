"""Strategies: their formulas, what they stand, their parameters, their state."""

from __future__ import annotations

import numpy as np
import pytest

from corral.learning import (
    STRATEGIES,
    Aggregation,
    AggregationFailed,
    InvalidConfig,
    Model,
    Update,
    strategy,
)
from corral.learning.collected import Collected

RNG = np.random.default_rng(11)


def rounds(name, vectors, *, current=None, state=None, config=None, samples=None, memory=0):
    aggregation = Aggregation(strategy(name, config), current=current, state=state, memory=memory)
    for number, vector in enumerate(vectors):
        count = samples[number] if samples else 1
        aggregation.add(Update(f"c{number}", count, Model.vector(vector)))
    return aggregation.finish()


def value(result):
    return result.model.vectors[0]


def test_the_registry_has_them_all():
    assert list(STRATEGIES) == [
        "fedavg",
        "fedprox",
        "fedavgm",
        "fedadam",
        "fedadagrad",
        "fedyogi",
        "median",
        "trimmed-mean",
        "krum",
        "multi-krum",
        "bulyan",
        "concat",
    ]
    assert strategy("").name == "fedavg"
    assert strategy("FedAvg").name == "fedavg"
    with pytest.raises(InvalidConfig, match="unknown algorithm 'fedsgd'"):
        strategy("fedsgd")


@pytest.mark.parametrize(
    ("name", "config", "message"),
    [
        ("fedavg", {"mu": 1}, "no parameter 'mu'"),
        ("fedprox", {"mu": -1}, "mu must be in"),
        ("fedprox", {"mu": "1"}, "must be a number"),
        ("fedprox", {"mu": True}, "must be a number"),
        ("fedprox", {"mu": float("nan")}, "mu must be in"),
        ("fedadam", {"beta_1": 1}, r"beta_1 must be in \[0, 1\)"),
        ("trimmed-mean", {"fraction": 0.5}, "fraction must be in"),
        ("krum", {"byzantine": 1.5}, "whole"),
    ],
)
def test_parameters_are_checked(name, config, message):
    with pytest.raises(InvalidConfig, match=message):
        strategy(name, config)


def test_fedprox_tells_its_clients_mu():
    assert strategy("fedprox", {"mu": 0.5}).client_config() == {"mu": 0.5}
    assert strategy("fedavg").client_config() == {}


def reference(name, delta, m, v, *, learning_rate=0.1, beta_1=0.9, beta_2=0.99, tau=1e-3):
    if name == "fedadagrad":
        beta_1 = 0.0
    m = beta_1 * m + (1 - beta_1) * delta
    square = delta**2
    if name == "fedadam":
        v = beta_2 * v + (1 - beta_2) * square
    elif name == "fedadagrad":
        v = v + square
    else:
        v = v - (1 - beta_2) * square * np.sign(v - square)
    return learning_rate * m / (np.sqrt(v) + tau), m, v


@pytest.mark.parametrize("name", ["fedadam", "fedadagrad", "fedyogi"])
def test_adaptive_servers_follow_their_formulas_over_rounds(name):
    model, state = Model.vector(RNG.standard_normal(200_000)), None
    x, m, v = model.vectors[0].copy(), 0.0, 0.0
    for _ in range(3):
        vectors = [RNG.standard_normal(200_000) for _ in range(2)]
        result = rounds(name, vectors, current=model, state=state)
        model, state = result.model, result.state
        step, m, v = reference(name, (vectors[0] + vectors[1]) / 2 - x, m, v)
        x = x + step
        np.testing.assert_allclose(value(result), x, rtol=1e-12, atol=1e-12)
    assert [name for name, _, _ in state.layout] == ["m/", "v/"]


def test_server_momentum_and_a_first_round_without_a_model():
    first = rounds("fedavgm", [np.array([2.0])])
    assert value(first).tolist() == [2.0]
    second = rounds("fedavgm", [np.array([3.0])], current=first.model, state=first.state)
    assert value(second).tolist() == [3.0]
    third = rounds("fedavgm", [np.array([3.0])], current=second.model, state=second.state)
    np.testing.assert_allclose(value(third), [3.9])
    again = rounds("fedavgm", [np.array([3.0])], current=second.model, state=second.state)
    assert value(again).tolist() == value(third).tolist()


def test_the_state_of_another_model_is_refused():
    first = rounds("fedadam", [np.ones(2)], current=Model.vector(np.zeros(2)))
    with pytest.raises(AggregationFailed, match="state kept for fedadam"):
        rounds("fedadam", [np.ones(3)], current=Model.vector(np.zeros(3)), state=first.state)


@pytest.mark.parametrize("clients", [1, 4, 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("memory", [0, 1 << 30])
def test_median_is_numpys(clients, dtype, memory):
    vectors = [RNG.standard_normal(3000).astype(dtype) for _ in range(clients)]
    wanted = np.median(np.stack(vectors).astype(np.float64), axis=0).astype(dtype)
    assert value(rounds("median", vectors, memory=memory)).tolist() == wanted.tolist()


def test_trimmed_mean_leaves_out_the_extremes():
    vectors = [np.array([float(n)]) for n in (1, 2, 3, 4, 1000)]
    assert value(rounds("trimmed-mean", vectors)).tolist() == [3.0]
    assert value(rounds("trimmed-mean", vectors, config={"fraction": 0})).tolist() == [202.0]


ROBUST = {
    "median": {},
    "trimmed-mean": {"fraction": 0.3},
    "krum": {"byzantine": 2},
    "multi-krum": {"byzantine": 2},
    "bulyan": {"byzantine": 2},
}


@pytest.mark.parametrize(("name", "config"), ROBUST.items(), ids=ROBUST)
@pytest.mark.parametrize("lie", [1e6, -1e-3, 1e30])
def test_robust_rules_stand_liars_that_claim_many_samples(name, config, lie):
    truth = RNG.standard_normal(500)
    honest = [truth + RNG.standard_normal(500) * 1e-2 for _ in range(9)]
    liars = [np.full(500, lie), np.full(500, lie)]
    samples = [1] * 9 + [10**6] * 2
    result = value(rounds(name, [*honest, *liars], config=config, samples=samples))
    assert np.abs(result - truth).max() < 0.05


def test_krum_gives_one_of_the_updates_and_multi_krum_a_mean():
    vectors = [np.array([1.0]), np.array([1.1]), np.array([1.2]), np.array([9.0]), np.array([1.05])]
    assert value(rounds("krum", vectors, config={"byzantine": 1})).tolist() == [1.05]
    kept = value(rounds("multi-krum", vectors, config={"byzantine": 1, "keep": 2}))
    assert kept.tolist() == [np.mean([1.05, 1.1])] or kept.tolist() == [np.mean([1.0, 1.05])]


def test_bulyan_is_the_mean_around_the_median():
    vectors = [np.array([float(n)]) for n in (1, 2, 3, 4, 5, 6, 100)]
    result = value(rounds("bulyan", vectors, config={"byzantine": 1}))
    # of seven, five are chosen; of them the three nearest to the median are averaged
    assert 2.0 <= result[0] <= 5.0


@pytest.mark.parametrize(("name", "least"), [("krum", 5), ("multi-krum", 5), ("bulyan", 7)])
def test_too_few_updates_for_the_byzantine_ones_is_an_error(name, least):
    vectors = [np.ones(2)] * (least - 1)
    with pytest.raises(AggregationFailed, match=f"{name} needs {least} updates"):
        rounds(name, vectors, config={"byzantine": 1})


def test_updates_beyond_the_memory_are_files(tmp_path):
    example = Model.of({"a": np.ones((2, 2), np.float32), "b": np.ones(3)})
    collected = Collected(example, memory=40, folder=tmp_path)
    for client in ("z", "a"):
        scale = np.float32(1 if client == "z" else 2)
        model = example.like([values * scale for values in example.vectors])
        assert collected.add(client, model)
    assert collected.clients == ["a", "z"]
    assert [collected.rows(span).tolist() for span in collected.spans()] == [
        [[2.0] * 4, [1.0] * 4],
        [[2.0] * 3, [1.0] * 3],
    ]
    assert collected.model(0).vectors[1].tolist() == [2.0] * 3
    assert list(tmp_path.iterdir()) == []  # the file has no name, so nothing can be left behind
    collected.close()
