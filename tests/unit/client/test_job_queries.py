"""Filters, orders and pages."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jobs_fake_api import condition, mpijob

from corral.client.errors import BadRequest
from corral.client.kinds import kind_of
from corral.client.queries import SORT_KEYS, ListQuery, paged

MPI = kind_of("mpijobs")
Obj = dict[str, Any]


def job(name: str, phase: str = "", created: int = 0, namespace: str = "ns") -> Obj:
    conditions = [condition(phase)] if phase else []
    stamp = datetime.fromtimestamp(created, UTC).isoformat().replace("+00:00", "Z")
    return mpijob(name, "1", *conditions, namespace=namespace, creationTimestamp=stamp)


def names(objects: list[Obj]) -> list[str]:
    return [obj["metadata"]["name"] for obj in objects]


def everything(query: ListQuery, objects: list[Obj]) -> list[Obj]:
    """All pages, one after the other."""
    found: list[Obj] = []
    while True:
        page = paged(MPI, query, objects)
        found += page.items
        if not page.token:
            return found
        query = replace(query, token=page.token)


def test_orders() -> None:
    jobs = [job("b", "Running", 3), job("a", "Failed", 2), job("c", "", 1), job("d", "Running", 3)]
    assert names(paged(MPI, ListQuery(), jobs).items) == ["a", "b", "c", "d"]
    assert names(paged(MPI, ListQuery(sort="-name"), jobs).items) == ["d", "c", "b", "a"]
    assert names(paged(MPI, ListQuery(sort="created"), jobs).items) == ["c", "a", "b", "d"]
    assert names(paged(MPI, ListQuery(sort="-created"), jobs).items) == ["b", "d", "a", "c"]
    assert names(paged(MPI, ListQuery(sort="phase"), jobs).items) == ["c", "b", "d", "a"]


def test_filters() -> None:
    jobs = [job("train-a", "Running", 100), job("train-b", "Failed", 200), job("eval", "", 300)]

    def found(**query: Any) -> list[str]:
        return names(paged(MPI, ListQuery(**query), jobs).items)

    assert found(phase="RUNNING") == ["train-a"]
    assert found(phase=("pending", "failed")) == ["eval", "train-b"]
    assert found(name="train") == ["train-a", "train-b"]
    assert found(name="train-?") == ["train-a", "train-b"]
    assert found(name="tr") == ["train-a", "train-b"]
    assert found(name="a*") == []
    assert found(since=datetime.fromtimestamp(200, UTC)) == ["eval", "train-b"]
    assert found(since=datetime(1970, 1, 1, 0, 3, 20)) == ["eval", "train-b"]
    assert found(name="train", phase="Failed") == ["train-b"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (ListQuery(sort="age"), "cannot sort"),
        (ListQuery(limit=0), "at least 1"),
        (ListQuery(phase="Runing"), "is ever in phase"),
        (ListQuery(token="!!"), "not one of ours"),
        (ListQuery(token="WzFd"), "not one of ours"),
        (ListQuery(token="\u00e9"), "not one of ours"),
    ],
)
def test_mistakes(query: ListQuery, said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        paged(MPI, query, [])


def test_a_token_belongs_to_its_query() -> None:
    jobs = [job(name) for name in "abc"]
    token = paged(MPI, ListQuery(limit=1), jobs).token
    assert names(paged(MPI, ListQuery(limit=2, token=token), jobs).items) == ["b", "c"]
    for other in (ListQuery(sort="-name", token=token), ListQuery(name="a", token=token)):
        with pytest.raises(BadRequest, match="another query"):
            paged(MPI, other, jobs)
    with pytest.raises(BadRequest, match="another query"):
        paged(kind_of("trainingjobs"), ListQuery(token=token), jobs)


@given(
    entries=st.lists(
        st.tuples(
            st.sampled_from("abcdef"),
            st.sampled_from(("x", "y")),
            st.sampled_from(("", "Running", "Failed")),
            st.integers(0, 3),
        ),
        unique_by=lambda entry: entry[:2],
    ),
    sort=st.sampled_from([*SORT_KEYS, *(f"-{key}" for key in SORT_KEYS)]),
    limit=st.integers(1, 5),
    seed=st.integers(0, 99),
)
def test_pages_put_together_are_the_list(
    entries: list[tuple[str, str, str, int]], sort: str, limit: int, seed: int
) -> None:
    jobs = [job(name, phase, created, namespace) for name, namespace, phase, created in entries]
    whole = paged(MPI, ListQuery(sort=sort), jobs)
    assert whole.total == len(jobs) and not whole.token
    random.Random(seed).shuffle(jobs)
    assert everything(ListQuery(sort=sort, limit=limit), jobs) == whole.items


def test_pages_hold_still_while_objects_come_and_go() -> None:
    jobs = [job(name) for name in "bdfh"]
    first = paged(MPI, ListQuery(limit=2), jobs)
    assert names(first.items) == ["b", "d"]
    changed = [job(name) for name in "abcefgh"]  # d is gone
    rest = paged(MPI, ListQuery(limit=9, token=first.token), changed)
    assert names(rest.items) == ["e", "f", "g", "h"]
