"""Writes the tables of docs/security.md from the cases in tests/security.

Every case carries ``@pytest.mark.attack(AREA, ATTEMPT, OUTCOME)``: the part that is attacked, what
the attacker tries, and what happens instead. Those that try a way from one tenant to another also
carry ``@pytest.mark.route(NAME)``. ``--check`` changes nothing and exits with 1 when a table is out
of date.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "security.md"
WRITTEN = "<!-- {}: written by tools/security_table.py -->"
END = "<!-- end of {} -->"


@dataclass(frozen=True, order=True)
class Attack:
    """One case of tests/security."""

    area: str
    attempt: str
    outcome: str
    case: str
    route: str = ""
    """How one tenant would reach another; empty where it is about something else."""


class Collector:
    """Takes what pytest collects, and runs nothing."""

    def __init__(self) -> None:
        self.found: list[Attack] = []
        self.cases = 0

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        rows: dict[Attack, None] = {}
        for item in session.items:
            attack, route = item.get_closest_marker("attack"), item.get_closest_marker("route")
            if attack is not None:
                name = item.nodeid.partition("[")[0].removeprefix("tests/security/")
                rows[Attack(*attack.args, name, *(route.args if route else ()))] = None
                self.cases += 1
        self.found = list(rows)


def collected() -> Collector:
    """The marked cases below tests/security."""
    collector = Collector()
    options = ["--collect-only", "-q", "-p", "no:cacheprovider", "tests/security"]
    shown = io.StringIO()
    with redirect_stdout(shown):
        code = pytest.main(options, plugins=[collector])
    if code:
        print(shown.getvalue())
        raise SystemExit("the cases of tests/security cannot be collected")
    return collector


def table(found: list[Attack]) -> str:
    """The attacks as Markdown, by area."""
    rows = ["| area | the attacker | what happens | case |", "|---|---|---|---|"]
    for attack in sorted(found):
        cells = (attack.area, attack.attempt, attack.outcome, f"`{attack.case}`")
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(dict.fromkeys(rows))  # once, however many routes a case tries


def routes(found: list[Attack]) -> str:
    """The ways from tenant to tenant that are tried, by route."""
    rows = ["| route | what tenant A tries | cases |", "|---|---|---|"]
    by_route: dict[str, list[Attack]] = {}
    for attack in sorted(found):
        if attack.route:
            by_route.setdefault(attack.route, []).append(attack)
    for route, cases in sorted(by_route.items()):
        tried = "; ".join(dict.fromkeys(case.attempt for case in cases))
        rows.append(f"| {route} | {tried} | {len(cases)} |")
    return "\n".join(rows)


def replaced(text: str, name: str, table: str) -> str:
    """The page with one of its tables written again."""
    begin, end = WRITTEN.format(name), END.format(name)
    head, found, rest = text.partition(begin)
    _, closed, tail = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"docs/security.md lacks {begin} or {end}")
    return f"{head}{begin}\n{table}\n{end}{tail}"


def main() -> int:
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))  # as `python -m pytest` has it
    collector = collected()
    found = collector.found
    text = PAGE.read_text()
    new = replaced(replaced(text, "attacks", table(found)), "routes", routes(found))
    if new == text:
        return 0
    if "--check" in sys.argv[1:]:
        print("docs/security.md is out of date: run python tools/security_table.py")
        return 1
    PAGE.write_text(new)
    print(f"{len(found)} attacks, {collector.cases} cases")
    return 0


if __name__ == "__main__":
    sys.exit(main())
