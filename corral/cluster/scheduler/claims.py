"""The volumes of a pod that has a node: claims are told of it, and waited for.

A claim that is to be provisioned gets the annotation that names the node; a volume that was chosen
for a claim gets its reference. What binds them (and makes volumes) is the business of others; here
their success is awaited. A provisioner that cannot serve the node takes the annotation away again,
and the pod is tried anew.
"""

from __future__ import annotations

import asyncio
from typing import Final

from corral.cluster.scheduler.placement import (
    SELECTED_NODE,
    ClusterState,
    PodInfo,
    VolumePlan,
    is_bound,
)
from corral.kube.client import KubeClient
from corral.kube.resources import PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES
from corral.kube.types import Obj
from corral.runtime import split_key, version_of
from corral.runtime.keys import compare_versions

__all__ = ["ClaimBinder", "ClaimError"]

TIMEOUT: Final = 600.0
"""Seconds that claims are waited for; then the pod is tried again."""
_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"


class ClaimError(Exception):
    """The claims of a pod cannot be bound on its node."""


class ClaimBinder:
    """Tells claims and volumes what was decided, and waits for it to come true."""

    def __init__(
        self, client: KubeClient, state: ClusterState, *, timeout: float = TIMEOUT
    ) -> None:
        self._client = client
        self._state = state
        self._timeout = timeout
        self._waiting: dict[str, list[asyncio.Event]] = {}

    def changed(self, key: str) -> None:
        """A claim has changed; the state has it already."""
        for event in self._waiting.get(key, ()):
            event.set()

    async def bind(self, pod: PodInfo, node: str, plan: VolumePlan) -> None:
        """Return when every claim of the plan has its volume.

        Raises:
            ClaimError: they will not get volumes, or not in time.
            ApiError, KubeConnectionError: the server could not be told.
        """
        storage = self._state.storage
        storage.assume(node, provisions=plan.provisions, bindings=plan.bindings)
        try:
            versions = {key: await self._select(key, node) for key in plan.provisions}
            for key, volume in plan.bindings:
                await self._give(key, volume)
            async with asyncio.timeout(self._timeout):
                for key, version in versions.items():
                    await self._wait(pod, key, node=node, version=version)
                for key, _ in plan.bindings:
                    await self._wait(pod, key)
        except TimeoutError:
            raise ClaimError("binding volumes: context deadline exceeded") from None
        finally:
            storage.forget(provisions=plan.provisions, bindings=plan.bindings)

    async def _select(self, key: str, node: str) -> str:
        """Name the node in the claim; the version that says so."""
        namespace, name = split_key(key)
        claim = self._claim(key)
        patch = {
            "metadata": {"uid": claim["metadata"]["uid"], "annotations": {SELECTED_NODE: node}}
        }
        answer = await self._client.patch(
            PERSISTENTVOLUMECLAIMS, name, namespace=namespace, patch=patch
        )
        return version_of(answer)

    async def _give(self, key: str, volume: str) -> None:
        """Reserve a volume for a claim, unless it is already."""
        known = self._state.storage.volumes.get(volume)
        if known is None:
            raise ClaimError(f'persistentvolume "{volume}" is gone')
        claim = self._claim(key)["metadata"]
        reference = (known.get("spec") or {}).get("claimRef") or {}
        if reference.get("uid") == claim["uid"]:
            return
        patch: Obj = {
            # Another may have taken it meanwhile: only this version may be changed.
            "metadata": {"resourceVersion": version_of(known)},
            "spec": {
                "claimRef": {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "namespace": claim["namespace"],
                    "name": claim["name"],
                    "uid": claim["uid"],
                    "resourceVersion": claim["resourceVersion"],
                }
            },
        }
        if not reference:
            patch["metadata"]["annotations"] = {_BY_CONTROLLER: "yes"}
        await self._client.patch(PERSISTENTVOLUMES, volume, patch=patch)

    async def _wait(self, pod: PodInfo, key: str, *, node: str = "", version: str = "") -> None:
        """Wait until a claim is bound. ``node``, ``version``: it must still name this node."""
        changed = asyncio.Event()
        self._waiting.setdefault(key, []).append(changed)
        try:
            while True:
                if self._state.known(pod) is None:
                    raise ClaimError("pod does not exist any more")
                claim = self._claim(key)
                if is_bound(claim):
                    return
                # What the cache had before our own write says nothing about the answer to it.
                if node and compare_versions(version_of(claim), version) >= 0:
                    if (claim["metadata"].get("annotations") or {}).get(SELECTED_NODE) != node:
                        name = claim["metadata"]["name"]
                        raise ClaimError(f'binding volumes: provisioning failed for PVC "{name}"')
                await changed.wait()
                changed.clear()
        finally:
            self._waiting[key].remove(changed)
            if not self._waiting[key]:
                del self._waiting[key]

    def _claim(self, key: str) -> Obj:
        claim = self._state.storage.claims.get(key)
        if claim is None:
            raise ClaimError(f'persistentvolumeclaim "{split_key(key)[1]}" not found')
        return claim
