"""Tenant A against tenant B at the endpoint to which pods report and from which they get URLs."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from corral.api.training.kinds import TRAININGJOBS
from corral.checkpoints.places import StoreRules
from corral.egress import EgressPolicy
from corral.families.trainingjob.names import pod_labels
from corral.kube.client import KubeClient
from corral.kube.resources import NAMESPACES, PODS
from corral.kube.types import Obj
from corral.operator.reports import ReportSettings
from corral.runtime import owner_reference
from tests.backends import Backend, own_backend, own_scope
from tests.cluster.objects import Objects
from tests.cluster.trainingjob.operating import install_definitions
from tests.cluster.trainingjob_checkpoints.checkpoint_stage import (
    QUICK,
    Pod,
    Stage,
    downloaded,
    staged,
    storage_of,
    volume_manifest,
)
from tests.stores.servers import SERVERS, Served

CLAIM = {"pvc": {"size": "1Gi"}}
FILES = {"model.bin": b"weights" * 100}
BOUNDARY = pytest.mark.route("report endpoint")


@pytest.fixture(scope=own_scope)
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    with own_backend(tmp_path_factory.mktemp("reporting")) as backend:
        install_definitions(Objects(backend))
        yield backend


@pytest.fixture
async def client(backend: Backend) -> AsyncIterator[KubeClient]:
    async with KubeClient.from_kubeconfig(str(backend.kubeconfig)) as client:
        yield client


@pytest.fixture
async def stage(client: KubeClient, namespace: str) -> AsyncIterator[Stage]:
    """Tenant A."""
    async with staged(client, namespace, checkpoints=QUICK) as made:
        yield made


@pytest.fixture
async def theirs(stage: Stage, unique: str) -> AsyncIterator[Stage]:
    """Tenant B, at the same endpoint."""
    name = f"tenant-b-{unique}"
    await stage.client.create(NAMESPACES, {"metadata": {"name": name}})
    yield replace(stage, namespace=name)
    await stage.client.delete(NAMESPACES, name)


def requests_to(job: Obj, identifier: str = "step-000000000007.abc") -> dict[str, Obj]:
    """Every path of a job, with what is right to send to it."""
    manifest = volume_manifest(job, 7)
    part = {"replica": 0, "of": 1, "attempt": 1, "files": []}
    return {
        "report": {"replica": 0, "attempt": 1, "step": 666, "total": 1000},
        "checkpoints": {"id": manifest["id"], "manifest": manifest},
        "uploads": {**part, "step": 7},
        f"uploads/{identifier}/commit": part,
        "restore": {"from": "latest"},
    }


async def untouched(theirs: Stage, job: Obj) -> None:
    """Nothing was reported about B's job."""
    found = await theirs.get_job(job["metadata"]["name"])
    assert "progress" not in found["status"]
    assert await theirs.checkpoints() == {}


@pytest.mark.attack(
    "tenant against tenant",
    "calls every path of another's job with the token of a pod of its own job of the same name",
    "each is forbidden, and nothing becomes of it",
)
@BOUNDARY
async def test_a_token_of_another_namespace(stage: Stage, theirs: Stage) -> None:
    job = await theirs.job("mnist", CLAIM)
    pod = await stage.pod(await stage.job("mnist", CLAIM))
    intruder = replace(pod, url=theirs.url("mnist"))
    found = {path: (await intruder.post(path, body))[0] for path, body in requests_to(job).items()}
    assert found == dict.fromkeys(found, 403)
    await untouched(theirs, job)
    assert (await pod.post("report", {"replica": 0, "attempt": 1, "step": 1}))[0] == 200


