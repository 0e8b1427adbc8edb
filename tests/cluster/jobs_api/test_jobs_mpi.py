"""MPIJobs, with an operator that has a finalizer on them."""

from __future__ import annotations

import asyncio

import pytest

from corral.client import Jobs, errors
from tests.cluster.jobs_api.manifests_of_jobs import all_told, mpi
from tests.cluster.mpijob.mpi_operating import Operator

KIND = "mpijobs"
SECONDS = 60.0
FOR_EVER = "trap 'exit 0' TERM; sleep 1000 & wait"


async def test_seen_scaled_suspended_and_restarted(
    jobs: Jobs, namespace: str, mpi_operator: Operator
) -> None:
    made = await jobs.create(KIND, namespace, mpi("pi", workers=2, script=FOR_EVER))
    await jobs.wait(KIND, namespace, "pi", "Running", timeout=SECONDS)
    found = await jobs.summary(KIND, namespace, "pi")
    counts = {role.role: (role.desired, role.running) for role in found.replicas}
    assert counts == {"launcher": (1, 1), "worker": (2, 2)}
    assert [str(pod.role) for pod in found.pods] == ["launcher", "worker 0", "worker 1"]
    assert (await jobs.explain(KIND, namespace, "pi")).headline == "MPIJob pi is running."

    await jobs.scale(KIND, namespace, "pi", replicas=3)
    await has_pods(jobs, namespace, 4)
    await jobs.suspend(KIND, namespace, "pi")
    await jobs.wait(KIND, namespace, "pi", "Suspended", timeout=SECONDS)
    await jobs.resume(KIND, namespace, "pi")
    await jobs.wait(KIND, namespace, "pi", "Running", timeout=SECONDS)

    with pytest.raises(errors.Conflict, match="only a job that is over"):
        await jobs.restart(KIND, namespace, "pi")
    again = await jobs.restart(KIND, namespace, "pi", force=True)
    assert again["metadata"]["uid"] != made["metadata"]["uid"]
    assert again["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] == 3
    ran = await jobs.wait(KIND, namespace, "pi", "Running", timeout=SECONDS)
    assert ran["metadata"]["uid"] == again["metadata"]["uid"]
    told = await all_told(jobs, KIND, namespace, "pi", last="MPIJobCreated")
    of_the_job = [event for event in told if event["involvedObject"]["kind"] == "MPIJob"]
    uids = {event["involvedObject"]["uid"] for event in of_the_job}
    assert uids == {again["metadata"]["uid"]}


async def test_a_worker_that_fails_is_named(
    jobs: Jobs, namespace: str, mpi_operator: Operator
) -> None:
    job = mpi("sad", workers=1, script="exit 3")
    job["spec"]["runPolicy"] = {"backoffLimit": 0}
    job["spec"]["mpiReplicaSpecs"]["Launcher"]["restartPolicy"] = "Never"
    await jobs.create(KIND, namespace, job)
    await jobs.wait(KIND, namespace, "sad", "Failed", timeout=SECONDS)
    found = await jobs.explain(KIND, namespace, "sad")
    assert found.headline.startswith("MPIJob sad failed: "), found
    assert any("exit code 3" in reason for reason in found.reasons), found
    again = await jobs.restart(KIND, namespace, "sad")
    assert "status" not in again or not again["status"].get("conditions")


async def has_pods(jobs: Jobs, namespace: str, count: int) -> None:
    """Wait until it has as many."""
    job = await jobs.get(KIND, namespace, "pi")
    async with asyncio.timeout(SECONDS):
        while True:
            if len(await jobs.pods(KIND, job)) == count:
                return
            await asyncio.sleep(0.05)
