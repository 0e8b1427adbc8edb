"""Commands of a test: in this process where only words count, and programs that they run."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from corral.cli import main, odh

TRAIN = """
import os
import sys
import time

import corral.inpod as corral

steps = int(os.environ.get("STEPS", "4"))
print("replica", os.environ["CORRAL_REPLICA"], "in", os.getcwd(), flush=True)
for step in range(1, steps + 1):
    print("step", step, flush=True)
    corral.report(step=step, total=steps, loss=1 / step)
    corral.flush()
    if os.environ.get("PAUSE"):
        time.sleep(float(os.environ["PAUSE"]))
while os.environ.get("GO") and not os.path.exists(os.environ["GO"]):
    time.sleep(0.05)
sys.exit(int(os.environ.get("CODE", "0")))
"""
"""Reports steps with a loss; goes on when the file GO is there; ends with CODE."""
SLEEPS = ["sh", "-c", "while true; do sleep 0.2; done"]


@dataclass(frozen=True, slots=True)
class Said:
    """How a command ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


class Cli:
    """The command lines."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        capfd: pytest.CaptureFixture[str],
        *,
        namespace: str,
        folder: Path,
    ) -> None:
        self.monkeypatch, self.capfd = monkeypatch, capfd
        self.namespace, self.folder = namespace, folder

    def __call__(self, *words: str, code: int = 0) -> Said:
        """`corral …` in the case's namespace, with this exit code."""
        where = () if words[0] in ("up", "completion", "--help") else ("-n", self.namespace)
        return self.run("corral", [words[0], *where, *words[1:]], code)

    def odh(self, verb: str, *words: str, code: int = 0) -> Said:
        """`odh training …`."""
        return self.run("odh", ["training", verb, "-n", self.namespace, *words], code)

    def run(self, program: str, words: list[str], code: int) -> Said:
        entry = {"corral": main.main, "odh": odh.main}[program]
        self.monkeypatch.setattr(sys, "argv", [program, *words])
        self.capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            entry()
        sys.stdout.flush()
        captured = self.capfd.readouterr()
        said = Said(int(ended.value.code or 0), captured.out, captured.err)
        assert said.code == code, said
        assert "Traceback" not in said.err, said
        return said

    def program(self, name: str = "train.py", text: str = TRAIN) -> None:
        """A file of the folder one is in."""
        (self.folder / name).write_text(text)


def training_job(name: str, command: list[str], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "training.corral.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": {"replicas": 1, "image": "python:3.12", "command": command, **spec},
    }
