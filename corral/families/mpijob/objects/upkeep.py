"""Keeps the objects of a job as they should be, pods and launcher excepted.

What is wanted is compared with the caches: what is missing is created, what somebody changed is put
right, and otherwise nothing is sent. Only what this very job controls is changed. Objects come into
being by a plain create, which fails where the name is taken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from corral.families.mpijob import names
from corral.families.mpijob.caches import Caches
from corral.families.mpijob.objects.builders import service_agrees
from corral.families.mpijob.objects.problems import ResourceExists, StillThere
from corral.families.mpijob.objects.ssh import generate_keys, has_keys, ssh_secret
from corral.families.mpijob.view import JobView
from corral.kube import errors
from corral.kube.client import KubeClient
from corral.kube.resources import CONFIGMAPS, ROLES, SECRETS, SERVICES, Resource
from corral.kube.types import Obj
from corral.runtime import (
    ChildWriter,
    controller_of,
    is_being_deleted,
    is_controlled_by,
    key_of,
    merge_diff,
    uid_of,
    version_of,
)
from corral.runtime.family.comparison import contains

__all__ = ["Upkeep", "must_be_ours"]

_IDENTITY: Final = ("apiVersion", "kind", "metadata")


@dataclass(frozen=True, slots=True)
class _Rule:
    """How a kind is compared and corrected."""

    agrees: Callable[[Obj, Obj], bool]
    """Whether what is found is as wanted."""
    patch: Callable[[Obj, Obj], Obj]
    """What makes it so."""


def _contents(obj: Obj) -> Obj:
    return {key: value for key, value in obj.items() if key not in _IDENTITY}


def _service_patch(found: Obj, wanted: Obj) -> Obj:
    selector = merge_diff((found.get("spec") or {}).get("selector") or {}, _selector(wanted))
    early = bool(wanted["spec"].get("publishNotReadyAddresses"))
    return {"spec": {"selector": selector, "publishNotReadyAddresses": early}}


def _selector(service: Obj) -> Any:
    return service["spec"]["selector"]


def _data_patch(found: Obj, wanted: Obj) -> Obj:
    gone = dict.fromkeys(set(found.get("data") or ()) - set(wanted["data"]))
    return {"data": {**gone, **wanted["data"]}}


_RULES: Final[dict[Resource, _Rule]] = {
    SERVICES: _Rule(service_agrees, _service_patch),
    CONFIGMAPS: _Rule(
        lambda found, wanted: (found.get("data") or {}) == wanted["data"], _data_patch
    ),
    ROLES: _Rule(
        lambda found, wanted: (found.get("rules") or []) == wanted["rules"],
        lambda _, wanted: {"rules": wanted["rules"]},
    ),
}
_ANY: Final = _Rule(
    lambda found, wanted: contains(_contents(found), _contents(wanted)),
    lambda _, wanted: _contents(wanted),
)


def must_be_ours(view: JobView, resource: Resource, found: Obj) -> None:
    """Return if the job controls an object that is there.

    Raises:
        StillThere: it is going, or was an earlier job's of the same name.
        ResourceExists: it is somebody else's.
    """
    name = found["metadata"]["name"]
    if is_controlled_by(found, view.obj):
        if is_being_deleted(found):
            raise StillThere(resource, name)
        return
    holder = controller_of(found) or {}
    if (holder.get("kind"), holder.get("name")) == (view.obj["kind"], view.name):
        raise StillThere(resource, name)
    raise ResourceExists(resource, name)


class Upkeep:
    """Of all jobs of one operator."""

    def __init__(
        self, client: KubeClient, writer: ChildWriter, caches: Caches, *, field_manager: str
    ) -> None:
        self._client = client
        self._writer = writer
        self._caches = caches
        self._field_manager = field_manager

    def is_right(self, view: JobView, resource: Resource, wanted: Obj) -> bool:
        """Whether an object is there as it should be, as far as the cache knows.

        Raises:
            StillThere, ResourceExists: another one has its name.
        """
        found = self._cached(resource, wanted)
        if found is None:
            return False
        must_be_ours(view, resource, found)
        return _RULES.get(resource, _ANY).agrees(found, wanted)

    def is_missing(self, resource: Resource, namespace: str, name: str) -> bool:
        return self._caches.child(resource, namespace, name) is None

    def finds_new_hosts(self, view: JobView, wanted: Obj) -> bool:
        """Whether a ConfigMap differs from the wanted one in the hosts that run, and only there."""
        found = self._cached(CONFIGMAPS, wanted)
        if found is None or not is_controlled_by(found, view.obj):
            return False
        data = {**(found.get("data") or {})}
        data[names.DISCOVER_HOSTS] = wanted["data"][names.DISCOVER_HOSTS]
        return bool(data == wanted["data"] and data != found.get("data"))

    async def put(self, view: JobView, resource: Resource, wanted: Obj) -> None:
        """Write an object that is not right."""
        found = self._cached(resource, wanted)
        if found is None:
            live = await self.create(view, resource, wanted)
            if resource is not ROLES or _RULES[ROLES].agrees(live, wanted):
                return
            found = live  # rights do not wait for the cache
        await self.correct(view, resource, found, wanted)

    async def correct(self, view: JobView, resource: Resource, found: Obj, wanted: Obj) -> None:
        """Make what is wanted of an object that the job controls."""
        patch = _RULES.get(resource, _ANY).patch(found, wanted)
        written = await self._patch(view, resource, wanted["metadata"]["name"], patch)
        self.note(view, resource, written)

    async def _patch(self, view: JobView, resource: Resource, name: str, patch: Obj) -> Obj:
        try:
            return await self._client.patch(
                resource,
                name,
                namespace=view.namespace,
                patch=patch,
                field_manager=self._field_manager,
            )
        except errors.NotFound:
            raise StillThere(resource, name) from None  # it went at this very moment

    async def create(self, view: JobView, resource: Resource, wanted: Obj) -> Obj:
        """Create an object, and give it; one of ours that is there already will do.

        Raises:
            StillThere, ResourceExists: the name is taken.
        """
        name = wanted["metadata"]["name"]
        try:
            return await self._writer.create(view.obj, resource, wanted)
        except errors.AlreadyExists:
            try:
                live = await self._client.get(resource, name, namespace=view.namespace)
            except errors.NotFound:
                raise StillThere(resource, name) from None  # it went at this very moment
            must_be_ours(view, resource, live)
            # The cache has yet to see it; whether it is right is a question for the next time.
            self.note(view, resource, live)
            return live

    async def put_keys(self, view: JobView, *, known: bool) -> None:
        """The Secret is there, and has both keys; made beside the event loop where it has not.

        ``known``: whether it should be there already. Secrets are not watched: this asks.
        """
        name = names.secret_name(view.name)
        found: Obj | None = None
        if known:
            try:
                found = await self._client.get(SECRETS, name, namespace=view.namespace)
                must_be_ours(view, SECRETS, found)
            except errors.NotFound:
                found = None
        if found is None:
            keys = await asyncio.to_thread(generate_keys)
            found = await self.create(view, SECRETS, ssh_secret(view, keys))
        if not has_keys(found):
            keys = await asyncio.to_thread(generate_keys)
            patch = _data_patch(found, ssh_secret(view, keys))
            await self._patch(view, SECRETS, name, patch)

    async def remove(self, view: JobView, resource: Resource, name: str) -> None:
        """Delete an object that the job controls, if it is there."""
        found = self._caches.child(resource, view.namespace, name)
        if found and is_controlled_by(found, view.obj) and not is_being_deleted(found):
            await self._writer.delete(resource, found)

    def note(self, view: JobView, resource: Resource, written: Obj) -> None:
        """The caches must have seen this before the job is looked at again."""
        self._caches.consistency.wrote_at(
            key_of(view.obj), uid_of(view.obj), resource, version_of(written)
        )

    def _cached(self, resource: Resource, wanted: Obj) -> Obj | None:
        metadata = wanted["metadata"]
        return self._caches.child(resource, metadata["namespace"], metadata["name"])
