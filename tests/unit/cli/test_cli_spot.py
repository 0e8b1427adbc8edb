"""``corral spot`` on the command line."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from corral.cli.main import app
from corral.cli.views.spot_rows import instance_rows, placement_rows, rate_rows

RUNNER = CliRunner()
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def corral(*argv: str, code: int = 0) -> Result:
    result = RUNNER.invoke(app, list(argv))
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.json"
    corral("spot", "simulate", "--shape", "bursty", "--seeds", "1", "--save", str(path))
    return path


def test_simulate_replays_a_trace_by_the_rules_that_were_asked_for(trace: Path) -> None:
    asked = ("--rule", "on-demand", "--rule", "corral", "--work", "6h", "--deadline", "12h")
    said = corral("spot", "simulate", "--trace", str(trace), *asked, "-o", "json")
    rows = json.loads(said.stdout)
    assert [row["rule"] for row in rows] == ["corral", "on-demand"]
    assert rows[0]["ratio"] == 1.0
    assert rows[1]["ratio"] > 1.5
    assert {row["missed"] for row in rows} == {0}
    table = corral("spot", "simulate", "--trace", str(trace), *asked).stdout.splitlines()
    assert table[0].split()[:4] == ["RULE", "RUNS", "COST", "RATIO"]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--shape", "calm"), "scarce"),
        (("--rule", "nearest", "--seeds", "1"), "next-region"),
        (("--home", "aws"), "cloud/region"),
        (("--work", "long"), "not a duration"),
        (("--trace", "/nowhere/trace.json"), "/nowhere/trace.json"),
    ],
)
def test_wrong_usage_is_one_line(argv: tuple[str, ...], said: str) -> None:
    result = corral("spot", "simulate", *argv, code=2)
    assert said in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize("text", ["[]", "{}", "nonsense"])
def test_what_is_no_trace_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text)
    result = corral("spot", "simulate", "--trace", str(path), code=2)
    assert "trace" in result.output


PLACED = {"cloud": "aws", "region": "r", "zone": "r-a", "machineType": "m"}


def test_machines_are_rows() -> None:
    vm = {
        "metadata": {"name": "gpu", "namespace": "ns"},
        "status": {
            "provisionedInstances": [
                {
                    **PLACED,
                    "name": "i-0",
                    "state": "RUNNING",
                    "joinedCluster": True,
                    "nodeName": "i-0",
                    "pricePerHour": 1.5,
                    "creationTime": "2026-01-01T11:00:00Z",
                },
                {"name": "instance-1", "state": "PROVISIONING"},
            ]
        },
    }
    first, second = instance_rows(vm, NOW)
    assert (first["name"], first["place"], first["node"]) == ("i-0", "aws/r/r-a/m", "i-0")
    assert (first["model"], first["age"], first["price"]) == ("spot", "1h", 1.5)
    assert (second["place"], second["node"], second["age"]) == ("", "", "")
    assert instance_rows({}, NOW) == []


@pytest.mark.parametrize(
    ("entry", "news"),
    [
        ({}, ""),
        ({"preemptionDeadline": "2026-11-16T05:00:00Z"}, "taken at 2026-11-16T05:00:00Z"),
        ({"preemptionDeadline": "2026-11-16T05:00:00Z", "reason": "Preempted"}, "Preempted"),
        ({"reason": "StockOut"}, "StockOut"),
    ],
)
def test_what_is_new_about_a_machine(entry: dict[str, Any], news: str) -> None:
    (row,) = instance_rows({"status": {"provisionedInstances": [entry]}}, NOW)
    assert row["news"] == news


def test_placements_are_rows_and_rates() -> None:
    used = [
        {
            **PLACED,
            "instance": "i-0",
            "replica": 0,
            "startTime": "2026-01-01T08:00:00Z",
            "endTime": "2026-01-01T10:00:00Z",
            "endReason": "Lost",
            "cost": 3.0,
        },
        {**PLACED, "instance": "i-1", "replica": 0, "startTime": "2026-01-01T10:00:00Z"},
        {
            **PLACED,
            "instance": "i-2",
            "provisioningModel": "OnDemand",
            "startTime": "2026-01-01T10:00:00Z",
        },
        {"instance": "i-3"},
    ]
    job = {"metadata": {"name": "digits"}, "status": {"placements": used}}
    rows = placement_rows(job, NOW)
    assert [row["up"] for row in rows] == ["2h", "2h", "2h", ""]
    assert [row["model"] for row in rows] == ["spot", "spot", "on-demand", "spot"]
    assert rows[0]["end"] == "Lost"
    rates = {row["place"]: row for row in rate_rows([job], NOW)}
    assert rates["aws/r/r-a/m"] == {
        "place": "aws/r/r-a/m",
        "hours": 4.0,
        "losses": 1,
        "rate": 0.25,
    }
    assert rates[""]["rate"] is None
