from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from corral.podtools.confine import NotStarted
from corral.podtools.models.answering import Answers
from corral.podtools.models.inside import write_weights
from corral.podtools.models.layers import Dense, Sequential

ODD = """
class Odd(Sequential):
    def predict(self, x):
        if (x > 5).any():
            while True:
                pass
        if (x < -5).any():
            raise ValueError("it is too cold")
        return super().predict(x)

model = Odd([Dense(3, "softmax", input_shape=4)], seed=1)
model.compile("sgd", "categorical_crossentropy")
"""


def plain(path: Path) -> Sequential:
    made = Sequential([Dense(3, "softmax", input_shape=4)], seed=1)
    made.compile("sgd", "categorical_crossentropy")
    told = {
        "framework": "numpy", "architecture": made.to_json(), "input_shape": "4",
        "compile_args": json.dumps(made.compile_args),
    }  # fmt: skip
    write_weights(path, made.get_weights(), told)
    return made


def test_batches_are_answered_by_one_process(tmp_path: Path) -> None:
    made = plain(tmp_path / "model")
    answers = Answers(tmp_path / "model")
    try:
        answers.start()
        for size in (1, 7, 300):
            x = np.random.default_rng(size).normal(size=(size, 4)).astype(np.float32)
            assert np.allclose(np.array(answers.ask(x)), made.predict(x), atol=1e-6)
        assert answers.started == 1
        assert answers.shape == (4,)
    finally:
        answers.close()


def test_one_sample_is_no_fault_of_the_others(tmp_path: Path) -> None:
    made = plain(tmp_path / "plain")
    model, source = tmp_path / "model", tmp_path / "source"
    write_weights(model, made.get_weights(), {"framework": "numpy", "input_shape": "4"})
    source.mkdir()
    (source / "code").write_text(ODD)
    (source / "spec.json").write_text(json.dumps({"framework": "numpy"}))
    answers = Answers(model, source, seconds=1.5)
    x = np.zeros((8, 4), np.float32)
    x[2] = -9
    x[5] = 9
    try:
        found = answers.ask(x)
    finally:
        answers.close()
    assert found[2] == "ValueError: it is too cold"
    assert found[5] == "its time was over"
    good = [n for n in range(8) if n not in (2, 5)]
    assert np.allclose(np.array([found[n] for n in good]), made.predict(x[good]), atol=1e-6)


def test_a_model_that_cannot_be_loaded_says_why(tmp_path: Path) -> None:
    write_weights(tmp_path / "model", [np.zeros(3, np.float32)], {"framework": "pth"})
    answers = Answers(tmp_path / "model")
    try:
        with pytest.raises(NotStarted, match="travels as its code"):
            answers.start()
    finally:
        answers.close()
