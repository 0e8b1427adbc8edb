"""Rounds: the contract's vectors, every refusal, and results that know no order."""

from __future__ import annotations

import base64

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.learning import (
    STRATEGIES,
    Aggregation,
    AggregationFailed,
    Model,
    Update,
    UpdateRejected,
    codec,
    strategy,
)

MODELS = sorted(set(STRATEGIES) - {"concat"})


def update(client, numbers, samples=1, dtype=np.float64):
    return Update(client, samples, Model.vector(np.array(numbers, dtype)))


def run(name, updates, **options):
    aggregation = Aggregation(strategy(name, options.pop("config", None)), **options)
    for one in updates:
        aggregation.add(one)
    return aggregation.finish()


@pytest.mark.parametrize(
    ("payloads", "samples", "wanted"),
    [
        (["[1,2,3]", "[4,5,6]"], [10, 30], "WzMuMjUsNC4yNSw1LjI1XQ=="),
        (["[0.5,-1]", "[1.5,3]"], [1, 3], "WzEuMjUsMl0="),
    ],
)
def test_vectors_of_the_contract(payloads, samples, wanted):
    json = codec("json-f64")
    updates = [
        Update(f"proplet-{number}", count, json.decode(payload.encode()))
        for number, (payload, count) in enumerate(zip(payloads, samples, strict=True))
    ]
    result = run("fedavg", updates)
    assert base64.b64encode(json.encode(result.model)).decode() == wanted
    assert result.metrics == {
        "num_clients": 2,
        "total_samples": sum(samples),
        "algorithm": "fedavg",
    }


def test_concat_vector_of_the_contract_in_the_order_of_participants():
    updates = [Update("b", 1, payload=b"BBB"), Update("a", 1, payload=b"AAA")]
    result = run("concat", updates, participants=["a", "b"])
    assert base64.b64encode(result.payload) == b"QUFBCi0tLVBST1AtVVBEQVRFLS0tCkJCQg=="
    assert run("concat", updates, participants=["b", "a"]).payload.startswith(b"BBB")
    assert run("concat", updates).payload.startswith(b"AAA")


REFUSED = {
    "zero samples": (update("x", [1, 2], 0), "num_samples is 0"),
    "negative samples": (update("x", [1, 2], -3), "num_samples is -3"),
    "half a sample": (update("x", [1, 2], 0.5), "not a whole number"),
    "too many samples": (update("x", [1, 2], 1 << 31), "total_samples would be more"),
    "again": (update("good", [1, 2]), "counted already"),
    "stranger": (update("stranger", [1, 2]), "not of a participant"),
    "nan": (update("x", [1, np.nan]), "NaN or an infinity"),
    "infinity": (update("x", [np.inf, 1]), "NaN or an infinity"),
    "dimension": (update("x", [1, 2, 3]), "mismatched vector dimensions"),
    "shape": (update("x", [[1, 2]]), "mismatched vector dimensions"),
    "type": (update("x", [1, 2], 1, np.float32), "mismatched types"),
    "name": (Update("x", 1, Model.of({"w": np.ones(2)})), "mismatched names"),
    "no model": (Update("x", 1), "no model"),
}


