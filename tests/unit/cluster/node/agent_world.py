"""An agent on an embedded API server, and pods on it."""

from __future__ import annotations

import asyncio
import glob
from collections.abc import Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

from corral.cluster.node.agent import Agent, AgentConfig
from corral.cluster.node.container.cgroups import ROOT
from corral.cluster.node.resources import Gpu
from corral.kube.client import KubeClient
from corral.kube.errors import NotFound
from corral.kube.resources import EVENTS, NODES, PODS
from corral.kube.types import Obj

PATIENCE = 60


class World:
    """One namespace, one folder, any number of agents one after the other."""

    def __init__(self, client: KubeClient, namespace: str, folder: Path) -> None:
        self.client = client
        self.namespace = namespace
        self.folder = folder
        self.node = f"node-{namespace}"
        self.agent: Agent | None = None

    # -- agents ------------------------------------------------------------------------------

    async def start(self, **config: Any) -> Agent:
        given = {"isolation": "plain", "gpus": (), "serve": False, "host_access": ("path",)}
        config = given | config
        agent = Agent(AgentConfig(name=self.node, data_dir=self.folder, **config), self.client)
        await agent.start()
        self.agent = agent
        return agent

    async def stop(self, *, end_pods: bool) -> None:
        assert self.agent is not None
        agent, self.agent = self.agent, None
        await agent.stop(end_pods=end_pods)

    async def close(self) -> None:
        for pod in (await self.client.list_all(PODS, self.namespace))["items"]:
            await self.client.delete(
                PODS, pod["metadata"]["name"], namespace=self.namespace, grace_seconds=0
            )
        if self.agent is None:
            await self.start()
        await self.stop(end_pods=True)
        await self.client.delete(NODES, self.node)
        assert self.groups() == []

    def groups(self) -> list[str]:
        """Control groups of the node."""
        name = f"corral-{self.node}-*"
        return glob.glob(f"{ROOT}/*/{name}") + glob.glob(f"{ROOT}/{name}")

    # -- pods --------------------------------------------------------------------------------

    async def run(
        self,
        *command: str,
        name: str = "pod",
        container: Obj | None = None,
        containers: Sequence[Obj] | None = None,
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
        **spec: Any,
    ) -> str:
        """Create a pod on the node that runs this command."""
        main = {"name": "main", "image": "busybox", "command": list(command)} | (container or {})
        pod = {
            "metadata": {"name": name, "labels": labels or {}, "annotations": annotations or {}},
            "spec": {
                "nodeName": self.node,
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "automountServiceAccountToken": False,
                "containers": list(containers or [main]),
            }
            | spec,
        }
        await self.client.create(PODS, pod, namespace=self.namespace)
        return name

    async def get(self, name: str = "pod") -> Obj:
        return await self.client.get(PODS, name, namespace=self.namespace)

    async def delete(self, name: str = "pod", **how: Any) -> None:
        await self.client.delete(PODS, name, namespace=self.namespace, **how)

    async def until(self, condition: Callable[[Obj], Any], name: str = "pod") -> Obj:
        """The pod, as soon as this holds for it."""
        listed = await self.client.list_all(
            PODS, self.namespace, field_selector=f"metadata.name={name}"
        )
        for pod in listed["items"]:
            if condition(pod):
                return pod
        watch = self.client.watch(
            PODS,
            self.namespace,
            field_selector=f"metadata.name={name}",
            resource_version=listed["metadata"]["resourceVersion"],
        )
        last: Obj = {}
        try:
            async with asyncio.timeout(PATIENCE), aclosing(watch) as events:
                async for event in events:
                    if event.type in ("ADDED", "MODIFIED"):
                        last = event.object
                        if condition(last):
                            return last
        except TimeoutError:
            raise AssertionError(f"never so: {last.get('status')}") from None
        raise AssertionError("the watch ended")

    async def phase(self, wanted: str, name: str = "pod") -> Obj:
        return await self.until(lambda pod: pod["status"].get("phase") == wanted, name)

    async def gone(self, name: str = "pod") -> None:
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    await self.get(name)
                except NotFound:
                    return
                await asyncio.sleep(0.02)

    async def events(self, name: str, reason: str) -> list[Obj]:
        """Events with this reason about a pod, as soon as there are any."""
        async with asyncio.timeout(PATIENCE):
            while True:
                listed = await self.client.list_all(EVENTS, self.namespace)
                found = [
                    event
                    for event in listed["items"]
                    if event["involvedObject"]["name"] == name and event["reason"] == reason
                ]
                if found:
                    return found
                await asyncio.sleep(0.05)

    def log(self, pod: Obj, container: str = "main", attempt: int = 0) -> str:
        """What a container has written."""
        meta = pod["metadata"]
        folder = self.folder / "logs" / f"{meta['namespace']}_{meta['name']}_{meta['uid']}"
        text = (folder / container / f"{attempt}.log").read_text()
        return "\n".join(line.split(" ", 3)[3] for line in text.splitlines())


def state(pod: Obj, container: str = "main") -> Obj:
    for kind in ("containerStatuses", "initContainerStatuses"):
        for status in pod["status"].get(kind) or ():
            if status["name"] == container:
                found: Obj = status
                return found
    return {}


def waiting_reason(pod: Obj, container: str = "main") -> str:
    waiting = (state(pod, container).get("state") or {}).get("waiting") or {}
    return str(waiting.get("reason", ""))


GPUS = (Gpu("0", "NVIDIA Test", 1000), Gpu("1", "NVIDIA Test", 1000))
