"""Spot jobs, their copies and backups, and an operator that looks after checkpoints alone.

There is no controller of jobs here: cases make the Jobs of copies themselves, named as it names
them, and let their pods run on a process node.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corral.api.spot.kinds import (
    CHECKPOINTBACKUPS,
    JOB_LABEL,
    REPLICA_LABEL,
    SPOTINSTANCEJOBS,
)
from corral.checkpoints.places import StoreRules
from corral.egress import EgressPolicy
from corral.families.spot.backups.kubelet_engine import KubeletSettings, kubelet_url
from corral.families.spot.backups.wiring import register
from corral.families.spot.jobs.storage import StorageSettings, storage_for
from corral.families.spot.names import copy_name
from corral.families.trainingjob.checkpoints.stores import Stores
from corral.kube.client import KubeClient
from corral.kube.errors import BadRequest, NotFound
from corral.kube.resources import EVENTS, JOBS, PODS
from corral.kube.types import Obj
from corral.oci import OWN
from corral.operator.reports import ReportServer, ReportService, ReportSettings, UploadSettings
from corral.runtime import Manager
from corral.runtime.owners import owner_reference
from tests.registries import RunningRegistry

ENDED = ("Completed", "CompletedPodDeleted", "CompletedWithError", "Failed")
PART = 5 << 20


@dataclass
class SpotStage:
    """One namespace, and an operator that looks after its checkpoints."""

    client: KubeClient
    namespace: str
    registry: RunningRegistry
    report_url: str

    # --- objects ---------------------------------------------------------------------------------

    @property
    def repository(self) -> str:
        return f"{OWN}/{self.namespace}/checkpoints"

    async def job(
        self,
        name: str = "digits",
        *,
        command: Sequence[str] = (),
        spec: Obj | None = None,
        **config: Any,
    ) -> Obj:
        """A SpotInstanceJob; nobody starts its copies."""
        container = {"name": "trainer", "image": "python", "command": list(command) or ["sleep"]}
        made = {
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "jobTemplate": {"spec": {"template": {"spec": {"containers": [container]}}}},
                "checkpointConfig": {
                    "checkpointImageRepo": self.repository,
                    "checkpointInterval": "1h",
                    **config,
                },
                "spotInstanceVMRef": {"name": "machines"},
                **(spec or {}),
            },
        }
        return SPOTINSTANCEJOBS.stamp(await self.client.create(SPOTINSTANCEJOBS, made))

    async def copy(
        self,
        job: Obj,
        replica: int = 0,
        attempt: int = 1,
        *,
        local_root: Path | None = None,
        restore_images: Sequence[str] = (),
    ) -> Obj:
        """Start a copy as the controller of jobs does; its pod."""
        settings = StorageSettings(
            local_root=local_root,
            report_url=self.report_url,
            registries={OWN: self.registry.url},
        )
        storage = storage_for(
            job, replica, attempt, settings=settings, restore_images=restore_images
        )
        template = json.loads(json.dumps(job["spec"]["jobTemplate"]))
        pod = template["spec"]["template"]
        labels = {JOB_LABEL: job["metadata"]["name"], REPLICA_LABEL: str(replica)}
        pod["metadata"] = {"labels": labels}
        pod["spec"] |= {"restartPolicy": "Never", "terminationGracePeriodSeconds": 5}
        storage.env.update(
            {
                "CORRAL_JOB": job["metadata"]["name"],
                "CORRAL_NAMESPACE": self.namespace,
                "CORRAL_JOB_UID": job["metadata"]["uid"],
            }
        )
        storage.add_to(pod["spec"])
        name = copy_name(job, replica, attempt)
        await self.client.create(
            JOBS,
            {
                "metadata": {
                    "name": name,
                    "namespace": self.namespace,
                    "labels": labels,
                    "ownerReferences": [owner_reference(job)],
                },
                "spec": {**template["spec"], "backoffLimit": 0},
            },
        )
        return await self.running(name)

    async def stop(self, pod: Obj) -> None:
        """End the Job of a pod, and wait until the pod is gone."""
        (owner,) = pod["metadata"]["ownerReferences"]
        await self.client.delete(
            JOBS, owner["name"], namespace=self.namespace, propagation="Background"
        )
        await self.until_gone(PODS, pod["metadata"]["name"])

    async def pod(self, name: str, command: Sequence[str], **spec: Any) -> Obj:
        """A pod of nobody's, running."""
        container = {"name": "main", "image": "python", "command": list(command)}
        container |= spec.pop("container", {})
        made = {
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "containers": [container],
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                **spec,
            },
        }
        await self.client.create(PODS, made)

        async def look() -> Obj | None:
            found = await self.client.get(PODS, name, namespace=self.namespace)
            return found if (found.get("status") or {}).get("phase") == "Running" else None

        return await self.until(look)

    async def backup(self, name: str, **spec: Any) -> Obj:
        made = {"metadata": {"name": name, "namespace": self.namespace}, "spec": spec}
        return await self.client.create(CHECKPOINTBACKUPS, made)

    # --- looking ---------------------------------------------------------------------------------

    async def running(self, job: str) -> Obj:
        """The pod of a Job, when it runs or has ended."""

        async def look() -> Obj | None:
            selector = f"batch.kubernetes.io/job-name={job}"
            found = await self.client.list_all(PODS, self.namespace, label_selector=selector)
            for pod in found["items"]:
                if (pod.get("status") or {}).get("phase") in ("Running", "Succeeded", "Failed"):
                    return PODS.stamp(pod)
            return None

        return await self.until(look)

    async def ended(self, name: str) -> Obj:
        """The status of a backup that has come to an end."""

        async def look() -> Obj | None:
            found = await self.client.get(CHECKPOINTBACKUPS, name, namespace=self.namespace)
            status: Obj = found.get("status") or {}
            return status if status.get("phase") in ENDED else None

        return await self.until(look)

    async def backups(self) -> dict[str, Obj]:
        found = await self.client.list_all(CHECKPOINTBACKUPS, self.namespace)
        return {item["metadata"]["name"]: item for item in found["items"]}

    async def events(self, reason: str) -> list[str]:
        found = await self.client.list_all(EVENTS, self.namespace)
        return [item["message"] for item in found["items"] if item["reason"] == reason]

    async def log(self, pod: Obj, container: str = "") -> str:
        """What a container has said so far; nothing before it has begun."""
        lines = self.client.log_lines(pod["metadata"]["name"], self.namespace, container=container)
        try:
            return "\n".join([line async for line in lines])
        except BadRequest:
            return ""

    async def until(self, look: Callable[[], Awaitable[Any]], *, seconds: float = 40) -> Any:
        """The first true answer."""
        async with asyncio.timeout(seconds):
            while True:
                answer = await look()
                if answer:
                    return answer
                await asyncio.sleep(0.05)

    async def until_gone(self, resource: Any, name: str) -> None:
        async def look() -> bool:
            try:
                await self.client.get(resource, name, namespace=self.namespace)
            except NotFound:
                return True
            return False

        await self.until(look)


@asynccontextmanager
async def staged(
    client: KubeClient,
    namespace: str,
    registry: RunningRegistry,
    *,
    url_of: Callable[[Obj], str] = kubelet_url,
    kubelet_ca: str | None = None,
    kubelet_account: str = "",
) -> AsyncIterator[SpotStage]:
    """The controllers of backups and the report endpoint, running."""
    manager = Manager(client)
    stores = Stores(client, rules=StoreRules(egress=EgressPolicy.of(["127.0.0.1"])), environment={})
    register(
        manager,
        registry_map=registry.pairs(),
        token=lambda: "operator",
        kubelets=KubeletSettings(
            ca_file=kubelet_ca, account=kubelet_account, registries={OWN: registry.url}
        ),
        url_of=url_of,
    )
    settings = ReportSettings(uploads=UploadSettings(part_size=PART), requests_per_second=1000.0)
    service = ReportService.of_manager(manager, stores, settings=settings, spot=True)
    running = asyncio.create_task(manager.run())
    try:
        await manager.wait_ready()
        async with ReportServer(service, host="127.0.0.1") as server:
            yield SpotStage(client, namespace, registry, f"http://127.0.0.1:{server.port}")
    finally:
        manager.stop()
        await running
        stores.close()
