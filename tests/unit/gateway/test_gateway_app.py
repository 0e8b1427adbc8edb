from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from corral.client import errors
from corral.client.explain.explanation import Explanation
from corral.client.kinds import KINDS
from corral.client.logs.frames import MEDIA_TYPE, FrameReader
from corral.client.queries import Page
from corral.gateway.limits import LimitSettings
from corral.gateway.service import Created
from corral.kube.connection.transport import KubeConnectionError
from tests.unit.gateway.gateway_stage import TOKEN, Reply, Stage, job, path, settle

ETAG = '"u-pi.7"'


@pytest.fixture
def stage() -> Stage:
    return Stage()


async def test_without_a_token_nobody_is_answered(stage: Stage) -> None:
    for method, where in (("GET", path()), ("POST", path()), ("GET", "/api/v1/nothing")):
        reply = await stage.ask(method, where, token=None)
        assert reply.status == 401
        assert reply.headers["www-authenticate"].startswith("Bearer")
        assert reply.headers["content-type"] == "application/problem+json"
    assert stage.gateway.asked == []
    assert [line["code"] for line in stage.audit] == [401, 401, 401]


async def test_an_object(stage: Stage) -> None:
    reply = await stage.ask("GET", path("/pi"))
    assert (reply.status, reply.json(), reply.headers["etag"]) == (200, job(), ETAG)
    assert stage.gateway.asked[0][1] | {"kind": None} == {
        "kind": None, "namespace": "a", "name": "pi",
    }  # fmt: skip


async def test_an_object_that_was_seen_is_not_sent_again(stage: Stage) -> None:
    for seen, status in ((ETAG, 304), (f"W/{ETAG}", 304), ("*", 304), ('"other"', 200)):
        reply = await stage.ask("GET", path("/pi"), headers={"If-None-Match": seen})
        assert (reply.status, reply.headers["etag"]) == (status, ETAG)
        assert bool(reply.body) == (status == 200)
    assert (await stage.ask("GET", path("/pi"), headers={"If-None-Match": "x"})).status == 400


async def test_a_create_says_where_it_is_and_a_repetition_that_it_is_one(stage: Stage) -> None:
    made = await stage.ask("POST", path(), {"spec": {}}, headers={"Idempotency-Key": "k"})
    assert (made.status, made.headers["location"]) == (201, path("/pi"))
    asked = stage.gateway.asked[0][1]
    assert asked["idempotency_key"] == "k"
    assert asked["obj"]["kind"] == "TrainingJob"
    assert asked["obj"]["metadata"] == {"namespace": "a"}
    stage.gateway.answers["create"] = Created(job(), repeated=True)
    again = await stage.ask("POST", path(), {"spec": {}}, headers={"Idempotency-Key": "k"})
    assert (again.status, again.headers["idempotency-replayed"]) == (200, "true")
    dry = await stage.ask("POST", path("?dryRun=true"), {"spec": {}})
    assert dry.status == 200
    assert "location" not in dry.headers


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{", {}, 400),
        (b"[]", {}, 400),
        (b"", {}, 400),
        (b"{}", {"Content-Type": "text/plain"}, 415),
        ({"kind": "MPIJob"}, {}, 422),
        ({"metadata": []}, {}, 422),
        ({"metadata": {"namespace": "b"}}, {}, 422),
        ({}, {"Idempotency-Key": "a b"}, 400),
        (b'{"a":"' + b"x" * 2000 + b'"}', {}, 413),
    ],
)
async def test_bodies_that_are_refused(body: Any, headers: dict[str, str], status: int) -> None:
    stage = Stage(LimitSettings(body_bytes=1000))
    reply = await stage.ask("POST", path(), body, headers=headers)
    assert reply.status == status, reply.body
    assert reply.json()["status"] == status
    assert stage.gateway.asked == []


