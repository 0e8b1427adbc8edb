"""The pod network of one agent: what it promises to the rest of the agent.

* Every pod has an address of its own that stays the same as long as the pod lives, also when the
  agent is killed and started again; containers find names and services in their sandbox.
* A name leads to a pod from when the API says that it is ready until it no longer does.
* Opening is idempotent; whatever a killed agent left half made is used or removed by the next.
* After ``stop(remove=True)`` nothing is left: no process, namespace, device, mount or file.

:mod:`directory` knows which names and targets there are, :mod:`names` writes hosts files,
:mod:`proxy` serves service addresses. With networks of their own (mode ``root``) pods are cabled to
their cluster's :mod:`gateway`; in the other modes they have addresses of the machine's loopback.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import Final

import aiohttp

from corral.cluster.node.container.processes import ContainerSpec
from corral.cluster.node.isolation import Isolation, Mode, Sandbox
from corral.cluster.node.machine import machine_folder
from corral.cluster.node.network import dialing
from corral.cluster.node.network.addresses import (
    LOOPBACK_NETWORK,
    POD_NETWORK,
    LoopbackGuard,
    NodeAddresses,
)
from corral.cluster.node.network.cluster import ClusterNames
from corral.cluster.node.network.errors import NetworkError
from corral.cluster.node.network.gateway import Gateway
from corral.cluster.node.network.grounds import GatewayGround, LoopbackGround
from corral.cluster.node.network.holding import Keeper
from corral.cluster.node.network.identity import cluster_id
from corral.cluster.node.network.names import hosts
from corral.cluster.node.network.names.visible import named_by
from corral.cluster.node.network.records import Record, Records
from corral.cluster.node.network.slots import Slots
from corral.kube.connection.transport import KubeConnectionError
from corral.kube.types import Obj
from corral.runtime import Informer, Manager

logger = logging.getLogger(__name__)

_FIRST_WAIT, _LAST_WAIT = 0.1, 5.0
"""Seconds between tries to start a keeper."""
_LINGER: Final = 1.0
"""Seconds after which what pods leave behind is taken away."""


class PodNetwork:
    """Sandboxes for the pods of one agent."""

    def __init__(
        self,
        mode: Mode,
        manager: Manager,
        *,
        folder: Path,
        node: str,
        cluster: str = "",
        machine: Path | None = None,
        address: str = "",
        own: Informer | None = None,
        domain: str = "cluster.local",
        network: IPv4Network = POD_NETWORK,
    ) -> None:
        """Before the manager runs: the informers it needs are taken from there.

        Args:
            mode: how far pods are kept apart.
            manager: gives informers, the client and events.
            folder: the agent's own; a folder ``network`` is made in it.
            node: the node's name, the host name of pods that share the machine's network.
            cluster: tells clusters on this machine apart; asked of the API server without.
            machine: where the agents of this machine find each other.
            domain: the cluster's DNS domain.
            own: has the pods of this node; they are not asked for again then.
            address: the node's, and of pods that share its network; the machine's own without.
            network: of the pods, where they have one of their own.
        """
        self.mode: Mode = mode
        self._manager = manager
        self._folder = folder / "network"
        self._node = node
        self._cluster = cluster
        self._machine = machine
        self._domain = domain
        self._network = network
        self._isolation = Isolation(mode)
        self._names = ClusterNames(manager, node=node, domain=domain, own=own)
        self._records = Records(self._folder / "pods")
        self._left: dict[str, Record] = {}
        """What an earlier agent made and nobody has asked for yet."""
        self._sandboxes: dict[str, Sandbox] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._gateway: Gateway | None = None
        self._addresses: NodeAddresses | None = None
        self._guard = LoopbackGuard()
        self._over: list[str] = []
        """Pods that have ended, and whose networks are still there."""
        self._collector: asyncio.Task[None] | None = None
        self._remover: asyncio.Task[None] | None = None
        self._guardian: asyncio.Task[None] | None = None
        self._host = address or dialing.machine_address()

    # -- beginning and end -----------------------------------------------------------------------

    async def start(self) -> None:
        """Make the network or take over what an earlier agent left.

        Raises:
            NetworkError: it cannot be made.
        """
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self.mode == "root":
            await self._start_gateway()
        else:
            await self._start_loopback()
        for uid, record in self._records.open().items():
            if record.mode == self.mode:
                self._left[uid] = record
                if not record.host_network:
                    self._own_addresses.restore(uid, record.address)
            else:
                self._records.remove(uid)
        await self._drop_unrecorded()
        self._names.start()
        self._collector = asyncio.create_task(self._collect(), name="network leftovers")

    async def _start_gateway(self) -> None:
        identity = self._cluster or await self._identity()
        shared = (self._machine or machine_folder()) / f"cluster-{identity}"
        keeper = Keeper(self._folder / "keeper")
        gateway = Gateway(shared, keeper, network=self._network)
        self._gateway = gateway
        slots = Slots(shared, self._folder / "blocks-root.json")
        self._addresses = NodeAddresses(self._network, slots)
        await asyncio.to_thread(_open_all, keeper, gateway, self._addresses)
        self._names.ground(GatewayGround(gateway, self._network))
        self._guardian = asyncio.create_task(self._guard_keeper(keeper), name="network keeper")

    async def _guard_keeper(self, keeper: Keeper) -> None:
        """Replace the keeper when it dies: without one no pod can be started."""
        while True:
            await _ended(keeper.pid)
            wait = _FIRST_WAIT
            while not await self._revived():
                await asyncio.sleep(wait)
                wait = min(wait * 2, _LAST_WAIT)

    async def _revived(self) -> bool:
        assert self._gateway is not None
        try:
            paths = await asyncio.to_thread(self._gateway.revive)
        except (NetworkError, OSError) as err:
            logger.warning("the keeper of pod networks ended, and none can be started: %s", err)
            return False
        for uid, path in paths.items():
            if uid in self._sandboxes:
                self._sandboxes[uid] = replace(self._sandboxes[uid], network=path)
        logger.warning("the keeper of pod networks ended: a new one has %d of them", len(paths))
        return True

    async def _identity(self) -> str:
        """The cluster's; the one of last time while the API server cannot be asked."""
        memory = self._folder / "cluster"
        try:
            identity = await cluster_id(self._manager.client)
        except KubeConnectionError as err:
            try:
                return memory.read_text()
            except OSError:
                raise NetworkError(f"the cluster cannot be asked who it is: {err}") from err
        try:
            if not memory.exists() or memory.read_text() != identity:
                memory.write_text(identity)
        except OSError as err:  # a full disk: it is asked for again at the next start
            logger.warning("who the cluster is cannot be written down: %s", err)
        return identity

    async def _start_loopback(self) -> None:
        await asyncio.to_thread(_end_keeper, self._folder / "keeper")
        memory = self._folder / "blocks-loopback.json"
        machine = self._machine or machine_folder()
        slots = Slots(machine / "loopback", memory, order=self._guard.order)
        self._addresses = NodeAddresses(LOOPBACK_NETWORK, slots)
        await asyncio.to_thread(self._addresses.open)
        ground = LoopbackGround(slots.numbers[0], self._folder / "services.json")
        self._names.ground(ground)

    async def _drop_unrecorded(self) -> None:
        """Namespaces for which there is no record are nobody's."""
        if self._gateway is not None:
            held = await asyncio.to_thread(self._gateway.pods)
            nobodys = [uid for uid in held if uid not in self._left]
            await asyncio.to_thread(self._gateway.detach, nobodys)

    async def _collect(self) -> None:
        """Remove what was left of pods that the API server does not know any more."""
        known = await self._names.known_pods()
        for uid in [uid for uid in self._left if uid not in known]:
            record = self._left.get(uid)
            if record is not None:
                sandbox = self._take_over(record)
                if sandbox is not None:
                    await self.close(sandbox)

    async def stop(self, *, remove: bool) -> None:
        """Serve no more; with ``remove`` (no pod is left) take everything away."""
        for task in (self._guardian, self._collector, self._remover):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        await self._names.stop()
        if self._gateway is not None:
            await asyncio.to_thread(self._gateway.close, remove=remove)
        if self._addresses is not None:
            await asyncio.to_thread(self._addresses.close, forget=remove)
        self._guard.close()
        if remove:
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    @property
    def _own_addresses(self) -> NodeAddresses:
        if self._addresses is None:
            raise NetworkError("the pod network has not been started")
        return self._addresses

    # -- sandboxes -------------------------------------------------------------------------------

    async def open(self, pod: Obj) -> Sandbox:
        """The pod's sandbox; the same one every time.

        Raises:
            NetworkError: it could not be made; try again.
            NoAddress: there are too many pods.
        """
        uid = pod["metadata"]["uid"]
        async with self._locks.setdefault(uid, asyncio.Lock()):
            known = self._sandboxes.get(uid) or self.restore(pod)
            if known is not None:
                return known
            if uid in self._over:
                self._over.remove(uid)
                await self._take_away([uid])
            record = self._record(pod)
            self._records.write(record)
            self._left[uid] = record
            network = ""
            if self._gateway is not None and not record.host_network:
                network = await asyncio.to_thread(self._gateway.attach, uid, record.address)
            return self._admit(record, network, is_new=True)

    def _record(self, pod: Obj) -> Record:
        meta, spec = pod["metadata"], pod["spec"]
        shares = bool(spec.get("hostNetwork"))
        address = self._host if shares else self._own_addresses.assign(meta["uid"])
        hostname = self._node if shares else spec.get("hostname") or _short(meta["name"])
        domain = ""
        if spec.get("subdomain") and not shares:
            domain = f"{spec['subdomain']}.{meta.get('namespace', '')}.svc.{self._domain}"
        searches = (spec.get("dnsConfig") or {}).get("searches") or ()
        own = hosts.header(
            address,
            hostname,
            domain=domain,
            aliases=spec.get("hostAliases") or (),
            base=_machine_hosts() if shares else "",
        )
        if domain and spec.get("setHostnameAsFQDN"):
            hostname = f"{hostname}.{domain}"
        return Record(
            uid=meta["uid"],
            mode=self.mode,
            namespace=meta.get("namespace", ""),
            address=address,
            hostname=hostname,
            own=own,
            host_network=shares,
            searches=[name for name in searches if name.endswith(f".svc.{self._domain}")],
            named=named_by(pod, self._domain),
        )

    def _admit(self, record: Record, network: str, *, is_new: bool) -> Sandbox:
        path = self._records.hosts(record.uid)
        file = hosts.HostsFile(path, record.own, searches=record.searches, named=record.named)
        self._names.add(record.namespace, record.uid, file, is_new=is_new)
        sandbox = Sandbox(
            uid=record.uid,
            namespace=record.namespace,
            address=record.address,
            hostname=record.hostname,
            hosts=str(path),
            network=network,
            host_network=record.host_network,
        )
        self._left.pop(record.uid, None)
        self._sandboxes[record.uid] = sandbox
        return sandbox

    def restore(self, pod: Obj, process: int = 0) -> Sandbox | None:
        """The sandbox that an earlier agent made for this pod; only its uid is looked at.

        ``process`` is one of the pod's, where any runs: it has the network that nobody else keeps.
        """
        uid = pod["metadata"]["uid"]
        if uid in self._sandboxes:
            return self._sandboxes[uid]
        record = self._left.get(uid)
        return self._take_over(record, process) if record is not None else None

    def _take_over(self, record: Record, process: int = 0) -> Sandbox | None:
        network = ""
        if self._gateway is not None and not record.host_network:
            try:
                network = self._gateway.find(record.uid)
                if not network and process:
                    network = self._gateway.attach_again(record.uid, record.address, process)
            except NetworkError as err:
                logger.warning("the network of pod %s is lost: %s", record.uid, err)
            if not network:
                self._forget(record.uid)
                return None
        return self._admit(record, network, is_new=not self._records.hosts(record.uid).exists())

    async def close(self, sandbox: Sandbox) -> None:
        """Remove a sandbox, when all containers of the pod have ended. Raises NetworkError."""
        uid = sandbox.uid
        async with self._locks.setdefault(uid, asyncio.Lock()):
            if self._sandboxes.pop(uid, None) is None:
                return
            self._names.remove(sandbox.namespace, uid)
            if sandbox.network:
                self._over.append(uid)
                if self._remover is None or self._remover.done():
                    self._remover = asyncio.create_task(self._remove(), name="network remains")
            else:
                self._forget(uid)
        self._locks.pop(uid, None)

    async def _remove(self) -> None:
        """Take away the networks of pods that are over: later, and many at once.

        That is cheaper by far, and what is to start comes first. Until then they have their
        addresses, and their records, by which the next agent would find them.
        """
        while self._over:
            await asyncio.sleep(_LINGER)
            over, self._over = self._over, []
            try:
                await self._take_away(over)
            except NetworkError as err:
                logger.warning("networks of %d pods are left: %s", len(over), err)

    async def _take_away(self, uids: Sequence[str]) -> None:
        if self._gateway is not None:
            await asyncio.to_thread(self._gateway.detach, uids)
        for uid in uids:
            self._forget(uid)

    def _forget(self, uid: str) -> None:
        self._left.pop(uid, None)
        self._records.remove(uid)
        self._own_addresses.release(uid)

    # -- what containers are given ---------------------------------------------------------------

    def dress(self, spec: ContainerSpec, sandbox: Sandbox) -> ContainerSpec:
        """Put a container into a sandbox."""
        return self._isolation.dress(spec, self._current(sandbox))

    def _current(self, sandbox: Sandbox) -> Sandbox:
        """By a descriptor of our own, where there is one: the keeper may just have been killed."""
        known = self._sandboxes.get(sandbox.uid, sandbox)
        own = self._gateway.own_path(sandbox.uid) if self._gateway is not None else ""
        return replace(known, network=own) if own else known

    def service_environment(self, pod: Obj) -> list[Obj]:
        """The services whose addresses a container finds in its environment."""
        namespace = pod["metadata"].get("namespace", "")
        cut_off = self.mode == "root" and bool(pod["spec"].get("hostNetwork"))
        return self._names.services(namespace, direct=cut_off or self.mode != "root",
                                    others=not cut_off)  # fmt: skip

    def own_addresses(self, sandbox: Sandbox) -> tuple[str, ...]:
        """The addresses of a pod, for its status."""
        return (sandbox.address,)

    def host_addresses(self) -> tuple[str, ...]:
        """The addresses of this machine."""
        return (self._host,)

    # -- reaching pods ---------------------------------------------------------------------------

    async def dial(
        self, sandbox: Sandbox, port: int, host: str = ""
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to a port as from inside the pod: of its localhost without ``host``.

        Raises:
            OSError: nobody listens there.
        """
        return await dialing.dial(self._current(sandbox), port, host)

    def http_connector(self, sandbox: Sandbox) -> aiohttp.BaseConnector:
        """For requests to the pod, as from inside it."""
        return dialing.http_connector(self._current(sandbox))


async def _ended(pid: int) -> None:
    """Return when a process has ended."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(pidfd, over.set)
    try:
        await over.wait()
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)


def _open_all(keeper: Keeper, gateway: Gateway, addresses: NodeAddresses) -> None:
    keeper.open()
    gateway.open()
    addresses.open()


def _end_keeper(folder: Path) -> None:
    """End the keeper that an agent of this folder left when it ran in another mode."""
    keeper = Keeper(folder)
    if folder.exists() and keeper.connect():
        keeper.end()


def _short(name: str) -> str:
    """A pod's name as a host name, which may have 63 characters."""
    return name[:63].rstrip("-.")


def _machine_hosts() -> str:
    try:
        return Path("/etc/hosts").read_text()
    except OSError:
        return "127.0.0.1\tlocalhost\n"
