"""Lists, objects and mistakes, as any job kind has them."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace

import pytest

from corral.client import Jobs, ListQuery, errors
from corral.client.kinds import kind_of
from corral.kube.resources import CUSTOMRESOURCEDEFINITIONS
from tests.cluster.jobs_api.manifests_of_jobs import mpi, said, training
from tests.cluster.objects import Objects


async def many(jobs: Jobs, namespace: str, objects: Objects) -> None:
    for index in range(7):
        team = "a" if index < 4 else "b"
        await jobs.create("mpijobs", namespace, mpi(f"job-{index}", team=team))
    for index, phase in ((1, "Running"), (3, "Failed"), (5, "Running")):
        status = {"status": {"conditions": [said("Created"), said(phase)]}}
        objects.patch(
            "kubeflow.org/v2beta1", "mpijobs", f"job-{index}", status, subresource="status"
        )


def names(page: object) -> list[str]:
    return [item["metadata"]["name"] for item in page.items]  # type: ignore[attr-defined]


async def test_lists_are_filtered_sorted_and_paged(
    jobs: Jobs, namespace: str, objects: Objects
) -> None:
    await many(jobs, namespace, objects)
    everything = await jobs.list("mpijob", namespace)
    assert names(everything) == [f"job-{index}" for index in range(7)]
    assert everything.total == 7 and everything.token == ""
    assert everything.resource_version

    def query(**wanted: object) -> ListQuery:
        return ListQuery(**wanted)  # type: ignore[arg-type]

    assert names(await jobs.list("mpijobs", namespace, query(labels="team=b"))) == [
        "job-4", "job-5", "job-6",
    ]  # fmt: skip
    assert names(await jobs.list("mpijobs", namespace, query(phase="running"))) == [
        "job-1", "job-5",
    ]  # fmt: skip
    found = await jobs.list("mpijobs", namespace, query(phase=("Failed", "Running"), sort="-name"))
    assert names(found) == ["job-5", "job-3", "job-1"]
    assert names(await jobs.list("mpijobs", namespace, query(name="*-[23]"))) == ["job-2", "job-3"]
    assert names(await jobs.list("mpijobs", namespace, query(name="b-6"))) == ["job-6"]

    seen: list[str] = []
    wanted = query(sort="-name", limit=3)
    while True:
        page = await jobs.list("mpijobs", namespace, wanted)
        assert page.total == 7
        seen += names(page)
        if not page.token:
            break
        # What comes and goes meanwhile neither repeats nor hides others.
        await jobs.delete("mpijobs", namespace, seen[-1])
        await jobs.create("mpijobs", namespace, mpi(seen[-1]))
        wanted = query(sort="-name", limit=3, token=page.token)
    assert seen == [f"job-{index}" for index in reversed(range(7))]


async def test_all_namespaces(jobs: Jobs, namespace: str) -> None:
    await jobs.create("mpijobs", namespace, mpi("everywhere"))
    page = await jobs.list("mpijobs", None, ListQuery(name="everywhere"))
    assert [item["metadata"]["namespace"] for item in page.items] == [namespace]


async def test_what_is_not_there(jobs: Jobs, namespace: str) -> None:
    with pytest.raises(errors.NotFound, match="no MPIJob 'pi' in namespace"):
        await jobs.get("mpijobs", namespace, "pi")
    absent = replace(kind_of("spotinstancejobs"), group="not.installed")
    with pytest.raises(errors.NotInstalled, match="does not know SpotInstanceJobs") as caught:
        await jobs.list(absent, namespace)
    assert "corral install" in caught.value.hint
    with pytest.raises(errors.NotInstalled):
        await jobs.get(absent, namespace, "x")
    with pytest.raises(errors.NotInstalled):
        await jobs.create(absent, namespace, {"metadata": {"name": "x"}})
    with pytest.raises(errors.NotFound, match="no namespace 'nowhere'"):
        await jobs.create("mpijobs", "nowhere", mpi("pi"))
    with pytest.raises(errors.NotFound):
        await jobs.delete("mpijobs", namespace, "pi")
    with pytest.raises(errors.NotFound):
        await anext(jobs.watch("mpijobs", namespace, "pi"))


async def test_creates(jobs: Jobs, namespace: str) -> None:
    tried = await jobs.create("mpijobs", namespace, mpi("pi"), dry_run=True)
    assert tried["metadata"]["name"] == "pi"
    assert (await jobs.list("mpijobs", namespace)).total == 0
    bare = {key: value for key, value in mpi("pi").items() if key in ("metadata", "spec")}
    made = await jobs.create("mpijobs", namespace, bare)
    assert made["kind"] == "MPIJob"
    with pytest.raises(errors.AlreadyExists, match="'pi'"):
        await jobs.create("mpijobs", namespace, mpi("pi"))
    with pytest.raises(errors.Invalid) as caught:
        await jobs.create("trainingjobs", namespace, training("t", replicas=-1))
    assert "spec.replicas" in [problem.field for problem in caught.value.fields]
    with pytest.raises(errors.JobError, match="repliccas"):
        await jobs.create("trainingjobs", namespace, training("t", repliccas=1))
    with pytest.raises(errors.Invalid, match="no TrainingJob") as caught:
        await jobs.create("trainingjobs", namespace, mpi("pi"))
    assert [problem.field for problem in caught.value.fields] == ["apiVersion", "kind"]
    with pytest.raises(errors.Invalid, match=r"metadata\.namespace"):
        wrong = mpi("pi")
        wrong["metadata"]["namespace"] = "other"
        await jobs.create("mpijobs", namespace, wrong)


async def test_apply_takes_any_kind(jobs: Jobs, namespace: str) -> None:
    applied = await jobs.apply(mpi("pi"), field_manager="me", namespace=namespace)
    again = await jobs.apply(mpi("pi"), field_manager="me", namespace=namespace)
    assert applied["metadata"]["uid"] == again["metadata"]["uid"]
    plain = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}
    made = await jobs.apply(plain, field_manager="me", namespace=namespace)
    assert made["data"] == {"a": "1"}
    definitions = await jobs.client.list_all(CUSTOMRESOURCEDEFINITIONS)
    assert definitions["items"]
    with pytest.raises(errors.NotInstalled, match="does not know Thing"):
        await jobs.apply({"apiVersion": "x.test/v1", "kind": "Thing", "metadata": {"name": "a"}})
    with pytest.raises(errors.Invalid, match="no apiVersion"):
        await jobs.apply({"kind": "Thing", "metadata": {"name": "a"}})


async def test_replace_needs_the_version_that_was_seen(jobs: Jobs, namespace: str) -> None:
    made = await jobs.create("mpijobs", namespace, mpi("pi"))
    version = made["metadata"]["resourceVersion"]
    made["metadata"]["labels"] = {"changed": "yes"}
    written = await jobs.replace("mpijobs", namespace, "pi", obj=made)
    assert written["metadata"]["labels"] == {"changed": "yes"}
    with pytest.raises(errors.Changed):
        await jobs.replace("mpijobs", namespace, "pi", obj=made, resource_version=version)
    blind = await jobs.replace("mpijobs", namespace, "pi", obj=mpi("pi", now="mine"))
    assert blind["metadata"]["labels"] == {"now": "mine"}
    with pytest.raises(errors.Changed):
        await jobs.delete("mpijobs", namespace, "pi", resource_version=version)


async def test_a_watch_tells_what_enters_and_leaves_a_filter(
    jobs: Jobs, namespace: str, objects: Objects
) -> None:
    await jobs.create("mpijobs", namespace, mpi("pi"))
    running = ListQuery(phase="Running")
    async with (
        asyncio.timeout(60),
        aclosing(jobs.watch("mpijobs", namespace, query=running)) as seen,
    ):
        set_phase(objects, "Running")
        entered = await anext(seen)
        set_phase(objects, "Succeeded")
        left = await anext(seen)
    assert (entered.type, entered.phase) == ("ADDED", "Running")
    assert (left.type, left.phase) == ("DELETED", "Succeeded")


def set_phase(objects: Objects, phase: str) -> None:
    status = {"status": {"conditions": [said(phase)]}}
    objects.patch("kubeflow.org/v2beta1", "mpijobs", "pi", status, subresource="status")