async def test_a_change_names_what_was_seen(stage: Stage) -> None:
    await stage.ask("PUT", path("/pi"), {"spec": {}}, headers={"If-Match": ETAG})
    await stage.ask("POST", path("/pi/restart?force=true"), headers={"If-Match": ETAG})
    await stage.ask("POST", path("/pi/suspend"))
    for verb, asked in stage.gateway.asked[:2]:
        assert asked["if_match"].tags == (ETAG,), verb
    assert stage.gateway.asked[1][1]["force"] is True
    assert stage.gateway.asked[2][1]["if_match"] is None


async def test_deleting_says_whether_it_is_gone(stage: Stage) -> None:
    stage.gateway.answers["delete"] = {"kind": "Status"}
    gone = await stage.ask("DELETE", path("/pi?propagation=Foreground"))
    assert (gone.status, gone.json()["deleted"]) == (200, True)
    assert stage.gateway.asked[0][1]["propagation"] == "Foreground"
    stage.gateway.answers["delete"] = job()
    going = await stage.ask("DELETE", path("/pi"))
    assert (going.status, going.json()["deleted"]) == (202, False)


async def test_a_list_has_a_link_to_the_next_page(stage: Stage) -> None:
    stage.gateway.answers["list"] = Page([job()], token="t1", total=9, resource_version="12")
    reply = await stage.ask("GET", path("?limit=1&phase=Running&phase=Failed&labelSelector=a%3Db"))
    assert reply.headers["x-total-count"] == "9"
    link = reply.headers["link"]
    assert link == (
        f'<{path()}?limit=1&phase=Running&phase=Failed&labelSelector=a%3Db&token=t1>; rel="next"'
    )
    assert reply.json()["metadata"] == {"resourceVersion": "12", "total": 9, "continue": "t1"}
    query = stage.gateway.asked[0][1]["query"]
    assert (query.limit, query.phases, query.labels) == (1, ("Running", "Failed"), "a=b")
    everywhere = await stage.ask("GET", "/api/v1/trainingjobs")
    assert everywhere.status == 200
    assert stage.gateway.asked[1][1]["namespace"] is None


async def test_scale(stage: Stage) -> None:
    for body, status in (
        ({"replicas": 3}, 200), ({"replicas": -1}, 422), ({"replicas": True}, 422),
        ({"replicas": "3"}, 422), ({}, 422),
    ):  # fmt: skip
        assert (await stage.ask("PUT", path("/pi/scale"), body)).status == status
    assert [asked["replicas"] for _, asked in stage.gateway.asked] == [3]


async def test_explain_and_events(stage: Stage) -> None:
    stage.gateway.answers["explain"] = Explanation(
        "Pending", "it waits", ("no node",), ("add one",)
    )
    stage.gateway.answers["events"] = [{"reason": "Created"}]
    assert (await stage.ask("GET", path("/pi/explain"))).json()["headline"] == "it waits"
    assert (await stage.ask("GET", path("/pi/events"))).json() == {"items": [{"reason": "Created"}]}


async def test_refusals_of_the_api_are_problems(stage: Stage) -> None:
    who = errors.Forbidden("user x may not get", hint="ask an admin", user="x")
    stage.gateway.answers["get"] = who
    reply = await stage.ask("GET", path("/pi"), headers={"X-Request-Id": "mine-1"})
    said = reply.json()
    assert (reply.status, said["detail"], said["hint"]) == (
        403,
        "user x may not get",
        "ask an admin",
    )
    assert said["requestId"] == reply.headers["x-request-id"] == "mine-1"
    assert said["instance"] == path("/pi")


