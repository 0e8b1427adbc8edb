"""Checkpoint objects and jobs that name data of others; the operator deletes as root."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from corral.api.training.kinds import CHECKPOINTS
from corral.checkpoints.errors import CheckpointError, InvalidPath
from corral.checkpoints.local import LocalStore
from corral.checkpoints.location import open_store
from corral.checkpoints.places import PlaceRefused, StoreRules
from corral.checkpoints.repository import Repository
from corral.checkpoints.store import Store
from corral.checkpoints.writer import About
from corral.families.trainingjob.checkpoints.controller import CheckpointSettings
from corral.families.trainingjob.checkpoints.places import address_place, checkpoint_place
from corral.families.trainingjob.checkpoints.retention import Graces
from corral.families.trainingjob.checkpoints.summaries import FINALIZER, JOB_UID, STORAGE
from corral.files.removal import remove_tree
from corral.kube.client import KubeClient
from corral.kube.resources import NAMESPACES
from corral.kube.types import Obj
from tests.backends import Backend, own_backend, own_scope
from tests.cluster.objects import Objects
from tests.cluster.trainingjob.operating import install_definitions
from tests.cluster.trainingjob_checkpoints.checkpoint_stage import (
    QUICK,
    Stage,
    staged,
    storage_of,
)
from tests.stores.servers import SERVERS, Served

UID = str(uuid.UUID(int=7))
ID = "step-000000000007.abc"
EAGER = CheckpointSettings(wait_for_pod=0.2, graces=Graces(orphan=0.0, quarantine=0.0))


@pytest.fixture(scope=own_scope)
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    with own_backend(tmp_path_factory.mktemp("attacked")) as backend:
        install_definitions(Objects(backend))
        yield backend


@pytest.fixture
async def client(backend: Backend) -> AsyncIterator[KubeClient]:
    async with KubeClient.from_kubeconfig(str(backend.kubeconfig)) as client:
        yield client


@pytest.fixture
async def other(client: KubeClient, unique: str) -> AsyncIterator[str]:
    """The namespace of somebody else."""
    name = f"other-{unique}"
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    yield name
    await client.delete(NAMESPACES, name)


@pytest.fixture
async def stage(client: KubeClient, namespace: str, tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(client, namespace, local_root=tmp_path / "root", checkpoints=EAGER) as made:
        yield made


def written(store: Store, uid: str = UID) -> str:
    """A complete checkpoint; its id."""
    with Repository(store).begin(7, About(attempt=1, job_uid=uid)) as writer:
        writer.add("model.bin", [b"weights"])
        manifest = writer.commit()
    assert manifest is not None
    return manifest.id


def intact(store: Store) -> list[str]:
    return [manifest.id for manifest in Repository(store).scan().manifests]


async def forged(stage: Stage, uri: str, storage: Obj, *, uid: str = UID, **status: Any) -> None:
    """A Checkpoint as a user may write it, deleted at once."""
    notes = {STORAGE: json.dumps(storage), JOB_UID: uid}
    metadata = {"name": "forged", "annotations": notes, "finalizers": [FINALIZER]}
    spec = {"jobRef": {"name": "mnist"}, "step": 7, "uri": uri}
    await stage.client.create(
        CHECKPOINTS, {"metadata": metadata, "spec": spec}, namespace=stage.namespace
    )
    await stage.client.delete(CHECKPOINTS, "forged", namespace=stage.namespace)
    await stage.until_gone(CHECKPOINTS, "forged")


async def left(stage: Stage) -> str:
    """What the operator says it did not delete."""
    found = await stage.until(lambda: stage.events("CheckpointDataLeft"))
    return str(found[0])


# --- folders ---------------------------------------------------------------------------------


@pytest.mark.attack(
    "checkpoints",
    "deletes another tenant's checkpoint by a Checkpoint object with its file:// address",
    "the data stays, an event says why, the object goes",
)
@pytest.mark.parametrize("shape", ["plain", "dots", "encoded", "localhost"])
@pytest.mark.route("checkpoints, folders")
async def test_a_foreign_folder(stage: Stage, other: str, tmp_path: Path, shape: str) -> None:
    root = tmp_path / "root"
    theirs = root / other / "mnist" / UID
    store = LocalStore(theirs)
    name = written(store)
    address = {
        "plain": f"file://{theirs}/{name}",
        "dots": f"file://{root}/{stage.namespace}/../{other}/mnist/{UID}/{name}",
        "encoded": f"file://{root}/{quote(stage.namespace + '/../' + other, safe='')}"
        f"/mnist/{UID}/{name}",
        "localhost": f"file://localhost{theirs}/{name}",
    }[shape]
    await forged(stage, address, {"local": {}})
    assert intact(store) == [name]
    assert "nothing is deleted" in await left(stage)


@pytest.mark.attack(
    "checkpoints",
    "deletes a folder of the machine outside the operator's own by a Checkpoint object",
    "the folder stays, an event names the operator's setting, the object goes",
)
async def test_a_folder_of_the_machine(stage: Stage, tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "elsewhere")
    name = written(store)
    where = {"local": {"path": str(tmp_path / "elsewhere")}}
    await forged(stage, f"file://{tmp_path}/elsewhere/{name}", where)
    assert intact(store) == [name]
    assert "--local-folder" in await left(stage)


@pytest.mark.attack(
    "checkpoints",
    "leads the deletion of its own checkpoint to another's by a symbolic link in its folder",
    "no link below the operator's folder is followed, the data stays",
)
@pytest.mark.parametrize("at", ["job", "uid", "id", "inside"])
@pytest.mark.route("checkpoints, folders")
async def test_links_in_the_own_folder(stage: Stage, other: str, tmp_path: Path, at: str) -> None:
    root = tmp_path / "root"
    theirs = root / other / "mnist" / UID
    store = LocalStore(theirs)
    name = written(store)
    mine = root / stage.namespace / "mnist" / UID / name
    link, target = {
        "job": (mine.parent.parent, theirs.parent),
        "uid": (mine.parent, theirs),
        "id": (mine, theirs / name),
        "inside": (mine / "data", theirs / name),
    }[at]
    link.parent.mkdir(parents=True)
    link.symlink_to(target)
    await forged(stage, f"file://{mine}", {"local": {}})
    assert intact(store) == [name]
    assert (theirs / name / "model.bin").exists() or list((theirs / name).rglob("model.bin"))


@pytest.mark.attack(
    "checkpoints",
    "has the operator sweep another's folder by a job with that storage.local.path",
    "the operator works below the job's own namespace only, nothing is swept",
)
@pytest.mark.route("checkpoints, folders")
async def test_sweeping_a_foreign_folder(stage: Stage, other: str, tmp_path: Path) -> None:
    theirs = tmp_path / "root" / other / "mnist" / UID
    half = theirs / "step-000000000009.half"
    half.mkdir(parents=True)
    (half / "model.bin").write_bytes(b"being written")
    os.utime(half / "model.bin", (1.0, 1.0))
    await stage.job("thief", {"local": {"path": str(theirs)}})
    done = {"status": {"phase": "Succeeded"}}
    await patched(stage, "thief", done)
    key = f"{stage.namespace}/thief"
    await stage.until(lambda: _cached(stage, key, "Succeeded"))
    stage.controller._swept.clear()  # it was looked at before it had ended
    await stage.controller.retain(key)
    assert (half / "model.bin").read_bytes() == b"being written"


async def patched(stage: Stage, name: str, patch: Obj) -> None:
    from corral.api.training.kinds import TRAININGJOBS

    await stage.client.patch(
        TRAININGJOBS, name, namespace=stage.namespace, patch=patch, subresource="status"
    )


async def _cached(stage: Stage, key: str, phase: str) -> bool:
    found = stage.controller.caches.jobs.store.get(key)
    return found is not None and (found.get("status") or {}).get("phase") == phase


@pytest.mark.attack(
    "checkpoints",
    "has another's manifest read into its own object by a Checkpoint that is still Writing",
    "a foreign folder is not read: the object says nothing of it",
)
@pytest.mark.route("checkpoints, folders")
async def test_reading_a_foreign_manifest(stage: Stage, other: str, tmp_path: Path) -> None:
    theirs = tmp_path / "root" / other / "mnist" / UID
    name = written(LocalStore(theirs))
    notes = {STORAGE: json.dumps({"local": {}}), JOB_UID: UID}
    made = await stage.client.create(
        CHECKPOINTS,
        {
            "metadata": {"name": "reader", "annotations": notes, "finalizers": [FINALIZER]},
            "spec": {"jobRef": {"name": "mnist"}, "step": 7, "uri": f"file://{theirs}/{name}"},
        },
        namespace=stage.namespace,
    )
    assert await stage.controller._published(CHECKPOINTS.stamp(made)) is None
    assert await stage.controller._retire(CHECKPOINTS.stamp(made))
    await stage.until_gone(CHECKPOINTS, "reader")
    assert intact(LocalStore(theirs)) == [name]


@pytest.mark.attack(
    "checkpoints",
    "replaces a folder by a link between the operator's look and its deletion",
    "folders are entered one by one from an open one, a link ends the way",
)
@pytest.mark.parametrize("call", ["read", "write", "delete", "walk", "entries", "sweep"])
def test_links_in_a_store(tmp_path: Path, call: str) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "data").write_bytes(b"precious")
    (theirs / ".tmp-old").write_bytes(b"x")
    os.utime(theirs / ".tmp-old", (1.0, 1.0))
    base = tmp_path / "base"
    (base / "job").mkdir(parents=True)
    (base / "job" / "link").symlink_to(theirs)
    store = LocalStore(base / "job", base=base)
    found: list[Any] = []
    try:
        if call == "read":
            found.append(store.read("link/data"))
        elif call == "write":
            store.write("link/data", [b"other"])
        elif call == "delete":
            store.delete(["link/data"])
        elif call == "walk":
            found += [*store.walk("link"), *store.walk("")]
        elif call == "entries":
            found += store.entries("link")[1]
        else:
            store.sweep("", before=2e9)
    except CheckpointError:
        found = []
    assert found == []
    assert (theirs / "data").read_bytes() == b"precious"
    assert (theirs / ".tmp-old").exists()


@pytest.mark.attack(
    "checkpoints",
    "makes folders in folders, hundreds and thousands deep, where the operator looks",
    "few are open at a time, and those that no file of a checkpoint can be in are not entered",
)
@pytest.mark.parametrize("depth", [400, 2000])
def test_deep_folders(tmp_path: Path, depth: int) -> None:
    base = tmp_path / "base"
    base.mkdir()
    folder = os.open(base, os.O_RDONLY)
    for name in ("job", *"d" * depth):
        os.mkdir(name, dir_fd=folder)
        deeper = os.open(name, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = deeper
        os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
    os.close(folder)
    store = LocalStore(base / "job", base=base)
    before = len(os.listdir("/proc/self/fd"))
    found = 0
    try:
        for _ in store.walk(""):
            found += 1
            assert len(os.listdir("/proc/self/fd")) < before + 10
    except InvalidPath as error:
        assert "too deep" in str(error) and depth > 1000
    else:
        assert found == depth + 1 and store.sweep("", before=0.0) == 0
    finally:
        remove_tree(base)  # which others find too deep


# --- object stores ---------------------------------------------------------------------------


@pytest.mark.attack(
    "checkpoints",
    "reads another's spot checkpoints with the operator's keys, where the job is called like the "
    "own namespace",
    "those keys open folders with a job's UID last, and that of a copy is none",
)
@pytest.mark.parametrize("by", ["address", "object"])
def test_copies_of_a_job_that_is_called_like_a_namespace(by: str) -> None:
    storage = {"s3": {"bucket": "shared"}}
    theirs = f"s3://shared/other/mine/{UID}/replica-0/{ID}"
    with pytest.raises(PlaceRefused):
        if by == "address":
            metadata: Obj = {"name": "thief", "namespace": "mine", "uid": str(uuid.UUID(int=8))}
            job = {"metadata": metadata, "spec": {"checkpoint": {"storage": storage}}}
            address_place(job, theirs, StoreRules())
        else:
            # the object says what it likes of its job: the name is the UID, the UID is the copy
            notes = {STORAGE: json.dumps(storage), JOB_UID: "replica-0"}
            spec = {"jobRef": {"name": UID}, "step": 7, "uri": theirs}
            metadata = {"name": "forged", "namespace": "mine", "annotations": notes}
            checkpoint_place({"metadata": metadata, "spec": spec}, StoreRules())


REMOTE = {"rclone": "S3", "gcs": "Google Cloud Storage", "azure": "Azure Blob Storage"}


@pytest.fixture(
    scope=own_scope,
    params=[
        pytest.param(name, marks=pytest.mark.route(f"checkpoints, {store}"))
        for name, store in REMOTE.items()
    ],
)
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """Each kind of store; the keys are good for the whole bucket."""
    with SERVERS[request.param](tmp_path_factory.mktemp(request.param)) as found:
        yield found


@pytest.fixture
async def remote(client: KubeClient, namespace: str, served: Served) -> AsyncIterator[Stage]:
    async with staged(client, namespace, checkpoints=QUICK) as made:
        await made.secret(served.credentials)
        yield made


def theirs_in(served: Served, other: str, unique: str) -> tuple[Store, str]:
    location = served.location.below(unique, other, "mnist", UID)
    return open_store(location, served.credentials), location.url


@pytest.mark.attack(
    "checkpoints",
    "deletes another tenant's checkpoint in a shared bucket by a Checkpoint object",
    "data is deleted below the object's own namespace and job only",
)
@pytest.mark.parametrize("claim", ["namespace", "job", "uid", "prefix"])
async def test_a_foreign_folder_in_a_bucket(
    remote: Stage, served: Served, other: str, unique: str, claim: str
) -> None:
    parts = {
        "namespace": (other, "mnist", UID),
        "job": (remote.namespace, "other-job", UID),
        "uid": (remote.namespace, "mnist", str(uuid.UUID(int=8))),
        "prefix": (remote.namespace, "mnist", UID, other, "mnist", UID),
    }[claim]
    location = served.location.below(unique, *parts)
    store = open_store(location, served.credentials)
    name = written(store)
    await forged(remote, location.below(name).url, storage_of(served, prefix=unique))
    assert intact(store) == [name]
    assert "is not the folder of job mnist" in await left(remote)


@pytest.mark.attack(
    "checkpoints",
    "starts a job from another's data by a Checkpoint object of its own with that address",
    "the report endpoint signs no URL for it",
)
async def test_restoring_by_a_forged_object(
    remote: Stage, served: Served, other: str, unique: str
) -> None:
    location = served.location.below(unique, other, "mnist", UID)
    name = written(open_store(location, served.credentials))
    notes = {STORAGE: json.dumps(storage_of(served)), JOB_UID: UID}
    spec = {"jobRef": {"name": "mnist"}, "step": 7, "uri": location.below(name).url}
    await remote.client.create(
        CHECKPOINTS,
        {"metadata": {"name": "forged", "annotations": notes}, "spec": spec},
        namespace=remote.namespace,
    )
    pod = await remote.pod(await remote.job("mine", storage_of(served)))
    status, answer = await pod.post("restore", {"from": "forged"})
    assert (status, "is not the folder of job" in answer["error"]) == (409, True)


@pytest.mark.attack(
    "checkpoints",
    "has the operator mark another's checkpoint as damaged by starting from its address",
    "what is not the job's own is read only, no mark is written",
)
async def test_marking_a_foreign_checkpoint(
    remote: Stage, served: Served, other: str, unique: str
) -> None:
    location = served.location.below(unique, other, "mnist", UID)
    store = open_store(location, served.credentials)
    name = written(store)
    data = next(each.path for each in store.walk(name) if each.path.endswith("model.bin"))
    store.write(data, [b"torn"])
    before = sorted(each.path for each in store.walk(""))
    pod = await remote.pod(await remote.job("mine", storage_of(served)))
    assert await pod.restore(location.below(name).url) == []
    assert sorted(each.path for each in store.walk("")) == before
