from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from corral.podtools.models.inside import read_weights, write_weights
from corral.podtools.models.layers import Dense, Sequential
from corral.podtools.models.pseudo import NoClasses, certain, probabilities
from corral.podtools.models.workshop import Workshop

SURE = np.array([[0.95, 0.03, 0.02], [0.4, 0.3, 0.3], [0.01, 0.0, 0.99]])


@pytest.mark.parametrize(
    ("like", "labels"),
    [
        (np.eye(3, dtype=np.float32), [[1, 0, 0], [0, 0, 1]]),
        (np.array([0, 2, 1], np.int64), [0, 2]),
        (np.array([[0], [2], [1]], np.uint8), [[0], [2]]),
    ],
)
def test_labels_are_made_of_what_is_certain(like: np.ndarray, labels: list[int]) -> None:
    sure, found = certain(SURE, like, 0.9)
    assert sure.tolist() == [True, False, True]
    assert found.tolist() == labels
    assert found.dtype == like.dtype


def test_two_classes_may_be_one_number() -> None:
    sure, found = certain(np.array([[0.97], [0.5], [0.02]]), np.array([0.0, 1.0]), 0.9)
    assert sure.tolist() == [True, False, True]
    assert found.tolist() == [1.0, 0.0]


def test_scores_are_turned_into_shares() -> None:
    found = probabilities(np.array([[10.0, -10.0], [0.0, 0.0], [1000.0, 0.0]]))
    assert np.allclose(found.sum(axis=1), 1)
    assert found[1].tolist() == [0.5, 0.5]
    assert probabilities(np.array([[-1000.0], [1000.0]])).ravel().tolist() == [pytest.approx(0), 1]


@pytest.mark.parametrize(
    ("answers", "like"),
    [
        (SURE, np.array([0.5, 1.7, 2.0])),
        (SURE, np.zeros((3, 2))),
        (np.zeros((3, 1)), np.array([2.0, 3.0])),
        (np.zeros(3), np.zeros(3)),
        (np.zeros((3, 2, 2)), np.zeros(3)),
    ],
)
def test_what_has_no_classes_is_refused(answers: np.ndarray, like: np.ndarray) -> None:
    with pytest.raises(NoClasses):
        certain(answers, like, 0.9)


def test_data_without_labels_makes_a_model_better(tmp_path: Path) -> None:
    """Ten labelled samples of two moving clouds; the rest say where these go."""
    rng = np.random.default_rng(5)
    classes = rng.integers(0, 2, 600)
    x = rng.normal(0, 0.35, (600, 2)).astype(np.float32)
    x[:, 0] += np.where(classes, 1.0, -1.0)
    y = np.eye(2, dtype=np.float32)[classes]
    made = Sequential([Dense(8, "relu", input_shape=2), Dense(2, "softmax")], seed=2)
    made.compile("adam", "categorical_crossentropy", learning_rate=0.01)
    workshop = Workshop(tmp_path, seconds=60)
    given = workshop.given
    np.save(given / "train_x.npy", x[:10])
    np.save(given / "train_y.npy", y[:10])
    np.save(given / "unlabelled.npy", x[10:400])
    write_weights(given / "weights.safetensors", made.get_weights())
    plan = {
        "framework": "numpy", "architecture": made.to_json(), "compile_args": made.compile_args,
        "batch": 8, "options": {"epochs": 5}, "seed": 1,
    }  # fmt: skip

    def trained(**more: float) -> tuple[float, dict[str, list[float]]]:
        (given / "plan.json").write_text(json.dumps({**plan, **more}))
        out = workshop.do("train")
        made.set_weights(read_weights(out / "weights.safetensors"))
        metrics = json.loads((out / "metrics.json").read_text())
        return made.evaluate(x[400:], y[400:])["loss"], metrics["training"]

    with workshop:
        alone, metrics = trained()
        assert "pseudo_labelled" not in metrics
        together, metrics = trained(unsupervised_rounds=5, confidence=0.8)
    assert together < alone * 0.8
    taken = metrics["pseudo_labelled"]
    assert len(taken) == 5
    assert 0 < taken[0] <= taken[-1] <= 390
