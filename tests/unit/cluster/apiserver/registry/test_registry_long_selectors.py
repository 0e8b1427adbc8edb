"""Label selectors of many kilobytes, read a little at a time."""

from __future__ import annotations

import asyncio

import pytest

from corral.cluster.apiserver.crud.long_selectors import PIECE, read_labels
from corral.cluster.apiserver.crud.selecting import label_test
from corral.kube.selectors import parse_labels

MANY = ",".join(f"a{number}!=b" for number in range(3_000))
LISTS = ",".join(f"k{number} notin (x,y , z)" for number in range(500))
LABELS: tuple[dict[str, str], ...] = (
    {},
    {"a7": "b"},
    {"a7": "c", "app": "web"},
    {"app": "web"},
    {"app": "web", "k3": "y"},
    {"app": "web", "tier": "3"},
)


@pytest.mark.parametrize(
    "text",
    [
        MANY,
        f"app=web,{MANY}",
        f"{MANY},app in (web,db),!gone",
        f"{LISTS},app=web",
        f"tier>2,{LISTS},{MANY},tier<4",
        f"app=web,{MANY},app=db",
    ],
    ids=["many", "first", "last", "lists", "compared", "twice"],
)
async def test_it_says_what_it_says_when_read_at_once(text: str) -> None:
    test, whole = await read_labels(text), label_test(parse_labels(text))
    assert test is not None
    assert [test(labels) for labels in LABELS] == [whole(labels) for labels in LABELS]


async def test_others_have_their_turn_in_between() -> None:
    reading = asyncio.create_task(read_labels(MANY))
    turns = 0
    while not reading.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns >= len(MANY) // PIECE


@pytest.mark.parametrize(
    "text",
    [
        f"{MANY},",
        f"{MANY}, ",
        f",{MANY}",
        f"{MANY},-a=b",
        f"{MANY},a in (",
        f"{MANY},a)",
        f"a in (b,{MANY})",
    ],
    ids=[
        "comma after",
        "space after",
        "comma before",
        "bad key",
        "open",
        "closed",
        "one long term",
    ],
)
async def test_what_is_wrong_or_cannot_be_divided_is_left_to_the_parser(text: str) -> None:
    assert await read_labels(text) is None
