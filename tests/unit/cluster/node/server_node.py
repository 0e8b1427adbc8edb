"""A node made by hand: real containers behind the node's server, and its objects in an API."""

from __future__ import annotations

import asyncio
import itertools
import os
import ssl
import sys
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from corral.cluster.node.access import AccessError, ContainerUsage, PodUsage, log_container
from corral.cluster.node.container.processes import Container, ContainerSpec, Engine
from corral.cluster.node.container.streams import Streams
from corral.cluster.node.resources import usage_of
from corral.cluster.node.server import NodeServer
from corral.kube.client import KubeClient
from corral.kube.errors import NotFound
from corral.kube.resources import NAMESPACES, NODES, PODS, SERVICEACCOUNTS
from corral.kube.types import Obj
from tests.backends import Backend
from tests.cluster.binaries import built, on_machine

KUBECTL = on_machine("kubectl") or built("kubectl") or ""
LIMIT = 60.0
WAIT = "import time; time.sleep(600)"


class HandPods:
    """The pods of a node; what a test starts runs for real."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self._engine = engine
        self._folder = folder
        self._pods: dict[tuple[str, str], Obj] = {}
        self._numbers = itertools.count()
        self.attempts: dict[str, list[Container]] = {}
        """Container → every attempt, for the one pod that a test uses it in."""

    async def run(self, pod: Obj, container: str, code: str, **more: Any) -> Container:
        """Start a container of a pod, again if it was started before."""
        where = (pod["metadata"]["namespace"], pod["metadata"]["name"])
        self._pods[where] = pod
        number = next(self._numbers)
        argv = more.pop("argv", [sys.executable, "-S", "-E", "-u", "-c", code])
        spec = ContainerSpec(
            id=f"c{number}",
            argv=argv,
            env={"PATH": os.environ["PATH"]},
            log=str(self._folder / "logs" / f"{where[1]}-{container}" / f"{number}.log"),
            **more,
        )
        started = await self._engine.start(spec)
        assert not started.state.error, started.state.error
        self.attempts.setdefault(f"{where[1]}/{container}", []).append(started)
        return started

    def add(self, pod: Obj) -> None:
        """A pod of which nothing has started."""
        self._pods[pod["metadata"]["namespace"], pod["metadata"]["name"]] = pod

    def forget(self, namespace: str, name: str) -> None:
        del self._pods[namespace, name]

    def _pod(self, namespace: str, pod: str) -> Obj:
        found = self._pods.get((namespace, pod))
        if found is None:
            raise AccessError(f'pod "{pod}" does not exist', code=404)
        return found | {"status": self._status(found)}

    def _status(self, pod: Obj) -> Obj:
        statuses = []
        for spec in pod["spec"]["containers"]:
            name = spec["name"]
            attempts = self.attempts.get(f"{pod['metadata']['name']}/{name}", [])
            status: Obj = {"name": name, "image": spec["image"], "imageID": ""}
            status |= {"ready": bool(attempts), "restartCount": max(len(attempts) - 1, 0)}
            status["state"] = {"waiting": {"reason": "ContainerCreating"}}
            if attempts:
                status["containerID"] = f"corral://{attempts[-1].id}"
                status["state"] = _state(attempts[-1])
            if len(attempts) > 1:
                status["lastState"] = _state(attempts[-2])
            statuses.append(status)
        status = {"phase": "Running", "containerStatuses": statuses, "startTime": _stamp(0)}
        return status | {"podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}

    def _container(self, namespace: str, pod: str, container: str) -> Container:
        found = self._pod(namespace, pod)
        if not any(c["name"] == container for c in found["spec"]["containers"]):
            raise AccessError(f'container "{container}" not found in pod "{pod}"', code=404)
        attempts = self.attempts.get(f"{pod}/{container}")
        if not attempts:
            raise AccessError(f'container not found ("{container}")', code=500)
        return attempts[-1]

    # -- what the server asks --------------------------------------------------------------------

    def pods(self) -> list[Obj]:
        return [self._pod(*where) for where in self._pods]

    def usage(self) -> list[PodUsage]:
        found: list[PodUsage] = []
        for (namespace, name), pod in self._pods.items():
            containers = [
                ContainerUsage(spec["name"], one.state.started_at / 1e9, usage_of(one.state.root))
                for spec in pod["spec"]["containers"]
                for one in self.attempts.get(f"{name}/{spec['name']}", [])[-1:]
                if one.state.running
            ]
            found.append(PodUsage(namespace, name, pod["metadata"]["uid"], containers))
        return found

    def log_file(self, namespace: str, pod: str, container: str, *, previous: bool) -> Path:
        chosen = log_container(self._pod(namespace, pod), container, previous=previous)
        every = self.attempts[f"{pod}/{container}"]
        return next(Path(c.spec["log"]) for c in every if chosen == f"corral://{c.id}")

    def is_running(self, namespace: str, pod: str, container: str) -> bool:
        return self._container(namespace, pod, container).state.running

    async def exec(
        self,
        namespace: str,
        pod: str,
        container: str,
        *,
        command: Sequence[str],
        stdin: bool,
        tty: bool,
    ) -> Streams:
        found = self._container(namespace, pod, container)
        return await found.exec(command, stdin=stdin, tty=tty)

    async def attach(self, namespace: str, pod: str, container: str, *, stdin: bool) -> Streams:
        return await self._container(namespace, pod, container).attach(stdin=stdin)

    def has_tty(self, namespace: str, pod: str, container: str) -> bool:
        return bool(self._container(namespace, pod, container).spec["tty"])

    async def dial(
        self, namespace: str, pod: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self._pod(namespace, pod)
        return await asyncio.open_connection("127.0.0.1", port)


def _state(container: Container) -> Obj:
    state = container.state
    if state.running:
        return {"running": {"startedAt": _stamp(state.started_at)}}
    ended = {"exitCode": state.exit_code, "containerID": f"corral://{container.id}"}
    return {"terminated": ended | {"reason": "Completed" if state.exit_code == 0 else "Error"}}


def _stamp(nanos: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(nanos / 1e9))


def pod_object(
    name: str, *containers: str, node: str, namespace: str = "default", **more: Any
) -> Obj:
    specs = [{"name": c, "image": "none", **more} for c in containers or ("main",)]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": str(uuid.uuid4())},
        "spec": {"nodeName": node, "containers": specs, "terminationGracePeriodSeconds": 0},
    }


class HandNode:
    """The server of a node, its Node object and its pods' objects, in a namespace of its own."""

    def __init__(self, backend: Backend, client: KubeClient, pods: HandPods) -> None:
        self.backend = backend
        self.client = client
        self.pods = pods
        self.name = f"hand-{uuid.uuid4().hex[:6]}"
        self.namespace = self.name
        self.port = 0
        self.certificate = b""

    async def register(self, port: int, *, websockets: bool) -> None:
        self.port = port
        await self.client.create(NAMESPACES, {"metadata": {"name": self.namespace}})
        await self._account()
        labels = {"kubernetes.io/hostname": self.name}
        await self.client.create(NODES, {"metadata": {"name": self.name, "labels": labels}})
        status: Obj = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "capacity": {"cpu": "4", "memory": "4Gi", "pods": "10"},
            "allocatable": {"cpu": "4", "memory": "4Gi", "pods": "10"},
        }
        if websockets:
            status["declaredFeatures"] = ["ExtendWebSocketsToKubelet"]
        await self._status(NODES, self.name, status)

    async def _account(self) -> None:
        """Wait for what pods of a new namespace need."""
        async with asyncio.timeout(LIMIT):
            while True:
                try:
                    await self.client.get(SERVICEACCOUNTS, "default", namespace=self.namespace)
                    return
                except NotFound:
                    await asyncio.sleep(0.02)

    async def _status(self, resource: Any, name: str, status: Obj) -> None:
        namespace = self.namespace if resource is PODS else None
        await self.client.patch(
            resource,
            name,
            patch={"status": status},
            kind="merge",
            namespace=namespace,
            subresource="status",
        )

    async def pod(self, name: str, *containers: str, **more: Any) -> Obj:
        """An object of a pod; its containers are started with ``pods.run``."""
        wanted = pod_object(name, *containers, node=self.name, namespace=self.namespace, **more)
        del wanted["metadata"]["uid"]
        wanted["spec"]["automountServiceAccountToken"] = False
        made = await self.client.create(PODS, wanted, namespace=self.namespace)
        self.pods.add(made)
        return made

    async def start(self, name: str, code: str = WAIT, **more: Any) -> Obj:
        """A running pod with the container "main"."""
        spec = {key: more[key] for key in ("stdin", "tty") if key in more}
        if "stdin_once" in more:
            spec["stdinOnce"] = more["stdin_once"]
        made = await self.pod(name, **spec)
        await self.pods.run(made, "main", code, **more)
        await self.sync(made)
        return made

    async def sync(self, pod: Obj) -> None:
        """Report a pod's status as the agent would."""
        name = pod["metadata"]["name"]
        found = next(p for p in self.pods.pods() if p["metadata"]["name"] == name)
        await self._status(PODS, name, found["status"])

    async def remove(self) -> None:
        every = await self.client.list_all(PODS, self.namespace)
        for pod in every["items"]:
            name = pod["metadata"]["name"]
            await self.client.delete(PODS, name, namespace=self.namespace, grace_seconds=0)
        await self.client.delete(NODES, self.name)
        await self.client.delete(NAMESPACES, self.namespace)


