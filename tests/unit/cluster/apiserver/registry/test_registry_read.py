"""The options of lists and watches, and pages."""

from __future__ import annotations

import base64
from typing import Any

import orjson
import pytest

from corral.cluster.apiserver.crud.read import ListOptions, list_options
from corral.cluster.apiserver.store import Limits
from corral.kube import errors


def options(**values: Any) -> ListOptions:
    return ListOptions(**values)


def test_query_is_read(world: Any) -> None:
    query = {
        "labelSelector": "a=b", "fieldSelector": "metadata.name=x", "resourceVersion": "7",
        "limit": "5", "timeoutSeconds": "9", "allowWatchBookmarks": "true", "continue": "",
    }  # fmt: skip
    read = list_options(world.kind("configmaps"), query, watch=True)
    assert read.labels is not None and read.fields is not None
    assert read.labels({"a": "b"}) and not read.labels({"a": "c"})
    assert read.fields({"metadata.name": "x"}) and not read.fields({"metadata.name": "y"})
    assert read.selectors == ("a=b", "metadata.name=x")
    assert (read.version, read.limit, read.timeout, read.bookmarks) == ("7", 5, 9, True)
    assert read.initial_events is None and read.watch


def test_nothing_asked(world: Any) -> None:
    read = list_options(world.kind("configmaps"), {}, watch=False)
    assert read == options()


@pytest.mark.parametrize(
    ("query", "watch", "field"),
    [
        ({"sendInitialEvents": "true"}, True, "resourceVersionMatch"),
        ({"sendInitialEvents": "false"}, True, "resourceVersionMatch"),
        ({"resourceVersionMatch": "NotOlderThan"}, True, "resourceVersionMatch"),
        ({"sendInitialEvents": "true", "resourceVersionMatch": "Exact"}, True, "resourceVersionMatch"),  # noqa: E501
        ({"sendInitialEvents": "true"}, False, "sendInitialEvents"),
        ({"resourceVersionMatch": "Exact"}, False, "resourceVersionMatch"),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, False, "resourceVersionMatch"),
        ({"resourceVersionMatch": "Odd", "resourceVersion": "1"}, False, "resourceVersionMatch"),
        ({"resourceVersionMatch": "NotOlderThan", "resourceVersion": "1", "continue": "x"}, False, "resourceVersionMatch"),  # noqa: E501
    ],
)  # fmt: skip
def test_contradictions(world: Any, query: dict[str, str], watch: bool, field: str) -> None:
    with pytest.raises(errors.Invalid) as caught:
        list_options(world.kind("configmaps"), query, watch=watch)
    assert field in {c["field"] for c in caught.value.details["causes"]}


@pytest.mark.parametrize(
    "query",
    [
        {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"},
        {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "resourceVersion": "5"},  # noqa: E501
    ],
)  # fmt: skip
def test_streaming_lists_are_allowed(world: Any, query: dict[str, str]) -> None:
    assert list_options(world.kind("configmaps"), query, watch=True).initial_events is True


@pytest.mark.parametrize("name", ["limit", "timeoutSeconds"])
def test_numbers_that_are_none(world: Any, name: str) -> None:
    with pytest.raises(errors.BadRequest) as caught:
        list_options(world.kind("configmaps"), {name: "x"}, watch=False)
    assert caught.value.message == 'strconv.ParseInt: parsing "x": invalid syntax'


async def fill(world: Any, count: int = 5) -> None:
    for n in range(count):
        await world.config_map(f"m{n}")


async def test_pages_follow_one_another(world: Any) -> None:
    await fill(world)
    kind = world.kind("configmaps")
    first = await world.reader.page(kind, "ns", options(limit=2))
    assert [e.name for e in first.entries] == ["m0", "m1"]
    assert (first.revision, first.remaining) == (5, 3)
    await world.delete("configmaps", "m2")
    second = await world.reader.page(kind, "ns", options(limit=2, token=first.token))
    assert [e.name for e in second.entries] == ["m2", "m3"] and second.revision == 5
    last = await world.reader.page(kind, "ns", options(limit=2, token=second.token))
    assert [e.name for e in last.entries] == ["m4"]
    assert (last.token, last.remaining) == ("", None)


async def test_page_as_large_as_the_rest_is_the_last(world: Any) -> None:
    await fill(world, 2)
    page = await world.reader.page(world.kind("configmaps"), "ns", options(limit=2))
    assert len(page.entries) == 2 and not page.token


async def test_token_is_that_of_kubernetes(world: Any) -> None:
    await fill(world, 3)
    page = await world.reader.page(world.kind("configmaps"), "ns", options(limit=1))
    token = orjson.loads(base64.urlsafe_b64decode(page.token + "=="))
    assert token == {"v": "meta.k8s.io/v1", "rv": 3, "start": "m0\x00"}


async def test_version_zero_knows_no_pages(world: Any) -> None:
    await fill(world)
    page = await world.reader.page(world.kind("configmaps"), "ns", options(limit=2, version="0"))
    assert len(page.entries) == 5 and not page.token


async def test_expired_token_offers_another(world: Any) -> None:
    world.store._limits = Limits(min_events=0, max_events=2)
    await fill(world)
    kind = world.kind("configmaps")
    first = await world.reader.page(kind, "ns", options(limit=2))
    for _ in range(2):
        await world.delete("configmaps", "m4")
        await world.config_map("m4")
    with pytest.raises(errors.Gone) as caught:
        await world.reader.page(kind, "ns", options(limit=2, token=first.token))
    assert caught.value.message.startswith("The provided continue parameter is too old")
    assert caught.value.status["reason"] == "Expired"
    again = await world.reader.page(
        kind, "ns", options(limit=2, token=caught.value.continue_token)  # type: ignore[attr-defined]
    )  # fmt: skip
    assert [e.name for e in again.entries] == ["m2", "m3"]
    assert again.revision == world.store.revision


async def test_exact_version_that_is_forgotten(world: Any) -> None:
    world.store._limits = Limits(min_events=0, max_events=2)
    await fill(world)
    with pytest.raises(errors.Gone) as caught:
        await world.reader.page(world.kind("configmaps"), "ns", options(version="1", match="Exact"))
    assert caught.value.message == "The resourceVersion for the provided list is too old."


@pytest.mark.parametrize(
    "start", ["", "/", "../secrets", "a/../b"], ids=["empty", "root", "up", "inside"]
)
async def test_forged_tokens(world: Any, start: str) -> None:
    raw = orjson.dumps({"v": "meta.k8s.io/v1", "rv": 1, "start": start})
    token = base64.urlsafe_b64encode(raw).decode()
    try:
        page = await world.reader.page(
            world.kind("configmaps"), "ns", options(limit=2, token=token)
        )
    except errors.BadRequest as err:
        assert "continue key is not valid" in err.message
    else:
        assert all(e.key.startswith("ns/") for e in page.entries)
