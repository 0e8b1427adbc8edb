from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry
from runtime_fakes import Clock, fake_cluster, now, obj, refusal, virtual

from corral.kube.types import Obj
from corral.runtime import EventCorrelator, EventRecorder, RuntimeMetrics
from corral.runtime.events.correlation import event_name, make_event

EVENTS = "/api/v1/namespaces/ns/events"


class Speaker:
    """Makes events and gives them to a correlator, with time under control."""

    def __init__(self) -> None:
        self.clock = Clock(1000)
        self.correlator = EventCorrelator(clock=self.clock)

    def say(
        self, message: str, *, name: str = "a", reason: str = "Why", type: str = "Normal"
    ) -> Any:
        event = make_event(
            obj(name), type=type, reason=reason, message=message, component="c", host="h",
            nanoseconds=int(self.clock.now * 1e9),
        )  # fmt: skip
        return self.correlator.correlate(event)


def test_an_event_has_what_the_api_wants() -> None:
    event = make_event(
        obj("a", metadata={"resourceVersion": "7"}), type="Warning", reason="Broken", message="m",
        component="comp", host="node", nanoseconds=1700000000 * 10**9,
    )  # fmt: skip
    assert event == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "a.17979cfe362a0000", "namespace": "ns"},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "a",
            "namespace": "ns",
            "uid": "uid-a",
            "resourceVersion": "7",
        },
        "type": "Warning",
        "reason": "Broken",
        "message": "m",
        "source": {"component": "comp", "host": "node"},
        "reportingComponent": "comp",
        "reportingInstance": "node",
        "firstTimestamp": "2023-11-14T22:13:20Z",
        "lastTimestamp": "2023-11-14T22:13:20Z",
        "count": 1,
    }


def test_events_about_cluster_scoped_objects_are_in_default() -> None:
    node = {"kind": "Node", "metadata": {"name": "n"}}
    event = make_event(
        node, type="Normal", reason="R", message="", component="c", host="", nanoseconds=0
    )
    assert event["metadata"]["namespace"] == "default"
    assert "namespace" not in event["involvedObject"] and event["source"] == {"component": "c"}


def test_names_that_would_be_too_long() -> None:
    assert event_name("a", 10**9) == "a.3b9aca00"
    assert len(event_name("a" * 253, 1)) == 36


def test_the_same_event_again_is_counted() -> None:
    speaker = Speaker()
    first = speaker.say("m")
    assert first.patch is None and first.event["count"] == 1
    speaker.clock.now += 60
    second = speaker.say("m")
    assert second.patch == {"count": 2, "lastTimestamp": "1970-01-01T00:17:40Z", "message": "m"}
    assert second.event["metadata"]["name"] == first.event["metadata"]["name"]
    assert second.event["firstTimestamp"] == first.event["firstTimestamp"]
    assert speaker.say("m").patch["count"] == 3


def test_other_objects_reasons_and_messages_are_counted_apart() -> None:
    speaker = Speaker()
    said = [speaker.say("m"), speaker.say("n"), speaker.say("m", reason="Other")]
    said += [speaker.say("m", name="b"), speaker.say("m", type="Warning")]
    assert [s.patch for s in said] == [None] * 5


def test_many_similar_events_become_one() -> None:
    speaker = Speaker()
    said = [speaker.say(f"message {n}") for n in range(12)]
    assert [s.event["message"] for s in said[8:]] == [
        "message 8",
        "(combined from similar events): message 9",
        "(combined from similar events): message 10",
        "(combined from similar events): message 11",
    ]
    assert [s.patch and s.patch["count"] for s in said[8:]] == [None, None, 2, 3]
    assert said[11].patch["message"] == "(combined from similar events): message 11"
    assert len({s.event["metadata"]["name"] for s in said[9:]}) == 1


def test_similar_events_long_apart_stay_apart() -> None:
    speaker = Speaker()
    for n in range(9):
        speaker.say(f"message {n}")
    speaker.clock.now += 601
    assert speaker.say("message 9").event["message"] == "message 9"


def test_the_same_message_is_never_combined() -> None:
    speaker = Speaker()
    counts = [speaker.say("m").event["count"] for _ in range(20)]
    assert counts == list(range(1, 21))


