"""Programs and libraries that cases need and that the targets of make fetch.

A case that finds its component missing is skipped by `skip`, or marked with `needs`. In CI (the
variable CI is set) such skips fail the run at its end, where the machine has the tool that fetches
the component; a developer without Go or Node sees what was left out. What a machine cannot have (a
GPU, a shell, a mode of isolation) is skipped by other means, and never fails anything.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

import pytest

CACHE: Final = Path(os.environ.get("CORRAL_CACHE") or Path.home() / ".cache" / "corral")
"""Where everything is fetched to."""


@dataclass(frozen=True, slots=True)
class Component:
    """Something that cases need."""

    name: str
    source: str
    """What fetches it, for people."""
    tool: str = ""
    """The program that has to be on the machine for that; none where pip is enough."""
    machines: tuple[str, ...] = ()
    """The processors that there are builds for; all of them when empty."""

    def can_be_fetched(self) -> bool:
        return (not self.machines or platform.machine() in self.machines) and (
            not self.tool or shutil.which(self.tool) is not None
        )

    def missing(self) -> str:
        """Why a case is skipped; `component_of` reads it again."""
        return f"{_MISSING}{self.name}: run {self.source}{f' ({self.tool})' if self.tool else ''}"


_MISSING: Final = "not fetched: "
_REASON: Final = re.compile(rf"{_MISSING}([^:]+):")
_LISTED: Final = (
    Component("openmpi5", "tests/mpi/install.sh"),
    Component("openmpi4", "tests/mpi/install.sh"),
    Component("mpich", "tests/mpi/install.sh"),
    Component("intel", "tests/mpi/install.sh", machines=("x86_64",)),
    Component("sshd", "tests/mpi/install.sh", "apt-get"),
    Component("boto3", "tests/clouds/install.sh"),
    Component("versitygw", "tests/stores/build.sh", "go"),
    Component("azurite", "tests/stores/build.sh", "npm"),
    Component("helm", "tests/real/build.sh", "go"),
    Component("kubectl", "tests/real/build.sh", "go"),
    Component("crane", "tests/real/build.sh", "go"),
    Component("mpi-operator", "tests/real/build.sh", "go"),
    Component("mpi-examples", "tests/real/build.sh", "go"),
    Component("kafka", "tests/real/kafka.sh", "mvn"),
    Component("wasm", "examples/federated/build.sh"),
    Component("rclone", "make test"),
)
COMPONENTS: Final = {component.name: component for component in _LISTED}


def skip(name: str) -> NoReturn:
    """Skip the case, or the module, that runs."""
    pytest.skip(COMPONENTS[name].missing(), allow_module_level=True)


def needs(name: str, *, found: bool) -> pytest.MarkDecorator:
    """A mark for cases that need a component."""
    return pytest.mark.skipif(not found, reason=COMPONENTS[name].missing())


def component_of(reason: str) -> Component | None:
    """The component for want of which a case was skipped, if that was why."""
    found = _REASON.search(reason)
    return COMPONENTS.get(found[1]) if found else None


# -- the rule, as a plugin of pytest ---------------------------------------------------------------


class Absences:
    """What cases of a session were skipped for; in the process that sees all reports."""

    def __init__(self) -> None:
        self.seen: dict[Component, int] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._count(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._count(report)

    def _count(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped and isinstance(report.longrepr, tuple):
            component = component_of(report.longrepr[2])
            if component is not None:
                self.seen[component] = self.seen.get(component, 0) + 1

    def faults(self) -> Iterator[str]:
        """What should have been there, of which the machine has all that fetches it."""
        for component, count in self.seen.items():
            if component.can_be_fetched():
                yield f"{count} cases: {component.missing()}"

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        good = session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        if good and any(self.faults()):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if lines := list(self.faults()):
            terminalreporter.section("not fetched, which fails this run in CI", red=True)
            for line in lines:
                terminalreporter.line(line)


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("CI", "").lower() not in ("", "0", "false") and not hasattr(
        config, "workerinput"
    ):
        config.pluginmanager.register(Absences(), "absences")
