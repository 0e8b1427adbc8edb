"""The kernel in C and the NumPy code beside it: the same bits, the same refusals."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.learning import (
    Aggregation,
    AggregationFailed,
    Model,
    Update,
    UpdateRejected,
    codec,
    native,
    strategy,
)
from corral.learning.averages import mean_of

needs_kernel = pytest.mark.skipif(native.kernel is None, reason="there was no C compiler")

KERNEL = native.kernel


@pytest.fixture
def both(monkeypatch):
    """Calls a function with the kernel and without it."""

    def call(function):
        results = []
        for kernel in (KERNEL, None):
            monkeypatch.setattr(native, "kernel", kernel)
            results.append(function())
        return results

    return call


def bits(array):
    return array.tobytes()


def values(kind, clients, size, dtype=np.float32):
    rng = np.random.default_rng(clients * 1000 + size)
    rows = rng.standard_normal((clients, size))
    match kind:
        case "spread":
            rows *= 2.0 ** rng.integers(-120, 100, (clients, size))
        case "some-tiny":
            # one in fifty does not fit the grain of the others
            rows[rng.random((clients, size)) < 0.02] *= 2.0**-40
        case "tiny":
            rows *= 2.0**-140 if dtype == np.float32 else 2.0**-1060
        case "huge":
            rows = np.sign(rows) * (2.0**127 if dtype == np.float32 else 2.0**1022)
        case "coarse":
            # equal weights and few digits: many means lie in the middle of two floats
            rows = rng.integers(-9, 9, (clients, size)) * (1 + 2.0**-23)
        case "zeros":
            rows = rng.choice([0.0, -0.0, 1.0, -1.0], (clients, size))
    return [np.ascontiguousarray(row, dtype) for row in rows.astype(dtype)]


def updates(vectors, samples=None):
    counts = samples or [1 + 7 * index for index in range(len(vectors))]
    return [
        Update(f"c{index:03}", counts[index], Model.vector(vector))
        for index, vector in enumerate(vectors)
    ]


KINDS = ["plain", "some-tiny", "spread", "tiny", "huge", "coarse", "zeros"]
SHAPES = [(1, 1), (2, 7), (3, 4097), (5, 70_000), (50, 1000), (131, 33)]


@needs_kernel
@pytest.mark.parametrize(("clients", "size"), SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_means_are_the_same(both, kind, clients, size):
    there = updates(values(kind, clients, size), [3] * clients if kind == "coarse" else None)

    def together():
        return bits(Aggregation(strategy("fedavg")).finish_with(there).model.vectors[0])

    def one_by_one():
        round_ = Aggregation(strategy("fedavg"))
        for update in there:
            round_.add(update)
        return bits(round_.finish().model.vectors[0])

    assert len({*both(together), *both(one_by_one)}) == 1


@needs_kernel
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("clients", "size"), [(3, 5), (4, 31), (9, 6000), (50, 1000), (131, 33)])
@pytest.mark.parametrize("kind", KINDS)
def test_robust_rules_are_the_same(both, kind, clients, size, dtype):
    there = updates(values(kind, clients, size, dtype))

    def result(name):
        def work():
            try:
                return bits(Aggregation(strategy(name)).finish_with(there).model.vectors[0])
            except AggregationFailed as error:
                return str(error)

        return work

    for name in ("median", "trimmed-mean", "krum", "multi-krum", "bulyan"):
        with_kernel, without = both(result(name))
        assert with_kernel == without, name


@needs_kernel
@pytest.mark.parametrize("where", [0, 4095, 4096, 69_999])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_found(both, where, value):
    vectors = values("plain", 6, 70_000)
    vectors[4][where] = value
    models = [Model.vector(vector) for vector in vectors]
    for mean, bad in both(lambda: mean_of(models, [1] * 6)):
        assert (mean, bad) == (None, [4])

    def rest(rule):
        round_ = Aggregation(strategy(rule))
        refused = round_.add_many(updates(vectors))
        assert [error.client for error in refused] == ["c004"]
        return bits(round_.finish().model.vectors[0])

    for rule in ("fedavg", "median"):
        with_kernel, without = both(lambda rule=rule: rest(rule))
        assert with_kernel == without


@needs_kernel
def test_payloads_at_odd_addresses(both):
    vectors = values("plain", 5, 5000)
    shifted = [np.frombuffer(b"x" + vector.tobytes(), np.float32, offset=1) for vector in vectors]
    assert not shifted[0].flags.aligned
    there = updates(shifted)
    for rule in ("fedavg", "median", "krum"):
        results = both(
            lambda rule=rule: bits(Aggregation(strategy(rule)).finish_with(there).model.vectors[0])
        )
        expected = Aggregation(strategy(rule)).finish_with(updates(vectors)).model.vectors[0]
        assert {*results} == {bits(expected)}


NUMBERS = [
    "0", "-0", "-0.0", "1", "-1", "0.1", "1e5", "1E+5", "1e-7", "123456789012345678",
    "9007199254740993", "9007199254740992.5", "9007199254740993.0000000000000000000001",
    "18446744073709551615", "18446744073709551616", "99999999999999999999",
    "2.2250738585072011e-308", "2.2250738585072014e-308", "4.9406564584124654e-324",
    "2.4703282292062327e-324", "1e-400",
    "1.7976931348623157e308", "0.000000000000000000000000000000000000001", "1e22", "1e23",
    "8.5e23", "5e-324", "0." + "0" * 400 + "1", "3" * 400 + "e-400", "7.0000000000000000000",
    "6.02214076e+23", "1e0000000000000000000000005", "0e999999999999", "12345678.87654321e-20",
]  # fmt: skip


@needs_kernel
def test_numbers_are_the_nearest(both):
    text = ("[ " + " ,\n".join(NUMBERS) + "\t]").encode()
    with_kernel, without = both(lambda: codec("json-f64").decode(text).vectors[0])
    assert bits(with_kernel) == bits(without)
    assert with_kernel.tolist() == [float(number) for number in NUMBERS]


@needs_kernel
def test_random_numbers_are_the_nearest():
    rng = np.random.default_rng(5)
    patterns = rng.integers(0, 1 << 63, 40_000, dtype=np.uint64)
    numbers = patterns.view(np.float64)
    floats = [float(value) for value in numbers[np.isfinite(numbers)]]
    texts = [repr(value) for value in floats[:10_000]]
    texts += [repr(-value) for value in floats[10_000:20_000]]
    texts += [f"{value:.25e}" for value in floats[20_000:22_000]]
    # the exact middle of two neighbours: 54 bits, in full
    middles = [2 * int(whole) + 1 for whole in rng.integers(1 << 52, 1 << 53, 2_000)]
    texts += [str(middle) for middle in middles[:1_000]]
    texts += [f"{Decimal(middle) / 1024:f}" for middle in middles[1_000:]]
    for _ in range(5_000):
        texts.append(f"{rng.integers(10**17, 10**18)}e{rng.integers(-320, 290)}")
    decoded = codec("json-f64").decode(("[" + ",".join(texts) + "]").encode()).vectors[0]
    assert bits(decoded) == bits(np.array([float(text) for text in texts]))


@needs_kernel
@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_what_python_writes_is_read(numbers):
    decoded = codec("json-f64").decode(json.dumps(numbers).encode()).vectors[0]
    assert bits(decoded) == bits(np.array(numbers))


BROKEN = [
    "", "[", "[]", "]", "[1", "[1,", "[1,]", "[,1]", "[01]", "[-]", "[+1]", "[.5]", "[1.]", "[1e]",
    "[1e+]", "[1 2]", "[1]]", "[1] x", "[NaN]", "[Infinity]", "[null]", "[true]", '["1"]',
    "[1e400]", "1", "{}", "[--1]", "[1,,2]", "[0x10]", "[1\x00]", "[-01.5]", "[1.e5]",
]  # fmt: skip


@needs_kernel
@pytest.mark.parametrize("text", BROKEN)
def test_what_is_no_array_of_numbers_is_refused_for_the_same_reason(both, text):
    def reason():
        with pytest.raises(UpdateRejected) as refused:
            codec("json-f64").decode(text.encode())
        return str(refused.value)

    with_kernel, without = both(reason)
    assert with_kernel == without


@needs_kernel
def test_buffers_that_do_not_fit_are_refused():
    kernel, out = KERNEL, np.empty(8, np.float32)
    good = np.zeros(8, np.float32)
    with pytest.raises(ValueError, match="fit"):
        kernel.mean([np.zeros(7, np.float32)], [1], out, 1)
    with pytest.raises(ValueError, match="fit"):
        kernel.mean([good], [0], out, 1)
    with pytest.raises(ValueError, match="fit"):
        kernel.mean([good, good], [1, 2**31 - 1], out, 1)
    with pytest.raises(ValueError, match="fit"):
        kernel.mean([], [], out, 1)
    with pytest.raises(ValueError, match="fit"):
        kernel.order(np.zeros((3, 8), np.float32), 3, 4, 2, 2, False, out)
    with pytest.raises(ValueError, match="fit"):
        kernel.gram(np.zeros((3, 8), np.float32), 3, 4, np.zeros((2, 3)))
    with pytest.raises(ValueError, match="fit"):
        kernel.divide(np.zeros(7, np.int64), out, 0, 1.0, 1.0)
    with pytest.raises(ValueError, match="fit"):
        kernel.numbers(b"[1]", b"", np.zeros(1))


def test_it_can_be_turned_off():
    code = "from corral.learning import native; print(native.kernel)"
    environment = {**os.environ, "CORRAL_NATIVE": "0"}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60
    )
    assert run.stdout.strip() == "None"
