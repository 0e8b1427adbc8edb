"""Functions, scripts and folders, trained on a real cluster."""

from __future__ import annotations

import pytest

from corral.sdk.clients import AsyncTrainingClient
from tests.cluster.sdk.sdk_programs import report_steps

pytestmark = pytest.mark.timeout(120)
SECONDS = 90.0


async def test_a_function_trains_with_two_replicas(client: AsyncTrainingClient) -> None:
    job = await client.train(
        report_steps, {"steps": 5, "words": ["says", "hé"]}, replicas=2, retries=0
    )
    done = await client.wait_for_job_status(job, timeout=SECONDS)
    assert done.succeeded
    assert done.progress.step == done.progress.total == 5
    assert done.metrics["loss"] == pytest.approx(2.0 * 2.718281828**-5, rel=1e-6)
    lines = [line async for line in client.get_job_logs(job)]
    assert sorted(lines) == ["replica 0 says hé", "replica 1 says hé"]
    assert {(line.role.index, str(line).split()[1]) for line in lines} == {(0, "0"), (1, "1")}
