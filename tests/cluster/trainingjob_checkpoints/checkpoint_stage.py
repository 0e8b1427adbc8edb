"""A job with storage, its pods as the report endpoint sees them, and the endpoint itself.

The pods do not run: a case plays them, with the tokens that they would have.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from corral.api.training.kinds import CHECKPOINTS, TRAININGJOBS
from corral.checkpoints.location import Location, open_store
from corral.checkpoints.manifest import FileEntry, Manifest
from corral.checkpoints.places import StoreRules
from corral.checkpoints.repository import Repository
from corral.checkpoints.store import Store
from corral.egress import EgressPolicy
from corral.families.trainingjob.checkpoints.controller import (
    CheckpointController,
    CheckpointSettings,
    register,
)
from corral.families.trainingjob.checkpoints.stores import Stores
from corral.families.trainingjob.names import pod_labels, pod_name
from corral.families.trainingjob.settings import TrainingSettings
from corral.kube.client import KubeClient
from corral.kube.errors import NotFound
from corral.kube.resources import EVENTS, PODS, SECRETS, SERVICEACCOUNTS
from corral.kube.types import Obj
from corral.operator.reports import ReportServer, ReportService, ReportSettings, UploadSettings
from corral.runtime import Manager, owner_reference
from corral.runtime.pods.reports import REPORT_AUDIENCE
from tests.stores.servers import Served

PART = 5 << 20
"""The smallest part that S3 knows."""


def storage_of(served: Served, *, prefix: str = "", secret: str | None = "keys") -> Obj:
    """``spec.checkpoint.storage`` for a store server."""
    location = served.location
    reference = {"secretRef": {"name": secret}} if secret else {}
    common = {"prefix": prefix, "endpoint": location.endpoint, **reference}
    if location.scheme == "s3":
        return {"s3": {"bucket": location.bucket, "region": location.region, **common}}
    if location.scheme == "gs":
        return {"gcs": {"bucket": location.bucket, **common}}
    return {"azure": {"account": location.account, "container": location.bucket, **common}}


@dataclass
class Pod:
    """A client with the token of a pod."""

    http: aiohttp.ClientSession
    url: str
    token: str
    replica: int = 0
    attempt: int = 1
    of: int = 1

    async def post(self, path: str, body: Obj, *, token: str | None = None) -> tuple[int, Obj]:
        headers = {"Authorization": f"Bearer {self.token if token is None else token}"}
        async with self.http.post(f"{self.url}/{path}", json=body, headers=headers) as answer:
            return answer.status, await answer.json()

    async def good(self, path: str, body: Obj) -> Obj:
        status, answer = await self.post(path, body)
        assert status == 200, (status, answer)
        return answer

    async def report(self, **body: Any) -> Obj:
        return await self.good("report", {"replica": self.replica, "attempt": self.attempt, **body})

    async def begin(self, step: int, files: Mapping[str, bytes], **body: Any) -> Obj:
        asked = {**self._part(files), "step": step, **body}
        return await self.good("uploads", asked)

    async def finish(self, begun: Obj, files: Mapping[str, bytes], **body: Any) -> tuple[int, Obj]:
        """Store the files by the signed requests, then commit."""
        done = []
        for place, entry in zip(begun["files"], self._part(files)["files"], strict=True):
            data = files[entry["path"]]
            etags = [
                await put(request, data[request["start"] : request["start"] + request["size"]])
                for request in place["requests"]
            ]
            done.append({**entry, "upload": place["upload"], "etags": etags})
        return await self.post(
            f"uploads/{begun['id']}/commit", {**self._part(files), "files": done, **body}
        )

    async def save(self, step: int, files: Mapping[str, bytes], **body: Any) -> Obj:
        begun = await self.begin(step, files, **body)
        status, answer = await self.finish(begun, files)
        assert status == 200, answer
        return {**answer, "id": begun["id"]}

    async def restore(self, source: str = "latest") -> list[Obj]:
        found: list[Obj] = (await self.good("restore", {"from": source}))["candidates"]
        return found

    def _part(self, files: Mapping[str, bytes]) -> Obj:
        entries = [
            {"path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for path, data in files.items()
        ]
        part = {"replica": self.replica, "of": self.of, "attempt": self.attempt}
        return {**part, "files": entries}


def send(request: Obj, body: bytes | None) -> tuple[int, bytes, dict[str, str]]:
    prepared = urllib.request.Request(
        request["url"],
        data=body,
        method=request["method"],
        headers={"Content-Type": "application/octet-stream", **request["headers"]},
    )
    try:
        with urllib.request.urlopen(prepared) as answer:
            return answer.status, answer.read(), {k.lower(): v for k, v in answer.headers.items()}
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), {}


async def put(request: Obj, data: bytes) -> str:
    status, answer, headers = await asyncio.to_thread(send, request, data)
    assert status in (200, 201), (status, answer)
    return headers.get("etag", "")


async def get(request: Obj) -> bytes:
    status, data, _ = await asyncio.to_thread(send, request, None)
    assert status == 200, (status, data)
    return data


async def downloaded(candidate: Obj) -> dict[str, bytes]:
    """The files, if all digests are right."""
    found = {entry["path"]: await get(entry["request"]) for entry in candidate["files"]}
    for entry in candidate["files"]:
        assert hashlib.sha256(found[entry["path"]]).hexdigest() == entry["sha256"], entry["path"]
    return found


@dataclass
class Stage:
    """One namespace, and an operator that looks after its Checkpoints."""

    client: KubeClient
    namespace: str
    http: aiohttp.ClientSession
    server: ReportServer
    stores: Stores
    controller: CheckpointController

    async def secret(self, credentials: Mapping[str, str], name: str = "keys") -> None:
        data = {key: base64.b64encode(text.encode()).decode() for key, text in credentials.items()}
        secret = {"metadata": {"name": name}, "data": data}
        await self.client.create(SECRETS, secret, namespace=self.namespace)

    async def job(
        self, name: str, storage: Obj, *, attempt: int = 1, replicas: int = 1, **checkpoint: Any
    ) -> Obj:
        made = await self.client.create(
            TRAININGJOBS,
            {
                "metadata": {"name": name, "namespace": self.namespace},
                "spec": {
                    "image": "python:3.12",
                    "replicas": replicas,
                    "checkpoint": {"storage": storage, **checkpoint},
                },
            },
        )
        return await self.set_attempt(made["metadata"]["name"], attempt)

    async def set_attempt(self, name: str, attempt: int) -> Obj:
        return await self.client.patch(
            TRAININGJOBS,
            name,
            namespace=self.namespace,
            patch={"status": {"attempt": attempt, "phase": "Running"}},
            subresource="status",
        )

    async def pod(
        self, job: Obj, *, replica: int = 0, attempt: int = 1, world: int = 1, sharded: bool = False
    ) -> Pod:
        """A pod of a job, with its token."""
        name = job["metadata"]["name"]
        labels = pod_labels(name, replica, attempt=attempt, world=world)
        made = await self.client.create(
            PODS,
            {
                "metadata": {
                    "name": f"{pod_name(name, replica)}",
                    "namespace": self.namespace,
                    "labels": labels,
                    "ownerReferences": [owner_reference(TRAININGJOBS.stamp(job))],
                },
                "spec": {
                    "nodeSelector": {"nowhere": "true"},
                    "containers": [{"name": "trainer", "image": "python:3.12"}],
                },
            },
        )
        token = await self.token(made)
        of = world if sharded else 1
        return Pod(self.http, self.url(name), token, replica, attempt, of)

    async def token(self, pod: Obj, *, audience: str = REPORT_AUDIENCE) -> str:
        metadata = pod["metadata"]
        bound = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"]}
        answer = await self.client.create_subresource(
            SERVICEACCOUNTS,
            "default",
            namespace=self.namespace,
            subresource="token",
            body={
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {
                    "audiences": [audience],
                    "expirationSeconds": 3607,
                    "boundObjectRef": {**bound, "uid": metadata["uid"]},
                },
            },
        )
        token: str = answer["status"]["token"]
        return token

    def url(self, job: str) -> str:
        base = f"http://127.0.0.1:{self.server.port}"
        return f"{base}/v1/namespaces/{self.namespace}/trainingjobs/{job}"

    async def delete_pod(self, name: str) -> None:
        await self.client.delete(PODS, name, namespace=self.namespace, grace_seconds=0)
        await self.until_gone(PODS, name)

    # --- looking ---------------------------------------------------------------------------------

    async def get_job(self, name: str) -> Obj:
        return await self.client.get(TRAININGJOBS, name, namespace=self.namespace)

    async def checkpoints(self) -> dict[str, Obj]:
        found = await self.client.list_all(CHECKPOINTS, self.namespace)
        return {item["metadata"]["name"]: item for item in found["items"]}

    async def phases(self) -> dict[str, str]:
        found = await self.checkpoints()
        return {name: (item.get("status") or {}).get("phase", "") for name, item in found.items()}

    async def events(self, reason: str) -> list[str]:
        found = await self.client.list_all(EVENTS, self.namespace)
        return [item["message"] for item in found["items"] if item["reason"] == reason]

    async def until(self, look: Callable[[], Any], *, seconds: float = 30) -> Any:
        """The first true answer."""
        async with asyncio.timeout(seconds):
            while True:
                answer = await look()
                if answer:
                    return answer
                await asyncio.sleep(0.02)

    async def until_phases(self, wanted: Mapping[str, str]) -> None:
        async def look() -> bool:
            return await self.phases() == dict(wanted)

        try:
            await self.until(look)
        except TimeoutError:
            raise AssertionError(f"{await self.phases()} instead of {wanted}") from None

    async def until_gone(self, resource: Any, name: str) -> None:
        async def look() -> bool:
            try:
                await self.client.get(resource, name, namespace=self.namespace)
            except NotFound:
                return True
            return False

        await self.until(look)

    # --- the store -------------------------------------------------------------------------------

    def store(self, served: Served, job: Obj, prefix: str = "") -> Store:
        """Where the job's checkpoints are, opened without the operator."""
        return open_store(self.place(served, job, prefix), served.credentials)

    def place(self, served: Served, job: Obj, prefix: str = "") -> Location:
        metadata = job["metadata"]
        return served.location.below(
            prefix, metadata["namespace"], metadata["name"], metadata["uid"]
        )

    def ids_in(self, store: Store) -> set[str]:
        """The complete checkpoints of a store."""
        return {manifest.id for manifest in Repository(store).scan().manifests}


