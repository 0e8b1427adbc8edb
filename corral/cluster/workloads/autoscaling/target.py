"""The scale of an autoscaler's target: any kind that has a ``/scale``, built in or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.kube.client import KubeClient
from corral.kube.errors import ApiError, Conflict
from corral.kube.resources import Resource, split_api_version
from corral.kube.types import Obj

__all__ = ["Target", "TargetError", "read_target"]

TRIES: Final = 5


class TargetError(Exception):
    """There is no scale to be read; the message says why."""


@dataclass(slots=True)
class Target:
    """A scale as it was last read."""

    resource: Resource
    scale: Obj

    @property
    def wanted(self) -> int:
        return int((self.scale.get("spec") or {}).get("replicas") or 0)

    @property
    def selector(self) -> str:
        return str((self.scale.get("status") or {}).get("selector") or "")

    async def write(self, client: KubeClient, replicas: int) -> None:
        """Set the number of replicas; if somebody else wrote meanwhile, after theirs.

        Raises:
            ApiError: the server refused.
        """
        for attempt in range(1, TRIES + 1):
            metadata = self.scale["metadata"]
            spec = {**(self.scale.get("spec") or {}), "replicas": replicas}
            body = {**self.scale, "spec": spec}
            try:
                self.scale = await client.replace(
                    self.resource, body, namespace=metadata["namespace"], subresource="scale"
                )
                return
            except Conflict:
                if attempt == TRIES:
                    raise
            self.scale = await _scale(client, self.resource, metadata)


async def read_target(client: KubeClient, hpa: Obj) -> Target:
    """Find what an autoscaler scales. Raises TargetError."""
    reference = hpa["spec"]["scaleTargetRef"]
    group = split_api_version(reference.get("apiVersion") or "")[0]
    metadata = {"name": reference["name"], "namespace": hpa["metadata"]["namespace"]}
    first: ApiError | None = None
    for resource in await _resources(client, group, reference["kind"]):
        try:
            return Target(resource, await _scale(client, resource, metadata))
        except ApiError as error:
            first = first or error
    assert first is not None
    raise TargetError(first.message) from first


async def _resources(client: KubeClient, group: str, kind: str) -> list[Resource]:
    """Every version of a kind that the server has; it is asked anew before that fails."""
    for refresh in (False, True):
        found = [
            entry.resource
            for entry in await client.discover(refresh=refresh)
            if entry.resource.group == group and entry.resource.kind == kind
        ]
        if found:
            return found
    raise TargetError(f'no matches for kind "{kind}" in group "{group}"')


async def _scale(client: KubeClient, resource: Resource, metadata: Obj) -> Obj:
    return await client.get(
        resource, metadata["name"], namespace=metadata["namespace"], subresource="scale"
    )
