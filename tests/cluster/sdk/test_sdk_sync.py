"""The sync clients do what the async ones do, also where an event loop is running."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from corral.sdk.mpijobs import MPIJob
from corral.sdk.sync import MPIJobClient, TrainingClient
from tests.cluster.sdk.sdk_programs import report_steps
from tests.cluster.training.training_stage import OperatorRun

pytestmark = pytest.mark.timeout(150)
SECONDS = 90.0


@pytest.fixture
def client(kubeconfig: str, namespace: str, operator: OperatorRun) -> Iterator[TrainingClient]:
    with TrainingClient(kubeconfig=kubeconfig, namespace=namespace) as client:
        yield client


def test_train_watch_logs_delete(client: TrainingClient) -> None:
    job = client.train(report_steps, {"steps": 2, "words": ["ok"]}, retries=0)
    phases = [now.phase for now in client.watch_job(job)]
    assert phases[-1] == "Succeeded"
    seen: list[str] = []
    done = client.wait_for_job_status(
        job, timeout=SECONDS, callbacks=[lambda now: seen.append(client.get_job(now).phase)]
    )
    assert seen == ["Succeeded"]  # a callback may use the client
    assert list(client.get_job_logs(job)) == ["replica 0 ok"]
    assert [found.name for found in client.list_jobs()] == [job.name]
    assert client.get_job_events(job)
    assert "Succeeded" in client.explain_job(job)._repr_html_()
    assert done.duration is not None
    client.delete_job(job)
    assert client.wait_for_job_status(job, "Deleted", timeout=SECONDS).phase == "Deleted"


def test_followed_logs_may_be_left(client: TrainingClient) -> None:
    job = client.train(report_steps, {"steps": 1, "words": ["a"]}, name="left", retries=0)
    for line in client.get_job_logs(job, follow=True):
        assert line.pod == "left-0"
        break
    assert client.get_job(job).name == "left"


async def test_inside_a_running_loop(kubeconfig: str, namespace: str, operator: object) -> None:
    assert asyncio.get_running_loop()
    with MPIJobClient(kubeconfig=kubeconfig, namespace=namespace) as client:
        made = client.create(
            MPIJob(
                "sync",
                image="busybox",
                command="echo one",
                worker_command="sleep 300",
                run_policy={"cleanPodPolicy": "All"},
            )
        )
        assert client.wait(made, timeout=SECONDS).finished
        assert list(client.logs(made, launcher=True)) == ["one"]
        assert client.status(made).succeeded
        assert [job.name for job in client.list(phase="succeeded")] == ["sync"]
        client.delete(made)
