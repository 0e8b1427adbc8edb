"""A pytest plugin: the order of files, and which parameters of a long case `make test` runs.

Both follow from ``tests/durations.json``, which ``make durations`` records: the longest files begin
first, so that no worker is left alone with one at the end; and of a case with many parameters that
takes long, `make test` runs the first and the last one, while the others have the marker ``full``
(`make test-full` runs every one). Without a recorded duration a case is short.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest

TESTS: Final = Path(__file__).parents[1]
FILE: Final = TESTS / "durations.json"
LONG_CASE: Final = 0.7
"""Seconds: a case with parameters, one of which takes longer, is a long one."""
LONG_MATRIX: Final = 3.0
"""Seconds: all parameters of a case together, from which on only the first and the last run."""


class Durations:
    """Seconds as they were recorded: of files, and of cases that have parameters."""

    def __init__(self, recorded: dict[str, Any]) -> None:
        self.files: dict[str, float] = recorded.get("files", {})
        self.cases: dict[str, list[float]] = recorded.get("cases", {})

    @classmethod
    def read(cls) -> Durations:
        return cls(json.loads(FILE.read_text()) if FILE.is_file() else {})

    def is_long(self, case: str) -> bool:
        longest, total = self.cases.get(case, (0.0, 0.0))
        return longest >= LONG_CASE and total >= LONG_MATRIX


def path_of(item: pytest.Item) -> str:
    """The path of an item's file below ``tests``."""
    return item.path.relative_to(TESTS).as_posix()


def case_of(item: pytest.Item) -> str:
    """What an item is called without its parameters."""
    return f"{path_of(item)}::{item.nodeid.partition('::')[2].partition('[')[0]}"


def arrange(items: list[pytest.Item], durations: Durations) -> None:
    """Mark the parameters that only `make test-full` runs, and put the longest files first."""
    matrices: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if hasattr(item, "callspec"):
            matrices[case_of(item)].append(item)
    for case, variants in matrices.items():
        if durations.is_long(case):
            for item in variants[1:-1]:
                item.add_marker(pytest.mark.full)
    items.sort(key=lambda item: -durations.files.get(path_of(item), 0.0))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--record-durations", action="store_true", help="write tests/durations.json anew"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    arrange(items, Durations.read())


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--record-durations") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder())


class Recorder:
    """Adds up what every item takes, and writes it down at the end of the run."""

    def __init__(self) -> None:
        self.files: dict[str, float] = defaultdict(float)
        self.items: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        path, _, name = report.nodeid.partition("::")
        path = path.removeprefix("tests/")
        self.files[path] += report.duration
        if report.when == "call" and name.endswith("]"):
            self.items[f"{path}::{name}"] += report.duration

    def pytest_sessionfinish(self) -> None:
        cases: dict[str, list[float]] = defaultdict(list)
        for item, seconds in self.items.items():
            cases[item.partition("[")[0]].append(seconds)
        found = {case: [max(all_), sum(all_)] for case, all_ in cases.items()}
        write(self.files.items(), found)


def write(files: Iterable[tuple[str, float]], cases: dict[str, list[float]]) -> None:
    """Write what is long enough to matter."""
    recorded = {
        "files": {path: round(seconds, 1) for path, seconds in sorted(files) if seconds >= 1},
        "cases": {
            case: [round(longest, 1), round(total, 1)]
            for case, (longest, total) in sorted(cases.items())
            if longest >= LONG_CASE and total >= LONG_MATRIX
        },
    }
    FILE.write_text(json.dumps(recorded, indent=1) + "\n")