@asynccontextmanager
async def hand_node(
    backend: Backend, engine: Engine, folder: Path, *, websockets: bool = False, **options: Any
) -> AsyncIterator[HandNode]:
    """Everything, running."""
    async with KubeClient.from_kubeconfig(str(backend.kubeconfig)) as client:
        pods = HandPods(engine, folder)
        node = HandNode(backend, client, pods)
        server = NodeServer(
            pods, client=client, folder=folder / "server", node=node.name, **options
        )
        port = await server.start("127.0.0.1", 0)
        node.certificate = (folder / "server" / "node.crt").read_bytes()
        try:
            await node.register(port, websockets=websockets)
            yield node
            await node.remove()
        finally:
            await server.stop()


# -- kubectl -----------------------------------------------------------------------------------


class Kubectl:
    """kubectl as a user of the backend, in the node's namespace."""

    def __init__(self, node: HandNode, home: Path, *, websockets: bool) -> None:
        chosen = "true" if websockets else "false"
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "KUBECONFIG": str(node.backend.kubeconfig),
            "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": chosen,
            "KUBECTL_PORT_FORWARD_WEBSOCKETS": chosen,
            "TERM": "xterm",
        }
        self.namespace = node.namespace

    @asynccontextmanager
    async def open(self, *args: str, **streams: Any) -> AsyncIterator[asyncio.subprocess.Process]:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            KUBECTL,
            "-n",
            self.namespace,
            *args,
            env=self.environment,
            **({"stdin": pipe, "stdout": pipe, "stderr": pipe, "limit": 1 << 24} | streams),
        )
        try:
            async with asyncio.timeout(LIMIT):
                yield process
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def __call__(self, *args: str, stdin: bytes = b"") -> tuple[int, bytes, bytes]:
        async with self.open(*args) as process:
            out, err = await process.communicate(stdin)
            assert process.returncode is not None
            return process.returncode, out, err


def unverified() -> ssl.SSLContext:
    """For tests that look behind the API server."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
