"""The service layer: clients of callers, ETags, and creates that can be repeated."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.client.errors import BadRequest, Invalid, PreconditionFailed, Unavailable
from corral.client.kinds import kind_of
from corral.gateway.auth import Caller
from corral.gateway.clients import ClientPool, Upstream
from corral.gateway.etags import ETags, etag_of, read_etags
from corral.gateway.idempotency import KEY_ANNOTATION, REQUEST_ANNOTATION, Idempotency
from corral.gateway.service import Gateway
from corral.kube.connection.config import ClusterConfig, ExecPlugin, Impersonation

MPI = kind_of("mpijobs")
ACCESS = Upstream.of(ClusterConfig("http://127.0.0.1:1"))
Obj = dict[str, Any]


# --- clients -------------------------------------------------------------------------------------


def test_no_credential_of_the_configuration_is_left() -> None:
    config = ClusterConfig(
        "https://cluster",
        ca_data=b"ca",
        tls_server_name="name",
        cert_data=b"secret",
        key_data=b"secret",
        cert_file="secret",
        key_file="secret",
        token="secret",
        token_file="secret",
        username="secret",
        password="secret",
        impersonation=Impersonation("secret"),
        exec_plugin=ExecPlugin("secret", "v1"),
    )
    found = Upstream.of(config).as_token("mine")
    values = [getattr(found, name) for name in found.__dataclass_fields__]
    assert "secret" not in repr(values) and b"secret" not in values
    assert (found.token, found.ca_data, found.tls_server_name) == ("mine", b"ca", "name")
    assert "mine" not in repr(found)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def somebody(name: str, address: str = "") -> Caller:
    return Caller(name, address, user=name)


def pool(clock: Clock, size: int = 2) -> ClientPool:
    return ClientPool(ACCESS, size=size, idle_seconds=10, clock=clock)


def closed(lease: Any) -> bool:
    return bool(lease.jobs.client.transport._closed)


async def test_one_client_for_a_token_and_none_for_two() -> None:
    clients = pool(Clock())
    async with (
        clients.lease(somebody("a")) as one,
        clients.lease(somebody("a", "elsewhere")) as same,
    ):
        assert one is same
        async with clients.lease(somebody("b")) as other:
            assert other is not one
            assert other.jobs.client.config.token == "b"
    await clients.close()


async def test_clients_are_closed_when_idle_and_not_while_held() -> None:
    clock = Clock()
    clients = pool(clock, size=9)
    async with AsyncExitStack() as stack:
        held = await stack.enter_async_context(clients.lease(somebody("held")))
        async with clients.lease(somebody("idle")) as idle:
            pass
        clock.now = 11.0
        async with clients.lease(somebody("new")):
            assert closed(idle) and not closed(held)
            assert len(clients) == 2
    clock.now = 30.0
    await clients.close_idle()
    assert len(clients) == 0 and closed(held)
    await clients.close()


async def test_idle_clients_are_closed_though_nobody_comes() -> None:
    clients = ClientPool(ACCESS, size=2, idle_seconds=0.01)
    async with clients.lease(somebody("a")) as lease:
        pass
    async with asyncio.timeout(30):
        await until_empty(clients)
    assert closed(lease)
    async with clients.lease(somebody("a")) as another:
        assert another is not lease
    await clients.close()


async def until_empty(clients: ClientPool) -> None:
    while True:
        if not len(clients):
            return
        await asyncio.sleep(0.01)


async def test_beyond_the_bound_the_oldest_makes_room() -> None:
    clients = pool(Clock(), size=2)
    leases = {}
    for name in ("a", "b"):
        async with clients.lease(somebody(name)) as lease:
            leases[name] = lease
    async with clients.lease(somebody("a")), clients.lease(somebody("c")):
        assert closed(leases["b"]) and not closed(leases["a"])
        with pytest.raises(Unavailable, match="as many callers"):
            async with clients.lease(somebody("d")):
                raise AssertionError("unreachable")
        assert len(clients) == 2
    await clients.close()
    with pytest.raises(Unavailable, match="stopping"):
        async with clients.lease(somebody("a")):
            raise AssertionError("unreachable")


async def test_the_pool_is_never_larger_than_its_bound() -> None:
    clients = pool(Clock(), size=5)

    async def use(name: str) -> None:
        async with clients.lease(somebody(name)):
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        for index in range(200):
            group.create_task(_tolerant(use(str(index))))
    assert len(clients) <= 5
    await clients.close()


async def _tolerant(work: Any) -> None:
    try:
        await work
    except Unavailable:
        return


async def test_a_gateway_closes_its_clients() -> None:
    gateway = Gateway(ACCESS)
    async with gateway.lease(somebody("a")) as jobs, gateway.lease(somebody("a")) as same:
        assert same is jobs
    await gateway.close()
    assert jobs.client.transport._closed


# --- etags ---------------------------------------------------------------------------------------


def obj(uid: str = "u", version: str = "1") -> Obj:
    return {"metadata": {"uid": uid, "resourceVersion": version}}


def test_etags_name_the_object_and_its_version() -> None:
    assert etag_of(obj()) == '"u.1"'
    assert len({etag_of(obj()), etag_of(obj(uid="v")), etag_of(obj(version="2"))}) == 3


@pytest.mark.parametrize(
    ("header", "strong", "weak"),
    [
        ('"u.1"', True, True),
        ('"x", "u.1"', True, True),
        ('  "u.1" ', True, True),
        ('W/"u.1"', False, True),
        ('"u.2"', False, False),
        ("*", True, True),
        ('""', False, False),
    ],
)
def test_comparisons(header: str, strong: bool, weak: bool) -> None:
    tags = read_etags(header)
    assert tags is not None
    assert (tags.holds(obj()), tags.holds_weakly(obj())) == (strong, weak)
    if not strong:
        with pytest.raises(PreconditionFailed):
            tags.demand(obj())


def test_headers_that_are_none() -> None:
    assert read_etags(None) is None and read_etags(" ") is None
    for header in ("u.1", '"u.1', '"a" "b"', 'w/"a"', '"a"x', "*, *", '"' + "a" * 5000 + '"'):
        with pytest.raises(BadRequest, match="double quotes"):
            read_etags(header)


@given(st.text(max_size=40))
def test_any_header_is_read_or_refused(header: str) -> None:
    try:
        found = read_etags(header)
    except BadRequest:
        return
    assert found is None or isinstance(found, ETags)


# --- idempotency ---------------------------------------------------------------------------------


def once(key: str = "k", *, user: str = "ann", body: Obj | None = None) -> Idempotency:
    wanted = body or {"metadata": {"name": "pi"}}
    return Idempotency.of(key, user=user, kind=MPI, namespace="ns", obj=wanted)


def test_marks_are_digests_and_leave_the_request_alone() -> None:
    body = {"metadata": {"name": "pi", "annotations": {"a": "b"}}, "spec": {}}
    marked = once("my-key", body=body).marked(body)
    annotations = marked["metadata"]["annotations"]
    assert annotations["a"] == "b" and set(annotations) == {"a", KEY_ANNOTATION, REQUEST_ANNOTATION}
    assert "my-key" not in str(marked) and "ann" not in annotations[KEY_ANNOTATION]
    assert KEY_ANNOTATION not in body["metadata"]["annotations"]


def test_repetitions() -> None:
    body = {"metadata": {"name": "pi"}, "spec": {"a": 1, "b": 2}}
    existing = once(body=body).marked(body)
    again = {"spec": {"b": 2, "a": 1}, "metadata": {"name": "pi"}}
    assert once(body=again).repeats(existing)
    assert not once("other", body=body).repeats(existing)
    assert not once(user="bob", body=body).repeats(existing)
    assert not once(body=body).repeats({"metadata": {}})
    with pytest.raises(Invalid, match="another body"):
        once(body={"metadata": {"name": "pi"}}).repeats(existing)


def test_generated_names_follow_from_the_key() -> None:
    body = {"metadata": {"generateName": "run-"}}
    names = {once(key).marked(body)["metadata"]["name"] for key in ("a", "a", "b")}
    assert len(names) == 2 and all(name.startswith("run-") for name in names)
    long = {"metadata": {"generateName": "x" * 90}}
    assert len(once().marked(long)["metadata"]["name"]) == 63


@pytest.mark.parametrize("key", ["", " ", "a" * 256, "a\nb"])
def test_keys_that_are_none(key: str) -> None:
    with pytest.raises(BadRequest, match="Idempotency-Key"):
        once(key)


@pytest.mark.parametrize("metadata", ["text", 3, [], {"annotations": "text"}])
def test_what_is_no_object_is_left_for_the_server_to_refuse(metadata: Any) -> None:
    body = {"metadata": metadata}
    assert once(body=body).marked(body) is body
