"""A node's pod network on a real API server, with pods that the test runs itself."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from corral.cluster.node.container.environment import service_variables
from corral.cluster.node.container.processes import Container, ContainerSpec, Engine
from corral.cluster.node.container.security import privileges_of
from corral.cluster.node.container.view import machine_view
from corral.cluster.node.isolation import Mode, Sandbox
from corral.cluster.node.network import PodNetwork
from corral.kube import KubeClient
from corral.kube.resources import NAMESPACES, PODS, SERVICEACCOUNTS, SERVICES
from corral.kube.types import Obj
from corral.runtime import Manager

LIMIT = 40.0


async def until(condition: Callable[[], Any]) -> None:
    """Wait for something that others do and nobody announces."""
    async with asyncio.timeout(LIMIT):
        while not condition():  # noqa: ASYNC110 (there is no event to wait for)
            await asyncio.sleep(0.005)


class Agent:
    """One agent: engine, manager and network on a folder of their own."""

    def __init__(self, client: KubeClient, folder: Path, mode: Mode, **options: Any) -> None:
        self.client, self.folder, self.mode = client, folder, mode
        self.engine = Engine(folder / "containers")
        self.view = machine_view(folder / "view").to_dict()
        self.manager = Manager(client)
        machine = options.pop("machine", folder.parent / "machine")
        self.network = PodNetwork(
            mode, self.manager, folder=folder, node=folder.name, machine=machine,
            **options,
        )  # fmt: skip
        self._run: asyncio.Task[None] | None = None
        self._numbers = itertools.count()

    async def start(self) -> None:
        self.adopted = await self.engine.adopt()
        await self.network.start()
        self._run = asyncio.create_task(self.manager.run())
        await until(lambda: self.manager.ready)

    async def stop(self, *, remove: bool = True) -> None:
        if remove:
            for container in await self.engine.adopt():
                await container.kill()
                container.remove()
        await self.network.stop(remove=remove)
        self.manager.stop()
        if self._run is not None:
            await self._run
        self.engine.close()

    # -- pods ------------------------------------------------------------------------------------

    async def pod(self, name: str, namespace: str, *, ready: bool = True, **spec: Any) -> Pod:
        """A pod that exists, has a sandbox and says that it runs."""
        labels = spec.pop("labels", {"app": name})
        ports = spec.pop("ports", [])
        body = {
            "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "spec": {
                "nodeName": "elsewhere",
                "automountServiceAccountToken": False,
                "containers": [{"name": "c", "image": "python", "ports": ports}],
                **spec,
            },
        }
        made = await self.client.create(PODS, body, namespace=namespace)
        pod = Pod(self, made, await self.network.open(made))
        await pod.report(ready=ready)
        return pod


class Pod:
    """A pod of an agent."""

    def __init__(self, agent: Agent, obj: Obj, sandbox: Sandbox) -> None:
        self.agent, self.obj, self.sandbox = agent, obj, sandbox
        self.name, self.namespace = obj["metadata"]["name"], obj["metadata"]["namespace"]

    @property
    def address(self) -> str:
        return self.sandbox.address

    async def report(self, *, ready: bool) -> None:
        condition = {"type": "Ready", "status": "True" if ready else "False"}
        ips = [{"ip": ip} for ip in self.agent.network.own_addresses(self.sandbox)]
        status = {
            "phase": "Running", "podIP": ips[0]["ip"], "podIPs": ips, "conditions": [condition],
        }  # fmt: skip
        await self.agent.client.patch(
            PODS, self.name, namespace=self.namespace, patch={"status": status},
            subresource="status", kind="merge",
        )  # fmt: skip

    async def run(self, code: str, *args: str) -> Container:
        """Python code in the pod."""
        number, container = next(self.agent._numbers), self.obj["spec"]["containers"][0]
        services = self.agent.network.service_environment(self.obj)
        env = {"PATH": os.environ["PATH"], **service_variables(self.obj, services)}
        spec = ContainerSpec(
            id=f"{self.obj['metadata']['uid']}.{number}",
            argv=[sys.executable, "-c", code, *args],
            env=env,
            log=str(self.agent.folder / "logs" / f"{self.name}-{number}.log"),
            view=self.agent.view,
            privileges=privileges_of(self.obj, container, max_processes=4096),
        )
        return await self.agent.engine.start(self.agent.network.dress(spec, self.sandbox))

    async def result(self, code: str, *args: str) -> str:
        """What the code prints; it must succeed."""
        return await finished(await self.run(code, *args))

    async def serve(self, code: str, *args: str) -> Container:
        """Run a server and wait until it says so."""
        container = await self.run(code, *args)
        await until(lambda: output(container) or not container.state.running)
        assert container.state.running, (container.state, output(container))
        return container

    async def remove(self) -> None:
        for container in await self.agent.engine.adopt():
            if container.id.startswith(self.obj["metadata"]["uid"]):
                await container.kill()
                container.remove()
        await self.agent.network.close(self.sandbox)
        await self.agent.client.delete(PODS, self.name, namespace=self.namespace, grace_seconds=0)

    def names(self) -> str:
        return Path(self.sandbox.hosts).read_text()

    async def knows(self, *names: str) -> None:
        await until(lambda: set(names) <= set(self.names().split()))

    async def forgets(self, *names: str) -> None:
        await until(lambda: not set(names) & set(self.names().split()))


def output(container: Container) -> str:
    path = Path(container.spec["log"])
    if not path.exists():
        return ""
    return "\n".join(line.split(" ", 3)[3] for line in path.read_text().splitlines())


async def finished(container: Container) -> str:
    async with asyncio.timeout(LIMIT):
        state = await container.wait()
    assert state.exit_code == 0, (state, output(container))
    return output(container)


async def make_namespace(client: KubeClient) -> str:
    """A namespace in which pods can be made."""
    name = f"net-{uuid.uuid4().hex[:8]}"
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    async with asyncio.timeout(LIMIT):
        while True:
            accounts = await client.list_all(SERVICEACCOUNTS, name)
            if any(a["metadata"]["name"] == "default" for a in accounts["items"]):
                return name
            await asyncio.sleep(0.01)


async def make_service(
    client: KubeClient, namespace: str, name: str, port: int = 80, **spec: Any
) -> Obj:
    """A service that selects ``app: NAME``, unless told otherwise."""
    body = {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"app": name}, "ports": [{"port": port}], **spec},
    }
    return await client.create(SERVICES, body, namespace=namespace)


@asynccontextmanager
async def agent_on(
    kubeconfig: str, folder: Path, mode: Mode, **options: Any
) -> AsyncIterator[Agent]:
    """An agent from start to removal."""
    async with KubeClient.from_kubeconfig(kubeconfig) as client:
        agent = Agent(client, folder, mode, **options)
        await agent.start()
        try:
            yield agent
        finally:
            await agent.stop(remove=True)
