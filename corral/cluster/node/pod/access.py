"""What the agent offers to its HTTPS server: ``PodAccess`` over the pods of its table."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from corral.cluster.node.access import AccessError, ContainerUsage, PodUsage
from corral.cluster.node.container.processes import Container, ContainerError
from corral.cluster.node.container.streams import Streams
from corral.cluster.node.parts import NodeParts
from corral.cluster.node.pod.table import PodTable
from corral.cluster.node.pod.worker import PodWorker
from corral.cluster.node.resources import usage_of
from corral.kube.types import Obj

__all__ = ["AgentAccess"]

_KINDS: Final = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")


class AgentAccess:
    """See ``PodAccess``."""

    def __init__(self, table: PodTable, parts: NodeParts) -> None:
        self._table = table
        self._parts = parts

    # -- reading ---------------------------------------------------------------------------------

    def pods(self) -> list[Obj]:
        return [self._shown(worker) for worker in self._table.workers.values() if not worker.gone]

    def _shown(self, worker: PodWorker) -> Obj:
        pod = {"apiVersion": "v1", "kind": "Pod", **worker.machine.pod}
        if worker.at_rest:
            return pod
        return {**pod, "status": {**(pod.get("status") or {}), **worker.status()}}

    def usage(self) -> list[PodUsage]:
        found: list[PodUsage] = []
        for worker in self._table.workers.values():
            running = worker.containers.running()
            if running:
                meta = worker.machine.pod["metadata"]
                used = [
                    ContainerUsage(
                        c.labels["container"],
                        c.state.started_at / 1e9,
                        usage_of(c.state.root, cgroups=c.spec.get("cgroups", ())),
                    )
                    for c in running
                ]
                found.append(PodUsage(meta["namespace"], meta["name"], worker.uid, used))
        return found

    def log_file(self, namespace: str, pod: str, container: str, *, previous: bool) -> Path:
        worker = self._worker(namespace, pod)
        status = self._status(worker, container)
        state, last = status.get("state") or {}, status.get("lastState") or {}
        ended = (last.get("terminated") or {}).get("containerID", "")
        waiting = state.get("waiting")
        if previous:
            if not ended:
                raise AccessError(
                    f'previous terminated container "{container}" in pod "{pod}" not found',
                    code=400,
                )
            identity = ended
        elif state.get("running"):
            identity = status.get("containerID", "")
        elif state.get("terminated"):
            identity = state["terminated"].get("containerID", "") or ended
        else:
            identity = ended
        if not identity:
            raise AccessError(_not_started(container, pod, waiting), code=400)
        attempt = int(identity.rpartition(".")[2])
        return self._parts.layout.log(worker.machine.pod, container, attempt)

    def is_running(self, namespace: str, pod: str, container: str) -> bool:
        worker = self._table.find(namespace, pod)
        found = worker.containers.present.get(container) if worker is not None else None
        return found is not None and found.state.running

    def has_tty(self, namespace: str, pod: str, container: str) -> bool:
        return bool(self._running(namespace, pod, container).spec.get("tty"))

    # -- acting ----------------------------------------------------------------------------------

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
        found = self._running(namespace, pod, container)
        if found.labels.get("runtime") == "wasm":
            # beside the host of a module there is what other modules' hosts take for machine code
            raise AccessError(
                f'container "{container}" in pod "{pod}" is a WebAssembly module: it has no other '
                "processes, so no command can be run in it; add a container of a mapped image",
                code=400,
            )
        try:
            return await found.exec(command, stdin=stdin, tty=tty)
        except ContainerError as err:
            raise AccessError(str(err), code=500) from err

    async def attach(self, namespace: str, pod: str, container: str, *, stdin: bool) -> Streams:
        found = self._running(namespace, pod, container)
        try:
            return await found.attach(stdin=stdin)
        except ContainerError as err:
            raise AccessError(str(err), code=500) from err

    async def dial(
        self, namespace: str, pod: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        worker = self._worker(namespace, pod)
        if worker.stage.sandbox is None:
            raise AccessError(f'pod not found ("{pod}_{namespace}")', code=404)
        return await self._parts.network.dial(worker.stage.sandbox, port)

    # -- finding ---------------------------------------------------------------------------------

    def _worker(self, namespace: str, pod: str) -> PodWorker:
        worker = self._table.find(namespace, pod)
        if worker is None:
            raise AccessError(f'pod "{pod}" not found', code=404)
        return worker

    def _status(self, worker: PodWorker, container: str) -> Obj:
        status = self._shown(worker).get("status") or {}
        for kind in _KINDS:
            for one in status.get(kind) or ():
                if one["name"] == container:
                    found: Obj = one
                    return found
        name = worker.machine.pod["metadata"]["name"]
        raise AccessError(f'container "{container}" in pod "{name}" is not available', code=400)

    def _running(self, namespace: str, pod: str, container: str) -> Container:
        worker = self._worker(namespace, pod)
        if container not in worker.machine.names:
            raise AccessError(f'container "{container}" not found in pod "{pod}"', code=404)
        found = worker.containers.present.get(container)
        if found is None or not found.state.running:
            raise AccessError(f'container not found ("{container}")', code=404)
        return found


def _not_started(container: str, pod: str, waiting: Obj | None) -> str:
    reason = (waiting or {}).get("reason", "")
    text = f'container "{container}" in pod "{pod}" is waiting to start'
    if reason in ("ErrImagePull", "ErrImageNeverPull", "ImagePullBackOff"):
        return f"{text}: image can't be pulled"
    return f"{text}: {reason or 'ContainerCreating'}"
