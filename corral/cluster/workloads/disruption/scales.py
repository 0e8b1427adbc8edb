"""How many pods the controllers of some pods want together.

ReplicaSets, Deployments, StatefulSets and ReplicationControllers are known from informers; any
other kind is asked for its scale.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from corral.kube import errors
from corral.kube.client import KubeClient
from corral.kube.discovery import UnknownKind
from corral.kube.resources import split_api_version
from corral.kube.types import Obj
from corral.runtime import Informer, controller_of, join_key, uid_of

__all__ = ["ScaleUnknown", "Scales", "Wanted"]

Group = tuple[str, str]


class ScaleUnknown(Exception):
    """The controller of a pod cannot say how many pods it wants."""


class Wanted(NamedTuple):
    """The sum, and the pods that nobody controls."""

    total: int
    unmanaged: tuple[str, ...]


class Scales:
    """``known``: informers by (group, kind) of controllers with ``spec.replicas``."""

    def __init__(self, client: KubeClient, known: Mapping[Group, Informer]) -> None:
        self._client = client
        self._known = known

    async def wanted(self, pods: Iterable[Obj]) -> Wanted:
        """How many pods their controllers want.

        Raises:
            ScaleUnknown: a controller is gone, of a kind without scale, or of no known kind.
            ApiError: the server refused to say.
        """
        sizes: dict[str, int] = {}
        looked_at: set[str] = set()
        unmanaged: list[str] = []
        for pod in pods:
            reference = controller_of(pod)
            if reference is None:
                unmanaged.append(pod["metadata"]["name"])
            elif reference["uid"] not in looked_at:
                looked_at.add(reference["uid"])
                found = await self._find(reference, pod["metadata"]["namespace"])
                if found is None:
                    raise ScaleUnknown(f'found no controllers for pod "{pod["metadata"]["name"]}"')
                sizes[found[0]] = found[1]
        return Wanted(sum(sizes.values()), tuple(unmanaged))

    async def _find(self, reference: Obj, namespace: str) -> tuple[str, int] | None:
        """UID and size of what a reference leads to; a Deployment stands for its ReplicaSets."""
        owner = self._cached(reference, namespace)
        if owner is None:
            group = split_api_version(reference.get("apiVersion", ""))[0]
            if (group, reference["kind"]) in self._known:
                return None
            return await self._ask(reference, namespace)
        above = controller_of(owner)
        if above is not None and above["kind"] == "Deployment":
            owner = self._cached(above, namespace)
            if owner is None:
                return None
        return uid_of(owner), int(owner["spec"].get("replicas", 1))

    def _cached(self, reference: Obj, namespace: str) -> Obj | None:
        group = split_api_version(reference.get("apiVersion", ""))[0]
        informer = self._known.get((group, reference["kind"]))
        if informer is None:
            return None
        found = informer.store.get(join_key(namespace, reference["name"]))
        return found if found is not None and uid_of(found) == reference["uid"] else None

    async def _ask(self, reference: Obj, namespace: str) -> tuple[str, int] | None:
        try:
            resource = await self._client.resource_for(reference["apiVersion"], reference["kind"])
        except UnknownKind as err:
            raise ScaleUnknown(str(err)) from err
        try:
            scale = await self._client.get(
                resource, reference["name"], namespace=namespace, subresource="scale"
            )
        except errors.NotFound:
            for entry in await self._client.discover():
                if entry.resource == resource and "scale" in entry.subresources:
                    return None  # it is the controller that is gone
            raise ScaleUnknown(
                f"{resource.qualified} does not implement the scale subresource"
            ) from None
        if uid_of(scale) != reference["uid"]:
            return None
        return uid_of(scale), int((scale.get("spec") or {}).get("replicas", 0))
