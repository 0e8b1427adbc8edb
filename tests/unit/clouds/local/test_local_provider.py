"""Local VMs are real processes: made once, told, taken, ended with all they run."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from corral.clouds import (
    BadRequest,
    CloudProvider,
    Gpu,
    Hazard,
    NoticeKind,
    Price,
    QuotaExceeded,
    Scope,
    State,
    StockOut,
    Sweeper,
    Transient,
    VmRef,
)
from corral.clouds.local import Fault
from corral.clouds.local.processes import Process
from corral.clouds.local.records import Ended, Running
from corral.clouds.notices import notices
from tests.support.matrix import seeds
from tests.unit.clouds.local.conftest import AGENT, Cloud, Until

REF = VmRef("vm-0", "local-a")


async def ready(cloud: Cloud, until: Until, name: str = "vm-0") -> set[Process]:
    """All processes of a VM whose agent has started its daemon."""
    await until(lambda: "agent is ready" in cloud.of(name).log.read_text())
    await until(lambda: (cloud.of(name).data / "daemon").exists())
    return cloud.processes(name)


async def test_a_vm_is_made_seen_and_deleted(cloud: Cloud, until: Until) -> None:
    provider = cloud.provider()
    assert isinstance(provider, CloudProvider)
    made = await provider.create(cloud.request(labels={"job": "digits"}))
    assert (made.state, made.zone, made.spot) == (State.RUNNING, "local-a", True)
    assert made.labels["job"] == "digits"
    processes = await ready(cloud, until)
    assert len(processes) == 3  # the VM, its agent, the daemon
    assert await provider.get(made.ref) == made
    assert await provider.list("o") == [made]
    assert await provider.list("another") == []
    await provider.delete(made.ref)
    assert not any(process.alive for process in processes)
    assert await provider.get(made.ref) is None
    assert not list((cloud.folder / "vms").iterdir())
    await provider.delete(made.ref)


async def test_the_agent_knows_its_vm(cloud: Cloud, until: Until) -> None:
    provider = cloud.provider(
        environment={"CORRAL_TEST": "1"}, files=lambda request: {"kubeconfig": request.name}
    )
    made = await provider.create(cloud.request())
    await ready(cloud, until)
    environment = json.loads((cloud.of("vm-0").data / "environment").read_text())
    assert environment["CORRAL_VM"] == "vm-0"
    assert environment["CORRAL_CLOUD"] == "local"
    assert environment["CORRAL_METADATA"] == made.metadata
    assert environment["CORRAL_TEST"] == "1"
    secret = cloud.of("vm-0").path / "kubeconfig"
    assert secret.read_text() == "vm-0"
    assert secret.stat().st_mode & 0o777 == 0o600


async def test_one_request_makes_one_vm(cloud: Cloud) -> None:
    provider, other = cloud.provider(), cloud.provider()
    request = cloud.request()
    made = await asyncio.gather(*(each.create(request) for each in (provider, other) * 4))
    assert len({vm.id for vm in made}) == 1
    with pytest.raises(BadRequest, match="did not make"):
        await provider.create(cloud.request(7, name="vm-0"))


async def test_a_lost_answer_makes_no_second_vm(cloud: Cloud, until: Until) -> None:
    provider = cloud.provider()
    provider.faults.plan(Fault(operation="create", lose=True))
    with pytest.raises(Transient, match="lost"):
        await provider.create(cloud.request())
    before = await ready(cloud, until)
    await provider.create(cloud.request())
    assert cloud.processes("vm-0") == before
    assert (cloud.of("vm-0").data / "starts").read_text().count("\n") == 1


async def test_a_provider_that_died_before_it_started_the_vm(cloud: Cloud, until: Until) -> None:
    request = cloud.request()
    provider = cloud.provider()
    provider._write(cloud.of("vm-0"), request, [])  # what it had done by then
    seen = await cloud.provider().get(REF)
    assert seen is not None
    assert seen.state is State.PENDING
    made = await cloud.provider().create(request)
    assert made.state is State.RUNNING
    await ready(cloud, until)


async def test_vms_survive_their_maker(cloud: Cloud, until: Until) -> None:
    program = (
        "import asyncio, os, sys\n"
        "from tests.unit.clouds.local.conftest import Cloud\n"
        "from pathlib import Path\n"
        "cloud = Cloud(Path(sys.argv[1]))\n"
        "asyncio.run(cloud.provider().create(cloud.request()))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    root = str(Path(__file__).parents[4])
    maker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, str(cloud.folder), env={**os.environ, "PYTHONPATH": root}
    )
    assert await maker.wait() == -signal.SIGKILL
    processes = await ready(cloud, until)
    provider = cloud.provider()
    made = await provider.create(cloud.request())
    assert made.state is State.RUNNING
    assert cloud.processes("vm-0") == processes
    await provider.delete(made.ref)
    assert not any(process.alive for process in processes)


@pytest.mark.parametrize("seed", seeds(4, always=2))
async def test_a_maker_that_dies_at_any_moment_leaves_one_vm(
    cloud: Cloud, until: Until, seed: int
) -> None:
    program = (
        "import asyncio, sys\n"
        "from tests.unit.clouds.local.conftest import Cloud\n"
        "from pathlib import Path\n"
        "cloud = Cloud(Path(sys.argv[1]))\n"
        "provider = cloud.provider()\n"
        "print('go', flush=True)\n"
        "asyncio.run(provider.create(cloud.request()))\n"
    )
    root = str(Path(__file__).parents[4])
    maker = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        program,
        str(cloud.folder),
        env={**os.environ, "PYTHONPATH": root},
        stdout=asyncio.subprocess.PIPE,
    )
    assert maker.stdout is not None
    await maker.stdout.readline()
    await asyncio.sleep(Random(seed).uniform(0.0, 0.25))  # the moment, not a wait
    with suppress(ProcessLookupError):
        maker.kill()
    await maker.communicate()
    provider = cloud.provider()
    made = await provider.create(cloud.request())
    assert made.state is State.RUNNING
    processes = await ready(cloud, until)
    assert (cloud.of("vm-0").data / "starts").read_text().count("\n") == 1
    await provider.delete(made.ref)
    assert not any(process.alive for process in processes)


async def test_notice_then_the_end_with_all_that_runs(cloud: Cloud, until: Until) -> None:
    provider = cloud.provider()
    made = await provider.create(cloud.request())
    processes = await ready(cloud, until)
    inside = notices("local", made.metadata, vm="vm-0")
    outside = provider.notices("o")
    async with asyncio.timeout(30):
        told = asyncio.ensure_future(anext(inside))
        seen = asyncio.ensure_future(anext(outside))
        await provider.preempt(made.ref, notice_s=3.0)
        notice = await told
        assert notice.kind is NoticeKind.PREEMPTION
        assert notice.deadline == cloud.of("vm-0").given().deadline
        assert notice.seen < notice.deadline  # type: ignore[operator]
        assert all(process.alive for process in processes)
        notice = await seen
        assert (notice.kind, notice.vm) == (NoticeKind.PREEMPTION, "vm-0")
        notice = await anext(outside)
        assert (notice.kind, notice.preempted) == (NoticeKind.GONE, True)
    await inside.aclose()  # type: ignore[attr-defined]
    await outside.aclose()  # type: ignore[attr-defined]
    await until(lambda: not any(process.alive for process in processes))
    vm = await provider.get(made.ref)
    assert vm is not None
    assert (vm.state, vm.preempted) == (State.TERMINATED, True)
    with pytest.raises(StockOut):  # it does not come back
        await provider.create(cloud.request())
    with pytest.raises(BadRequest, match="does not run"):
        await provider.preempt(made.ref)


async def test_maintenance_is_told_and_harms_nobody(cloud: Cloud, until: Until) -> None:
    provider = cloud.provider()
    made = await provider.create(cloud.request())
    processes = await ready(cloud, until)
    inside = notices("local", made.metadata, vm="vm-0")
    async with asyncio.timeout(30):
        told = asyncio.ensure_future(anext(inside))
        await provider.maintain(made.ref)
        notice = await told
    await inside.aclose()  # type: ignore[attr-defined]
    assert (notice.kind, notice.deadline) == (NoticeKind.MAINTENANCE, None)
    assert "MIGRATE" in notice.text
    assert all(process.alive for process in processes)
    await provider.preempt(made.ref, notice_s=0.2)
    await provider.maintain(made.ref, "NONE")  # the deadline stands
    await until(lambda: not any(process.alive for process in processes))


async def test_a_kill_comes_without_a_word(cloud: Cloud, until: Until) -> None:
    provider = cloud.provider()
    made = await provider.create(cloud.request())
    processes = await ready(cloud, until)
    await provider.kill(made.ref)
    assert not any(process.alive for process in processes)
    assert not (cloud.of("vm-0").data / "orderly").exists()
    vm = await provider.get(made.ref)
    assert vm is not None
    assert (vm.state, vm.preempted) == (State.TERMINATED, False)


async def test_what_a_dead_vm_ran_does_not_outlive_it(cloud: Cloud, until: Until) -> None:
    provider = cloud.provider()
    made = await provider.create(cloud.request())
    processes = await ready(cloud, until)
    running = cloud.of("vm-0").running()
    assert running is not None
    running.process.send(signal.SIGKILL)
    await until(lambda: not running.process.alive)
    await until(lambda: not any(process.alive for process in processes))
    vm = await provider.get(made.ref)
    assert vm is not None
    assert (vm.state, vm.preempted) == (State.TERMINATED, False)
    with pytest.raises(StockOut):
        await provider.create(cloud.request())


async def test_an_agent_that_dies_is_started_again(cloud: Cloud, until: Until) -> None:
    provider = cloud.provider()
    await provider.create(cloud.request())
    await ready(cloud, until)
    first = cloud.of("vm-0").running()
    assert first is not None
    first.agent.send(signal.SIGKILL)
    starts = cloud.of("vm-0").data / "starts"
    await until(lambda: starts.read_text().count("\n") == 2)
    second = cloud.of("vm-0").running()
    assert second is not None
    assert second.process == first.process
    assert (await provider.list("o"))[0].state is State.RUNNING


async def test_deletion_is_orderly_first(cloud: Cloud, until: Until, tmp_path: Path) -> None:
    provider = cloud.provider()
    made = await provider.create(cloud.request())
    await ready(cloud, until)
    kept = tmp_path / "data"
    cloud.of("vm-0").data.rename(kept)
    cloud.of("vm-0").data.symlink_to(kept)
    await provider.delete(made.ref)
    assert (kept / "orderly").exists()


async def test_an_agent_that_will_not_stop_is_killed(cloud: Cloud, until: Until) -> None:
    provider = cloud.provider(
        command=(sys.executable, str(AGENT), "{data}", "stubborn"), stop_grace_s=0.2
    )
    made = await provider.create(cloud.request())
    processes = await ready(cloud, until)
    await provider.delete(made.ref)
    assert not any(process.alive for process in processes)


async def test_a_command_that_is_not_there_leaves_nothing(cloud: Cloud) -> None:
    provider = cloud.provider(command=("/does/not/exist",))
    with pytest.raises(BadRequest, match="did not start"):
        await provider.create(cloud.request())
    assert await provider.list("o") == []
    assert not list((cloud.folder / "vms").iterdir())


async def test_an_id_makes_no_second_vm_after_the_first_is_gone(cloud: Cloud) -> None:
    provider = cloud.provider()
    made = await provider.create(cloud.request())
    await provider.delete(made.ref)
    with pytest.raises(StockOut, match="take a new one"):
        await provider.create(cloud.request())
    await provider.create(cloud.request(1, name="vm-0"))


async def test_who_deletes_a_vm_does_not_delete_its_successor(cloud: Cloud) -> None:
    provider = cloud.provider()
    first = await provider.create(cloud.request())
    await provider.delete(first.ref)
    second = await provider.create(cloud.request(1, name="vm-0"))
    await provider.delete(first.ref)
    assert await provider.get(second.ref) == second
    await provider.delete(VmRef("vm-0", "local-a"))
    assert await provider.list("o") == []


async def test_room_and_quota(cloud: Cloud) -> None:
    provider = cloud.provider(capacity={"local-a": 1}, quota=2)
    first = await provider.create(cloud.request(0))
    with pytest.raises(StockOut) as stock:
        await provider.create(cloud.request(1))
    assert (stock.value.code, stock.value.scope) == ("NO_ROOM", Scope.ZONE)
    await provider.create(cloud.request(1, zone="local-b"))
    with pytest.raises(QuotaExceeded):
        await provider.create(cloud.request(2, zone="local-b"))
    await provider.delete(first.ref)
    await provider.create(cloud.request(2))


async def test_gpus_are_one_vm_s_alone(cloud: Cloud) -> None:
    devices = [{"index": str(number), "model": "H200"} for number in range(3)]
    provider = cloud.provider(devices=devices)

    def given(name: str) -> list[str]:
        text = (cloud.of(name).path / "gpus.json").read_text()
        return [device["index"] for device in json.loads(text)]

    first = await provider.create(cloud.request(0, gpu=Gpu("H200", 2)))
    await provider.create(cloud.request(1, gpu=Gpu("H200")))
    assert (given("vm-0"), given("vm-1")) == (["0", "1"], ["2"])
    with pytest.raises(StockOut) as stock:
        await provider.create(cloud.request(2, gpu=Gpu("H200")))
    assert stock.value.code == "NO_GPU"
    await provider.create(cloud.request(3))
    assert given("vm-3") == []
    await provider.kill(first.ref)
    await provider.create(cloud.request(4, gpu=Gpu("H200", 2)))
    assert given("vm-4") == ["0", "1"]


async def test_gpus_are_pretended_where_no_devices_are_named(cloud: Cloud) -> None:
    provider = cloud.provider()
    await provider.create(cloud.request(gpu=Gpu("nvidia-tesla-t4", 2)))
    devices = json.loads((cloud.of("vm-0").path / "gpus.json").read_text())
    assert devices == [{"index": str(n), "model": "nvidia-tesla-t4"} for n in range(2)]


async def test_planned_faults_happen_so_often_and_where_they_should(cloud: Cloud) -> None:
    provider = cloud.provider()
    provider.faults.plan(
        Fault(operation="create", zone="local-b", error="QuotaExceeded", scope="region", times=2),
        Fault(operation="list", error="Transient", scope="none", code="503", delay_s=0.01),
    )
    other = cloud.provider()  # faults are the cloud's, not one provider's
    await other.create(cloud.request())
    for _ in range(2):
        with pytest.raises(QuotaExceeded):
            await other.create(cloud.request(1, zone="local-b"))
    await other.create(cloud.request(1, zone="local-b"))
    with pytest.raises(Transient):
        await other.list("o")
    assert len(await other.list("o")) == 2


async def test_prices_and_hazards_are_as_configured(cloud: Cloud) -> None:
    price = Price(machine_type="small", zone="local-a", spot=True, per_hour=0.1)
    hazard = Hazard(machine_type="small", zone="local-a", per_hour=0.5, source="settings")
    provider = cloud.provider(prices=[price], hazards=[hazard])
    assert await provider.prices(["small"], ["local-a"]) == [price]
    assert await provider.hazards(["small"], ["local-a"]) == [hazard]
    assert await provider.prices(["large"], ["local-a"]) == []


async def test_orphans_are_swept(cloud: Cloud, until: Until) -> None:
    provider = cloud.provider()
    await provider.create(cloud.request(0))
    await provider.create(cloud.request(1))
    processes = await ready(cloud, until, "vm-1")

    async def claimed() -> set[str]:
        return {cloud.request(0).request_id}

    sweeper = Sweeper(provider, "o", claimed, grace=0.0)
    swept = await sweeper.sweep()
    assert [vm.name for vm in swept.deleted] == ["vm-1"]
    assert [vm.name for vm in await provider.list("o")] == ["vm-0"]
    assert not any(process.alive for process in processes)


async def test_what_is_deleted_before_it_starts_does_not_start(cloud: Cloud) -> None:
    provider = cloud.provider()
    folder = cloud.of("vm-0")
    provider._write(folder, cloud.request(), [])
    folder.keep(Ended("stopped", 0.0))  # a deletion that is just under way
    with pytest.raises(StockOut):
        await provider.create(cloud.request())
    assert folder.running() is None
    assert not folder.data.exists()


async def test_a_vm_that_broke_with_its_guard_is_in_nobody_s_way(cloud: Cloud) -> None:
    provider = cloud.provider(capacity={"local-a": 1}, devices=[])
    broken = cloud.of("vm-0")
    provider._write(broken, cloud.request(), [])
    broken.keep(Running(2**22, "another boot/1", 9))
    async with asyncio.timeout(20):
        made = await provider.create(cloud.request(1))
        assert made.state is State.RUNNING
        states = {vm.name: vm.state for vm in await provider.list("o")}
    assert states == {"vm-0": State.TERMINATED, "vm-1": State.RUNNING}
    ended = broken.ended()
    assert ended is not None
    assert ended.reason == "crashed"


async def test_who_dies_while_it_ends_a_vm_leaves_it_to_others(cloud: Cloud, until: Until) -> None:
    """It stops the VM and writes down its end before it kills it."""
    provider = cloud.provider()
    await provider.create(cloud.request())
    processes = await ready(cloud, until)
    running = cloud.of("vm-0").running()
    assert running is not None
    running.process.send(signal.SIGSTOP)
    cloud.of("vm-0").keep(Ended("crashed", 1.0))
    await provider.delete(REF)
    assert not any(process.alive for process in processes)
    assert await provider.list("o") == []


async def test_a_vm_that_is_killed_while_it_begins(cloud: Cloud, until: Until) -> None:
    """Whoever kills it waits until it has said which process it is."""
    provider = cloud.provider()
    await provider.create(cloud.request())
    processes = await ready(cloud, until)
    folder = cloud.of("vm-0")
    said = folder.path / "process.json"
    kept = said.rename(folder.path / "later.json")
    killing = asyncio.create_task(provider.kill(REF))
    done, _ = await asyncio.wait({killing}, timeout=0.2)
    assert not done and folder.ended() is None  # it does not take this for one without processes
    kept.rename(said)
    await killing
    assert not any(process.alive for process in processes)
    ended = folder.ended()
    assert ended is not None and ended.reason == "killed"
