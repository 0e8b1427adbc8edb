"""The node agent: pods that are bound to its node run as real processes.

``start`` returns when the Node is registered and ready, containers of earlier agents are taken
over and pods are watched. ``wait`` returns after a stop, and raises when a part has died. After
``stop(end_pods=False)``, or a death at any moment, the next agent on the same folder goes on:
what runs is adopted, what ended meanwhile is reported as it ended, nothing is started twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import resource
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from corral.cluster import locking
from corral.cluster.node.config import AgentConfig
from corral.cluster.node.container import cgroups
from corral.cluster.node.container.launcher import Launcher
from corral.cluster.node.container.processes import Container, Engine
from corral.cluster.node.container.view import View, machine_view
from corral.cluster.node.isolation import Capabilities, Mode
from corral.cluster.node.layout import Layout
from corral.cluster.node.network import PodNetwork
from corral.cluster.node.parts import NodeParts
from corral.cluster.node.pod.access import AgentAccess
from corral.cluster.node.pod.fit import Room
from corral.cluster.node.pod.table import PodTable
from corral.cluster.node.pulling.puller import Puller
from corral.cluster.node.registration import NotTaken, Registration
from corral.cluster.node.resources import Gpu, GpuPool, discover_gpus, node_capacity
from corral.cluster.node.server import NodeServer
from corral.cluster.node.sweeper import Sweeper
from corral.cluster.node.volumes.claims import Claims
from corral.cluster.node.volumes.object_sources import ObjectSources
from corral.cluster.node.volumes.tokens import PodTokens
from corral.files.private import NotPrivate, data_folder, private_folder
from corral.kube.client import KubeClient
from corral.kube.resources import NODES, PODS
from corral.kube.types import Obj
from corral.runtime import Change, Informer, Manager, ManagerSettings

__all__ = ["Agent", "AgentConfig", "FolderInUse"]

logger = logging.getLogger(__name__)

SERVICES_PATIENCE: Final = 5.0
"""Seconds to wait for what the network has to know, before pods start without."""
NO_BOUNDARY: Final = (
    "pods of this node are not kept apart: in mode plain every pod can do and read whatever the "
    "user of this agent can; run it as root, or where user namespaces are allowed, for a boundary"
)
_PATIENT: Final = ManagerSettings(sync_timeout=float(10**9))
MAX_REQUESTS: Final = 16
END_MARGIN: Final = 10.0
"""Seconds beyond the longest grace period after which a stop no longer waits."""


class FolderInUse(Exception):
    """Another agent works in the folder."""


class Agent:
    """One node on one folder."""

    def __init__(
        self, config: AgentConfig, client: KubeClient, *, network_client: KubeClient | None = None
    ) -> None:
        """``network_client`` reads all Services, EndpointSlices and Pods of the cluster.

        A node's own credentials may not: without others that may, services and names of pods on
        other nodes are not known here. By default it is ``client``.
        """
        self.config = config
        self._client = client
        self._network_client = network_client or client
        self._layout = Layout(config.data_dir)
        self._lock = -1
        self._failed: asyncio.Future[None] | None = None
        self._stopped = asyncio.Event()
        self._background: list[asyncio.Task[None]] = []
        self._engine: Engine | None = None
        self._server: NodeServer | None = None
        self._ready = False

    # -- starting --------------------------------------------------------------------------------

    async def start(self) -> None:
        """Raises FolderInUse, OSError, CacheSyncTimeout."""
        self._layout.make()
        for folder in self.config.job_folders:
            take_job_folder(folder)
        try:
            self._lock = locking.take(self._layout.lock)
        except locking.Held as held:
            raise FolderInUse(
                f"a node agent (process {held.holder}) already works in {self.config.data_dir}: "
                "stop it, or choose another data folder"
            ) from None
        try:
            self._layout.open()
            await self._start()
        except BaseException:
            await self._abandon()
            raise

    async def _start(self) -> None:
        raise_file_limit()
        self._failed = asyncio.get_running_loop().create_future()
        self._engine = Engine(self._layout.containers)
        self._engine.warm(shared=os.geteuid() == 0 and (self.config.isolation or "root") == "root")
        gpus, capabilities, adopted, view = await asyncio.gather(
            self._find_gpus(), self._find_capabilities(), self._engine.adopt(), self._find_view()
        )
        self._groups = capabilities.groups
        if capabilities.mode == "plain":
            logger.warning("%s", NO_BOUNDARY)
            view = None
            if os.geteuid() == 0:
                self._layout.let_pass()
        if capabilities.mode == "root":
            self._layout.bound()
        for words in capabilities.missing:
            logger.info("pods of this node go without %s", words)
        self._manager = Manager(self._client)
        self._network_manager = Manager(self._network_client, settings=_PATIENT)
        mine = self._manager.informer(PODS, field_selector=f"spec.nodeName={self.config.name}")
        node = self._manager.informer(NODES, field_selector=f"metadata.name={self.config.name}")
        self._network = PodNetwork(
            capabilities.mode,
            self._network_manager,
            folder=self._layout.volatile,
            node=self.config.name,
            address=self.config.address,
            own=mine,
            domain=self.config.cluster_domain,
        )
        await self._network.start()
        self._assemble(gpus, view, isolation=capabilities.mode)
        self._clear_groups(adopted)
        self._table.adopt(adopted)
        await self._begin(mine, node)

    async def _find_gpus(self) -> list[Gpu]:
        if self.config.gpus is not None:
            return list(self.config.gpus)
        return await asyncio.to_thread(discover_gpus)

    async def _find_capabilities(self) -> Capabilities:
        highest = self.config.isolation or "root"
        return await asyncio.to_thread(
            lambda: Capabilities.detect(group_name(self.config), highest=highest)
        )

    async def _find_view(self) -> View | None:
        """What containers see of the machine, where they are kept apart."""
        if self.config.isolation == "plain":
            return None
        folder = self._layout.volatile / "view"
        images, expose = self.config.images, self.config.expose
        return await asyncio.to_thread(machine_view, folder, images=images, expose=expose)

    def _assemble(self, gpus: list[Gpu], view: View | None, *, isolation: str) -> None:
        assert self._engine is not None
        capacity = node_capacity(self.config.data_dir, gpus=gpus, pods=self.config.max_pods)
        pool = GpuPool(gpus)
        self._registration = Registration(
            self.config, self._client, gpus=gpus, capacity=capacity, isolation=isolation
        )
        self._objects = ObjectSources(self._client)
        self._sweeper = Sweeper()
        self._requests = asyncio.Semaphore(MAX_REQUESTS)
        launcher = Launcher(
            self.config,
            self._layout,
            engine=self._engine,
            network=self._network,
            cgroups=self._groups,
            gpus=pool,
            sweeper=self._sweeper,
            view=view,
        )
        parts = NodeParts(
            config=self.config,
            layout=self._layout,
            client=self._client,
            network=self._network,
            launcher=launcher,
            objects=self._objects,
            claims=Claims(self._client),
            puller=Puller(
                self._layout.images,
                self.config.registries,
                token=self._pod_token,
                mapped=self.config.images.knows,
                allowed=self.config.allowed_endpoints,
            ),
            recorder=self._manager.recorder("kubelet", host=self.config.name),
            sweeper=self._sweeper,
            turns=self._requests,
            allocatable=capacity,
        )
        self._table = PodTable(
            parts,
            room=Room(capacity),
            gpus=pool,
            labels=lambda: self._registration.node["metadata"].get("labels") or {},
        )
        self.access = AgentAccess(self._table, parts)

    async def _pod_token(self, pod: Obj) -> str:
        """What a pod's module is pulled with: its service account's rights, not the node's."""
        return await PodTokens(self._client, pod, turns=self._requests).for_pulling()

    def _clear_groups(self, adopted: list[Container]) -> None:
        """Remove control groups that no running container owns."""
        if self._groups is None:
            return
        owned = {path for c in adopted if c.state.running for path in c.spec.get("cgroups", ())}
        for path in self._groups.leftovers():
            if path not in owned:
                with suppress(OSError):  # something in it that is not ours
                    cgroups.remove([path])

    async def _begin(self, mine: Informer, node: Informer) -> None:
        mine.add_handler(self._table.changed)
        node.add_handler(self._node_changed)
        self._run(self._manager.run(), "manager")
        self._run(self._network_manager.run(), "network manager")
        await self._serve()
        await self._unless_failed(self._wait_ready())
        self._ready = True
        await self._table.open(mine.store)
        self._run(self._registration.keep_alive(), "heartbeat")
        if self.config.cloud:
            self._run(self._relay(), "notices")

    async def _relay(self) -> None:
        from corral.cluster.node.notices import relay

        config = self.config
        await relay(self._client, config.name, cloud=config.cloud, endpoint=config.metadata)

    async def _wait_ready(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._registration.register())
                group.create_task(self._manager.wait_ready())
                group.create_task(self._know_services())
        except* NotTaken as refused:
            raise NotTaken(str(refused.exceptions[0])) from None

    async def _know_services(self) -> None:
        try:
            async with asyncio.timeout(SERVICES_PATIENCE):
                await self._network_manager.wait_ready()
        except TimeoutError:
            logger.warning(
                "this node does not know all services and pods of the cluster: give it credentials "
                "that may list services, endpointslices and pods"
            )

    async def _unless_failed(self, work: Coroutine[Any, Any, None]) -> None:
        """Wait for it, unless a part of the agent dies first."""
        assert self._failed is not None
        task = asyncio.create_task(work)
        try:
            await asyncio.wait({task, self._failed}, return_when=asyncio.FIRST_COMPLETED)
            if self._failed.done():
                self._failed.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        task.result()

    def _node_changed(self, change: Change) -> None:
        if change.type != "deleted":
            self._registration.node = change.object
        elif not self._stopped.is_set():
            logger.warning("node %s was deleted: registering it again", self.config.name)
            self._run(self._registration.register(), "register", may_end=True)

    async def _serve(self) -> None:
        """Raises OSError when the port cannot be had."""
        if not self.config.serve:
            return
        self._server = NodeServer(
            self.access,
            client=self._client,
            folder=self._layout.pki,
            node=self.config.name,
            addresses=[self.config.address],
            client_ca=self.config.client_ca_file,
            problems=self._manager.problems,
        )
        self._registration.port = await self._server.start(self.config.address, self.config.port)

    @property
    def isolation(self) -> Mode:
        """How far pods are kept apart, once started."""
        return self._network.mode

    @property
    def port(self) -> int:
        """Of the HTTPS server, once started."""
        return self._registration.port

    def _run(self, work: Coroutine[Any, Any, None], name: str, *, may_end: bool = False) -> None:
        task = asyncio.create_task(work, name=name)
        self._background.append(task)

        def ended(task: asyncio.Task[None]) -> None:
            if task.cancelled() or self._stopped.is_set() or self._failed is None:
                return
            error = task.exception()
            if error is None and may_end:
                return
            if not self._failed.done():
                self._failed.set_exception(error or RuntimeError(f"{name} ended"))

        task.add_done_callback(ended)

    # -- running and stopping --------------------------------------------------------------------

    async def wait(self) -> None:
        """Return after ``stop``; raises what has ended a part of the agent before."""
        assert self._failed is not None
        stopped = asyncio.create_task(self._stopped.wait())
        try:
            waiting: set[asyncio.Future[Any]] = {stopped, self._failed}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
        if self._failed.done():
            self._failed.result()

    async def stop(self, *, end_pods: bool) -> None:
        """Stop the agent; with ``end_pods`` its containers too, gracefully.

        Pods that may restart then go on with the next agent; others have failed.
        """
        self._stopped.set()
        if end_pods:
            await self._registration.say_stopping()
            try:
                async with asyncio.timeout(self._table.longest_grace() + END_MARGIN):
                    await self._table.interrupt()
            except TimeoutError:
                logger.warning("some pods have not ended in time; the next agent sees to them")
                end_pods = False
        await self._table.let_go()
        await self._sweeper.close()
        await self._network.stop(remove=end_pods)
        await self._objects.close()
        self._manager.stop()
        self._network_manager.stop()
        if end_pods and self._engine is not None:
            self._engine.close()
            await asyncio.to_thread(self._layout.park)
        await self._abandon()
        if end_pods and self._groups is not None:
            self._clear_groups([])
            self._groups.close()

    async def hurry(self) -> None:
        """While ``stop`` waits for containers to end: kill them."""
        await self._table.kill()

    async def _abandon(self) -> None:
        """Let go of everything; what runs goes on."""
        self._stopped.set()
        if self._server is not None:
            await self._server.stop()
        for task in self._background:
            if not self._ready or not task.get_name().endswith("manager"):
                task.cancel()  # managers that run end in order by themselves
        await asyncio.gather(*self._background, return_exceptions=True)
        if self._engine is not None:
            self._engine.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def take_job_folder(folder: Path) -> None:
    """Make sure that what jobs keep there is out of others' reach; pods get it by mounts.

    Raises NotPrivate, OSError.
    """
    try:
        private_folder(data_folder(folder))
    except NotPrivate as err:
        raise NotPrivate(f"cannot use the folder of jobs: {err} (--job-folder)") from err


def group_name(config: AgentConfig) -> str:
    """Of the node's control groups: agents in different folders must not share them."""
    folder = hashlib.sha256(str(config.data_dir.resolve()).encode()).hexdigest()
    return f"corral-{config.name}-{folder[:8]}"


def raise_file_limit() -> None:
    """Many pods need many descriptors, here and in what we start."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