@pytest.mark.attack(
    "tenant against tenant",
    "makes a pod that says it is owned by another's job, by its name and uid",
    "each is refused: the pod is of another namespace than the job, and is collected as an orphan",
)
@BOUNDARY
async def test_a_pod_that_says_whose_it_is(stage: Stage, theirs: Stage) -> None:
    job = await theirs.job("mnist", CLAIM)
    owner = owner_reference(TRAININGJOBS.stamp(job))
    meta = {
        "name": "mnist-0",
        "namespace": stage.namespace,
        "labels": pod_labels("mnist", 0, attempt=1, world=1),
        "ownerReferences": [{**owner, "controller": True}],
        "finalizers": ["tests.corral.dev/stays"],  # though it is collected
    }
    spec = {"nodeSelector": {"no": "where"}, "containers": [{"name": "c", "image": "x"}]}
    token = await stage.token(await stage.client.create(PODS, {"metadata": meta, "spec": spec}))
    for url in (theirs.url("mnist"), stage.url("mnist")):
        liar = Pod(stage.http, url, token)
        for path, body in requests_to(job).items():
            assert (await liar.post(path, body))[0] in (401, 403, 404), path
    await untouched(theirs, job)
    free = {"metadata": {"finalizers": None}}
    await stage.client.patch(PODS, "mnist-0", namespace=stage.namespace, patch=free)


@pytest.mark.attack(
    "tenant against tenant",
    "leads from its own job's path to another's: by dots, encoded slashes and other kinds",
    "there is no such path or job, or it is forbidden",
)
@BOUNDARY
async def test_paths_that_lead_elsewhere(stage: Stage, theirs: Stage) -> None:
    job = await theirs.job("mnist", CLAIM)
    pod = await stage.pod(await stage.job("mnist", CLAIM))
    base = pod.url.rpartition("/namespaces/")[0]
    ways = (
        f"{pod.url}/../../../{theirs.namespace}/trainingjobs/mnist",
        f"{base}/namespaces/{stage.namespace}%2f..%2f{theirs.namespace}/trainingjobs/mnist",
        f"{base}/namespaces/{theirs.namespace}%00/trainingjobs/mnist",
        f"{base}/namespaces/{theirs.namespace}/spotinstancejobs/mnist",
        f"{base}/namespaces//trainingjobs/mnist",
    )
    for url in ways:
        intruder = replace(pod, url=url)
        for path, body in requests_to(job).items():
            assert (await intruder.post(path, body))[0] in (400, 403, 404), (url, path)
    await untouched(theirs, job)


@pytest.mark.attack(
    "tenant against tenant",
    "sends so many requests that the endpoint refuses it",
    "it counts by pod: another's are answered",
)
@pytest.mark.route("report endpoint, shares of it")
async def test_a_flood_of_one_pod(client: KubeClient, namespace: str, unique: str) -> None:
    async with staged(client, namespace, settings=ReportSettings(requests_per_second=2.0)) as stage:
        name = f"tenant-b-{unique}"
        await client.create(NAMESPACES, {"metadata": {"name": name}})
        theirs = replace(stage, namespace=name)
        flooding = await stage.pod(await stage.job("mnist", CLAIM))
        other = await theirs.pod(await theirs.job("mnist", CLAIM))
        codes = [(await flooding.post("report", {}))[0] for _ in range(20)]
        assert codes.count(429) > 10
        assert (await other.post("report", {}))[0] == 200
        await client.delete(NAMESPACES, name)


# -- uploads of others, on every store -------------------------------------------------------------

STORES = {"rclone": "S3", "gcs": "Google Cloud Storage", "azure": "Azure Blob Storage"}


@pytest.fixture(
    scope=own_scope,
    params=[
        pytest.param(name, marks=pytest.mark.route(f"checkpoints, {store}"))
        for name, store in STORES.items()
    ],
)
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    with SERVERS[request.param](tmp_path_factory.mktemp(request.param)) as found:
        yield found


@pytest.mark.attack(
    "tenant against tenant",
    "commits, or begins again, an upload that another's job has begun, by its id",
    "there is no such upload for its job; the other's is finished as if nothing were",
)
async def test_uploads_of_others(stage: Stage, theirs: Stage, served: Served) -> None:
    for each in (stage, theirs):
        await each.secret(served.credentials)
    storage = storage_of(served, prefix=f"shared-{uuid.uuid4().hex[:8]}")
    victim = await theirs.pod(await theirs.job("mnist", storage))
    pod = await stage.pod(await stage.job("mnist", storage))
    begun = await victim.begin(7, FILES)
    status, answer = await pod.finish(begun, FILES)
    assert (status, "was not begun" in answer["error"]) == (404, True)
    assert await theirs.phases() == {begun["name"]: "Writing"}
    assert await stage.phases() == {}
    status, answer = await victim.finish(begun, FILES)
    assert (status, answer["complete"]) == (200, True)
    assert await pod.restore() == []
    (candidate,) = await victim.restore()
    assert await downloaded(candidate) == FILES


