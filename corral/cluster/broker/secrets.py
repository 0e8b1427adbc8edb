"""Hands out logins: every namespace has a Secret with its own, and nobody else's.

Who may read the Secret, by the rights that everybody has in the namespace, acts for the namespace.
It is made again when somebody changes or deletes it.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

from corral.cluster.broker.logins import (
    MECHANISM,
    SECRET,
    login_of,
    namespace_of,
    owner_named,
)
from corral.kube.client import KubeClient
from corral.kube.connection.kubeconfig import load_kubeconfig
from corral.kube.errors import ApiError, Invalid, NotFound
from corral.kube.resources import NAMESPACES, SECRETS
from corral.kube.types import Obj
from corral.runtime import Change, Manager, Result, is_being_deleted, join_key, uid_of

__all__ = ["hand_out", "register", "secret_of"]

logger = logging.getLogger(__name__)

_FIELD_MANAGER: Final = "corral-broker"
_NONE_FOR: Final = ("kube-node-lease", "kube-public", "kube-system")
"""Nobody works in these."""
Exists: TypeAlias = Callable[[str], bool | None]
_AGAIN: Final = 1.0
"""Seconds between attempts."""


def secret_of(key: bytes, namespace: str, uid: str, servers: str) -> Obj:
    """What a namespace is given."""
    login = login_of(key, namespace, uid)
    said = {
        "username": login.username,
        "password": login.password,
        "mechanism": MECHANISM,
        "bootstrapServers": servers,
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": SECRET,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/managed-by": _FIELD_MANAGER},
        },
        "type": "Opaque",
        "data": {name: base64.b64encode(text.encode()).decode() for name, text in said.items()},
    }


class SecretReconciler:
    """Looks at one namespace after another."""

    def __init__(self, manager: Manager, key: bytes, servers: str) -> None:
        self._client = manager.client
        self._key, self._servers = key, servers
        self.namespaces = manager.informer(NAMESPACES)
        self.secrets = manager.informer(SECRETS, field_selector=f"metadata.name={SECRET}")

    def exists(self, owner: str) -> bool | None:
        """Whether the namespace of a name is there; None while nobody knows."""
        if not self.namespaces.synced:
            return None
        name = namespace_of(owner)
        found = self.namespaces.store.get(name)
        return found is not None and owner_named(name, uid_of(found)) == owner

    async def reconcile(self, name: str) -> Result | None:
        """Have the Secret of a namespace be there, and right."""
        found = self.namespaces.store.get(name)
        if found is None or is_being_deleted(found) or name in _NONE_FOR:
            return None
        wanted = secret_of(self._key, name, uid_of(found), self._servers)
        held = self.secrets.store.get(join_key(name, SECRET))
        if held is not None and held.get("data") == wanted["data"]:
            return None
        try:
            await self._client.apply(SECRETS, wanted, field_manager=_FIELD_MANAGER, force=True)
        except NotFound:
            return None  # the namespace has just gone
        except Invalid:
            # somebody has made it immutable, or of another type
            await self._client.delete(SECRETS, SECRET, namespace=name)
            return Result(_AGAIN)
        return None


def register(
    manager: Manager, key: bytes, servers: str, gone: Callable[[str], None] = lambda _: None
) -> SecretReconciler:
    """Add the controller to a manager; ``gone`` is told whose namespace was deleted."""
    reconciler = SecretReconciler(manager, key, servers)
    controller = manager.controller("kafka-login", reconciler.reconcile)

    def spaces(change: Change) -> list[str]:
        found = change.new or change.old or {}
        # one that is only not there any more may come back: with the database, from a copy
        if change.new is None and is_being_deleted(found):
            gone(owner_named(found["metadata"]["name"], uid_of(found)))
        return [found["metadata"]["name"]]

    controller.watch(reconciler.namespaces, spaces)
    controller.watch(reconciler.secrets, _space)
    return reconciler


def _space(change: Change) -> list[str]:
    return [(change.new or change.old or {})["metadata"]["namespace"]]


async def hand_out(
    kubeconfig: Path,
    key: bytes,
    servers: str,
    gone: Callable[[str], None],
    ask: Callable[[Exists], None],
) -> None:
    """Until cancelled; ``servers`` are those that pods use, ``gone`` as for `register`.

    ``ask`` is given what says whether somebody's namespace is there.
    """
    config = load_kubeconfig([kubeconfig]).resolve()
    async with KubeClient(config, on_warning=logger.debug) as client:
        while True:
            manager = Manager(client)
            ask(register(manager, key, servers, gone).exists)
            try:
                await manager.run()
            except (ApiError, OSError, TimeoutError) as err:
                logger.warning("logins are not handed out: %s", err)
            await asyncio.sleep(_AGAIN)
