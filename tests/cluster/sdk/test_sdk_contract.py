"""The same answers from a cluster and from a gateway: every case runs both ways."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.client import errors
from corral.sdk.clients import AsyncMPIJobClient, AsyncTrainingClient
from corral.sdk.errors import JobFailed
from corral.sdk.mpijobs import MPIJob
from corral.sdk.resources import ResourceSpec
from corral.sdk.views import Job
from tests.cluster.sdk.sdk_programs import fail, report_steps

pytestmark = pytest.mark.timeout(150)
SECONDS = 90.0


async def test_a_function_trains_with_two_replicas(client: AsyncTrainingClient) -> None:
    job = await client.train(
        report_steps, {"steps": 5, "words": ["says", "hé"]}, replicas=2, retries=0
    )
    seen: list[str] = []
    done = await client.wait_for_job_status(
        job, "Complete", timeout=SECONDS, callbacks=[lambda now: seen.append(now.phase)]
    )
    assert done.succeeded
    assert seen[-1] == "Succeeded"
    assert done.progress.step == done.progress.total == 5
    assert done.metrics["loss"] == pytest.approx(2.0 * 2.718281828**-5, rel=1e-6)
    lines = [line async for line in client.get_job_logs(job)]
    assert sorted(lines) == ["replica 0 says hé", "replica 1 says hé"]
    assert {(line.role.index, str(line).split()[1]) for line in lines} == {(0, "0"), (1, "1")}
    second = [line async for line in client.get_job_logs(job, replica=1, tail_lines=1)]
    assert second == ["replica 1 says hé"]
    again = await client.restart_job(job)
    assert again.uid != job.uid
    followed = [line async for line in client.get_job_logs(job, follow=True, replica=0)]
    assert followed == ["replica 0 says hé"]
    assert (await client.wait_for_job_status(job, timeout=SECONDS)).succeeded


async def test_a_failure_is_explained(client: AsyncTrainingClient) -> None:
    job = await client.train(fail, {"message": "no data today"}, name="fails", retries=0)
    with pytest.raises(JobFailed) as caught:
        await client.wait_for_job_status(job, timeout=SECONDS)
    found, explanation = caught.value.job, caught.value.explanation
    assert found.phase == "Failed"
    assert found.failure is not None
    assert found.failure.exit_code == 1
    assert "RuntimeError: no data today" in found.failure.log_tail
    assert explanation is not None
    assert explanation.phase == "Failed"
    assert str(await client.explain_job(job)) == str(explanation)
    reached = await client.wait_for_job_status(job, ("Failed", "Succeeded"), timeout=SECONDS)
    assert reached.phase == "Failed"
    events = await client.get_job_events(job)
    assert any(event.about == "Pod/fails-0" for event in events)
    assert any(event.about == "TrainingJob/fails" for event in events)


async def test_a_script_with_what_it_needs(client: AsyncTrainingClient, tmp_path: Path) -> None:
    script = tmp_path / "show.py"
    script.write_text("import os, sys, numpy; print(sys.argv[1:], os.environ['TEAM'])\n")
    job = await client.train(
        script,
        ["--rate", "0.1"],
        env={"TEAM": "a"},
        packages=["numpy"],
        resources=ResourceSpec(cpu=0.5, memory="128Mi"),
        labels={"team": "a"},
        retries=0,
    )
    await client.wait_for_job_status(job, timeout=SECONDS)
    lines = [line async for line in client.get_job_logs(job, timestamps=True)]
    assert [line.partition(" ")[2] for line in lines] == ["['--rate', '0.1'] a"]
    assert job.spec["resources"]["requests"] == {"cpu": "0.5", "memory": "128Mi"}
    found = await client.list_jobs(labels="team=a", phase="succeeded")
    assert [other.name for other in found] == [job.name]
    assert await client.list_jobs(labels="team=b") == []
    await client.delete_job(job)
    await client.wait_for_job_status(job, "Deleted", timeout=SECONDS)
    with pytest.raises(errors.NotFound):
        await client.get_job(job)


async def test_suspend_scale_resume(mpi: AsyncMPIJobClient) -> None:
    made = await mpi.create(_mpijob("pi", suspend=True))
    assert made.workers == 1
    assert (await mpi.wait("pi", "Suspended", timeout=SECONDS)).phase == "Suspended"
    assert (await mpi.scale(made, 2)).workers == 2
    with pytest.raises(errors.WaitTimeout, match="Suspended"):
        await mpi.wait("pi", "Running", timeout=0.5)
    await mpi.resume("pi")
    done = await mpi.wait("pi", timeout=SECONDS)
    assert done.finished
    assert [line async for line in mpi.logs("pi", launcher=True)] == ["3.14"]
    assert [job.name for job in await mpi.list()] == ["pi"]
    with pytest.raises(errors.Conflict):
        await mpi.suspend("pi")
    await mpi.delete(done)
    await mpi.wait("pi", "Deleted", timeout=SECONDS)
    with pytest.raises(errors.NotFound):
        await mpi.wait("pi", timeout=SECONDS)


def _mpijob(name: str, *, suspend: bool = False) -> MPIJob:
    return MPIJob(
        name,
        image="busybox",
        command=["echo", "3.14"],
        worker_command=["sleep", "300"],
        run_policy={"suspend": suspend, "cleanPodPolicy": "All"},
    )


async def test_waiting_sees_every_phase(client: AsyncTrainingClient) -> None:
    job = await client.train(report_steps, {"steps": 1, "words": []}, suspend=True)
    phases: list[str] = []

    async def note(now: Job) -> None:
        if not phases or phases[-1] != now.phase:
            phases.append(now.phase)
        if now.phase == "Suspended":
            await client.resume_job(now)

    await client.wait_for_job_status(job, timeout=SECONDS, callbacks=[note])
    assert phases[-1] == "Succeeded"
    assert "Suspended" in phases
    assert [p for p in phases if p in ("Suspended", "Running", "Succeeded")] == [
        "Suspended", "Running", "Succeeded",
    ]  # fmt: skip


async def test_refusals_have_types(client: AsyncTrainingClient, mpi: AsyncMPIJobClient) -> None:
    with pytest.raises(errors.NotFound, match="nobody"):
        await client.get_job("nobody")
    with pytest.raises(errors.UnknownKind):
        await client.get_job("nobody", kind="trainingjob5")
    with pytest.raises(errors.BadRequest, match="Done"):
        await client.wait_for_job_status("nobody", "Done")
    with pytest.raises(errors.BadRequest, match="elastic"):
        await client.train(report_steps, {"steps": 1, "words": []}, elastic=(2, 3))
    with pytest.raises(errors.Invalid) as caught:
        await client.train(report_steps, {"steps": 1, "words": []}, replicas=0)
    assert any("replicas" in problem.field for problem in caught.value.fields)
    await mpi.create(_mpijob("twice", suspend=True))
    with pytest.raises(errors.AlreadyExists, match="twice"):
        await mpi.create(_mpijob("twice"))
    checked = await mpi.create(_mpijob("never"), dry_run=True)
    assert checked.name == "never"
    with pytest.raises(errors.NotFound):
        await mpi.get("never")
    with pytest.raises(errors.Conflict):
        await mpi.restart("twice")
