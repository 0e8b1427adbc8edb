"""How long test files take: recorded by a run, and the order in which the next one starts them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parent.parent
RECORDED: Final = TESTS / "durations.json"
LEAST: Final = 2.0
"""Seconds; files that take less are not recorded."""


def read() -> dict[str, float]:
    """Path below ``tests`` → seconds, as recorded."""
    found: dict[str, float] = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    return found


def of_groups(recorded: Mapping[str, float], groups: Iterable[str]) -> dict[str, float]:
    """Group (a file, or a folder) → seconds of all its files."""
    return {
        group: sum(
            seconds
            for path, seconds in recorded.items()
            if path == group or path.startswith(f"{group}/")
        )
        for group in groups
    }


def merged(recorded: Mapping[str, float], ran: Mapping[str, float]) -> dict[str, float]:
    """What to record after a run of some files: the others keep what they had."""
    found = {**recorded, **ran}
    return {
        path: round(found[path], 1)
        for path in sorted(found)
        if found[path] >= LEAST and (TESTS / path).exists()
    }


class Recorder:
    """Adds up what cases report; ``--record-durations`` installs it."""

    def __init__(self) -> None:
        self._ran: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        path = report.nodeid.partition("::")[0].removeprefix("tests/")
        self._ran[path] += report.duration  # type: ignore[assignment]

    def pytest_sessionfinish(self) -> None:
        found = merged(read(), self._ran)
        RECORDED.write_text(json.dumps(found, indent=0) + "\n")
