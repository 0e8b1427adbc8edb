from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from corral.gateway.audit import Audit, Entry, Names, audit_to
from corral.gateway.auth import Caller


def entry(code: int = 200) -> Entry:
    return Entry(request_id="r", protocol="rest", user="u", address="a", verb="get", code=code)


def test_a_line_is_json_without_what_is_not_known() -> None:
    lines: list[bytes] = []
    Audit(lines.append, now=lambda: datetime(2026, 1, 2, tzinfo=UTC)).record(entry())
    assert lines[0].endswith(b"\n")
    said = json.loads(lines[0])
    assert said["time"] == "2026-01-02T00:00:00.000+00:00"
    assert "name" not in said
    assert said["code"] == 200


def test_a_file_is_for_its_owner_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "audit.log"
    for code in (200, 404):
        audit = audit_to(path)
        audit.record(entry(code))
        audit.close()
    assert [json.loads(line)["code"] for line in path.read_text().splitlines()] == [200, 404]
    assert path.stat().st_mode & 0o077 == 0


async def test_a_name_is_asked_for_once_a_minute() -> None:
    asked: list[str] = []
    now = 0.0

    async def ask(caller: Caller) -> str:
        asked.append(caller.token)
        return f"user of {caller.token}"

    names = Names(ask, clock=lambda: now)
    assert [await names.of(Caller("a")) for _ in range(3)] == ["user of a"] * 3
    assert await names.of(Caller("b")) == "user of b"
    assert asked == ["a", "b"]
    now = 61.0
    await names.of(Caller("a"))
    assert asked == ["a", "b", "a"]