@pytest.mark.attack(
    "tenant against tenant",
    "asks for URLs to read another's checkpoint: by its name and its id",
    "none is signed that leads below another's namespace",
)
async def test_restores_of_others(stage: Stage, theirs: Stage, served: Served) -> None:
    for each in (stage, theirs):
        await each.secret(served.credentials)
    storage = storage_of(served, prefix=f"shared-{uuid.uuid4().hex[:8]}")
    victim = await theirs.pod(await theirs.job("mnist", storage))
    saved = await victim.save(7, FILES)
    pod = await stage.pod(await stage.job("mnist", storage))
    sources: tuple[Any, ...] = (
        "latest",
        saved["name"],
        saved["id"],
        f"{theirs.namespace}/{saved['name']}",
        f"../{theirs.namespace}/{saved['name']}",
    )
    for source in sources:
        status, answer = await pod.post("restore", {"from": source})
        assert status >= 400 or answer["candidates"] == [], (source, answer)
    assert [one["id"] for one in await victim.restore()] == [saved["id"]]


@pytest.mark.attack(
    "tenant against tenant",
    "starts from the address of another's checkpoint, with the keys that the operator has itself",
    "they open folders of its own namespace only",
)
async def test_addresses_of_others(
    client: KubeClient, namespace: str, unique: str, served: Served
) -> None:
    rules = StoreRules(
        endpoints=frozenset({served.location.endpoint}), egress=EgressPolicy.of(["127.0.0.1"])
    )
    keys = served.credentials
    async with staged(client, namespace, checkpoints=QUICK, rules=rules, environment=keys) as stage:
        name = f"tenant-b-{unique}"
        await client.create(NAMESPACES, {"metadata": {"name": name}})
        theirs = replace(stage, namespace=name)
        storage = storage_of(served, prefix=f"shared-{unique}", secret=None)
        victim = await theirs.pod(await theirs.job("mnist", storage))
        saved = await victim.save(7, FILES)
        pod = await stage.pod(await stage.job("mnist", storage))
        own = await pod.save(8, FILES)
        uri = (await theirs.checkpoints())[saved["name"]]["spec"]["uri"]
        for address in (uri, uri.replace(f"/{name}/", f"/{namespace}/../{name}/")):
            status, answer = await pod.post("restore", {"from": address})
            assert status == 409, (address, answer)
        mine = (await stage.checkpoints())[own["name"]]["spec"]["uri"]
        assert [one["id"] for one in await pod.restore(mine)] == [own["id"]]
        await client.delete(NAMESPACES, name)


# -- folders ---------------------------------------------------------------------------------------


@pytest.mark.attack(
    "tenant against tenant",
    "announces a checkpoint that lies in another's folder, under its own job",
    "what another job wrote is not taken; an own object leads below the own namespace and job",
)
@pytest.mark.route("checkpoints, folders")
async def test_announcements_of_others(
    client: KubeClient, namespace: str, theirs: Stage, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    async with staged(client, namespace, local_root=root, checkpoints=QUICK) as stage:
        job = await theirs.job("mnist", {"local": {}})
        mine = await stage.job("mnist", {"local": {}})
        pod = await stage.pod(mine)
        foreign = volume_manifest(job, 7)
        said = await pod.good("checkpoints", {"id": foreign["id"], "manifest": foreign})
        assert said["name"] is None and await stage.checkpoints() == {}
        own = volume_manifest(mine, 7)
        await pod.good("checkpoints", {"id": own["id"], "manifest": own})
        (found,) = (await stage.checkpoints()).values()
        place = f"file://{root}/{namespace}/mnist/{mine['metadata']['uid']}/"
        assert found["spec"]["uri"].startswith(place)
        assert await theirs.checkpoints() == {}
