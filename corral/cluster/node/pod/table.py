"""All pods of the node: who is let in, who works on which, and what an earlier agent left."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from corral.cluster.node.container.launcher import owner_of
from corral.cluster.node.container.processes import Container, ContainerError
from corral.cluster.node.network import NetworkError
from corral.cluster.node.parts import NodeParts
from corral.cluster.node.pod import fit
from corral.cluster.node.pod.adoption import attempts_by_pod, reported, story_of
from corral.cluster.node.pod.fit import Room
from corral.cluster.node.pod.lifecycle import Record
from corral.cluster.node.pod.worker import PodWorker, grace_of, interruption
from corral.cluster.node.resources import GpuPool
from corral.kube.types import Obj
from corral.runtime import Change

__all__ = ["PodTable"]

logger = logging.getLogger(__name__)


class PodTable:
    """One worker for each pod uid."""

    def __init__(
        self,
        parts: NodeParts,
        *,
        room: Room,
        gpus: GpuPool,
        labels: Callable[[], Mapping[str, str]],
    ) -> None:
        self._parts = parts
        self._room = room
        self._gpus = gpus
        self._labels = labels
        self.workers: dict[str, PodWorker] = {}
        self._waiting: dict[str, Obj] = {}
        """Pods that would fit if those that end had ended."""
        self._names: dict[str, str] = {}
        """Namespace/name → uid of the pod that the API shows."""
        self._open = False
        self._leftovers: dict[str, list[Container]] = {}

    # -- the beginning ---------------------------------------------------------------------------

    def adopt(self, containers: Iterable[Container]) -> None:
        """What the engine has found; before ``open``."""
        containers = list(containers)
        for container in containers:
            # one that is made again has the same control groups again
            if not container.state.running and not container.state.unmade:
                self._parts.launcher.ended(container)
        self._leftovers = attempts_by_pod(containers)

    async def open(self, pods: Iterable[Obj]) -> None:
        """Take over what the API says is ours, and end what it does not know any more."""
        listed = sorted(pods, key=lambda pod: pod["metadata"].get("creationTimestamp") or "")
        self._open = True
        known = {pod["metadata"]["uid"] for pod in listed}
        for uid, containers in self._leftovers.items():
            for container in containers:
                devices = container.labels.get("gpus", "")
                if container.state.running and devices:
                    owner = owner_of(uid, container.labels["container"])
                    self._gpus.restore(owner, devices.split(","))
        await asyncio.gather(*map(self._end_stranger, self._leftovers.keys() - known))
        for uid in self._parts.layout.known() - known:
            self._parts.sweeper.later(self._parts.layout.forget_pod, uid)
            self._parts.sweeper.later(self._parts.layout.forget_logs_of, uid)
        # those that have begun first: they have their place
        for pod in sorted(listed, key=lambda pod: pod["metadata"]["uid"] not in self._leftovers):
            self._arrive(pod)
        self._leftovers.clear()

    async def _end_stranger(self, uid: str) -> None:
        """Nothing may be left of a pod that was removed while no agent ran."""
        containers = self._leftovers.get(uid, [])
        await asyncio.gather(*(container.kill() for container in containers))
        labels = containers[0].labels if containers else {}
        for container in containers:
            self._parts.launcher.ended(container)
            container.remove()
        pod = {
            "metadata": {"uid": uid, "name": labels.get("pod", uid), "namespace": ""},
            "spec": {},
            "status": {"podIP": labels.get("address", "")},
        }
        try:
            sandbox = self._parts.network.restore(pod)
            if sandbox is not None:
                await self._parts.network.close(sandbox)
        except (ContainerError, NetworkError, OSError) as err:
            logger.warning("the sandbox of pod %s, which is gone: %s", uid, err)

    # -- what the API says -----------------------------------------------------------------------

    def changed(self, change: Change) -> None:
        """A handler of the informer for this node's pods."""
        if not self._open:
            return
        uid = change.object["metadata"]["uid"]
        if change.type == "deleted":
            self._vanished(uid, change.key)
        elif uid in self.workers:
            self.workers[uid].update(change.object)
        elif uid in self._waiting:
            self._waiting[uid] = change.object
            self._admit_waiting()
        else:
            self._arrive(change.object)

    def _vanished(self, uid: str, key: str) -> None:
        if self._names.get(key) == uid:
            del self._names[key]
        self._waiting.pop(uid, None)
        worker = self.workers.get(uid)
        if worker is None:
            return
        worker.vanish()

    def _arrive(self, pod: Obj) -> None:
        meta = pod["metadata"]
        uid = meta["uid"]
        self._names[f"{meta['namespace']}/{meta['name']}"] = uid
        attempts = self._leftovers.get(uid, [])
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            self._rest(pod, attempts)
            return
        interrupted = self._parts.layout.interrupted(uid)
        story = story_of(pod, attempts, self._parts.layout, interrupted=interrupted.exists())
        story = reported(pod, story)
        if story:
            self._resume(pod, attempts, story)
            interrupted.unlink(missing_ok=True)
            return
        for container in attempts:  # of which no program was tried
            container.remove()
        self._admit(pod)

    def _admit(self, pod: Obj) -> None:
        meta = pod["metadata"]
        if meta.get("deletionTimestamp"):
            self._work(pod).begin()
            return
        refused = self._parts.launcher.refusal(pod) or fit.check(
            pod, node=self._parts.config.name, labels=self._labels(), room=self._room
        )
        if refused is not None and refused.waits and self._someone_ends():
            self._waiting[meta["uid"]] = pod
            return
        worker = self._work(pod)
        if refused is not None:
            worker.reject(refused.reason, refused.message)
            return
        self._room.take(pod)
        worker.begin()

    def _someone_ends(self) -> bool:
        return any(w.machine.ending and not w.over for w in self.workers.values())

    def _admit_waiting(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for pod in waiting.values():
            self._admit(pod)

    def _work(self, pod: Obj) -> PodWorker:
        worker = PodWorker(pod, self._parts, ended=self._ended, forgotten=self._forget)
        self.workers[worker.uid] = worker
        return worker

    def _resume(
        self, pod: Obj, attempts: list[Container], story: Mapping[str, list[Record]]
    ) -> None:
        self._room.take(pod)
        interrupted = self._parts.layout.interrupted(pod["metadata"]["uid"]).exists()
        worker = self._work(pod)
        worker.resume(story, [c for c in attempts if not c.state.unmade])
        for container in attempts:
            if container.state.unmade:
                container.remove()
        if interrupted and pod["spec"].get("restartPolicy") == "Never":
            worker.fail(interruption(pod))

    def _rest(self, pod: Obj, attempts: list[Container]) -> None:
        """A pod that is over: only what is left of it has to go."""
        worker = self._work(pod)
        worker.rest(attempts)

    # -- the end ---------------------------------------------------------------------------------

    def _ended(self, worker: PodWorker) -> None:
        self._room.give_back(worker.uid)
        if self._waiting:
            self._admit_waiting()

    def _forget(self, worker: PodWorker) -> None:
        self.workers.pop(worker.uid, None)

    def find(self, namespace: str, name: str) -> PodWorker | None:
        uid = self._names.get(f"{namespace}/{name}")
        return self.workers.get(uid) if uid is not None else None

    def longest_grace(self) -> float:
        """Seconds within which all pods should have ended."""
        graces = (grace_of(w.machine.pod) for w in self.workers.values() if not w.over)
        return max(graces, default=0.0)

    async def interrupt(self) -> None:
        """End all containers; return when they have ended."""
        self._open = False
        await asyncio.gather(*(worker.interrupt() for worker in list(self.workers.values())))

    async def kill(self) -> None:
        """Give up waiting for containers that end: kill them."""
        running = [c for worker in self.workers.values() for c in worker.containers.running()]
        await asyncio.gather(*(container.kill() for container in running))

    async def let_go(self) -> None:
        """Leave everything as it is."""
        self._open = False
        await asyncio.gather(*(worker.let_go() for worker in list(self.workers.values())))
