"""Sums are exact: equal to sums of fractions, and therefore the same in every order."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.learning.exact import MAX_TOTAL_WEIGHT, ExactSum
from corral.learning.exact.digits import Digits
from corral.learning.exact.sums import BLOCK, SEGMENT

FINITE32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
NORMAL64 = st.floats(-1e290, 1e290, allow_nan=False, allow_infinity=False)
CLIENTS = st.integers(1, 6)


def total(dtype, vectors, weights, *, expected=1 << 16):
    sums = ExactSum(len(vectors[0]), dtype, expected=expected)
    so_far = 0
    for vector, weight in zip(vectors, weights, strict=True):
        so_far += weight
        sums.reserve(so_far)
        for segment in range(sums.segments):
            assert sums.add(segment, [vector], [weight]) == []
    out = np.empty(len(vectors[0]), np.float64)
    for segment in range(sums.segments):
        sums.take(segment, 1.0, out)
    return out


def fractions(vectors, weights):
    return [
        float(sum(Fraction(float(v[i])) * w for v, w in zip(vectors, weights, strict=True)))
        for i in range(len(vectors[0]))
    ]


@st.composite
def rounds(draw, numbers, dtype):
    clients, size = draw(CLIENTS), draw(st.integers(1, 12))
    vectors = [
        np.array(draw(st.lists(numbers, min_size=size, max_size=size)), dtype)
        for _ in range(clients)
    ]
    weights = draw(
        st.lists(st.integers(1, MAX_TOTAL_WEIGHT // 8), min_size=clients, max_size=clients)
    )
    order = draw(st.permutations(range(clients)))
    return vectors, weights, order


@settings(max_examples=150, deadline=None)
@given(rounds(FINITE32, np.float32), st.integers(1, MAX_TOTAL_WEIGHT))
def test_float32_in_any_order_is_the_sum_of_fractions(case, expected):
    vectors, weights, order = case
    first = total(np.float32, vectors, weights, expected=expected)
    second = total(np.float32, [vectors[k] for k in order], [weights[k] for k in order])
    assert first.tolist() == fractions(vectors, weights)
    assert first.tobytes() == second.tobytes()


@settings(max_examples=150, deadline=None)
@given(rounds(NORMAL64, np.float64))
def test_float64_in_any_order_is_the_sum_of_fractions(case):
    vectors, weights, order = case
    first = total(np.float64, vectors, weights)
    second = total(np.float64, [vectors[k] for k in order], [weights[k] for k in order])
    wanted = np.array(fractions(vectors, weights))
    # a sum below the normal range is rounded twice: once as a number, once as a denormal
    normal = (np.abs(wanted) > 1e-300) | (wanted == 0)
    assert first[normal].tolist() == wanted[normal].tolist()
    assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize("size", [BLOCK - 1, BLOCK + 1, SEGMENT + BLOCK + 7])
def test_blocks_and_segments_meet(size):
    rng = np.random.default_rng(size)
    vectors = [rng.standard_normal(size).astype(np.float32) for _ in range(3)]
    weights = [7, 1000, 31]
    wanted = sum(v.astype(np.float64) * w for v, w in zip(vectors, weights, strict=True))
    result = total(np.float32, vectors, weights)
    np.testing.assert_allclose(result, wanted, rtol=1e-12, atol=1e-12)
    assert result.tobytes() == total(np.float32, vectors[::-1], weights[::-1]).tobytes()


def test_wide_ranges_in_one_block_lose_nothing():
    rng = np.random.default_rng(3)
    vectors = [
        (rng.standard_normal(2000) * 10.0 ** rng.integers(-44, 38, 2000)).astype(np.float32)
        for _ in range(4)
    ]
    weights = [3, 5, 60000, 1]
    assert total(np.float32, vectors, weights).tolist() == fractions(vectors, weights)


def test_later_updates_may_be_much_larger_or_smaller():
    vectors = [np.full(64, scale, np.float32) for scale in (1.0, 1e30, 1e-30, -1e30, 3e38, -3e38)]
    weights = [1] * len(vectors)
    assert total(np.float32, vectors, weights).tolist() == fractions(vectors, weights)


def test_what_is_taken_out_leaves_no_trace():
    rng = np.random.default_rng(5)
    kept, gone = (rng.standard_normal(BLOCK + 9).astype(np.float32) for _ in range(2))
    gone[5] = 1e-40
    sums = ExactSum(len(kept), np.float32)
    sums.add(0, [gone, kept], [17, 4])
    sums.remove(0, gone, 17)
    out = np.empty(len(kept))
    sums.take(0, 1.0, out)
    assert out.tobytes() == total(np.float32, [kept], [4]).tobytes()


def test_values_that_are_not_finite_are_named_by_block_and_vector():
    good, bad = np.ones(2 * BLOCK, np.float32), np.ones(2 * BLOCK, np.float32)
    bad[BLOCK + 3] = np.nan
    assert ExactSum(2 * BLOCK, np.float32).add(0, [good, bad], [1, 1]) == [(1, 1)]
    wide = ExactSum(2 * BLOCK, np.float64)
    assert wide.add(0, [bad.astype(np.float64)], [1]) == [(1, 0)]


def test_digits_round_ties_to_even_and_see_what_is_below():
    digits = Digits(3)
    digits.add(np.array([2.0**53, 2.0**53, 2.0**53]), 1)
    digits.add(np.array([1.0, 1.0, 1.0]), 1)
    digits.add(np.array([0.0, 2.0**-900, -(2.0**-900)]), 1)
    assert digits.rounded().tolist() == [2.0**53, 2.0**53 + 2, 2.0**53]
