"""Plays the nodes of a namespace: gives pods a node, lets them run, sees them out.

What becomes of a pod is what the rule says: ``ready``, ``running`` (not ready), ``pending``,
``failed`` or ``succeeded``. A rule may change at any time; pods that are there follow it. Deleted
pods go at once unless ``linger`` says otherwise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from datetime import UTC, datetime

from corral.kube import KubeClient, Obj
from corral.kube.errors import ApiError, Conflict, NotFound
from corral.kube.resources import PODS
from tests.cluster.apps.loops import LoopThread

Rule = Callable[[Obj], str]

_NAME_FIELD = "metadata.name"


def always_ready(pod: Obj) -> str:
    return "ready"


def node_body(name: str, labels: dict[str, str], taints: list[Obj] | None = None) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "spec": {"taints": taints or []},
    }


def node_status(now: str) -> Obj:
    amounts = {"cpu": "1000", "memory": "4Ti", "pods": "2000"}
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
    return {"conditions": [ready], "capacity": amounts, "allocatable": amounts}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _wanted_node(pod: Obj) -> str:
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field["key"] == _NAME_FIELD:
                return str(field["values"][0])
    return ""


def _status(pod: Obj, verdict: str) -> Obj | None:
    """The status the pod should have, or None when it has it."""
    phase = {"ready": "Running", "running": "Running", "failed": "Failed"}.get(
        verdict, verdict.capitalize()
    )
    is_ready = "True" if verdict == "ready" else "False"
    old = pod.get("status") or {}
    conditions = {c["type"]: c for c in old.get("conditions") or ()}
    before = conditions.get("Ready", {})
    if old.get("phase") == phase and before.get("status", "False") == is_ready:
        return None
    since = before.get("lastTransitionTime") if before.get("status") == is_ready else _now()
    conditions["Ready"] = {"type": "Ready", "status": is_ready, "lastTransitionTime": since}
    return {"phase": phase, "conditions": list(conditions.values())}


class Player(LoopThread):
    """The nodes of one namespace."""

    def __init__(self, kubeconfig: str, namespace: str, node: str) -> None:
        super().__init__("player")
        self._kubeconfig = kubeconfig
        self._namespace = namespace
        self._node = node
        self._pods: dict[str, Obj] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._client: KubeClient | None = None
        self.rule: Rule = always_ready
        self.linger = False
        """Whether deleted pods stay until this is taken back."""
        self.seen: list[tuple[str, Obj]] = []
        """Every event of a pod in the namespace, in order."""

    # --- for the case ----------------------------------------------------------------------------

    def play(self, rule: Rule | str) -> None:
        """Follow another rule from now on."""
        chosen: Rule = (lambda pod: rule) if isinstance(rule, str) else rule

        async def change() -> None:
            self.rule = chosen
            self._look_at_all()

        self.call(change())

    def hold_deleted(self, hold: bool) -> None:
        async def change() -> None:
            self.linger = hold
            self._look_at_all()

        self.call(change())

    # --- at work ---------------------------------------------------------------------------------

    async def work(self, ready: Callable[[], None]) -> None:
        async with KubeClient.from_kubeconfig(self._kubeconfig) as client:
            self._client = client
            listed = await client.list_all(PODS, self._namespace)
            version = listed["metadata"]["resourceVersion"]
            ready()
            try:
                await self._follow(client, version)
            finally:
                await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _follow(self, client: KubeClient, version: str) -> None:
        while True:
            events = client.watch(PODS, self._namespace, resource_version=version)
            async with aclosing(events):
                async for event in events:
                    version = event.object["metadata"]["resourceVersion"]
                    self._take(event.type, event.object)

    def _take(self, kind: str, pod: Obj) -> None:
        if kind not in ("ADDED", "MODIFIED", "DELETED"):
            return
        self.seen.append((kind, pod))
        name = pod["metadata"]["name"]
        if kind == "DELETED":
            self._pods.pop(name, None)
            return
        self._pods[name] = pod
        self._look_at(pod)

    def _look_at_all(self) -> None:
        for pod in list(self._pods.values()):
            self._look_at(pod)

    def _look_at(self, pod: Obj) -> None:
        task = asyncio.create_task(self._handle(pod))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _handle(self, pod: Obj) -> None:
        try:
            if pod["metadata"].get("deletionTimestamp"):
                await self._see_out(pod)
            elif not pod["spec"].get("nodeName"):
                await self._bind(pod)
            else:
                await self._run_pod(pod)
        except (NotFound, Conflict):
            return  # it has changed: the next event says how

    async def _see_out(self, pod: Obj) -> None:
        if self.linger:
            return
        assert self._client is not None
        meta = pod["metadata"]
        await self._client.delete(
            PODS, meta["name"], namespace=self._namespace, uid=meta["uid"], grace_seconds=0
        )

    async def _bind(self, pod: Obj) -> None:
        assert self._client is not None
        name = pod["metadata"]["name"]
        target = {"apiVersion": "v1", "kind": "Node", "name": _wanted_node(pod) or self._node}
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": self._namespace},
            "target": target,
        }
        try:
            await self._client.create_subresource(
                PODS, name, subresource="binding", body=body, namespace=self._namespace
            )
        except ApiError as error:
            assert error.status_code == 409, error

    async def _run_pod(self, pod: Obj) -> None:
        assert self._client is not None
        status = _status(pod, self.rule(pod))
        if status is None:
            return
        await self._client.patch(
            PODS,
            pod["metadata"]["name"],
            namespace=self._namespace,
            subresource="status",
            kind="strategic",
            patch={"metadata": {"uid": pod["metadata"]["uid"]}, "status": status},
        )