def test_spam_is_held_back_but_counted() -> None:
    speaker = Speaker()
    said = [speaker.say("m") for _ in range(30)]
    assert all(said[:25]) and not any(said[25:])
    assert speaker.say("m", name="b") is not None
    assert speaker.say("m", type="Warning") is not None
    speaker.clock.now += 300
    assert speaker.say("m").event["count"] == 31
    assert speaker.say("m") is None


def test_old_memories_go() -> None:
    speaker = Speaker()
    speaker.say("m")
    for n in range(4096):
        speaker.say("m", name=f"other-{n}")
    assert speaker.say("m").patch is None


# --- the recorder --------------------------------------------------------------------------------


def stored(cluster: Any) -> list[Obj]:
    return [value for path, value in cluster.objects.items() if path.startswith(EVENTS)]


@virtual
async def test_events_are_written_and_counted_up() -> None:
    async with fake_cluster() as (cluster, client):
        recorder = EventRecorder(client, "c", host="h", clock=now, wall=now)
        running = asyncio.create_task(recorder.run())
        for _ in range(3):
            recorder.normal(obj("a"), "Started", "it runs")
        recorder.warning(obj("a"), "Broken", "x" * 2000)
        await recorder.flush()
        first, second = stored(cluster)
        assert (first["reason"], first["type"], first["count"]) == ("Started", "Normal", 3)
        assert second["type"] == "Warning" and len(second["message"]) == 1024
        assert [m for m, _, _ in cluster.requests] == ["POST", "PATCH", "PATCH", "POST"]
        # One that has expired on the server is made anew, with its count.
        cluster.objects.clear()
        recorder.normal(obj("a"), "Started", "it runs")
        await recorder.flush()
        assert [event["count"] for event in stored(cluster)] == [4]
        running.cancel()
        await asyncio.wait({running})


@virtual
async def test_a_full_queue_drops_and_never_waits() -> None:
    async with fake_cluster() as (_, client):
        metrics = RuntimeMetrics(CollectorRegistry())
        recorder = EventRecorder(client, "c", size=1000, metrics=metrics, clock=now, wall=now)
        for n in range(1005):
            recorder.normal(obj(f"o{n}"), "R", "m")
        assert recorder.dropped == 5
        why = {"why": "queue full"}
        assert metrics.registry.get_sample_value("corral_events_dropped_total", why) == 5


@virtual
async def test_refused_events_are_dropped() -> None:
    async with fake_cluster() as (cluster, client):

        async def refuse(request: web.Request) -> web.StreamResponse | None:
            return refusal(403, "Forbidden")

        recorder = EventRecorder(client, "c", clock=now, wall=now)
        running = asyncio.create_task(recorder.run())
        cluster.intercept = refuse
        recorder.normal(obj("a"), "R", "m")
        await recorder.flush()
        cluster.intercept = None
        recorder.normal(obj("b"), "R", "m")
        await recorder.flush()
        assert [e["involvedObject"]["name"] for e in stored(cluster)] == ["b"]
        running.cancel()
        await asyncio.wait({running})


@pytest.mark.parametrize(("fails", "written"), [(11, 1), (12, 0)])
def test_a_server_that_is_away_is_waited_for(fails: int, written: int) -> None:
    @virtual
    async def test() -> None:
        async with fake_cluster() as (cluster, client):
            times: list[float] = []

            async def away(request: web.Request) -> web.StreamResponse | None:
                times.append(now())
                if len(times) <= fails:
                    assert request.transport is not None
                    request.transport.abort()
                    return web.Response()
                return None

            cluster.intercept = away
            recorder = EventRecorder(client, "c", clock=now, wall=now, rng=lambda: 0.5)
            running = asyncio.create_task(recorder.run())
            recorder.normal(obj("a"), "R", "m")
            await recorder.flush()
            assert len(times) == 12
            waits = [b - a for a, b in pairwise(times)]
            assert waits == pytest.approx([5.0] + [10.0] * 10, abs=0.5)
            assert len(stored(cluster)) == written
            running.cancel()
            await asyncio.wait({running})

    test()
