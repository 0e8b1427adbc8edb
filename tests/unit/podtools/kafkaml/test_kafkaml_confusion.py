from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from corral.podtools.kafka.messages import CLASSES
from corral.podtools.models.confusion import confusion, summed

GIVEN = np.array([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5], [0.1, 0.8, 0.1], [0.6, 0.3, 0.1]])
FOUND = [[1, 0, 0], [1, 1, 0], [0, 0, 1]]


@pytest.mark.parametrize(
    "wanted",
    [[0, 2, 1, 1], [[0], [2], [1], [1]], [0.0, 2.0, 1.0, 1.0], np.eye(3)[[0, 2, 1, 1]]],
    ids=["numbers", "a column of numbers", "floats", "one-hot"],
)
def test_every_way_to_say_a_class(wanted: Any) -> None:
    assert confusion(GIVEN, np.array(wanted)) == FOUND


def test_one_value_is_the_chance_of_the_second_of_two_classes() -> None:
    given = np.array([[0.9], [0.2], [0.7], [0.1]])
    assert confusion(given, np.array([1, 0, 0, 1])) == [[1, 1], [1, 1]]
    assert confusion(given[:, 0], np.array([[1], [0], [1], [0]])) == [[2, 0], [0, 2]]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (GIVEN, [0.5, 1.0, 2.0, 1.0]),
        (GIVEN, [0, 1, 2, 3]),
        (GIVEN, [0, 1, -1, 2]),
        (GIVEN, [[1, 1, 0]] * 4),
        (GIVEN, [[0.2, 0.3, 0.5]] * 4),
        (GIVEN, [0, 1, 2]),
        (GIVEN, ["a", "b", "c", "a"]),
        ([[3.0], [-2.0]], [1, 0]),
        (np.zeros((0, 3)), []),
        (np.zeros((2, 2, 2)), [0, 1]),
        (np.zeros((2, CLASSES + 1)), [0, 1]),
    ],
)
def test_what_is_no_classification_has_no_matrix(given: Any, wanted: Any) -> None:
    assert confusion(np.asarray(given), np.asarray(wanted)) is None


def test_those_of_clients_are_added_up() -> None:
    assert summed([FOUND, FOUND, [[0, 0, 5], [0, 0, 0], [0, 0, 0]]]) == [
        [2, 0, 5], [2, 2, 0], [0, 0, 2],
    ]  # fmt: skip
    assert summed([]) is None
    assert summed([FOUND, None]) is None
    assert summed([FOUND, [[1, 0], [0, 1]]]) is None
