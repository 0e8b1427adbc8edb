from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from corral.podtools.models.inside import read_weights, write_weights
from corral.podtools.models.workshop import WorkError, Workshop

MODEL = """
import os, time
model = Sequential([Dense(2, "softmax", input_shape=2)], seed=1)
model.compile("sgd", "categorical_crossentropy")
"""
X = np.array([[0, 1], [1, 0]] * 8, np.float32)


@pytest.fixture
def workshop(tmp_path: Path) -> Iterator[Workshop]:
    with Workshop(tmp_path, seconds=3) as made:
        for part in ("train", "test"):
            np.save(made.given / f"{part}_x.npy", X)
            np.save(made.given / f"{part}_y.npy", X)
        write_weights(made.given / "weights.safetensors", [np.eye(2), np.zeros(2)])
        source = made.given / "source"
        source.mkdir()
        (source / "spec.json").write_text('{"framework": "numpy"}')
        plan = {"framework": "numpy", "batch": 4, "options": {"epochs": 2}}
        (made.given / "plan.json").write_text(json.dumps(plan))
        yield made


def write(workshop: Workshop, *lines: str) -> None:
    (workshop.given / "source" / "code").write_text(MODEL + "\n".join(lines))


@pytest.mark.parametrize(
    ("line", "words", "processes"),
    [
        ("1 / 0", "ZeroDivisionError", 1),
        ("model.fit = lambda *a, **k: {'loss': [os.listdir('/root')]}", "PermissionError", 1),
        ("model.fit = lambda *a, **k: os._exit(3)", "it ended with 3", 2),
        ("model.fit = lambda *a, **k: time.sleep(60)", "its time was over", 2),
        ("model.fit = lambda *a, **k: model.set_weights([np.eye(2) * np.nan, np.zeros(2)]) or {}",
         "not finite", 1),
    ],
)  # fmt: skip
def test_one_failure_is_not_the_next_ones(
    workshop: Workshop, line: str, words: str, processes: int
) -> None:
    write(workshop, line)
    with pytest.raises(WorkError, match=words):
        workshop.do("train")
    assert not (workshop.out / "weights.safetensors").exists()
    write(workshop)
    out = workshop.do("train")
    assert len(read_weights(out / "weights.safetensors")) == 2
    assert workshop.started == processes


def test_nothing_is_left_of_what_was_made_before(workshop: Workshop) -> None:
    before = f"os.makedirs({str(workshop.out / 'left' / 'here')!r})"
    write(workshop, before, f"open({str(workshop.out / 'file')!r}, 'w').close()")
    workshop.do("train")
    write(workshop)
    assert sorted(p.name for p in workshop.do("test").iterdir()) == ["test.json"]
    assert workshop.started == 1


def test_what_is_made_leads_nowhere_else(workshop: Workshop) -> None:
    write(workshop, f"os.symlink('/etc/passwd', {str(workshop.out / 'metrics.json')!r})")
    with pytest.raises(WorkError, match="PermissionError"):
        workshop.do("train")
    assert list(workshop.out.iterdir()) == []
