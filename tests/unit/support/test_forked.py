"""Cases on forked workers: each runs once, and what becomes of it is told, whatever it does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CONFTEST = """
from tests.support.forked import Forked

def pytest_addoption(parser):
    parser.addoption("--workers", type=int, default=3)

def pytest_configure(config):
    config.pluginmanager.register(Forked(config, lambda path: path.name, silence=20.0))
"""


class Suite:
    """Files of cases in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "conftest.py").write_text(CONFTEST)
        (folder / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")

    def run(self, *options: str, **files: str) -> str:
        for name, text in files.items():
            (self.folder / f"test_{name}.py").write_text(text)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", *options, "."],
            cwd=self.folder, env={"PYTHONPATH": str(ROOT), "PATH": ""}, timeout=120,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.stdout + done.stderr

    def notes(self, name: str) -> list[str]:
        return (self.folder / name).read_text().split()


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite(tmp_path)


def outcomes(text: str) -> list[tuple[str, str]]:
    return sorted(re.findall(r"^(PASSED|FAILED|ERROR) \S*::(\w+)", text, re.MULTILINE))


def test_every_case_runs_once_and_is_told(suite: Suite) -> None:
    text = suite.run(
        a="def test_good(tmp_path): print('said')\ndef test_bad(): assert 1 == 2\n",
        b="async def test_waits(): pass\n",
        c="import pytest\n@pytest.mark.skip\ndef test_not(): pass\n",
    )
    assert outcomes(text) == [
        ("FAILED", "test_bad"),
        ("PASSED", "test_good"),
        ("PASSED", "test_waits"),
    ]
    assert "assert 1 == 2" in text and "said" in text
    assert "1 failed, 2 passed, 1 skipped" in text


def test_a_group_stays_on_one_worker_with_its_fixtures(suite: Suite) -> None:
    cases = """
import os, pathlib, pytest
@pytest.fixture(scope="session", autouse=True)
def started():
    yield
    with open("ended", "a") as file:
        print(os.getpid(), file=file)
def note():
    with open("ran-" + pathlib.Path(__file__).name, "a") as file:
        print(os.getpid(), file=file)
def test_one(): note()
def test_two(): note()
"""
    assert "4 passed" in suite.run(a=cases, b=cases)
    for name in "ab":
        first, second = suite.notes(f"ran-test_{name}.py")
        assert first == second and first in suite.notes("ended")


def test_a_worker_that_dies_costs_one_case(suite: Suite) -> None:
    text = suite.run(
        a="import os\ndef test_dies(): os._exit(3)\ndef test_after(): pass\n",
        b="def test_beside(): pass\n",
    )
    assert outcomes(text) == [
        ("FAILED", "test_dies"),
        ("PASSED", "test_after"),
        ("PASSED", "test_beside"),
    ]
    assert "the worker ended with 3" in text


def test_the_first_failure_ends_it_in_good_order(suite: Suite) -> None:
    cases = """
import time, pytest
@pytest.fixture
def there():
    yield
    open("ended", "w").write("in order")
def test_long(there):
    open("begun", "w").close()
    time.sleep(100)
"""
    fails = """
import os, time
def test_fails():
    while not os.path.exists("begun"):
        time.sleep(0.01)
    assert False
"""
    text = suite.run("-x", a=cases, b=fails)
    assert outcomes(text) == [("FAILED", "test_fails")]
    assert suite.notes("ended") == ["in", "order"]


def test_a_worker_that_hangs_says_where_and_dies(suite: Suite) -> None:
    text = suite.run(
        a="import time\ndef test_hangs(): time.sleep(1000)\n",
        b="def test_beside(): pass\n",
    )
    assert outcomes(text) == [("FAILED", "test_hangs"), ("PASSED", "test_beside")]
    assert "the worker ended with -6" in text
    assert "in test_hangs" in text, "where it stood"