async def test_a_mistake_of_ours_is_a_500_with_its_request_id(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stage.gateway.answers["get"] = RuntimeError("inside")
    reply = await stage.ask("GET", path("/pi"))
    assert reply.status == 500
    assert b"inside" not in reply.body
    assert reply.json()["requestId"] in caplog.text


async def test_request_ids_that_could_do_harm_are_replaced(stage: Stage) -> None:
    reply = await stage.ask("GET", path("/pi"), headers={"X-Request-Id": 'a"b c'})
    assert reply.headers["x-request-id"] != 'a"b c'


async def test_methods_that_can_be_used_are_named(stage: Stage) -> None:
    reply = await stage.ask("PATCH", path("/pi"))
    assert (reply.status, reply.headers["allow"]) == (405, "DELETE, GET, PUT")


async def test_a_rate_is_of_a_user() -> None:
    stage = Stage(LimitSettings(rate=0.001, burst=2))
    stage.gateway.users["another"] = "another"
    codes = [(await stage.ask("GET", path("/pi"))).status for _ in range(3)]
    assert codes == [200, 200, 429]
    assert (await stage.ask("GET", path("/pi"), token="another")).status == 200
    over = await stage.ask("GET", path("/pi"))
    assert int(over.headers["retry-after"]) >= 1
    assert (await stage.ask("GET", "/healthz", token=None)).status == 200


async def test_strangers_have_a_rate_by_address() -> None:
    stage = Stage(LimitSettings(rate=0.001, burst=1))
    codes = [(await stage.ask("GET", path("/pi"), token=None)).status for _ in range(2)]
    assert codes == [401, 429]


async def test_what_takes_too_long_is_ended() -> None:
    stage = Stage(LimitSettings(request_seconds=0.05))
    stage.gateway.hold = asyncio.Event()
    reply = await stage.ask("GET", path("/pi"))
    assert (reply.status, reply.json()["type"]) == (504, "urn:corral:problem:timeout")


async def test_only_so_many_at_a_time() -> None:
    stage = Stage(LimitSettings(requests=1, waiting=0))
    stage.gateway.hold = asyncio.Event()
    async with stage.open("GET", path("/pi")) as (first, _, _):
        await settle(lambda: stage.gateway.asked)
        second = await stage.ask("GET", path("/pi"))
        assert (second.status, second.headers["retry-after"]) == (503, "1")
        stage.gateway.hold.set()
    assert first.status == 200


async def test_pages_for_everybody(stage: Stage) -> None:
    for where, media in (
        ("/healthz", "text/plain"), ("/readyz", "text/plain"), ("/metrics", "text/plain"),
        ("/openapi.json", "application/json"), ("/docs", "text/html"),
        ("/docs.js", "text/javascript"), ("/docs.css", "text/css"),
        ("/api/v1", "application/json"),
    ):  # fmt: skip
        reply = await stage.ask("GET", where, token=None)
        assert (reply.status, reply.headers["content-type"].split(";")[0]) == (200, media)
        assert (await stage.ask("POST", where, token=None)).status == 405
    kinds = (await stage.ask("GET", "/api/v1", token=None)).json()["kinds"]
    assert [kind["plural"] for kind in kinds] == [kind.plural for kind in KINDS]


async def test_the_page_takes_nothing_from_elsewhere(stage: Stage) -> None:
    for where in ("/docs", "/docs.js", "/docs.css"):
        reply = await stage.ask("GET", where, token=None)
        assert b"http://" not in reply.body
        assert b"https://" not in reply.body
        assert b"//cdn" not in reply.body
        assert "default-src 'none'" in reply.headers["content-security-policy"]


async def test_it_is_not_ready_without_an_api_server(stage: Stage) -> None:
    stage.reach.error = KubeConnectionError("refused")
    assert (await stage.ask("GET", "/readyz", token=None)).status == 503
    assert (await stage.ask("GET", "/healthz", token=None)).status == 200


async def test_it_is_not_ready_when_it_stops(stage: Stage) -> None:
    await stage.app.close()
    assert (await stage.ask("GET", "/readyz", token=None)).status == 503


async def test_audit_lines_say_who_did_what(stage: Stage) -> None:
    await stage.ask("DELETE", path("/pi"))
    [line] = stage.audit
    assert {**line, "time": "", "seconds": 0, "request_id": ""} == {
        "time": "", "seconds": 0, "request_id": "", "protocol": "rest", "user": "somebody",
        "address": "192.0.2.1", "verb": "delete", "resource": "trainingjobs", "namespace": "a",
        "name": "pi", "code": 202, "result": "ok",
    }  # fmt: skip


async def test_no_token_in_any_log(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    stage.gateway.answers["get"] = RuntimeError("inside")
    for where in ("/pi", "/pi/status", "/pi/logs", "/pi?x=1", "/PI"):
        await stage.ask("GET", path(where))
    await stage.ask("GET", path("/pi"), token=f"{TOKEN} {TOKEN}")
    assert TOKEN not in caplog.text
    assert TOKEN.encode() not in b"".join(stage.lines)
    assert TOKEN not in (await stage.ask("GET", "/metrics", token=None)).body.decode()


async def test_logs_are_bytes_as_they_are(stage: Stage) -> None:
    stage.gateway.chunks = [b"one\n", b"two \xff\n"]
    reply = await stage.ask("GET", path("/pi/logs?tailLines=5&timestamps=true&role=worker&index=2"))
    assert (reply.status, reply.body, reply.whole) == (200, b"one\ntwo \xff\n", True)
    assert reply.headers["content-type"].startswith("text/plain")
    query = stage.gateway.asked[0][1]["query"]
    assert (query.tail_lines, query.timestamps, query.roles) == (5, True, ("worker", 2))


async def test_logs_in_frames_have_places(stage: Stage) -> None:
    stage.gateway.chunks = [b"one\n", b"two\n"]
    reply = await stage.ask("GET", path("/pi/logs"), headers={"Accept": MEDIA_TYPE})
    reader = FrameReader()
    frames = list(reader.feed(reply.body))
    assert [(found.data, str(found.position)) for found in frames] == [
        (b"one\n", "place-0"), (b"two\n", "place-1"),
    ]  # fmt: skip
    assert reader.between


async def test_logs_of_a_launcher_and_of_a_worker(stage: Stage) -> None:
    for rest, roles in (("launcher", ("launcher",)), ("worker/3", ("worker", 3))):
        await stage.ask("GET", path(f"/pi/logs/{rest}", "mpijobs"))
        assert stage.gateway.asked[-1][1]["query"].roles == roles


async def test_logs_that_are_refused(stage: Stage) -> None:
    assert (await stage.ask("GET", path("/pi/logs?index=1"))).status == 400
    odd = await stage.ask("GET", path("/pi/logs"), headers={"Accept": "image/png"})
    assert odd.status == 406
    stage.gateway.answers["logs"] = errors.NotFound("there is none")
    assert (await stage.ask("GET", path("/pi/logs"))).status == 404


async def test_a_log_that_is_cut_by_time_says_that_there_is_more() -> None:
    stage = Stage(LimitSettings(log_seconds=0.05))
    stage.gateway.hold = asyncio.Event()
    stage.gateway.chunks = [b"one\n"]
    reply = await stage.ask("GET", path("/pi/logs?follow=true"), headers={"Accept": MEDIA_TYPE})
    reader = FrameReader()
    assert [found.data for found in reader.feed(reply.body)] == [b"one\n", b""]
    assert reader.more
    assert reply.whole


async def test_a_caller_who_leaves_ends_his_log(stage: Stage) -> None:
    stage.gateway.hold = asyncio.Event()
    stage.gateway.chunks = [b"one\n"]
    reply = Reply()
    async with stage.open("GET", path("/pi/logs?follow=true"), reply=reply) as (_, leave, news):
        await news.wait()
        leave.set()
    assert not reply.whole
    assert stage.shared.streams.total == 0


async def test_streams_are_counted_and_bounded() -> None:
    stage = Stage(LimitSettings(streams_each=1))
    async with stage.open("GET", path("/pi/watch")) as (_, leave, news):
        await news.wait()
        assert stage.shared.streams.total == 1
        assert (await stage.ask("GET", path("/pi/watch"))).status == 503
        leave.set()
    assert stage.shared.streams.total == 0