def volume_manifest(job: Obj, step: int, *, attempt: int = 1, nonce: str = "n", **more: Any) -> Obj:
    """The manifest that a pod wrote to its volume."""
    files = (FileEntry("model.bin", 3, hashlib.sha256(b"abc").hexdigest()),)
    manifest = Manifest(
        id=f"step-{step:012d}.{nonce}{step}",
        step=step,
        time=more.pop("time", time.time()),
        files=files,
        attempt=attempt,
        job_uid=job["metadata"]["uid"],
        **more,
    )
    found: Obj = json.loads(manifest.encode())
    return found


@asynccontextmanager
async def staged(
    client: KubeClient,
    namespace: str,
    *,
    rules: StoreRules | None = None,
    environment: Mapping[str, str] | None = None,
    settings: ReportSettings | None = None,
    checkpoints: CheckpointSettings | None = None,
    local_root: Path | None = None,
    wall: Callable[[], float] = time.time,
) -> AsyncIterator[Stage]:
    """The controllers of Checkpoints and the report endpoint, running."""
    uploads = UploadSettings(part_size=PART)
    settings = settings or ReportSettings(uploads=uploads, requests_per_second=1000.0)
    manager = Manager(client)
    rules = rules or StoreRules(local_root=local_root, egress=EgressPolicy.of(["127.0.0.1"]))
    stores = Stores(client, rules=rules, environment=environment or {}, clock=wall)
    training = TrainingSettings(local_root=local_root)
    controller = register(manager, training, stores=stores, checkpoints=checkpoints, wall=wall)
    service = ReportService.of_manager(manager, stores, settings=settings)
    running = asyncio.create_task(manager.run())
    try:
        await manager.wait_ready()
        async with (
            ReportServer(service, host="127.0.0.1") as server,
            aiohttp.ClientSession() as http,
        ):
            yield Stage(client, namespace, http, server, stores, controller)
    finally:
        manager.stop()
        await running
        stores.close()


QUICK = CheckpointSettings(wait_for_pod=0.2)
