from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corral.podtools.confine import Limits, run
from corral.podtools.models.answering import Answers
from corral.podtools.models.inside import read_weights, write_weights
from corral.podtools.models.layers import Dense, Flatten, Sequential, model_from_json
from corral.podtools.models.workshop import Workshop

NUMPY = """
model = Sequential([Dense(16, "relu", input_shape=8), Dense(3, "softmax")], seed=7)
model.compile("adam", "sparse_categorical_crossentropy", learning_rate=0.02)
"""
KERAS = """
model = keras.Sequential([
    keras.layers.Input((8,)),
    keras.layers.Dense(16, activation="relu"),
    keras.layers.Dense(3, activation="softmax"),
])
model.compile(
    optimizer=keras.optimizers.Adam(0.02), loss="sparse_categorical_crossentropy",
    metrics=["accuracy"],
)
"""
TORCH = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    def forward(self, x):
        return self.body(x)
    def loss_fn(self):
        return nn.CrossEntropyLoss()
    def optimizer(self):
        return torch.optim.Adam(self.parameters(), lr=0.02)
    def metrics(self):
        return {}
model = Net()
"""
CODE = {"numpy": NUMPY, "tf": KERAS, "pth": TORCH}
NEEDS = {"numpy": "numpy", "tf": "keras", "pth": "torch"}
LIMITS = Limits(seconds=120, memory=8 * 2**30)


def framework(name: str) -> Any:
    missing = find_spec(NEEDS[name]) is None
    return pytest.param(
        name, marks=pytest.mark.skipif(missing, reason=f"{NEEDS[name]} is not installed")
    )


def data(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, count)
    x = rng.normal(size=(count, 8)).astype(np.float32)
    x[np.arange(count), y] += 3
    return x, y


def source(folder: Path, name: str, code: str, **more: Any) -> Path:
    folder.mkdir()
    (folder / "code").write_text(code)
    (folder / "imports").write_text("")
    (folder / "spec.json").write_text(json.dumps({"framework": name, **more}))
    return folder


@pytest.mark.parametrize("name", [framework(name) for name in CODE])
def test_a_model_is_checked_trained_and_asked(name: str, tmp_path: Path) -> None:
    code, out, given = tmp_path / "source", tmp_path / "out", tmp_path / "given"
    source(code, name, CODE[name])
    out.mkdir()
    given.mkdir()
    ended = run("corral.podtools.models.inside:check", [str(code), str(out)], readable=[code],
                writable=[out], limits=LIMITS)  # fmt: skip
    assert ended.code == 0, ended.output
    said = json.loads((out / "model.json").read_text())
    assert (said["input_shape"], said["output_shape"], said["parameters"]) == ("8", "3", 195)
    first = read_weights(out / "weights.safetensors")
    assert sorted(a.size for a in first) == sorted([128, 16, 48, 3])

    x, y = data(400, 1)
    plan = {
        "framework": name, "architecture": said["architecture"],
        "compile_args": said["compile_args"], "batch": 32, "options": {"epochs": 6},
        "seed": 3, "validation": True,
    }  # fmt: skip
    (given / "plan.json").write_text(json.dumps(plan))
    (out / "weights.safetensors").rename(given / "weights.safetensors")
    np.save(given / "train_x.npy", x[:300])
    np.save(given / "train_y.npy", y[:300])
    np.save(given / "validation_x.npy", x[300:])
    np.save(given / "validation_y.npy", y[300:])
    if not said["architecture"]:
        source(given / "source", name, CODE[name])
    np.save(given / "test_x.npy", x[300:])
    np.save(given / "test_y.npy", y[300:])
    with Workshop(tmp_path, seconds=120) as workshop:
        assert workshop.do("train") == out
        metrics = json.loads((out / "metrics.json").read_text())
        learnt = read_weights(out / "weights.safetensors")
        workshop.do("train")
        again = read_weights(out / "weights.safetensors")
        write_weights(given / "weights.safetensors", learnt)
        workshop.do("test")
        test = json.loads((out / "test.json").read_text())
        assert workshop.started == 1
        assert not (out / "metrics.json").exists()
    assert [a.tobytes() for a in again] == [a.tobytes() for a in learnt], "it begins anew"
    assert len(metrics["training"]["loss"]) == 6
    assert metrics["training"]["accuracy"][-1] > 0.9
    assert metrics["validation"]["accuracy"][-1] > 0.9
    assert abs(test["metrics"]["accuracy"] - metrics["validation"]["accuracy"][-1]) < 1e-6
    assert abs(np.trace(test["matrix"]) / 100 - test["metrics"]["accuracy"]) < 1e-6

    told = {
        "framework": name, "architecture": said["architecture"], "input_shape": "8",
        "compile_args": json.dumps(said["compile_args"]),
    }  # fmt: skip
    model = tmp_path / "model"
    write_weights(model, learnt, told)
    answers = Answers(model, None if said["architecture"] else code, seconds=60)
    try:
        found = np.array(answers.ask(x[300:]))
    finally:
        answers.close()
    accuracy = float((found.argmax(axis=1) == y[300:]).mean())
    assert abs(accuracy - metrics["validation"]["accuracy"][-1]) < 1e-6


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("model = 1", "not a Sequential"),
        ("x = 1", "leaves no variable `model`"),
        ("model = Sequential([Dense(2, input_shape=3)])", "not compiled"),
        ("1/0", "ZeroDivisionError"),
        ("model = (", "SyntaxError"),
        ("import sys; sys.exit(0)", "SystemExit"),
        ("open('/etc/passwd').read()", "/etc/passwd"),
        ("import socket; socket.socket()", "PermissionError"),
        ("import os; os.system('true'); os.fork()", "PermissionError"),
    ],
)
def test_what_is_wrong_with_a_model_is_said(code: str, words: str, tmp_path: Path) -> None:
    folder, out = source(tmp_path / "source", "numpy", code), tmp_path / "out"
    out.mkdir()
    ended = run(
        "corral.podtools.models.inside:check", [str(folder), str(out)],
        readable=[folder], writable=[out], limits=Limits(seconds=60),
    )  # fmt: skip
    assert ended.code == 1
    assert words in ended.why
    assert list(out.iterdir()) == []


def test_a_part_of_a_model_is_its_last_line(tmp_path: Path) -> None:
    code = "made = Sequential([Dense(2, input_shape=3)])\nmade.compile('sgd', 'mse')\nmade\n"
    folder, out = source(tmp_path / "source", "numpy", code, distributed=True), tmp_path / "out"
    out.mkdir()
    ended = run(
        "corral.podtools.models.inside:check", [str(folder), str(out)],
        readable=[folder], writable=[out], limits=Limits(seconds=60),
    )  # fmt: skip
    assert ended.code == 0, ended.output


def test_weights_travel_in_their_order(tmp_path: Path) -> None:
    arrays = [np.arange(3, dtype=np.float32), np.ones((2, 2)), np.array([7], np.int64)] * 5
    write_weights(tmp_path / "w", arrays)
    again = read_weights(tmp_path / "w")
    assert [a.tolist() for a in again] == [a.tolist() for a in arrays]
    (tmp_path / "w").write_bytes(b"\x80\x04pickled")
    with pytest.raises(ValueError, match="no weights of a model"):
        read_weights(tmp_path / "w")


def test_slopes_are_those_of_the_loss() -> None:
    """Against differences of the loss itself."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(20, 4)).astype(np.float32)
    cases = [("softmax", "categorical_crossentropy", np.eye(3)[rng.integers(0, 3, 20)]),
             ("sigmoid", "binary_crossentropy", rng.integers(0, 2, (20, 3))),
             ("tanh", "mse", rng.normal(size=(20, 3)))]  # fmt: skip
    for last, loss, y in cases:
        model = Sequential([Dense(5, "tanh", input_shape=4), Dense(3, last)], seed=1)
        model.compile("sgd", loss, ["mse"])
        slopes = model._slopes(model._vectors(x), model._targets(y))
        weights = [w.astype(np.float64) for w in model.get_weights()]
        for place, array in enumerate(weights):
            for index in np.ndindex(array.shape):
                losses = []
                for change in (1e-2, -1e-2):
                    moved = [w.copy() for w in weights]
                    moved[place][index] += change
                    model.set_weights(moved)
                    losses.append(model.evaluate(x, y)["loss"])
                model.set_weights(weights)
                slope = (losses[0] - losses[1]) / 2e-2
                assert abs(slope - slopes[place][index]) < 2e-3, (loss, place, index)


def test_the_same_seed_gives_the_same_model() -> None:
    x, y = data(100, 2)
    found = []
    for _ in range(2):
        model = Sequential([Dense(4, "relu", input_shape=8), Dense(3, "softmax")], seed=9)
        model.compile("sgd", "sparse_categorical_crossentropy")
        model.fit(x, y, epochs=2, seed=4)
        found.append([w.tobytes() for w in model.get_weights()])
    assert found[0] == found[1]


def test_an_architecture_is_read_back() -> None:
    model = Sequential([Flatten(input_shape=(2, 2)), Dense(3, "tanh")], seed=2)
    again = model_from_json(model.to_json())
    assert [w.tobytes() for w in again.get_weights()] == [w.tobytes() for w in model.get_weights()]
    for wrong in ("", "{}", '{"class_name": "Functional"}', "[1]"):
        with pytest.raises(ValueError, match="no architecture"):
            model_from_json(wrong)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Dense(0), "at least one unit"),
        (lambda: Dense(1, "gelu"), "unknown activation"),
        (lambda: Sequential([Dense(1)]), "input_shape"),
        (lambda: Sequential([Dense(1, input_shape=(2, 2))]), "Flatten"),
    ],
)
def test_mistakes_in_layers(make: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()
