from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from corral.gateway.problems import Refused
from corral.gateway.rest.params import (
    boolean,
    choice,
    number,
    read_query,
    text,
    timestamp,
)  # fmt: skip

PARAMS = (
    boolean("follow", "?"),
    number("tailLines", "?", least=0, most=10),
    timestamp("since", "?"),
    choice("sort", "?", ("name", "-name"), default="name"),
    text("phase", "?", longest=8, many=True),
    text("name", "?", longest=5),
)
DEFAULTS = {
    "follow": False, "tailLines": None, "since": None, "sort": "name", "phase": (), "name": "",
}  # fmt: skip


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (b"", {}),
        (b"follow=true&tailLines=0", {"follow": True, "tailLines": 0}),
        (b"follow=1", {"follow": True}),
        (b"follow=False", {"follow": False}),
        (b"since=2026-01-02T03:04:05Z", {"since": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)}),
        (b"since=2026-01-02T04:04:05+01:00", {"since": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)}),
        (b"sort=-name", {"sort": "-name"}),
        (b"phase=Running,Failed&phase=x", {"phase": ("Running", "Failed", "x")}),
        (b"name=", {"name": ""}),
    ],
)
def test_what_is_read(query: bytes, found: dict[str, Any]) -> None:
    assert read_query(query, PARAMS) == {**DEFAULTS, **found}


@pytest.mark.parametrize(
    ("query", "field"),
    [
        (b"follow=yes", "follow"),
        (b"tailLines=-1", "tailLines"),
        (b"tailLines=11", "tailLines"),
        (b"tailLines=1.0", "tailLines"),
        (b"tailLines=%D9%A3", "tailLines"),
        (b"since=yesterday", "since"),
        (b"since=2026-01-02T03:04:05", "since"),
        (b"since=0001-01-01T00:00:00Z", "since"),
        (b"sort=size", "sort"),
        (b"name=abcdef", "name"),
        (b"name=a%00", "name"),
        (b"name=a&name=b", "name"),
        (b"nam=a", "nam"),
        (b"zzz=1", "zzz"),
    ],
)
def test_what_is_refused(query: bytes, field: str) -> None:
    with pytest.raises(Refused) as refused:
        read_query(query, PARAMS)
    assert refused.value.problem.status == 400
    assert [name for name, _ in refused.value.problem.errors] == [field]


def test_all_mistakes_are_told_at_once_with_what_was_meant() -> None:
    with pytest.raises(Refused) as refused:
        read_query(b"tailLine=1&follow=x", PARAMS)
    said = dict(refused.value.problem.errors)
    assert said["tailLine"].endswith("did you mean tailLines?")
    assert said["follow"] == "must be true or false"


@pytest.mark.parametrize("query", [b"a=%ff", b"&".join([b"name=a"] * 101)])
def test_queries_that_cannot_be_read(query: bytes) -> None:
    with pytest.raises(Refused):
        read_query(query, PARAMS)
