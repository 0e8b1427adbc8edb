"""Seed's rules about errors: whatever goes wrong on the way to the API server, jobs end right.

Faults are injected into every connection of the operator: 500, 429, hanging requests, connections
that break before or after the server did what it was asked, and watches that are refused or cut.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.backends import Backend
from tests.cluster.trainingjob_faults.jobs import REPLICAS, Jobs, check_pod_creations
from tests.cluster.trainingjob_faults.operators import RunningOperator
from tests.faults.audit import Entry
from tests.faults.plan import Fault, FaultPlan
from tests.faults.proxy import FaultProxy

JOBS = 20
RATE = 0.2
ALONE = "--no-leader-elect"


def test_all_jobs_complete(backend: Backend, jobs: Jobs, tmp_path: Path, seed: int) -> None:
    names = [f"faulty-{n:02}" for n in range(JOBS)]
    plan = FaultPlan(seed, rate=RATE)
    with (
        FaultProxy(backend, tmp_path, plan, name="operator") as proxy,
        RunningOperator(proxy, tmp_path, jobs.namespace, ALONE),
    ):
        for name in names:
            jobs.create(name, "sleep 0.2")
        phases = jobs.wait_done(names, seconds=120)
        assert phases == dict.fromkeys(names, "Succeeded")
        jobs.check(names)
    faults = proxy.audit.faults()
    print(faults)
    assert set(faults) >= {Fault.ERROR, Fault.THROTTLE, Fault.DROP, Fault.LOST, Fault.CUT}
    check_pod_creations(proxy.audit, jobs.namespace, names)
    # Trouble on the way to the API server is no reason to begin again with other pods.
    assert len(proxy.audit.creations("pods", jobs.namespace)) == REPLICAS * JOBS


def test_a_conflict_is_answered_with_a_fresh_read(
    backend: Backend, jobs: Jobs, tmp_path: Path
) -> None:
    """Somebody changes the job between the operator's read and its write of the status."""
    meddled: list[str] = []

    async def meddler(entry: Entry) -> None:
        target = entry.target
        if target.resource == "trainingjobs" and target.subresource == "status" and not meddled:
            body = {"metadata": {"annotations": {"changed": "meanwhile"}}}
            meddled.append(
                await asyncio.to_thread(_annotate, backend, jobs.path(target.name), body)
            )

    with (
        FaultProxy(backend, tmp_path, FaultPlan(0), name="operator", meddler=meddler) as proxy,
        RunningOperator(proxy, tmp_path, jobs.namespace, ALONE),
    ):
        jobs.create("contended", "exit 0")
        assert jobs.wait_done(["contended"], seconds=60) == {"contended": "Succeeded"}
        jobs.check(["contended"])
    writes = [e for e in proxy.audit.of("trainingjobs") if e.target.subresource == "status"]
    assert writes[0].upstream == 409
    assert writes[0].object["metadata"]["resourceVersion"] != meddled[0]
    # Not the same write once more, but one on top of what was there by then.
    assert int(writes[1].object["metadata"]["resourceVersion"]) >= int(meddled[0])
    assert writes[1].upstream == 200
    assert jobs.get("contended")["metadata"]["annotations"]["changed"] == "meanwhile"


def _annotate(backend: Backend, path: str, body: dict[str, Any]) -> str:
    """The version of the object afterwards."""
    reply = backend.request("PATCH", path, body, content_type="application/merge-patch+json")
    assert reply.code == 200, reply.body
    version: str = reply.json()["metadata"]["resourceVersion"]
    return version
