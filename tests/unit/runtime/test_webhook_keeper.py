"""Sharing certificates through a Secret."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web

from corral.kube.client import KubeClient
from corral.kube.errors import ApiError, Conflict
from corral.runtime.webhooks.certificates import CertificateSet
from corral.runtime.webhooks.keeper import CertificateKeeper
from tests.unit.runtime.runtime_fakes import FakeCluster, fake_cluster, refusal

SECRET = "/api/v1/namespaces/ns/secrets/certificate"


class Clock:
    def __init__(self) -> None:
        self.moment = datetime(2030, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.moment


Setup = tuple[FakeCluster, KubeClient, Clock]


@pytest.fixture
async def setup() -> AsyncIterator[Setup]:
    async with fake_cluster() as (cluster, client):
        yield cluster, client, Clock()


def keeper(setup: Setup, *hosts: str) -> CertificateKeeper:
    _, client, clock = setup
    return CertificateKeeper(
        client, namespace="ns", secret="certificate", hosts=hosts or ("h",), now=clock
    )


async def test_the_first_makes_them_and_others_read_them(setup: Setup) -> None:
    keepers = [keeper(setup) for _ in range(4)]
    found = await asyncio.gather(*(k.refresh() for k in keepers))
    assert all(one == found[0] for one in found)
    assert sum(1 for method, _, _ in setup[0].requests if method == "PUT") == 0
    stored = CertificateSet.from_data(setup[0].objects[SECRET]["data"])
    assert stored == found[0]
    assert keepers[0].problem() == ""


async def test_nothing_is_written_while_nothing_is_due(setup: Setup) -> None:
    one = keeper(setup)
    await one.refresh()
    version = setup[0].version
    await one.refresh()
    assert setup[0].version == version


async def test_of_two_that_renew_one_wins(setup: Setup) -> None:
    one, other = keeper(setup), keeper(setup)
    first = await one.refresh()
    await other.refresh()
    setup[2].moment += timedelta(days=70)
    found = await asyncio.gather(one.refresh(), other.refresh())
    assert found[0] == found[1]
    assert found[0].serving != first.serving
    assert found[0].authority == first.authority


async def test_a_deleted_secret_comes_back(setup: Setup) -> None:
    one = keeper(setup)
    first = await one.refresh()
    del setup[0].objects[SECRET]
    assert await one.refresh() == first
    assert CertificateSet.from_data(setup[0].objects[SECRET]["data"]) == first


async def test_a_damaged_secret_is_mended_from_memory(setup: Setup) -> None:
    one = keeper(setup)
    first = await one.refresh()
    setup[0].objects[SECRET]["data"]["tls.crt"] = ""
    assert await one.refresh() == first
    assert await keeper(setup).refresh() == first


async def test_a_damaged_secret_is_replaced_by_who_knows_nothing(setup: Setup) -> None:
    first = await keeper(setup).refresh()
    setup[0].objects[SECRET]["data"] = {}
    second = await keeper(setup).refresh()
    assert second != first
    assert CertificateSet.from_data(setup[0].objects[SECRET]["data"]) == second


async def test_listeners_hear_of_changes_only(setup: Setup) -> None:
    one, heard = keeper(setup), []
    one.on_change(lambda: heard.append(one.bundle))
    await one.refresh()
    await one.refresh()
    assert len(heard) == 1
    setup[2].moment += timedelta(days=70)
    await one.refresh()
    assert len(heard) == 2


async def test_an_ended_certificate_is_a_problem(setup: Setup) -> None:
    one = keeper(setup)
    assert one.problem() == "there is no serving certificate yet"
    await one.refresh()
    setup[2].moment += timedelta(days=91)
    assert one.problem().startswith("the serving certificate ended at 2030-04-01T")


async def test_a_refusal_is_raised_and_the_old_stays_in_use(setup: Setup) -> None:
    one = keeper(setup)
    first = await one.refresh()

    async def refuse(_: web.Request) -> web.Response:
        return refusal(403, "Forbidden")

    setup[0].intercept = refuse
    with pytest.raises(ApiError):
        await one.refresh()
    assert one.current == first


async def test_endless_conflicts_end(setup: Setup) -> None:
    one = keeper(setup)
    await one.refresh()
    setup[2].moment += timedelta(days=70)

    async def conflict(request: web.Request) -> web.Response | None:
        return refusal(409, "Conflict") if request.method == "PUT" else None

    setup[0].intercept = conflict
    with pytest.raises(Conflict):
        await one.refresh()


async def test_it_looks_again_and_outlives_errors(setup: Setup) -> None:
    rounds = 0

    async def sleep(_: float) -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 2:
            setup[0].intercept = None
        if rounds == 3:
            raise asyncio.CancelledError

    async def refuse(_: web.Request) -> web.Response:
        return refusal(500, "InternalError")

    setup[0].intercept = refuse
    one = CertificateKeeper(
        setup[1], namespace="ns", secret="certificate", hosts=["h"], now=setup[2], sleep=sleep
    )
    with pytest.raises(asyncio.CancelledError):
        await one.run()
    assert one.current is not None


async def test_it_outlives_a_full_disk(
    setup: Setup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "tmp"
    rounds = 0

    async def sleep(_: float) -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 2:
            place.mkdir()
        if rounds == 3:
            raise asyncio.CancelledError

    monkeypatch.setattr("tempfile.tempdir", str(place))
    one = CertificateKeeper(
        setup[1], namespace="ns", secret="certificate", hosts=["h"], now=setup[2], sleep=sleep
    )
    with pytest.raises(asyncio.CancelledError):
        await one.run()
    assert one.problem() == ""
