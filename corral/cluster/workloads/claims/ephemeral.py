"""Claims of ephemeral volumes: a pod that describes a claim in place gets one of its own.

The claim has the name of pod and volume and is owned by the pod, with which it goes. A claim of
that name that is somebody else's is never used.
"""

from __future__ import annotations

from typing import Final

from corral.cluster.workloads.claims.view import BY_CLAIM, index_by_claim
from corral.cluster.workloads.pods import controller_reference, is_deleting, is_terminal
from corral.kube import errors
from corral.kube.resources import PERSISTENTVOLUMECLAIMS, PODS
from corral.kube.types import Obj
from corral.runtime import Change, Manager, is_controlled_by, join_key, key_of

__all__ = ["EphemeralVolumes", "register"]

FIELD_MANAGER: Final = "ephemeral-volume-controller"


def register(manager: Manager) -> None:
    """Add the controller to a manager."""
    EphemeralVolumes(manager)


class NotOurs(Exception):
    """A claim has the name of an ephemeral volume and belongs to somebody else."""


class EphemeralVolumes:
    """Reconciles pods."""

    def __init__(self, manager: Manager) -> None:
        claims, pods = manager.informer(PERSISTENTVOLUMECLAIMS), manager.informer(PODS)
        pods.add_index(BY_CLAIM, index_by_claim)
        self._client = manager.client
        self._claims, self._pods = claims.store, pods.store
        self._recorder = manager.recorder("ephemeral_volume")
        controller = manager.controller("ephemeral-volume", self.reconcile, workers=2)
        controller.watch(pods, when=_is_new_user)
        controller.watch(claims, self._users, when=lambda change: change.new is None)

    def _users(self, change: Change) -> list[str]:
        pods = self._pods.by_index(BY_CLAIM, change.key)
        return [key_of(pod) for pod in pods if _volumes(pod)]

    async def reconcile(self, key: str) -> None:
        pod = self._pods.get(key)
        if pod is None or is_deleting(pod) or is_terminal(pod):
            return
        for volume in _volumes(pod):
            try:
                await self._ensure(pod, volume)
            except (NotOurs, errors.ApiError) as err:
                message = f"ephemeral volume {volume['name']}: {err}"
                self._recorder.warning(pod, "FailedBinding", message)
                raise

    async def _ensure(self, pod: Obj, volume: Obj) -> None:
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        wanted = f"{name}-{volume['name']}"
        known = self._claims.get(join_key(namespace, wanted))
        if known is None:
            template = volume["ephemeral"]["volumeClaimTemplate"]
            meta: Obj = {
                field: dict(value)
                for field in ("labels", "annotations")
                if (value := (template.get("metadata") or {}).get(field))
            }
            meta |= {
                "name": wanted,
                "namespace": namespace,
                "ownerReferences": [controller_reference(pod, "v1", "Pod")],
            }
            body = {"metadata": meta, "spec": template["spec"]}
            try:
                await self._client.create(PERSISTENTVOLUMECLAIMS, body, field_manager=FIELD_MANAGER)
                return
            except errors.AlreadyExists:
                known = await self._client.get(PERSISTENTVOLUMECLAIMS, wanted, namespace=namespace)
        if not is_controlled_by(known, pod):
            raise NotOurs(
                f"PVC {namespace}/{wanted} was not created for pod {namespace}/{name} "
                "(pod is not owner)"
            )


def _volumes(pod: Obj) -> list[Obj]:
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    return [volume for volume in volumes if volume.get("ephemeral")]


def _is_new_user(change: Change) -> bool:
    return change.type == "added" and bool(_volumes(change.object))
