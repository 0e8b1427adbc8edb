"""Retention keeps exactly what the policy says, in the API and in every store."""

from __future__ import annotations

import time
from typing import Any

import pytest

from corral.api.training.kinds import CHECKPOINTS, TRAININGJOBS
from corral.checkpoints.paths import step_of
from corral.families.trainingjob.checkpoints.places import job_place
from corral.kube.client import KubeClient
from tests.cluster.trainingjob_checkpoints.checkpoint_stage import (
    PART,
    Stage,
    put,
    staged,
    storage_of,
)
from tests.stores.servers import Served

ONE = "rclone"
"""For what is the same in every store: one that pip brings, and the quickest of these."""
LOSSES = {1: 5.0, 2: 1.0, 3: 4.0, 4: 3.0, 5: 6.0, 6: 2.0, 7: 9.0}
POLICIES: dict[str, tuple[dict[str, Any], set[int]]] = {
    "the newest": ({"keepLast": 2}, {6, 7}),
    "every third": ({"keepLast": 1, "keepEvery": 3}, {3, 6, 7}),
    "the best": ({"keepLast": 1, "keepBest": {"metric": "loss", "mode": "min"}}, {2, 7}),
    "all rules": (
        {"keepLast": 2, "keepEvery": 4, "keepBest": {"metric": "loss", "mode": "max"}},
        {4, 6, 7},
    ),
}


async def test_policy(stage: Stage, served: Served) -> None:
    """All rules at once: to a store one rule is as good as another."""
    await keeps(stage, served, *POLICIES["all rules"])


@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "all rules"])
@pytest.mark.parametrize("served", [ONE], indirect=True)
async def test_single_rules(stage: Stage, served: Served, policy: str) -> None:
    await keeps(stage, served, *POLICIES[policy])


async def keeps(stage: Stage, served: Served, retention: dict[str, Any], kept: set[int]) -> None:
    """A job whose policy this is ends with exactly these steps."""
    await stage.secret(served.credentials)
    job = await stage.job("mnist", storage_of(served), retention=retention)
    pod = await stage.pod(job)
    for step, loss in LOSSES.items():
        await pod.save(step, {"model.bin": bytes([step])}, metrics={"loss": loss})
    await stage.until_phases({f"mnist-{step:06d}": "Ready" for step in kept})
    store = stage.store(served, job)
    assert {step_of(found) for found in stage.ids_in(store)} == kept
    folders, _ = store.entries("")
    assert {step_of(name) for name in folders} == kept, "nothing is left of the others"
    assert [found["step"] for found in await pod.restore()] == sorted(kept, reverse=True)


async def test_old_ones_go(client: KubeClient, namespace: str, served: Served) -> None:
    ahead = [0.0]

    def wall() -> float:
        return time.time() + ahead[0]

    async with staged(client, namespace, wall=wall) as stage:
        await stage.secret(served.credentials)
        retention = {"keepLast": 10, "maxAge": "1h"}
        job = await stage.job("mnist", storage_of(served), retention=retention)
        pod = await stage.pod(job)
        for step in (1, 2, 3):
            await pod.save(step, {"model.bin": bytes([step])})
        assert len(await stage.phases()) == 3
        ahead[0] = 3700.0
        await stage.client.patch(  # wakes the controller; by itself it would wait for an hour
            TRAININGJOBS,
            "mnist",
            namespace=namespace,
            patch={"metadata": {"annotations": {"now": "later"}}},
        )
        await stage.until_phases({"mnist-000003": "Ready"})
        assert {step_of(found) for found in stage.ids_in(stage.store(served, job))} == {3}


async def test_deleting_an_object_deletes_its_data(stage: Stage, served: Served) -> None:
    await stage.secret(served.credentials)
    job = await stage.job("mnist", storage_of(served))
    pod = await stage.pod(job)
    first = await pod.save(1, {"model.bin": b"1"})
    await pod.save(2, {"model.bin": b"2"})
    await stage.client.delete(CHECKPOINTS, first["name"], namespace=stage.namespace)
    await stage.until_gone(CHECKPOINTS, first["name"])
    store = stage.store(served, job)
    assert {step_of(found) for found in stage.ids_in(store)} == {2}
    assert not list(store.walk(first["id"]))


@pytest.mark.parametrize("served", [ONE], indirect=True)
async def test_data_can_be_kept(stage: Stage, served: Served) -> None:
    await stage.secret(served.credentials)
    job = await stage.job("mnist", storage_of(served))
    pod = await stage.pod(job)
    name = (await pod.save(1, {"model.bin": b"1"}))["name"]
    await stage.client.patch(
        CHECKPOINTS,
        name,
        namespace=stage.namespace,
        patch={"metadata": {"annotations": {"training.corral.dev/keep-data": "true"}}},
    )
    await stage.client.delete(CHECKPOINTS, name, namespace=stage.namespace)
    await stage.until_gone(CHECKPOINTS, name)
    assert len(stage.ids_in(stage.store(served, job))) == 1


async def test_checkpoints_outlive_their_job(stage: Stage, served: Served) -> None:
    await stage.secret(served.credentials)
    job = await stage.job("first", storage_of(served))
    pod = await stage.pod(job)
    saved = await pod.save(5, {"model.bin": b"five"})
    half = await pod.begin(6, {"model.bin": b"six"})
    await stage.delete_pod("first-0")
    await stage.client.delete(TRAININGJOBS, "first", namespace=stage.namespace)
    await stage.until_gone(TRAININGJOBS, "first")
    await stage.until_phases({"first-000001": "Ready"})
    assert not list(stage.store(served, job).walk(half["id"]))

    source = {"from": "first-000001"}
    second = await stage.job("second", storage_of(served), restore=source)
    pod = await stage.pod(second)
    (candidate,) = await pod.restore("first-000001")
    assert (candidate["id"], candidate["step"]) == (saved["id"], 5)
    uri = (await stage.checkpoints())["first-000001"]["spec"]["uri"]
    assert [found["id"] for found in await pod.restore(uri)] == [saved["id"]]
    assert await pod.restore("latest") == [], "latest is the job's own"

    again = await stage.job("first", storage_of(served))
    pod = await stage.pod(again)
    assert await pod.restore("latest") == [], "nor an earlier job's of the same name"
    assert (await pod.save(1, {"model.bin": b"one"}))["name"] == "first-000002"


async def test_what_writers_left_is_swept(
    client: KubeClient, namespace: str, served: Served
) -> None:
    ahead = [0.0]
    async with staged(client, namespace, wall=lambda: time.time() + ahead[0]) as stage:
        await stage.secret(served.credentials)
        job = await stage.job("mnist", storage_of(served))
        pod = await stage.pod(job)
        begun = await pod.begin(1, {"big.bin": bytes(2 * PART)})
        await put(begun["files"][0]["requests"][0], bytes(PART))
        store = stage.store(served, job)
        store.write("step-000000000099.orphan/model.bin", [b"of a writer that died"])
        key = f"{namespace}/mnist"
        await stage.controller.retain(key)
        assert await stage.phases() == {"mnist-000001": "Writing"}
        assert list(store.walk("step-000000000099.orphan"))
        ahead[0] = 25 * 3600.0
        await stage.controller.retain(key)
        await stage.until_phases({})
        place = job_place(job, stage.stores.rules)
        assert place is not None
        # Once more, because the controller's own queue may still be at it.
        await stage.controller._collect(job, place)
        assert not [stat.path for stat in store.walk("") if "/" in stat.path]
        assert store.sweep("", before=time.time() + 3600) == 0, "no upload is under way"
