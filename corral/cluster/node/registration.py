"""This machine as a Node of the cluster: registered, kept alive, registered again when deleted.

The Lease says that the agent lives (40 s, renewed every 10); the status says how it is, every few
minutes or when something changes. All of it works with a node's own credentials.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from corral.cluster.node.config import AgentConfig
from corral.cluster.node.node_object import node_labels, node_object, node_status
from corral.cluster.node.resources import Gpu
from corral.kube.client import KubeClient
from corral.kube.connection.transport import KubeConnectionError
from corral.kube.errors import AlreadyExists, ApiError, Conflict, Forbidden, NotFound
from corral.kube.resources import LEASES, NODES
from corral.kube.types import Obj
from corral.runtime.keys import format_micro_time

__all__ = ["NotTaken", "Registration"]

logger = logging.getLogger(__name__)

LEASE_NAMESPACE: Final = "kube-node-lease"
LEASE_SECONDS: Final = 40
_FIRST_RETRY, _LAST_RETRY = 0.1, 7.0
_SHARE: Final = "--share-without-isolation"


class NotTaken(OSError):
    """The cluster does not want this node; the words say why and what to do."""


class Registration:
    """The Node object and the Lease of one agent."""

    def __init__(
        self,
        config: AgentConfig,
        client: KubeClient,
        *,
        gpus: Sequence[Gpu],
        capacity: Mapping[str, str],
        isolation: str,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        """``clock`` is what is written, ``steady`` how long something took."""
        self._config = config
        self._client = client
        self._capacity = capacity
        self._clock, self._steady = clock, steady
        self.labels = node_labels(config, gpus, isolation=isolation)
        self.port = config.port
        self.node: Obj = {}
        """As the API last showed it."""
        self._lease: Obj = {}

    # -- the Node --------------------------------------------------------------------------------

    async def register(self) -> None:
        """Create the Node or bring it up to date; try until that is done.

        Raises NotTaken: the cluster has tenants whom this node could not keep apart.
        """
        wait = _FIRST_RETRY
        while True:
            try:
                await self._register()
                return
            except Forbidden as err:
                if _SHARE in err.message:
                    raise NotTaken(err.message) from err
                logger.warning("node %s is not registered yet: %s", self._config.name, err)
            except (ApiError, KubeConnectionError) as err:
                logger.warning("node %s is not registered yet: %s", self._config.name, err)
            await asyncio.sleep(wait)
            wait = min(wait * 2, _LAST_RETRY)

    async def _register(self) -> None:
        status = self._status({})
        node = node_object(self._config, self.labels, status)
        try:
            self.node = await self._client.create(NODES, node)
        except AlreadyExists:
            self.node = await self._client.get(NODES, self._config.name)
            await self._update_labels()
            await self._write_status()
        except Forbidden as err:
            if "taint" in err.message or "label" in err.message:
                raise
            self.node = await self._client.get(NODES, self._config.name)
            await self._write_status()

    async def _update_labels(self) -> None:
        have = self.node["metadata"].get("labels") or {}
        changed = {k: v for k, v in self.labels.items() if have.get(k) != v}
        if changed:
            self.node = await self._client.patch(
                NODES, self._config.name, patch={"metadata": {"labels": changed}}
            )

    def _status(self, old: Obj) -> Obj:
        return node_status(
            self._config, capacity=self._capacity, port=self.port, old=old, now=self._clock()
        )

    async def _write_status(self) -> None:
        status = self._status(self.node.get("status") or {})
        self.node = await self._client.patch(
            NODES,
            self._config.name,
            patch={"status": status},
            kind="strategic",
            subresource="status",
        )

    async def say_stopping(self) -> None:
        """The node takes no pods for now; once, as well as it can be said."""
        status = node_status(
            self._config,
            capacity=self._capacity,
            port=self.port,
            old=self.node.get("status") or {},
            now=self._clock(),
            ready=False,
            problem="node is shutting down",
        )
        patch = {"status": {"conditions": status["conditions"]}}
        try:
            await self._client.patch(
                NODES, self._config.name, patch=patch, kind="strategic", subresource="status"
            )
        except (ApiError, KubeConnectionError) as err:
            logger.info("node %s is gone without a word: %s", self._config.name, err)

    # -- heartbeats ------------------------------------------------------------------------------

    async def keep_alive(self) -> None:
        """Renew Lease and status until cancelled."""
        last = self._steady()
        while True:
            try:
                await self._renew()
                if self._steady() - last >= self._config.status_period or await self._doubted():
                    await self._write_status()
                    last = self._steady()
            except NotFound:
                logger.warning("node %s was deleted: registering it again", self._config.name)
                self._lease = {}
                await self.register()
                last = self._steady()
            except (ApiError, KubeConnectionError) as err:
                logger.warning("the heartbeat of %s was not written: %s", self._config.name, err)
            await asyncio.sleep(self._config.heartbeat)

    async def _doubted(self) -> bool:
        """Whether the API says something else of the node than it says itself.

        Somebody has written that nothing is known of it: it was stopped, or cut off.
        """
        self.node = await self._client.get(NODES, self._config.name)
        return _readiness(self.node.get("status") or {}) != _readiness(self._status({}))

    async def _renew(self) -> None:
        """Raises NotFound when the Node has been deleted and its Lease with it."""
        if not self._lease:
            await self._find_lease()
        try:
            lease = {**self._lease, "spec": {**self._lease["spec"], **self._renewal()}}
            self._lease = await self._client.replace(LEASES, lease, namespace=LEASE_NAMESPACE)
        except (NotFound, Conflict):
            # deleted with its Node, or written by somebody else: look at both again
            self._lease = {}
            self.node = await self._client.get(NODES, self._config.name)
            await self._find_lease()

    async def _find_lease(self) -> None:
        name = self._config.name
        try:
            self._lease = await self._client.get(LEASES, name, namespace=LEASE_NAMESPACE)
        except NotFound:
            owner = {
                "apiVersion": "v1",
                "kind": "Node",
                "name": name,
                "uid": self.node["metadata"]["uid"],
            }
            lease: Obj = {
                "metadata": {
                    "name": name,
                    "namespace": LEASE_NAMESPACE,
                    "ownerReferences": [owner],
                },
                "spec": self._renewal(),
            }
            try:
                self._lease = await self._client.create(LEASES, lease)
            except AlreadyExists:
                self._lease = await self._client.get(LEASES, name, namespace=LEASE_NAMESPACE)

    def _renewal(self) -> Obj:
        return {
            "holderIdentity": self._config.name,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": format_micro_time(self._clock()),
        }


def _readiness(status: Obj) -> list[str]:
    """What a status says of whether the node is ready."""
    conditions = status.get("conditions") or ()
    return [one.get("status", "") for one in conditions if one.get("type") == "Ready"]
