"""Large writes are computed elsewhere, and come out as they would here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest

from corral.cluster.apiserver.auth.users import UserInfo
from corral.cluster.apiserver.crud.kind import Kind
from corral.cluster.apiserver.crud.write import Change
from corral.cluster.apiserver.heavy import HEAVY_BYTES
from corral.cluster.apiserver.http.bodies import decode_object
from corral.cluster.apiserver.http.large import Body, LargeWrites
from corral.cluster.apiserver.http.options import APPLY
from corral.cluster.apiserver.http.patching import MERGE, STRATEGIC, patcher
from corral.cluster.apiserver.requests import Context, RequestInfo
from corral.cluster.apiserver.server import ApiServer, Config
from corral.kube import errors

Obj = dict[str, Any]
JSON = "application/json"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    server = ApiServer(Config(tmp_path))
    await server.start()
    yield server
    await server.stop()


def context(size: int = 0) -> Context:
    return Context(UserInfo("alice"), manager="m", size=size)


def info(name: str) -> RequestInfo:
    return RequestInfo("", "patch", "", "v1", "default", "configmaps", name)


def large(name: str, value: str = "a") -> Obj:
    head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    return {**head, "data": {f"k{number:05d}": value for number in range(6000)}}


def sent_as(kind: Kind, raw: bytes, live: Obj | None) -> Obj:
    return decode_object(kind, raw, JSON, context())


def timeless(obj: Obj) -> Obj:
    """What does not depend on when and as whom an object was made."""
    out = orjson.loads(orjson.dumps(obj))
    for field in ("name", "uid", "resourceVersion", "creationTimestamp"):
        out["metadata"].pop(field, None)
    for entry in out["metadata"].get("managedFields") or ():
        entry.pop("time", None)
    return dict(out)


@pytest.mark.parametrize("form", [APPLY, STRATEGIC, MERGE, JSON])
async def test_both_ways_lead_to_the_same_object(server: ApiServer, form: str) -> None:
    kind = server.kinds.find("", "v1", "configmaps")
    assert kind is not None
    writer, apart = server.verbs.writer, LargeWrites(server.registry)
    here = there = None
    for value in ("a", "b"):
        for name in ("here", "there"):
            whole = large(name, value)
            raw = orjson.dumps(whole)
            first = value == "a"
            if first and form != APPLY:
                obj = decode_object(kind, raw, JSON, context())
                await writer.create(kind, "default", obj, context=context())
                continue
            body = raw if form in (APPLY, JSON) else orjson.dumps({"data": whole["data"]})
            assert len(body) > HEAVY_BYTES
            if name == "there":
                sent = Body(body, form, patch=form != JSON)
                done = await apart.update(kind, info(name), sent, context(), {}, create=True)
                assert done is not None
                assert done.created is first
                there = orjson.loads(done.value)
                stored = server.store.get("/configmaps", "default/there")
                assert stored is not None
                assert stored.decode() == there
                continue
            change: Change
            if form == JSON:
                change = partial(sent_as, kind, body)
            else:
                now = server.registry.timestamp
                change = patcher(kind, body, form, context(), subresource="", now=now)
            here, _ = await writer.update(
                kind, "default", name, change=change, context=context(),
                create=form == APPLY, track=form != APPLY,
            )  # fmt: skip
    assert here is not None
    assert there is not None
    assert timeless(here) == timeless(there)
    assert there["data"]["k00001"] == "b"


async def test_refusals_come_as_they_are(server: ApiServer) -> None:
    kind = server.kinds.find("", "v1", "configmaps")
    assert kind is not None
    apart = LargeWrites(server.registry)
    bad = large("bad")
    bad["data"]["not a key"] = "x"
    with pytest.raises(errors.ApiError) as refused:
        await apart.create(kind, info(""), Body(orjson.dumps(bad), JSON), context(), {})
    assert refused.value.status_code == 422
    assert refused.value.status["details"]["causes"][0]["field"] == "data[not a key]"
    with pytest.raises(errors.ApiError) as broken:
        await apart.create(kind, info(""), Body(b"{" * HEAVY_BYTES, JSON), context(), {})
    assert broken.value.status_code == 400


async def test_an_apply_that_changes_nothing_writes_nothing(server: ApiServer) -> None:
    kind = server.kinds.find("", "v1", "configmaps")
    assert kind is not None
    apart = LargeWrites(server.registry)
    sent = Body(orjson.dumps(large("same")), APPLY, patch=True)
    first = await apart.update(kind, info("same"), sent, context(), {}, create=True)
    revision = server.store.revision
    again = await apart.update(kind, info("same"), sent, context(), {}, create=True)
    assert first is not None
    assert again is not None
    assert orjson.loads(first.value) == orjson.loads(again.value)
    assert server.store.revision == revision


async def test_small_writes_and_watched_kinds_are_not_for_it(server: ApiServer) -> None:
    apart = LargeWrites(server.registry)
    maps, pods = (server.kinds.find("", "v1", plural) for plural in ("configmaps", "pods"))
    assert maps is not None
    assert pods is not None
    small = Body(b"{}", JSON)
    assert await apart.create(maps, info(""), small, context(), {}) is None
    huge = Body(b" " * HEAVY_BYTES, JSON)
    assert await apart.create(pods, info(""), huge, context(), {}) is None
