"""A trained model answers on topics, whatever is asked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from corral.podtools.kafka.client import Access, Sender, Topic, ensure
from corral.podtools.models.inside import write_weights
from tests.cluster.kafkaml.deployments import RAW, digits, model
from tests.cluster.kafkaml.scripted import stored, wait_for

pytestmark = pytest.mark.timeout(120)

ODD = """
class Odd(Sequential):
    def predict(self, x):
        while (x > 5).any():
            pass
        return super().predict(x)

model = Odd([Dense(32, "relu", input_shape=64), Dense(10, "softmax")], seed=11)
model.compile("adam", "categorical_crossentropy")
"""


class Workers:
    """Processes that answer; ended with their case."""

    def __init__(self, access: Access, folder: Path, name: str) -> None:
        self.access, self.folder = access, folder
        self.source, self.target, self.group = f"in-{name}", f"out-{name}", f"inf-{name}"
        self.processes: list[subprocess.Popen[str]] = []
        ensure(access, [Topic(self.source, 1_000_000), Topic(self.target, 1_000_000)])

    def start(self) -> subprocess.Popen[str]:
        env = {
            "INPUT_BOOTSTRAP_SERVERS": self.access.servers,
            "OUTPUT_BOOTSTRAP_SERVERS": self.access.servers,
            "INPUT_TOPIC": self.source, "OUTPUT_TOPIC": self.target, "GROUP_ID": self.group,
            "INPUT_CONFIG": json.dumps(RAW), "FL_DIR": str(self.folder),
            "KAFKAML_MODEL_CODE_DIR": str(self.folder / "source"), "KAFKAML_ANSWER_SECONDS": "1",
            "PATH": os.environ["PATH"],
        }  # fmt: skip
        process = subprocess.Popen(
            [sys.executable, "-m", "corral.podtools.kafkaml.infer"], env=env, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self.processes.append(process)
        return process

    def ask(self, *samples: np.ndarray | bytes) -> None:
        with Sender(self.access) as sender:
            for sample in samples:
                data = sample if isinstance(sample, bytes) else sample.tobytes()
                sender.send(self.source, data)

    def answers(self, count: int) -> np.ndarray:
        """All that were given, when they are so many."""
        wait_for(f"{count} answers", lambda: len(stored(self.access, self.target)) >= count)
        found = [json.loads(r.value or b"")["values"] for r in stored(self.access, self.target)]
        return np.array(found)

    def end(self, process: subprocess.Popen[str]) -> str:
        process.terminate()
        output, _ = process.communicate(timeout=30)
        assert process.returncode == 0, output
        return output

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate(timeout=30)


@pytest.fixture
def workers(access: Access, tmp_path: Path) -> Iterator[Workers]:
    made = model()
    write_weights(
        tmp_path / "model", made.get_weights(), {"framework": "numpy", "input_shape": "64"}
    )
    source = tmp_path / "source"
    source.mkdir()
    (source / "code").write_text(ODD)
    (source / "spec.json").write_text(json.dumps({"framework": "numpy"}))
    found = Workers(access, tmp_path, f"{time.time_ns():x}")
    yield found
    found.stop()


def test_one_bad_question_is_no_fault_of_the_others(workers: Workers) -> None:
    x, _ = digits()
    process = workers.start()
    workers.ask(*x[:5], b"no sample", np.full(64, 9, np.float32), *x[5:10])
    assert np.allclose(workers.answers(10), model().predict(x[:10]), atol=1e-5)
    workers.ask(*x[10:12])
    assert np.allclose(workers.answers(12)[10:], model().predict(x[10:12]), atol=1e-5)
    output = workers.end(process)
    assert "message 5 is left out: its data has 9 bytes" in output
    assert "message 6 has no answer: its time was over" in output

    # what was answered is not answered again
    process = workers.start()
    workers.ask(x[12])
    assert np.allclose(workers.answers(13)[12], model().predict(x[12:13])[0], atol=1e-5)
    assert len(stored(workers.access, workers.target)) == 13
    workers.end(process)


def test_a_model_that_cannot_be_loaded_ends_the_worker(workers: Workers) -> None:
    (workers.folder / "source" / "code").write_text("open('/etc/passwd')")
    process = workers.start()
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "the model does not answer" in output
    assert "FileNotFoundError" in output or "PermissionError" in output