@pytest.mark.parametrize("name", ["fedavg", "median"])
@pytest.mark.parametrize(("bad", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_count_is_refused_and_leaves_no_trace(name, bad, reason):
    aggregation = Aggregation(strategy(name), participants=["good", "also", "x"])
    aggregation.add(update("good", [1, 2], 3))
    with pytest.raises(UpdateRejected, match=reason) as caught:
        aggregation.add(bad)
    assert caught.value.client == bad.client
    aggregation.add(update("also", [2, 3], 3))
    result = aggregation.finish()
    assert result.clients == ("also", "good")
    assert result.samples == 6
    assert [rejection.reason for rejection in result.rejected] == [caught.value.reason]
    assert result.model.vectors[0].tolist() == [1.5, 2.5]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["fedavg", "median"])
def test_a_nan_deep_in_a_large_update_among_many_leaves_no_trace(name, dtype):
    rng = np.random.default_rng(2)
    size = 150_000 if dtype == np.float32 else 40_000
    good = [update(f"c{k}", rng.standard_normal(size), k + 1, dtype) for k in range(4)]
    poisoned = rng.standard_normal(size)
    poisoned[size - 1000] = np.nan
    batch = [good[0], update("bad", poisoned, 9, dtype), *good[1:]]
    aggregation = Aggregation(strategy(name))
    assert [rejection.client for rejection in aggregation.add_many(batch)] == ["bad"]
    assert aggregation.samples == 10
    wanted = run(name, good).model.vectors[0]
    assert aggregation.finish().model.vectors[0].tobytes() == wanted.tobytes()


def test_a_refused_first_update_does_not_decide_the_layout():
    aggregation = Aggregation(strategy("fedavg"))
    with pytest.raises(UpdateRejected):
        aggregation.add(update("bad", [np.nan]))
    aggregation.add(update("good", [1, 2]))
    assert aggregation.finish().model.size == 2


def test_the_current_model_decides_the_layout():
    aggregation = Aggregation(strategy("fedavg"), current=Model.vector(np.ones(2)))
    with pytest.raises(UpdateRejected, match="mismatched vector dimensions"):
        aggregation.add(update("x", [1, 2, 3]))


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_a_round_without_updates_has_no_result(name):
    with pytest.raises(AggregationFailed, match="no updates to aggregate"):
        Aggregation(strategy(name)).finish()


def test_a_round_of_zero_samples_has_no_result():
    aggregation = Aggregation(strategy("fedavg"))
    with pytest.raises(UpdateRejected):
        aggregation.add(update("x", [1], 0))
    with pytest.raises(AggregationFailed, match="total_samples is zero"):
        aggregation.finish()


def test_a_finished_round_takes_nothing_more():
    aggregation = Aggregation(strategy("fedavg"))
    aggregation.add(update("a", [1]))
    aggregation.finish()
    with pytest.raises(AggregationFailed, match="over"):
        aggregation.add(update("b", [1]))
    with pytest.raises(AggregationFailed, match="over"):
        aggregation.finish()


def test_a_mean_is_finite_though_the_sum_is_too_large_for_its_type():
    largest = np.finfo(np.float64).max
    updates = [update("a", [1.7e308, largest, 1.0], 1000), update("b", [1.7e308, largest, 3.0], 7)]
    result = run("fedavg", updates)
    assert result.model.vectors[0].tolist()[:2] == [1.7e308, largest]
    assert result.model.vectors[0][2] == (1000 + 21) / 1007


@pytest.mark.parametrize("array", [np.arange(3), np.ones(2, bool), np.ones(2, complex)])
def test_only_floats_can_be_averaged(array):
    with pytest.raises(UpdateRejected, match="only floats"):
        Model.vector(array)


@settings(max_examples=60, deadline=None)
@given(
    st.data(),
    st.sampled_from(MODELS),
    st.sampled_from([np.float32, np.float64]),
    st.integers(3, 7),
    st.integers(1, 8),
)
def test_no_strategy_knows_the_order_of_arrival(data, name, dtype, clients, size):
    numbers = st.floats(-1e6, 1e6, width=32)
    vectors = st.lists(numbers, min_size=size, max_size=size)
    updates = [
        update(f"c{k}", data.draw(vectors), data.draw(st.integers(1, 1000)), dtype)
        for k in range(clients)
    ]
    order = data.draw(st.permutations(range(clients)))
    cut = data.draw(st.integers(0, clients))
    current = Model.vector(np.array(data.draw(vectors), dtype))
    first = run(name, updates, current=current)
    second = Aggregation(strategy(name), current=current, memory=0)
    shuffled = [updates[k] for k in order]
    assert second.add_many(shuffled[:cut]) == []
    assert second.add_many(shuffled[cut:]) == []
    again = second.finish()
    assert first.model.vectors[0].tobytes() == again.model.vectors[0].tobytes()
    assert first.clients == again.clients
    if first.state is not None:
        assert [v.tobytes() for v in first.state.vectors] == [
            v.tobytes() for v in again.state.vectors
        ]


def test_many_updates_in_one_call_and_one_by_one_are_the_same():
    rng = np.random.default_rng(8)
    updates = [
        update(f"c{k}", rng.standard_normal(70_000), int(rng.integers(1, 5000)), np.float32)
        for k in range(12)
    ]
    together = Aggregation(strategy("fedavg"))
    assert together.add_many(updates) == []
    one_by_one = run("fedavg", updates[::-1])
    assert together.finish().model.vectors[0].tobytes() == one_by_one.model.vectors[0].tobytes()


def finish_with(name, updates, **options):
    return Aggregation(strategy(name), **options).finish_with(updates)


@pytest.mark.parametrize("name", ["fedavg", "fedadam", "median"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_all_at_once_gives_the_bits_of_one_by_one(name, dtype):
    rng = np.random.default_rng(13)
    size = 200_000 if dtype == np.float32 else 20_000
    base = rng.standard_normal(size) * 10.0 ** rng.integers(-20, 5, size)
    base[:1000] = 0.0
    updates = [
        update(f"c{k}", base * (1 + rng.standard_normal(size) * 0.1), k * 97 + 1, dtype)
        for k in range(6)
    ]
    current = Model.vector(np.ones(size, dtype))
    wanted = run(name, updates, current=current)
    result = finish_with(name, updates[::-1], current=current)
    assert result.model.vectors[0].tobytes() == wanted.model.vectors[0].tobytes()
    assert (result.clients, result.samples) == (wanted.clients, wanted.samples)


@settings(max_examples=100, deadline=None)
@given(st.data(), st.integers(1, 6), st.integers(1, 8))
def test_all_at_once_gives_the_bits_of_one_by_one_for_any_numbers(data, clients, size):
    numbers = st.one_of(
        st.floats(width=32, allow_nan=False, allow_infinity=False),
        st.sampled_from([0.0, -0.0, 1.0, 1.0 + 2**-23, -1.0, 2.0**-149, 1.5 * 2.0**-149]),
    )
    vectors = st.lists(numbers, min_size=size, max_size=size)
    weights = st.sampled_from([1, 2, 3, 1 << 24, 300_000_000])
    updates = [
        update(f"c{k}", data.draw(vectors), data.draw(weights), np.float32) for k in range(clients)
    ]
    wanted = run("fedavg", updates).model.vectors[0]
    assert finish_with("fedavg", updates).model.vectors[0].tobytes() == wanted.tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_all_at_once_goes_on_without_what_cannot_count(dtype):
    good = [update(f"c{k}", [k, k + 1.0], 1, dtype) for k in range(3)]
    bad = [
        update("nan", [1, np.nan], 5, dtype),
        update("inf", [-np.inf, 1], 5, dtype),
        update("c0", [1, 1], 1, dtype),
        update("none", [1, 1], 0, dtype),
    ]
    result = finish_with("fedavg", [good[0], *bad, *good[1:]])
    assert result.model.vectors[0].tolist() == [1.0, 2.0]
    assert sorted(one.client for one in result.rejected) == ["c0", "inf", "nan", "none"]
    with pytest.raises(AggregationFailed, match="no updates"):
        finish_with("fedavg", bad[:2])


def test_the_last_updates_may_come_with_the_end():
    updates = [update(f"c{k}", [k * 0.1, 1.0 / (k + 1)], k + 1) for k in range(5)]
    aggregation = Aggregation(strategy("fedavg"))
    assert aggregation.add_many(updates[:2]) == []
    result = aggregation.finish_with(updates[2:])
    assert result.model.vectors[0].tobytes() == run("fedavg", updates).model.vectors[0].tobytes()
    with pytest.raises(AggregationFailed, match="over"):
        aggregation.finish_with(updates)
