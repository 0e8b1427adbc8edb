"""What is looked at for an explanation, and whose events are whose."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web
from jobs_fake_api import answer, condition, listed, mpijob, pod, refuse, serving

from corral.client import Jobs
from corral.client.errors import NotInstalled
from corral.client.events import Family, event_time, in_order
from corral.client.explain.evidence import Evidence, gathered
from corral.client.kinds import kind_of

MPI = kind_of("mpijobs")
NOW = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
Obj = dict[str, Any]


class Server:
    """Answers by the last parts of a path; what it does not have is not found."""

    def __init__(self, **answers: Obj | web.Response) -> None:
        self.answers = answers

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        *_, plural, name = ["", *request.path.split("/")]
        for key in (f"{plural}_{name}", name):
            found = self.answers.get(key.replace("-", "_"))
            if found is not None:
                return found if isinstance(found, web.Response) else answer(found)
        return refuse(404, "NotFound", "no", name=name, kind=plural)


async def seen(**answers: Any) -> Evidence:
    answers = {"pi": mpijob("pi", "1", condition("Running")), "events": listed("1"), **answers}
    async with serving(Server(**answers)) as client:
        return await gathered(Jobs(client), MPI, "ns", "pi", now=NOW)


def node(ready: str) -> Obj:
    return {"status": {"conditions": [condition("Ready", ready)]}}


def lease(renewed: str, holder: str = "me") -> Obj:
    return {"spec": {"renewTime": renewed, "holderIdentity": holder, "leaseDurationSeconds": 15}}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (node("True"), {}),
        (node("False"), {"n1": "is not ready"}),
        (node("Unknown"), {"n1": "does not answer"}),
        (None, {"n1": "is gone"}),
        ("forbidden", {}),
    ],
)
async def test_nodes(found: Any, said: dict[str, str]) -> None:
    answers = {} if found is None else {"n1": found}
    if found == "forbidden":
        answers = {"n1": refuse(403, "Forbidden", "no")}
    result = await seen(pods=listed("1", pod("pi-worker-0")), **answers)
    assert result.lost_nodes == said


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (lease("2026-01-01T00:00:55.000000Z"), "running"),
        (lease("2026-01-01T00:00:00.000000Z"), "away"),
        (lease("2026-01-01T00:00:55.000000Z", holder=""), "away"),
        (None, "unknown"),
        ("forbidden", "unknown"),
    ],
)
async def test_the_operator(found: Any, state: str) -> None:
    answers = {} if found is None else {"corral_operator": found}
    if found == "forbidden":
        answers = {"corral_operator": refuse(403, "Forbidden", "no")}
    assert (await seen(pods=listed("1"), **answers)).operator == state


async def test_what_may_not_be_read_is_left_out_and_said() -> None:
    denied = 'pods is forbidden: User "ann" cannot list resource "pods" in API group "" in the x'
    result = await seen(pods=refuse(403, "Forbidden", denied), events=refuse(500, "InternalError"))
    assert result.pods == () and result.events == ()
    assert any("ann may not list pods" in said for said in result.unread)
    assert len(result.unread) == 2


async def test_the_job_itself_must_be_there() -> None:
    with pytest.raises(NotInstalled):
        await seen(pi=refuse(404, "NotFound", "the server could not find the requested resource"))


def event(
    kind: str, name: str, uid: str = "", at: str = "2026-01-01T00:00:30Z", rv: int = 1
) -> Obj:
    return {
        "metadata": {"resourceVersion": str(rv)},
        "involvedObject": {"kind": kind, "name": name, "uid": uid},
        "lastTimestamp": at,
    }


@pytest.mark.parametrize(
    ("given", "ours"),
    [
        (event("MPIJob", "pi", "uid-pi"), True),
        (event("MPIJob", "pi", "of-one-before"), False),
        (event("MPIJob", "pi"), True),
        (event("MPIJob", "pi-2"), False),
        (event("Pod", "pi-worker-0", "uid-pi-worker-0"), True),
        (event("Pod", "pi-worker-0", "gone"), True),
        (event("Pod", "pi-worker-0", "gone", at="2025-12-31T23:00:00Z"), False),
        (event("Pod", "pi-launcher-abcde"), True),
        (event("Job", "pi-launcher"), True),
        (event("Pod", "pi-0"), True),
        (event("Pod", "pi-2-worker-0"), False),
        (event("Pod", "pie-worker-0"), False),
        (event("Node", "pi-0"), False),
    ],
)
def test_whose_event_it_is(given: Obj, ours: bool) -> None:
    family = Family(MPI, mpijob("pi"), [pod("pi-worker-0")])
    assert family.has(given) is ours


def test_events_are_in_order() -> None:
    late = event("Pod", "a", at="2026-01-01T00:00:31Z")
    second, first = event("Pod", "b", rv=12), event("Pod", "c", rv=9)
    series = {"series": {"lastObservedTime": "2026-01-01T00:00:40.5Z"}, "lastTimestamp": None}
    assert in_order([late, second, series, first]) == [first, second, late, series]
    assert event_time({}).year == 1970
    assert event_time({"eventTime": "2026-01-01T00:00:00.000001Z"}).microsecond == 1
