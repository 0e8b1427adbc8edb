"""Tenant A against tenant B at the report endpoint of spot jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import aiohttp
import pytest

from corral.families.spot.jobs import reported
from corral.kube.resources import NAMESPACES
from corral.kube.types import Obj
from tests.cluster.spot_checkpoints.conftest import backend, client, registry, stage
from tests.cluster.spot_checkpoints.spot_stage import SpotStage
from tests.cluster.spot_checkpoints.test_spot_reports import http, manifest, notes, played

__all__ = ["backend", "client", "http", "registry", "stage"]


@pytest.fixture
async def theirs(stage: SpotStage, unique: str) -> AsyncIterator[SpotStage]:
    """Tenant B, at the same endpoint."""
    name = f"tenant-b-{unique}"
    await stage.client.create(NAMESPACES, {"metadata": {"name": name}})
    yield replace(stage, namespace=name)
    await stage.client.delete(NAMESPACES, name)


def requests_to(job: Obj, identifier: str) -> dict[str, Obj]:
    """Every path of a job, with what is right to send to it."""
    part = {"replica": 0, "of": 1, "attempt": 1, "files": []}
    return {
        "report": {"replica": 0, "attempt": 1, "step": 666, "total": 1000},
        "checkpoints": {"id": identifier, "manifest": manifest(job, 7)},
        "uploads": {**part, "step": 7},
        f"uploads/{identifier}/commit": part,
        "restore": {"from": "latest"},
    }


@pytest.mark.attack(
    "tenant against tenant",
    "calls every path of another's spot job with the token of a copy of its own of the same name",
    "each is forbidden, and nothing is noted on the other's copy",
)
@pytest.mark.route("report endpoint")
async def test_a_copy_of_another_namespace(
    stage: SpotStage, theirs: SpotStage, http: aiohttp.ClientSession
) -> None:
    job = await theirs.job()
    victim = await played(theirs, http, job)
    pod = await played(stage, http, await stage.job())
    intruder = replace(pod, url=victim.url)
    asked = requests_to(job, manifest(job, 7)["id"])
    found = {path: (await intruder.post(path, body))[0] for path, body in asked.items()}
    assert found == dict.fromkeys(asked, 403)
    untouched = await notes(theirs, job)
    assert reported.progress(untouched) is None and reported.last_checkpoint(untouched) is None
    assert (await pod.post("report", {"replica": 0, "attempt": 1, "step": 1}))[0] == 200
    assert (await victim.post("report", {"replica": 0, "attempt": 1, "step": 1}))[0] == 200
