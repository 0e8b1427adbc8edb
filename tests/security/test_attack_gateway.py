"""Floods at a gateway: with forged tokens, with many tokens of one user, from many addresses."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, ExitStack, suppress
from typing import Any

import grpc
import pytest

from corral.cli.commands.cluster import _no_boundary
from corral.client.errors import Forbidden, Unauthorized, Unavailable
from corral.client.kinds import kind_of
from corral.gateway.audit import Names
from corral.gateway.auth import Caller
from corral.gateway.clients import ClientPool, Upstream
from corral.gateway.limits import Busy, LimitSettings, place_of
from corral.gateway.service import Gateway, GatewaySettings
from corral.kube.connection.config import ClusterConfig
from corral.v1.jobs_pb2 import GetRequest
from corral.v1.jobs_pb2_grpc import JobServiceStub
from tests.unit.gateway.gateway_stage import FakeGateway, Stage, settle
from tests.unit.gateway.test_gateway_app import path
from tests.unit.gateway_grpc import grpc_stage


async def codes(stage: Stage, tokens: list[str]) -> list[int]:
    return [(await stage.ask("GET", path("/pi"), token=token)).status for token in tokens]


@pytest.mark.attack(
    "gateway", "Sends 600 forged tokens in a second", "429 after a few, and few reviews"
)
async def test_forged_tokens() -> None:
    stage = Stage()
    found = await codes(stage, [f"forged-{number}" for number in range(600)])
    assert set(found) == {401, 429}
    assert found.count(401) <= LimitSettings().failure_burst + 2
    assert stage.gateway.reviews <= LimitSettings().failure_burst + 2
    assert stage.gateway.asked == [], "nothing was asked with them"


@pytest.mark.attack("gateway", "Repeats one forged token", "It is refused, then slowed down")
async def test_one_forged_token() -> None:
    stage = Stage(LimitSettings(failure_rate=0.001, failure_burst=3))
    assert await codes(stage, ["forged"] * 6) == [401, 401, 401, 429, 429, 429]


@pytest.mark.attack("gateway", "Floods from an address that others use", "Known users go on")
async def test_users_who_are_known_go_on() -> None:
    stage = Stage(LimitSettings(failure_rate=0.001, failure_burst=3))
    assert await codes(stage, ["good"]) == [200]
    await codes(stage, [f"forged-{number}" for number in range(50)])
    assert await codes(stage, ["good"]) == [200]
    assert await codes(stage, ["new"]) == [429], "from there nobody new is let in for a while"


@pytest.mark.attack(
    "gateway",
    "Floods from an address that others use, for longer than it remembers a token's name",
    "Those who were known go on; a token that has ended is a stranger's",
)
async def test_users_who_were_known_go_on() -> None:
    stage = Stage(LimitSettings(rate=0.001, burst=8, failure_rate=0.001, failure_burst=3))
    assert await codes(stage, ["good", "ended"]) == [200, 200]
    await codes(stage, [f"forged-{number}" for number in range(50)])
    an_hour = time.monotonic() + 3600
    stage.shared.names._clock = lambda: an_hour
    stage.gateway.forged.add("ended")
    assert await codes(stage, ["good", "good", "good"]) == [200, 200, 200]
    reviews = stage.gateway.reviews
    assert await codes(stage, ["ended", "ended", "ended"]) == [429, 429, 429]
    assert stage.gateway.reviews == reviews + 1


@pytest.mark.attack("gateway", "Uses many tokens of one user", "They share one rate")
@pytest.mark.route("gateway, shares of it")
async def test_many_tokens_of_one_user() -> None:
    stage = Stage(LimitSettings(rate=0.001, burst=4))
    for number in range(4):
        stage.gateway.users[f"t{number}"] = "mallory"
    stage.gateway.users["other"] = "alice"
    assert await codes(stage, ["t0", "t1", "t2"]) == [200, 200, 200]
    assert await codes(stage, ["t0", "t1"]) == [200, 429]
    stage = Stage(LimitSettings(rate=0.001, burst=2))
    stage.gateway.users |= {"t0": "mallory", "other": "alice"}
    assert await codes(stage, ["t0", "t0", "t0"]) == [200, 200, 429]
    assert await codes(stage, ["other"]) == [200]


@pytest.mark.attack("gateway", "Opens streams with many tokens", "A user has so many streams")
@pytest.mark.route("gateway, shares of it")
async def test_streams_are_of_a_user() -> None:
    stage = Stage(LimitSettings(streams_each=1))
    stage.gateway.users |= {"t0": "mallory", "t1": "mallory"}
    async with stage.open("GET", path("/pi/watch"), token="t0") as (_, leave, news):
        await news.wait()
        assert (await stage.ask("GET", path("/pi/watch"), token="t1")).status == 503
        leave.set()


@pytest.mark.attack(
    "gateway",
    "Uses many tokens of a user who may not ask the API server who it is",
    "They count by address",
)
@pytest.mark.route("gateway, shares of it")
async def test_streams_of_those_who_may_not_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    async def who(self: FakeGateway, caller: Caller) -> str:
        raise Forbidden("selfsubjectreviews are not for you")

    monkeypatch.setattr(FakeGateway, "who", who)
    stage = Stage(LimitSettings(streams_each=1))
    async with stage.open("GET", path("/pi/watch"), token="t0") as (_, leave, news):
        await news.wait()
        assert (await stage.ask("GET", path("/pi/watch"), token="t1")).status == 503
        leave.set()


def account(number: int, namespace: str = "mallory") -> str:
    return f"system:serviceaccount:{namespace}:sa{number}"


def crowd(stage: Stage, count: int = 20) -> list[str]:
    """Tokens of as many service accounts of one namespace."""
    tokens = [f"t{number}" for number in range(count)]
    stage.gateway.users |= {token: account(number) for number, token in enumerate(tokens)}
    stage.gateway.users |= {"alice": account(0, "alice")}
    return tokens


@pytest.mark.attack(
    "gateway",
    "Makes 20 service accounts in its namespace and asks as each of them",
    "They share one rate; the audit log names each",
)
@pytest.mark.route("gateway, shares of it")
async def test_service_accounts_of_a_namespace_share_a_rate() -> None:
    stage = Stage(LimitSettings(rate=0.001, burst=40))
    tokens = crowd(stage)
    assert await codes(stage, tokens) == [200] * 20
    assert set(await codes(stage, tokens * 2)) == {200, 429}
    assert await codes(stage, tokens) == [429] * 20
    assert {line["user"] for line in stage.audit[:20]} == {account(n) for n in range(20)}
    stage = Stage(LimitSettings(rate=0.001, burst=25))
    tokens = crowd(stage)
    assert await codes(stage, tokens) == [200] * 20
    an_hour = time.monotonic() + 3600
    stage.shared.names._clock = lambda: an_hour
    assert await codes(stage, tokens) == [200] * 5 + [429] * 15, "names are asked for again"


@pytest.mark.attack(
    "gateway",
    "Opens streams as many service accounts of its namespace",
    "They share the streams that a user has",
)
@pytest.mark.route("gateway, shares of it")
async def test_service_accounts_of_a_namespace_share_streams() -> None:
    stage = Stage(LimitSettings(streams_each=1))
    crowd(stage)
    async with stage.open("GET", path("/pi/watch"), token="t0") as (_, leave, news):
        await news.wait()
        assert (await stage.ask("GET", path("/pi/watch"), token="t1")).status == 503
        async with stage.open("GET", path("/pi/watch"), token="alice") as (other, end, news):
            await news.wait()
            assert other.status == 200
            end.set()
        leave.set()


@pytest.mark.attack(
    "gateway",
    "Opens all the streams that there are with users of many namespaces",
    "Each gets less than the ones before; who comes new gets some",
)
@pytest.mark.route("gateway, shares of it")
async def test_streams_are_left_for_others() -> None:
    streams = Stage(LimitSettings(streams=64, streams_each=16)).shared.streams
    counts = []
    with ExitStack() as stack:
        for number in range(8):  # the last of them is everybody else's
            before = streams.total
            with suppress(Busy):
                while True:
                    stack.enter_context(streams.one(f"mallory{number}"))
            counts.append(streams.total - before)
        assert counts == [16, 16, 16, 8, 4, 2, 1, 1], "each at most half of what is left"


@pytest.mark.attack(
    "gateway",
    "Announces bodies that it never sends, until every place is taken",
    "Half of the places and of the waiting stay for others",
)
@pytest.mark.route("gateway, shares of it")
async def test_bodies_that_never_come() -> None:
    stage = Stage(LimitSettings(requests=8, waiting=8))
    tokens = crowd(stage)
    headers = {"content-length": "100", "content-type": "application/json"}
    async with AsyncExitStack() as stack:
        leaves = []
        for number in range(16):
            asked = stage.open("POST", path(), token=tokens[number], headers=headers, silent=True)
            _, leave, _ = await stack.enter_async_context(asked)
            leaves.append(leave)
        await settle(lambda: len(stage.lines) == 8)  # the others were refused
        assert {line["code"] for line in stage.audit} == {503}
        assert await codes(stage, ["alice"] * 3) == [200] * 3
        for leave in leaves:
            leave.set()


@pytest.mark.attack(
    "gateway",
    "Keeps every place busy, over gRPC",
    "Half of the places stay for others",
)
@pytest.mark.route("gateway, shares of it")
async def test_places_of_one_flow_over_grpc() -> None:
    over = asyncio.Event()

    async def slow(**asked: Any) -> Any:
        await over.wait()
        return grpc_stage.OBJECT

    async with grpc_stage.stage(limits=LimitSettings(requests=4, waiting=8)) as stage:
        stage.gateway.answers["get"] = slow
        stub, request = (
            JobServiceStub(stage.channel),
            GetRequest(kind="mpijobs", namespace="n", name="pi"),
        )
        calls = [stub.Get(request, metadata=grpc_stage.BEARER) for _ in range(6)]
        await settle(lambda: len(stage.gateway.asked) == 2)
        other = stub.Get(request, metadata=(("authorization", "Bearer another"),), timeout=20)
        await settle(lambda: len(stage.gateway.asked) == 3)
        assert [caller.user for caller in stage.gateway.callers] == ["somebody"] * 2 + ["another"]
        over.set()
        await asyncio.gather(other, *calls)


@pytest.mark.attack(
    "gateway",
    "Opens a watch with each of 512 tokens of its service accounts, so that no client is left",
    "A namespace holds an eighth of the clients; others are served",
)
@pytest.mark.route("gateway, shares of it")
async def test_clients_are_left_for_others() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    access = Upstream.of(ClusterConfig(f"http://127.0.0.1:{port}"))
    gateway = Gateway(access, settings=GatewaySettings(clients=64))

    async def watch(caller: Caller) -> None:
        async for _ in gateway.watch(caller, kind_of("trainingjobs"), namespace="mallory"):
            raise AssertionError("there is nothing to see")

    callers = [Caller(f"t{number}", user=account(number)) for number in range(64)]
    tasks = [asyncio.create_task(watch(caller)) for caller in callers]
    try:
        await settle(lambda: sum(task.done() for task in tasks) == 56)
        refused = [task.exception() for task in tasks if task.done()]
        assert all(isinstance(error, Unavailable) for error in refused)
        async with asyncio.timeout(30), gateway.lease(Caller("a", user="alice"), streams=True):
            pass
        async with gateway.lease(Caller("more", user=account(99))):
            pass  # streams have not taken what its namespace has for ordinary requests
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await gateway.close()
        server.close()
        await server.wait_closed()


@pytest.mark.attack(
    "gateway",
    "Opens watches with tokens of many namespaces, so that no client is left",
    "No more streams are let in while clients are left; ordinary requests go on",
)
@pytest.mark.route("gateway, shares of it")
async def test_streams_run_out_before_clients() -> None:
    access = Upstream.of(ClusterConfig("http://127.0.0.1:1"))
    clients = ClientPool(access, size=64, idle_seconds=10)
    async with AsyncExitStack() as stack:
        refused = 0
        for number in range(256):
            caller = Caller(f"t{number}", user=account(number, f"mallory{number % 16}"))
            try:
                await stack.enter_async_context(clients.lease(caller, streams=True))
            except Unavailable:
                refused += 1
        assert len(clients) == 256 - refused <= 32
        for number in range(16):
            caller = Caller(f"a{number}", user=f"alice{number}")
            await stack.enter_async_context(clients.lease(caller))
    await clients.close()


# --- models --------------------------------------------------------------------------------------

_MODEL = "/kafkaml/a/results/d.1"


def resting(limits: LimitSettings | None = None) -> Stage:
    """A stage with a result that a model may be put into."""
    stage = Stage(limits)
    crowd(stage)
    stage.gateway.answers["get"] = {
        "metadata": {"name": "d", "namespace": "a", "resourceVersion": "1"},
        "spec": {"suspend": True},
        "status": {"results": [{"id": 1, "status": "stopped", "model": "m"}]},
    }
    return stage


def model(stage: Stage, token: str, size: int | str | None = 100) -> Any:
    """A request that promises a model, and does not send it."""
    headers = {"content-type": "multipart/form-data; boundary=edge"}
    if size is not None:
        headers["content-length"] = str(size)
    return stage.open("POST", _MODEL, token=token, headers=headers, silent=True)


async def refusal(stage: Stage, token: str, size: int | str | None = 100) -> int:
    """The status that is there before anything of the body."""
    async with model(stage, token, size) as (reply, leave, news):
        await news.wait()
        status = int(reply.status)
        leave.set()
    return status


@pytest.mark.attack(
    "gateway",
    "Sends a model of 1 GiB to a result that it may only read",
    "403 before anything of it is read",
)
@pytest.mark.route("gateway, shares of it")
async def test_models_of_those_who_may_not_write() -> None:
    stage = resting()
    stage.gateway.answers["may"] = False
    assert await refusal(stage, "t0", 1 << 30) == 403
    (asked,) = [asked for verb, asked in stage.gateway.asked if verb == "may"]
    assert asked.pop("kind").plural == "federateddeployments"
    assert asked == {"verb": "patch", "namespace": "a", "name": "d", "subresource": "status"}


@pytest.mark.attack(
    "gateway",
    "Sends models with many service accounts at the same time, so that the disk is full",
    "A namespace has a part of the room for them, and all have a bounded one",
)
@pytest.mark.route("gateway, shares of it")
@pytest.mark.parametrize("size", [100, None])
async def test_many_models_at_once(size: int | None) -> None:
    stage = resting(LimitSettings(model_bytes=100, models_bytes=200))
    assert await refusal(stage, "t0", 101) == 413
    assert await refusal(stage, "t0", "9" * 5000) == 413
    async with model(stage, "t0", size) as (_, leave, _news):
        await settle(lambda: stage.shared.uploads._shares.total == 100)
        assert await refusal(stage, "t1", size) == 503
        async with model(stage, "alice", size) as (_, end, _more):
            await settle(lambda: stage.shared.uploads._shares.total == 200)
            assert await refusal(stage, "somebody", size) == 503
            end.set()
        leave.set()
    assert stage.shared.uploads._shares.total == 0


@pytest.mark.attack(
    "gateway",
    "Sends models while little of the disk is free",
    "They are refused; the last of the disk stays free",
)
@pytest.mark.route("gateway, shares of it")
async def test_models_leave_the_disk_free() -> None:
    stage = resting()
    stage.shared.uploads._disk = lambda: (100 << 30, (1 << 30) + 99)
    assert await refusal(stage, "t0") == 503
    stage.shared.uploads._disk = lambda: (1000, 199)
    assert await refusal(stage, "t0") == 503
    stage.shared.uploads._disk = lambda: (1000, 200)
    async with model(stage, "t0") as (reply, leave, _):
        await settle(lambda: stage.shared.uploads._shares.total == 100)
        assert not reply.status
        leave.set()


# --- strangers and addresses ---------------------------------------------------------------------


@pytest.mark.attack("gateway", "Sends no token, or what is none", "It counts by address")
@pytest.mark.parametrize("header", [None, "Basic eDp5", "Bearer", "Bearer ünïcode", "Bearer a b"])
async def test_no_token_at_all(header: str | None) -> None:
    stage = Stage(LimitSettings(rate=0.001, burst=2))
    headers = {"authorization": header} if header else {}
    found = [
        (await stage.ask("GET", path("/pi"), token=None, headers=headers)).status for _ in range(4)
    ]
    assert found == [401, 401, 429, 429]


@pytest.mark.attack("gateway", "Changes its IPv6 address each time", "Its network counts")
def test_addresses_of_one_machine() -> None:
    assert place_of("2001:db8:1:2::1") == place_of("2001:db8:1:2:ffff::9")
    assert place_of("2001:db8:1:2::1") != place_of("2001:db8:1:3::1")
    assert place_of("::ffff:192.0.2.7") == place_of("192.0.2.7") == "192.0.2.7"
    assert place_of("fe80::1%eth0") == place_of("fe80::2%eth1")
    assert place_of("unix") == "unix"


@pytest.mark.attack("gateway", "Shows thousands of tokens that are known", "The memory is bounded")
async def test_known_tokens_are_bounded() -> None:
    async def ask(caller: Caller) -> str:
        return caller.token

    names = Names(ask)
    for number in range(5000):
        await names.of(Caller(f"t{number}"))
    assert len(names._known) == 4096
    assert names.known(Caller("t0")) is None
    assert names.known(Caller("t4999")) == "t4999"


@pytest.mark.attack("gateway", "Sends forged tokens over gRPC", "The same limits hold there")
async def test_forged_tokens_over_grpc() -> None:
    limits = LimitSettings(failure_rate=0.001, failure_burst=3)
    async with grpc_stage.stage(limits=limits) as stage:

        async def nobody(caller: Caller) -> str:
            raise Unauthorized("the API server does not know this token")

        stage.shared.names._ask = nobody
        stub = JobServiceStub(stage.channel)
        found = []
        for number in range(6):
            token = (("authorization", f"Bearer forged-{number}"),)
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await stub.Get(GetRequest(kind="mpijobs", namespace="n", name="pi"), metadata=token)
            found.append(refused.value.code().name)
        assert found == ["UNAUTHENTICATED"] * 3 + ["RESOURCE_EXHAUSTED"] * 3


@pytest.mark.attack(
    "user mode",
    "is another tenant's pod, and connects to what listens on the loopback without a login",
    "`corral up` says that pods share the machine's network, and who is open to whom",
)
def test_the_owner_is_told_of_the_network() -> None:
    facts = {"node": {"name": "corral-1", "isolation": "user"}}
    said = _no_boundary(facts, shared=False)
    assert "share this machine's network" in said and "one user id" in said
    assert "corral-1: mode user" in said and "\n" not in said
    assert _no_boundary({"node": {"name": "corral-1", "isolation": "root"}}, shared=False) == ""
