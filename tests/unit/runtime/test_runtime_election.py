from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web
from runtime_fakes import FakeCluster, fake_cluster, now, refusal, until, virtual

from corral.kube.client import KubeClient
from corral.runtime import Election, ElectionSettings, LeaderElector, LeadershipLost, LeaseRecord

COLLECTION = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
WALL = 1700000000.0


BAD_SETTINGS = {
    "lease not longer than deadline": {"lease_duration": 10.0},
    "deadline within the jitter": {"retry_period": 9.0},
    "no retry period": {"retry_period": 0.0},
    "lease below a second": {"lease_duration": 0.5, "renew_deadline": 0.4, "retry_period": 0.1},
}


@pytest.mark.parametrize("settings", BAD_SETTINGS.values(), ids=BAD_SETTINGS)
def test_settings_are_checked(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        ElectionSettings(**settings)


def test_identity_is_needed() -> None:
    with pytest.raises(ValueError, match="identity"):
        Election("")


def record(holder: str, renewed: str = "t0", *, duration: int = 15, transitions: int = 3) -> Any:
    return LeaseRecord(holder, duration, "t0", renewed, transitions)


def test_another_holder_is_waited_for_by_our_own_clock() -> None:
    election = Election("me")
    election.observe(record("other"), 100)
    assert not election.may_take(100) and not election.may_take(114.9)
    assert election.may_take(115)
    # Any change is a sign of life, and only a change.
    election.observe(record("other"), 114)
    assert election.may_take(115)
    election.observe(record("other", "t1"), 114)
    assert not election.may_take(128.9) and election.may_take(129)


def test_an_empty_holder_is_nobody() -> None:
    election = Election("me")
    election.observe(record(""), 100)
    assert election.may_take(100)


def test_takeover_counts_a_transition_and_renewal_keeps_it() -> None:
    election = Election("me")
    election.observe(record("other"), 100)
    taken = election.next_record(WALL)
    assert taken == LeaseRecord(
        "me", 15, "2023-11-14T22:13:20.000000Z", "2023-11-14T22:13:20.000000Z", 4
    )
    election.wrote(taken, 116)
    assert election.is_leader and election.may_renew_blindly(130.9)
    assert not election.may_renew_blindly(131)
    renewed = election.next_record(WALL + 2)
    assert renewed.acquire_time == taken.acquire_time and renewed.transitions == 4
    assert renewed.renew_time == "2023-11-14T22:13:22.000000Z"


def test_the_first_record_has_no_transition_and_release_keeps_them() -> None:
    election = Election("me")
    first = election.first_record(WALL)
    assert first.transitions == 0 and first.acquire_time == first.renew_time
    election.observe(record("me", transitions=7), 1)
    released = election.release_record(WALL)
    assert (released.holder, released.duration, released.transitions) == ("", 1, 7)


def test_overdue() -> None:
    election = Election("me")
    election.observe(record("other"), 0)
    assert not election.overdue(1000, 20)
    election.wrote(record("me"), 0)
    assert not election.overdue(35, 20) and election.overdue(35.1, 20)


def test_records_survive_the_wire() -> None:
    spec = record("me").to_spec()
    assert LeaseRecord.from_lease({"spec": spec}) == record("me")
    assert LeaseRecord.from_lease({}) == LeaseRecord()


# --- with a server -------------------------------------------------------------------------------


class Candidate:
    """An elector whose work notes when it began and ended."""

    def __init__(self, client: KubeClient, identity: str, log: list[str]) -> None:
        self.identity, self.log = identity, log
        self.elector = LeaderElector(
            client,
            name="lock",
            namespace="kube-system",
            identity=identity,
            on_new_leader=lambda who: log.append(f"{identity} sees {who}"),
            clock=now,
            wall=lambda: WALL + now(),
            rng=lambda: 0.5,
        )
        self.slow_end = 0.0
        self.task: asyncio.Task[None] | None = None

    def start(self) -> asyncio.Task[None]:
        self.task = asyncio.create_task(self.elector.run(self.work))
        return self.task

    async def work(self) -> None:
        self.log.append(f"{self.identity} works")
        try:
            await asyncio.sleep(100_000)
        finally:
            if self.slow_end:
                await asyncio.sleep(self.slow_end)
            self.log.append(f"{self.identity} ends")


def spec(cluster: FakeCluster) -> Any:
    return cluster.objects[f"{COLLECTION}/lock"]["spec"]


@virtual
async def test_one_leads_and_the_other_follows_after_release() -> None:
    async with fake_cluster() as (cluster, client):
        log: list[str] = []
        first, second = Candidate(client, "a", log), Candidate(client, "b", log)
        running = first.start()
        await until(lambda: "a works" in log)
        other = second.start()
        await asyncio.sleep(60)
        assert log == ["a sees a", "a works", "b sees a"]
        assert spec(cluster)["holderIdentity"] == "a" and spec(cluster)["leaseTransitions"] == 0
        first.slow_end = 25
        stopped = now()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        # Longer than the lease, and nobody took it: it was renewed until the work was over.
        assert now() - stopped >= 25 and log[3:] == ["a ends"]
        assert spec(cluster)["holderIdentity"] == "" and spec(cluster)["leaseDurationSeconds"] == 1
        await until(lambda: "b works" in log, limit=6)
        assert log.index("a ends") < log.index("b works")
        assert spec(cluster)["leaseTransitions"] == 1
        other.cancel()
        await asyncio.wait({other})


@virtual
async def test_the_holder_writes_without_reading() -> None:
    async with fake_cluster() as (cluster, client):
        candidate = Candidate(client, "a", [])
        running = candidate.start()
        await until(lambda: candidate.elector.is_leader)
        cluster.requests.clear()
        await asyncio.sleep(20.5)
        assert {method for method, _, _ in cluster.requests} == {"PUT"}
        assert len(cluster.requests) == 10
        running.cancel()
        await asyncio.wait({running})


@virtual
async def test_a_silent_leader_is_followed_after_its_lease() -> None:
    async with fake_cluster() as (cluster, client):
        lease = {"metadata": {"name": "lock"}, "spec": record("dead", transitions=4).to_spec()}
        cluster.put(lease, collection=COLLECTION)
        log: list[str] = []
        candidate = Candidate(client, "a", log)
        started = now()
        running = candidate.start()
        await until(lambda: "a works" in log)
        assert 15 <= now() - started <= 15 + 2 * 2.2
        assert spec(cluster)["leaseTransitions"] == 5
        running.cancel()
        await asyncio.wait({running})


@virtual
async def test_a_lease_that_cannot_be_renewed_ends_the_work() -> None:
    async with fake_cluster() as (cluster, client):
        log: list[str] = []
        candidate = Candidate(client, "a", log)
        running = candidate.start()
        await until(lambda: "a works" in log)

        async def down(request: web.Request) -> web.StreamResponse | None:
            return refusal(500, "InternalError")

        cluster.intercept = down
        failing = now()
        with pytest.raises(LeadershipLost, match="kube-system/lock"):
            await running
        assert log[-1] == "a ends"
        assert now() - failing < 15
        assert spec(cluster)["holderIdentity"] == "a", "a lost lease is not given away"


@virtual
async def test_a_short_outage_is_survived() -> None:
    async with fake_cluster() as (cluster, client):
        log: list[str] = []
        candidate = Candidate(client, "a", log)
        running = candidate.start()
        await until(lambda: "a works" in log)
        fails = 3

        async def flaky(request: web.Request) -> web.StreamResponse | None:
            nonlocal fails
            fails -= 1
            return refusal(500, "InternalError") if fails >= 0 else None

        cluster.intercept = flaky
        await asyncio.sleep(60)
        assert not running.done() and candidate.elector.is_leader
        assert candidate.elector.problem() == ""
        running.cancel()
        await asyncio.wait({running})


@virtual
async def test_work_that_ends_releases_the_lease_and_its_failure_is_raised() -> None:
    async with fake_cluster() as (cluster, client):

        async def work() -> None:
            raise ValueError("the work")

        with pytest.raises(ValueError, match="the work"):
            await Candidate(client, "a", []).elector.run(work)
        assert spec(cluster)["holderIdentity"] == ""


@virtual
async def test_other_fields_of_the_lease_stay() -> None:
    async with fake_cluster() as (cluster, client):
        lease = {"metadata": {"name": "lock", "labels": {"a": "b"}}, "spec": {"strategy": "x"}}
        cluster.put(lease, collection=COLLECTION)
        candidate = Candidate(client, "a", [])
        running = candidate.start()
        await until(lambda: candidate.elector.is_leader)
        stored = cluster.objects[f"{COLLECTION}/lock"]
        assert stored["metadata"]["labels"] == {"a": "b"} and stored["spec"]["strategy"] == "x"
        running.cancel()
        await asyncio.wait({running})


def hold(cluster: FakeCluster, holder: str, **metadata: Any) -> None:
    lease = {"metadata": {"name": "lock", **metadata}, "spec": record(holder).to_spec()}
    cluster.put(lease, collection=COLLECTION)


@virtual
async def test_a_stolen_lease_ends_the_work_at_once() -> None:
    async with fake_cluster() as (cluster, client):
        log: list[str] = []
        running = Candidate(client, "a", log).start()
        await until(lambda: "a works" in log)
        stolen = now()
        hold(cluster, "thief")
        with pytest.raises(LeadershipLost):
            await running
        assert now() - stolen <= 2.1 and log[-2:] == ["a sees thief", "a ends"]
        assert spec(cluster)["holderIdentity"] == "thief"


@virtual
async def test_a_lease_touched_by_others_is_kept() -> None:
    async with fake_cluster() as (cluster, client):
        log: list[str] = []
        running = Candidate(client, "a", log).start()
        await until(lambda: "a works" in log)
        for n in range(3):
            hold(cluster, "a", labels={"n": str(n)})
            await asyncio.sleep(5)
        assert not running.done()
        # A write between the last renewal and the release is no reason to keep the lease.
        hold(cluster, "a", labels={"n": "last"})
        running.cancel()
        await asyncio.wait({running})
        assert spec(cluster)["holderIdentity"] == ""


@virtual
async def test_a_lease_that_is_another_s_is_not_released() -> None:
    async with fake_cluster() as (cluster, client):
        log: list[str] = []
        running = Candidate(client, "a", log).start()
        await until(lambda: "a works" in log)
        hold(cluster, "thief")
        running.cancel()
        await asyncio.wait({running})
        assert spec(cluster)["holderIdentity"] == "thief"


@virtual
async def test_two_who_create_the_lease_at_the_same_time() -> None:
    async with fake_cluster() as (cluster, client):
        log: list[str] = []

        async def race(request: web.Request) -> web.StreamResponse | None:
            if request.method == "POST":
                hold(cluster, "faster")
            return None

        cluster.intercept = race
        running = Candidate(client, "a", log).start()
        await asyncio.sleep(10)
        assert log == ["a sees faster"]
        running.cancel()
        await asyncio.wait({running})


@virtual
async def test_a_release_that_fails_is_left_to_time() -> None:
    async with fake_cluster() as (cluster, client):
        log: list[str] = []
        candidate = Candidate(client, "a", log)
        running = candidate.start()
        await until(lambda: "a works" in log)

        async def down(request: web.Request) -> web.StreamResponse | None:
            return refusal(500, "InternalError")

        cluster.intercept = down
        running.cancel()
        await asyncio.wait({running})
        assert log[-1] == "a ends" and spec(cluster)["holderIdentity"] == "a"
        await asyncio.sleep(40)
        assert candidate.elector.problem() == "failed election to renew leadership on lease lock"
