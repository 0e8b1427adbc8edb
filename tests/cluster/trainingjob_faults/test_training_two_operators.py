"""Two operators, and the leader is killed again and again while jobs run.

Every job ends right, no pod is made twice, whoever does not lead writes nothing, and the other
takes over within the lease. All of it is read from the audit of requests and from the Lease itself.
"""

from __future__ import annotations

import random
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from tests.backends import Backend
from tests.cluster.objects import eventually
from tests.cluster.trainingjob_faults.jobs import Jobs, check_pod_creations
from tests.cluster.trainingjob_faults.leases import Term, leader_of, terms
from tests.cluster.trainingjob_faults.operators import RunningOperator
from tests.faults.audit import Audit, Entry
from tests.faults.plan import FaultPlan
from tests.faults.proxy import FaultProxy

LEASE, RENEW, RETRY = 5.0, 3.5, 0.5
"""Seconds: short, so that takeovers are."""
JITTER = 1.2
SLACK = 15.0
"""For a machine that is busy."""
ELECTION = (
    "--lease-duration", str(LEASE), "--renew-deadline", str(RENEW), "--retry-period", str(RETRY),
)  # fmt: skip
MOST_WRITES = 24
"""A leader is killed after at most so many writes of its term: in the middle of its work."""


@pytest.mark.parametrize(
    ("kills", "count"),
    [
        pytest.param(3, 8, id="3-kills"),
        pytest.param(20, 50, id="20-kills", marks=[pytest.mark.soak, pytest.mark.timeout(900)]),
    ],
)
def test_leaders_are_killed(
    backend: Backend, jobs: Jobs, tmp_path: Path, seed: int, kills: int, count: int
) -> None:
    rng, audit = random.Random(seed), Audit()
    names = [f"led-{n:02}" for n in range(count)]
    with ExitStack() as stack:
        operators = {}
        for name in ("first", "second"):
            proxy = stack.enter_context(
                FaultProxy(backend, tmp_path, FaultPlan(seed), name=name, audit=audit)
            )
            operators[name] = stack.enter_context(
                RunningOperator(proxy, tmp_path, jobs.namespace, *ELECTION)
            )
        dead: set[str] = set()
        for number in range(kills):
            leader = wait_for_leader(audit, jobs.namespace, dead)
            for name in names[number * count // kills : (number + 1) * count // kills]:
                jobs.create(name, "sleep 0.5")
            (standby,) = (each for each in operators.values() if each.name != leader.client)
            wait_for_standby(audit, standby)
            wait_for_writes(audit, leader, rng.randint(0, MOST_WRITES))
            operators[leader.client].kill()
            dead.add(leader.identity)
        wait_for_leader(audit, jobs.namespace, dead)
        phases = jobs.wait_done(names, seconds=120)
        assert phases == dict.fromkeys(names, "Succeeded")
        jobs.check(names)
    check_pod_creations(audit, jobs.namespace, names)
    check_terms(terms(audit, jobs.namespace), kills, dead)
    check_writers(audit, jobs.namespace)


def wait_for_leader(audit: Audit, namespace: str, dead: set[str]) -> Term:
    """The one that lives."""

    def living() -> list[Term]:
        leader = leader_of(audit, namespace)
        return [leader] if leader is not None and leader.identity not in dead else []

    return eventually(living, seconds=60)[0]


def wait_for_standby(audit: Audit, standby: RunningOperator) -> None:
    """Until the other one is up and watches the lease: who has just begun takes longer."""
    eventually(
        lambda: any(
            entry.client == standby.name and entry.at > standby.started_at
            for entry in audit.of("leases", method="GET")
        ),
        seconds=60,
    )


def wait_for_writes(audit: Audit, leader: Term, count: int) -> None:
    """Until the leader has written so often in its term, or has nothing left to write."""

    def written() -> int:
        return sum(
            entry.client == leader.client and entry.at >= leader.began and is_work(entry)
            for entry in audit
        )

    try:
        eventually(lambda: written() >= count, seconds=2)
    except AssertionError:
        pass  # idle: a good moment too


def is_work(entry: Entry) -> bool:
    """Whether it is a write that only a leader may do."""
    return entry.method != "GET" and entry.target.resource in (
        "pods", "services", "serviceaccounts", "networkpolicies", "trainingjobs",
    )  # fmt: skip


def check_terms(led: list[Term], kills: int, dead: set[str]) -> None:
    """Each change of hands is counted; after a kill it is neither early nor late."""
    assert len(led) > kills
    assert [term.transitions for term in led] == list(range(len(led)))
    for before, after in pairwise(led):
        if before.identity in dead:
            silent = (after.acquired - before.renewed).total_seconds()
            assert LEASE <= silent <= LEASE + 2 * JITTER * RETRY + SLACK, (before, after)


def check_writers(audit: Audit, namespace: str) -> None:
    """Whoever writes holds the lease at that moment."""
    led = terms(audit, namespace)
    for entry in audit:
        if is_work(entry) and entry.target.namespace == namespace:
            holder = [term for term in led if term.began <= entry.at][-1]
            assert holder.client == entry.client, (holder, entry)
