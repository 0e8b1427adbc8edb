"""`corral run` in a real pseudo-terminal: what is seen while a job runs, and what Ctrl-C does."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from tests.cluster.objects import Objects, eventually
from tests.e2e.cli_jobs.commands import TRAIN
from tests.e2e.clusters import Up

GROUP = "training.corral.dev/v1alpha1"
SECONDS = 60


class Terminal:
    """`corral` in a terminal of its own."""

    def __init__(self, up: Up, namespace: str, folder: Path) -> None:
        self.up, self.namespace, self.folder = up, namespace, folder
        (folder / "train.py").write_text(TRAIN)
        self.children: list[pexpect.spawn[str]] = []

    @property
    def go(self) -> Path:
        """Jobs end when this is there."""
        return self.folder / "go"

    def run(self, name: str, *words: str) -> pexpect.spawn[str]:
        argv = ["-m", "corral.cli.main", "run", "-n", self.namespace, "--name", name]
        argv += ["-e", f"GO={self.go}", *words, "--", "python", "train.py"]
        child = pexpect.spawn(
            sys.executable,
            argv,
            cwd=self.folder,
            env=self._environment(),
            encoding="utf-8",
            dimensions=(40, 120),
            timeout=SECONDS,
        )
        self.children.append(child)
        return child

    def _environment(self) -> dict[str, str]:
        root = str(Path(__file__).parents[3])
        home = str(self.folder)
        return {
            "KUBECONFIG": str(self.up.kubeconfig),
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": root,
            "HOME": home,
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
        }

    def close(self) -> None:
        self.go.touch()
        for child in self.children:
            child.close(force=True)


@pytest.fixture
def terminal(up: Up, namespace: str, tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(up, namespace, tmp_path)
    yield terminal
    terminal.close()


def ended(child: pexpect.spawn[str]) -> int:
    child.expect(pexpect.EOF)
    child.wait()
    return int(child.exitstatus if child.exitstatus is not None else 255)


def phase(objects: Objects, name: str) -> str:
    status = objects.get(GROUP, "trainingjobs", name).get("status") or {}
    suspended = [c for c in status.get("conditions") or () if c["type"] == "Suspended"]
    if suspended and suspended[0]["status"] == "True":
        return "Suspended"
    return str(status.get("phase"))


def test_progress_is_seen_while_it_runs(terminal: Terminal) -> None:
    child = terminal.run("seen", "--replicas", "2")
    child.expect(r"\x1b\[\d+m\[replica-[01]\] \x1b\[0m")  # whose line it is, in a colour
    child.expect(r"replica-0 \x1b\[[0-9;]*m● Running")
    child.expect(r"step 4/4")
    child.expect(r"━+")
    child.expect(r"100%")
    child.expect(r"loss 0\.25 ")
    child.expect(r"[▁▂▃▄▅▆▇█]")
    terminal.go.touch()
    child.expect("Succeeded")
    assert ended(child) == 0
    shown = child.before or ""
    assert "Traceback" not in shown


def test_continue_then_detach(terminal: Terminal, objects: Objects) -> None:
    child = terminal.run("alone")
    child.expect("step 4")
    child.sendintr()
    child.expect(re.escape("continue watching? [d/s/c]"))
    child.send("c")
    child.expect("Running")
    child.sendintr()
    child.expect(re.escape("[d/s/c]"))
    child.send("d")
    child.expect("trainingjob/alone continues")
    assert ended(child) == 0
    assert phase(objects, "alone") == "Running"
    terminal.go.touch()
    eventually(lambda: phase(objects, "alone") == "Succeeded", seconds=SECONDS)


def test_stop(terminal: Terminal, objects: Objects) -> None:
    child = terminal.run("stopped")
    child.expect("step 4")
    child.sendintr()
    child.expect(re.escape("[d/s/c]"))
    child.send("s")
    child.expect("trainingjob/stopped suspended; `corral resume trainingjob/stopped`")
    assert ended(child) == 0
    eventually(lambda: phase(objects, "stopped") == "Suspended", seconds=SECONDS)


def test_ctrl_c_twice_leaves_it_alone(terminal: Terminal, objects: Objects) -> None:
    child = terminal.run("twice")
    child.expect("step 4")
    child.sendintr()
    child.expect(re.escape("[d/s/c]"))
    child.sendintr()
    child.expect("continues;")
    assert ended(child) == 0
    assert phase(objects, "twice") == "Running"


def test_a_failure_ends_with_its_reason(terminal: Terminal) -> None:
    terminal.go.touch()
    child = terminal.run("broken", "-e", "CODE=4")
    child.expect("exit code 4")
    child.expect("corral: trainingjob/broken failed")
    assert ended(child) == 1
