"""Jobs in processes of their own."""

from __future__ import annotations

import pytest

from corral.cluster.apiserver.workers import Workers
from corral.kube import errors


async def test_a_job_that_never_ends_is_killed_and_the_next_one_is_done() -> None:
    workers = Workers(waiting_per_flow=4, waiting=4, cpu_seconds=1)
    try:
        assert await workers.run("a", sum, (1, 2)) == 3
        with pytest.raises(errors.InternalError, match="too much for the server"):
            await workers.run("a", sum, range(10**14))
        assert await workers.run("a", sum, (3, 4)) == 7
    finally:
        workers.close()
