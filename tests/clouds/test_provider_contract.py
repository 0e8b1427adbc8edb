"""What every cloud's provider promises, against a server that does wrong when it is told to."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from corral.clouds import (
    REQUEST_LABEL,
    AccountRefused,
    BadRequest,
    CloudError,
    CloudProvider,
    NoticeKind,
    QuotaExceeded,
    Scope,
    State,
    StockOut,
    Transient,
    VmRef,
)
from tests.clouds.harness import OWNER, Cloud


async def test_a_vm_is_made_seen_and_deleted(cloud: Cloud) -> None:
    assert isinstance(cloud.provider, CloudProvider)
    made = await cloud.provider.create(cloud.request)
    assert made.alive
    assert made.name == cloud.request.name
    assert made.zone == cloud.request.zone
    assert made.machine_type == cloud.request.machine_type
    assert made.spot
    assert made.internal_ip == "10.0.0.7"
    assert made.request_id == cloud.request.request_id
    assert made.labels["job"] == "digits"
    seen = await cloud.provider.get(made.ref)
    assert seen is not None
    assert seen.state is State.RUNNING
    assert [vm.name for vm in await cloud.provider.list(OWNER)] == [made.name]
    assert await cloud.provider.list("another") == []
    await cloud.provider.delete(made.ref)
    assert cloud.server.alive() == 0
    await cloud.provider.delete(made.ref)
    gone = await cloud.provider.get(made.ref)
    assert gone is None or gone.state is State.TERMINATED


async def test_what_never_was_is_gone(cloud: Cloud) -> None:
    nothing = VmRef("nothing", cloud.request.zone)
    assert await cloud.provider.get(nothing) is None
    await cloud.provider.delete(nothing)


async def test_one_request_makes_one_vm(cloud: Cloud) -> None:
    first = await cloud.provider.create(cloud.request)
    second = await cloud.provider.create(cloud.request)
    assert second.id == first.id
    assert cloud.server.alive() == 1


async def test_requests_at_the_same_time_make_one_vm(cloud: Cloud) -> None:
    made = await asyncio.gather(*(cloud.provider.create(cloud.request) for _ in range(5)))
    assert len({vm.id for vm in made}) == 1
    assert cloud.server.alive() == 1


async def test_a_lost_answer_makes_no_second_vm(cloud: Cloud) -> None:
    cloud.server.faults.lose(cloud.create)
    made = await cloud.provider.create(cloud.request)
    assert cloud.server.faults.requests[cloud.create] == 2
    assert made.request_id == cloud.request.request_id
    assert cloud.server.alive() == 1


async def test_when_all_answers_are_lost_the_next_attempt_finds_the_vm(cloud: Cloud) -> None:
    cloud.server.faults.lose(cloud.create, times=100)
    with pytest.raises(Transient):
        await cloud.provider.create(cloud.request)
    assert cloud.server.alive() == 1
    cloud.server.faults.planned.clear()
    made = await cloud.provider.create(cloud.request)
    assert made.request_id == cloud.request.request_id
    assert cloud.server.alive() == 1


async def test_a_lost_answer_to_a_deletion_does_no_harm(cloud: Cloud) -> None:
    made = await cloud.provider.create(cloud.request)
    operation = {"aws": "TerminateInstances"}.get(cloud.kind, "delete")
    cloud.server.faults.lose(operation)
    await cloud.provider.delete(made.ref)
    assert cloud.server.faults.requests[operation] == 2
    assert cloud.server.alive() == 0


async def test_a_name_that_another_request_took_is_refused(cloud: Cloud) -> None:
    first = await cloud.provider.create(cloud.request)
    with pytest.raises(BadRequest, match="did not make"):
        await cloud.provider.create(cloud.other_request())
    seen = await cloud.provider.get(first.ref)
    assert seen is not None
    assert seen.labels[REQUEST_LABEL] == cloud.request.request_id
    assert cloud.server.alive() == 1


@pytest.mark.parametrize(
    ("words", "error", "scope"),
    [
        ("stock_out", StockOut, Scope.ZONE),
        ("quota", QuotaExceeded, Scope.REGION),
        ("account", AccountRefused, Scope.CLOUD),
    ],
)
async def test_refusals_say_what_to_avoid(
    cloud: Cloud, words: str, error: type[CloudError], scope: Scope
) -> None:
    refusal = getattr(cloud, words)
    cloud.refuse(refusal, times=cloud.attempts)
    with pytest.raises(error) as raised:
        await cloud.provider.create(cloud.request)
    assert raised.value.scope is scope
    assert raised.value.code == refusal[1]
    assert cloud.server.alive() == 0


async def test_throttling_is_waited_out(cloud: Cloud) -> None:
    cloud.refuse(cloud.throttled, times=cloud.attempts - 1)
    await cloud.provider.create(cloud.request)
    assert cloud.server.faults.requests[cloud.create] == cloud.attempts
    assert cloud.server.alive() == 1


async def test_endless_throttling_is_told(cloud: Cloud) -> None:
    cloud.refuse(cloud.throttled, times=cloud.attempts)
    with pytest.raises(Transient) as raised:
        await cloud.provider.create(cloud.request)
    assert raised.value.code == cloud.throttled[1]
    cloud.server.faults.planned.clear()
    await cloud.provider.create(cloud.request)
    assert cloud.server.alive() == 1


async def test_a_slow_operation_is_waited_for(cloud: Cloud) -> None:
    if cloud.hurried is None:
        pytest.skip("EC2 makes an instance at once")
    cloud.server.waits = 20
    made = await cloud.provider.create(cloud.request)
    assert made.state is State.RUNNING


async def test_an_operation_that_is_too_slow_is_found_again(cloud: Cloud) -> None:
    if cloud.hurried is None:
        pytest.skip("EC2 makes an instance at once")
    cloud.server.waits = 20
    with pytest.raises(Transient):
        await cloud.hurried.create(cloud.request)
    cloud.server.waits = 1
    for operation in cloud.server.operations.values():
        operation["_waits" if cloud.kind == "gcp" else "waits"] = 1
    made = await cloud.provider.create(cloud.request)
    assert made.request_id == cloud.request.request_id
    assert cloud.server.alive() == 1


async def test_a_list_is_whole(cloud: Cloud) -> None:
    cloud.server.page = 2
    for number in range(5):
        await cloud.provider.create(cloud.other_request(name=f"trainer-{number}"))
    await cloud.provider.create(cloud.other_request(name="not-ours", owner="another"))
    found = await cloud.provider.list(OWNER)
    assert sorted(vm.name for vm in found) == [f"trainer-{number}" for number in range(5)]


async def test_a_list_that_cannot_be_whole_is_none(cloud: Cloud) -> None:
    cloud.server.page = 2
    for number in range(5):
        await cloud.provider.create(cloud.other_request(name=f"trainer-{number}"))
    cloud.refuse(cloud.account, times=cloud.attempts, operation=cloud.list)
    with pytest.raises(CloudError):
        await cloud.provider.list(OWNER)


async def test_a_vm_that_is_taken_is_told_once(cloud: Cloud) -> None:
    first = await cloud.provider.create(cloud.request)
    second = await cloud.provider.create(cloud.other_request(name="trainer-1"))
    notices = cloud.provider.notices(OWNER)
    async with asyncio.timeout(20):
        pending = asyncio.ensure_future(anext(notices))
        await cloud.server.faults.asked(cloud.list, 3)
        cloud.take(first)
        notice = await pending
        assert notice.kind is NoticeKind.GONE
        assert notice.vm == first.name
        assert notice.source == "state"
        assert notice.preempted is {"gcp": True, "aws": True, "azure": None}[cloud.kind]
        pending = asyncio.ensure_future(anext(notices))
        await cloud.provider.delete(second.ref)
        notice = await pending
        assert notice.vm == second.name
        assert notice.preempted is not True
    await notices.aclose()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "Trainer"}, "VM's name"),
        ({"name": "a" * 64}, "VM's name"),
        ({"name": "trainer-"}, "VM's name"),
        ({"labels": {"Job": "x"}}, "label Job"),
        ({"labels": {"job": "Ünsafe"}}, "label job"),
        ({"owner": ""}, "owner"),
        ({"request_id": ""}, "request id"),
    ],
)
async def test_what_no_cloud_would_take_is_not_sent(
    cloud: Cloud, change: dict[str, object], words: str
) -> None:
    with pytest.raises(BadRequest, match=words):
        await cloud.provider.create(replace(cloud.request, **change))  # type: ignore[arg-type]
    assert not cloud.server.faults.requests
