"""The ConfigMaps and Secrets that this node's pods use: each watched by its name, and kept.

A node may read only objects that its pods refer to, so each has a watch of its own, for as long as
a pod uses it and a while longer (pods of one Job follow each other). Pods are told of changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from corral.cluster.node.volumes.references import Reference
from corral.cluster.node.volumes.sources import ConfigError
from corral.kube.client import KubeClient
from corral.kube.resources import CONFIGMAPS, SECRETS
from corral.kube.types import Obj
from corral.runtime import Change, Informer
from corral.runtime.informers.backoff import BackoffSettings
from corral.runtime.informers.reflector import ReflectorSettings, Scope

__all__ = ["ObjectSources", "PodSources"]

_RESOURCES: Final = {"ConfigMap": CONFIGMAPS, "Secret": SECRETS}
LINGER: Final = 60.0
"""Seconds for which an object is watched after its last pod has gone."""
PATIENCE: Final = 10.0
"""Seconds to wait for an object's first state."""
# An API server learns of a pod's references a moment after the pod: ask again soon.
_SETTINGS: Final = ReflectorSettings(backoff=BackoffSettings(first=0.1, cap=10.0))

Key = tuple[str, str, str]
"""Kind, namespace, name."""


class _Watched:
    def __init__(self, client: KubeClient, key: Key) -> None:
        kind, namespace, name = key
        scope = Scope(_RESOURCES[kind], namespace, "", f"metadata.name={name}")
        self.key = key
        self.owners: dict[str, Callable[[], None]] = {}
        self.informer = Informer(client, scope, settings=_SETTINGS)
        self.informer.add_handler(self._changed)
        self.task = asyncio.create_task(self.informer.run(), name=f"source {scope}")
        self.expiry: asyncio.TimerHandle | None = None

    def _changed(self, change: Change) -> None:
        for tell in list(self.owners.values()):
            tell()

    def object(self) -> Obj | None:
        _, namespace, name = self.key
        return self.informer.store.get(f"{namespace}/{name}")


class ObjectSources:
    """All objects that are used."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._watched: dict[Key, _Watched] = {}
        self._held: dict[str, list[_Watched]] = {}
        """Owner → what it uses."""
        self._ending: set[asyncio.Task[None]] = set()

    def of(self, namespace: str) -> PodSources:
        return PodSources(self, namespace)

    def hold(
        self,
        owner: str,
        namespace: str,
        references: Iterable[Reference],
        *,
        changed: Callable[[], None],
    ) -> None:
        """Watch these for a pod; ``changed`` is called for every change after that."""
        for kind, name in references:
            key = (kind, namespace, name)
            watched = self._watched.get(key)
            if watched is None:
                watched = self._watched[key] = _Watched(self._client, key)
            if watched.expiry is not None:
                watched.expiry.cancel()
                watched.expiry = None
            if owner not in watched.owners:
                self._held.setdefault(owner, []).append(watched)
            watched.owners[owner] = changed

    async def ready(self, owner: str) -> None:
        """Wait for the first state of all that the pod holds. Raises ConfigError."""
        for watched in self._held.get(owner, ()):
            try:
                async with asyncio.timeout(PATIENCE):
                    await watched.informer.wait_synced()
            except TimeoutError:
                kind = _RESOURCES[watched.key[0]].kind.lower()
                why = f"failed to sync {kind} cache: timed out waiting for the condition"
                raise ConfigError(why) from None

    def release(self, owner: str) -> None:
        """The pod is gone."""
        loop = asyncio.get_running_loop()
        for watched in self._held.pop(owner, ()):
            watched.owners.pop(owner, None)
            if not watched.owners:
                watched.expiry = loop.call_later(LINGER, self._expire, watched)

    def _expire(self, watched: _Watched) -> None:
        if not watched.owners and self._watched.get(watched.key) is watched:
            del self._watched[watched.key]
            watched.task.cancel()
            self._ending.add(watched.task)
            watched.task.add_done_callback(self._ending.discard)

    def get(self, kind: str, namespace: str, name: str) -> Obj | None:
        watched = self._watched.get((kind, namespace, name))
        return watched.object() if watched is not None else None

    async def close(self) -> None:
        """Stop all watches."""
        tasks = [watched.task for watched in self._watched.values()]
        for watched in self._watched.values():
            if watched.expiry is not None:
                watched.expiry.cancel()
        self._watched.clear()
        self._held.clear()
        for task in (*tasks, *self._ending):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


class PodSources:
    """The objects of one namespace, as ``Sources``."""

    def __init__(self, objects: ObjectSources, namespace: str) -> None:
        self._objects = objects
        self._namespace = namespace

    def config_map(self, name: str) -> Obj | None:
        return self._objects.get("ConfigMap", self._namespace, name)

    def secret(self, name: str) -> Obj | None:
        return self._objects.get("Secret", self._namespace, name)
