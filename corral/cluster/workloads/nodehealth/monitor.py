"""Judges all nodes every few seconds: silent ones, their pods, and whose turn it is to be given up.

A pass decides on the caches, but no node is called silent before its lease was read from the
server. If that cannot be read, or we did not run for a while ourselves, the silence says nothing:
then every node gets its whole grace period again. A pass that fails is tried again with the next;
everything in it may be repeated.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from corral.cluster.workloads.nodehealth import taints
from corral.cluster.workloads.nodehealth.conditions import (
    not_ready_patch,
    ready_status,
    silence_patch,
)
from corral.cluster.workloads.nodehealth.heartbeats import Heartbeats
from corral.cluster.workloads.nodehealth.index import POD_NODE_INDEX
from corral.cluster.workloads.nodehealth.settings import Settings
from corral.cluster.workloads.nodehealth.writes import Writes, at_most
from corral.cluster.workloads.nodehealth.zones import Shift, Zones, counts, zone_of
from corral.kube.client import KubeClient, KubeConnectionError
from corral.kube.errors import ApiError, Conflict, Forbidden, NotFound
from corral.kube.resources import LEASES
from corral.kube.types import Obj
from corral.runtime import EventRecorder, Informer, format_time, uid_of, version_of

__all__ = ["LEASE_NAMESPACE", "Monitor"]

logger = logging.getLogger(__name__)

LEASE_NAMESPACE: Final = "kube-node-lease"


class Monitor:
    """The loop over all nodes."""

    def __init__(
        self,
        client: KubeClient,
        writes: Writes,
        recorder: EventRecorder,
        *,
        nodes: Informer,
        pods: Informer,
        leases: Informer,
        settings: Settings,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._writes = writes
        self._recorder = recorder
        self._nodes, self._pods, self._leases = nodes, pods, leases
        self._settings = settings
        self._clock, self._wall = clock, wall
        self._heartbeats = Heartbeats(settings)
        self._zones = Zones(settings)
        self._known: dict[str, Obj] = {}
        self._last_pass: float | None = None
        self._strays: dict[str, tuple[str, float]] = {}
        """Leases without a node: name → (version, since when)."""

    async def run(self) -> None:
        """Judge until cancelled."""
        while True:
            try:
                await self.judge()
            except (ApiError, KubeConnectionError) as error:
                logger.warning("node health: a pass was not finished: %s", error)
            await asyncio.sleep(self._settings.period)

    async def judge(self) -> None:
        """One pass. Raises ApiError or KubeConnectionError; the next pass does the rest."""
        nodes = {node["metadata"]["name"]: node for node in self._nodes.store}
        self._notice(nodes)
        self._listen(nodes)
        if not await self._ask_suspects(nodes):
            return
        await self._mark_silent(nodes)
        await self._mark_pods(nodes)
        await self._give_up(nodes)
        await self._remove_stray_leases(nodes)

    # --- hearing ---------------------------------------------------------------------------------

    def _notice(self, nodes: dict[str, Obj]) -> None:
        """Say which nodes came and went."""
        for name, node in nodes.items():
            known = self._known.get(name)
            if known is None or uid_of(known) != uid_of(node):
                self._say(node, "RegisteredNode", f"Registered Node {name} in Controller")
        for name, node in self._known.items():
            if name not in nodes:
                self._say(node, "RemovingNode", f"Removing Node {name} from Controller")
        self._known = dict(nodes)

    def _say(self, node: Obj, reason: str, what: str) -> None:
        self._recorder.normal(node, reason, f"Node {node['metadata']['name']} event: {what}")

    def _listen(self, nodes: dict[str, Obj]) -> None:
        now = self._clock()
        self._heartbeats.keep_only(set(nodes))
        for name, node in nodes.items():
            lease = self._leases.store.get(f"{LEASE_NAMESPACE}/{name}")
            self._heartbeats.observe(node, lease, now)
        paused = max(self._settings.grace / 2, 2 * self._settings.period)
        if self._last_pass is not None and now - self._last_pass > paused:
            logger.info("node health did not run for %.0f s: all nodes begin anew",
                        now - self._last_pass)  # fmt: skip
            self._heartbeats.start_anew(now)
        self._last_pass = now

    async def _ask_suspects(self, nodes: dict[str, Obj]) -> bool:
        """Read the leases of nodes that seem silent; whether the server can be reached."""
        now = self._clock()
        suspects = [
            node
            for node in nodes.values()
            if self._heartbeats.is_suspect(node, now) and ready_status(node) != "Unknown"
        ]
        try:
            leases = await at_most(
                self._settings.concurrency, [partial(self._lease, node) for node in suspects]
            )
        except (ApiError, KubeConnectionError) as error:
            logger.warning("node health: leases cannot be read: all nodes begin anew: %s", error)
            self._heartbeats.start_anew(self._clock())
            return False
        for node, lease in zip(suspects, leases, strict=True):
            self._heartbeats.observe(node, lease, self._clock())
        return True

    async def _lease(self, node: Obj) -> Obj | None:
        try:
            return await self._client.get(
                LEASES, node["metadata"]["name"], namespace=LEASE_NAMESPACE
            )
        except NotFound:
            return None

    # --- silence ---------------------------------------------------------------------------------

    async def _mark_silent(self, nodes: dict[str, Obj]) -> None:
        """Write that nothing is known of silent nodes; ``nodes`` holds the outcome."""
        now = self._clock()
        silent = [node for node in nodes.values() if self._heartbeats.is_silent(node, now)]
        marked = await at_most(
            self._settings.concurrency, [partial(self._mark, node) for node in silent]
        )
        nodes.update({node["metadata"]["name"]: node for node in marked if node is not None})

    async def _mark(self, node: Obj) -> Obj | None:
        patch = silence_patch(node, self._stamp())
        if patch is None:
            return node
        name = node["metadata"]["name"]
        try:
            written = await self._writes.node_status(node, patch)
        except (Conflict, NotFound):
            return None  # it has just changed: the next pass sees how
        if ready_status(node) == "True":
            message = f"Node {name} status is now: NodeNotReady"
            self._recorder.normal(node, "NodeNotReady", message)
        return written

    async def _mark_pods(self, nodes: dict[str, Obj]) -> None:
        """Pods of nodes that nothing is known of are not ready, whatever they last said."""
        found = [
            pod
            for name, node in nodes.items()
            if ready_status(node) == "Unknown"
            for pod in self._pods.store.by_index(POD_NODE_INDEX, name)
        ]
        await at_most(self._settings.concurrency, [partial(self._mark_pod, pod) for pod in found])

    async def _mark_pod(self, pod: Obj) -> None:
        patch = not_ready_patch(pod, self._stamp())
        if patch is not None and await self._writes.pod_status(pod, patch):
            self._recorder.warning(pod, "NodeNotReady", "Node is not ready")

    # --- giving up -------------------------------------------------------------------------------

    async def _give_up(self, nodes: dict[str, Obj]) -> None:
        """Taint those whose turn it is, so that pods leave; take all back when none is ready."""
        ready: dict[str, list[bool]] = {}
        for node in nodes.values():
            if counts(node):
                ready.setdefault(zone_of(node), []).append(ready_status(node) == "True")
        shift = self._zones.judge(ready)
        if shift is Shift.ALL_DOWN:
            logger.warning("no node is ready: pods stay where they are")
            await self._change_taints(list(nodes.values()), taints.without_eviction)
            return
        if shift is Shift.NOT_ALL_DOWN:
            logger.info("some nodes are ready again: the others begin anew")
            self._heartbeats.start_anew(self._clock())
        self._line_up(nodes)
        turns = [nodes[name] for name in self._zones.turns(self._clock()) if name in nodes]
        await self._change_taints(turns, taints.with_eviction)

    def _line_up(self, nodes: dict[str, Obj]) -> None:
        now = self._clock()
        for name, node in nodes.items():
            status = ready_status(node)
            # A node that we once called silent, and may yet hear of, is not given up before it
            # was silent for its grace period again.
            lost = status == "False" or (
                status == "Unknown" and self._heartbeats.is_silent(node, now)
            )
            if lost and taints.with_eviction(node, "") is not None:
                self._zones.wait(zone_of(node), name)
            else:
                self._zones.leave(name)

    async def _change_taints(
        self, nodes: list[Obj], decide: Callable[[Obj, str], list[Obj] | None]
    ) -> None:
        def wanted(node: Obj) -> list[Obj] | None:
            return decide(node, self._stamp())

        works = [partial(self._writes.taints, node, wanted) for node in nodes]
        await at_most(self._settings.concurrency, works)

    # --- leases ----------------------------------------------------------------------------------

    async def _remove_stray_leases(self, nodes: dict[str, Obj]) -> None:
        """Remove leases that no node has, once nobody has renewed them for the grace period."""
        now, strays = self._clock(), {}
        for lease in self._leases.store.objects(LEASE_NAMESPACE):
            name, version = lease["metadata"]["name"], version_of(lease)
            if name in nodes:
                continue
            known = self._strays.get(name)
            since = known[1] if known is not None and known[0] == version else now
            strays[name] = (version, since)
            if now - since > self._settings.grace:
                await self._remove_lease(lease)
        self._strays = strays

    async def _remove_lease(self, lease: Obj) -> None:
        try:
            await self._client.delete(
                LEASES,
                lease["metadata"]["name"],
                namespace=LEASE_NAMESPACE,
                resource_version=version_of(lease),
            )
        except (NotFound, Conflict):
            return  # gone already, or renewed after all
        except Forbidden:
            # Where we run with the rights of a node controller alone, owner references must do.
            logger.debug("the lease of %s stays: we may not remove it", lease["metadata"]["name"])

    def _stamp(self) -> str:
        return format_time(self._wall())
