"""What is known of claims, volumes, classes and pods, with the indexes that binding needs."""

from __future__ import annotations

from typing import Final

from corral.cluster.workloads.claims.matching import class_of
from corral.cluster.workloads.claims.names import BIND_COMPLETED
from corral.kube.types import Obj
from corral.runtime import Informer, Store, join_key, key_of

__all__ = ["View", "claim_names", "index_by_claim"]

BY_CLAIM: Final = "claims/claim"
_NAMED: Final = "claims/claim-reference"
_FREE: Final = "claims/free-of-class"
_PENDING: Final = "claims/pending-of-class"


def claim_names(pod: Obj) -> list[str]:
    """The names of the claims that a pod uses, those of ephemeral volumes included."""
    found = []
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        if volume.get("persistentVolumeClaim"):
            found.append(str(volume["persistentVolumeClaim"]["claimName"]))
        elif volume.get("ephemeral"):
            found.append(f"{pod['metadata']['name']}-{volume['name']}")
    return found


def index_by_claim(pod: Obj) -> list[str]:
    """For `Store.add_index` of pods: find them by the claims they use."""
    namespace = pod["metadata"].get("namespace", "")
    return [join_key(namespace, name) for name in claim_names(pod)]


def _by_reference(volume: Obj) -> tuple[str, ...]:
    reference = volume["spec"].get("claimRef")
    return (join_key(reference["namespace"], reference["name"]),) if reference else ()


def _free_of_class(volume: Obj) -> tuple[str, ...]:
    return () if volume["spec"].get("claimRef") else (class_of(volume),)


def _pending_of_class(claim: Obj) -> tuple[str, ...]:
    bound = BIND_COMPLETED in (claim["metadata"].get("annotations") or ())
    return () if bound else (class_of(claim),)


class View:
    """The stores of four informers."""

    def __init__(
        self, *, claims: Informer, volumes: Informer, classes: Informer, pods: Informer
    ) -> None:
        claims.add_index(_PENDING, _pending_of_class)
        volumes.add_index(_NAMED, _by_reference)
        volumes.add_index(_FREE, _free_of_class)
        pods.add_index(BY_CLAIM, index_by_claim)
        self.claims: Store = claims.store
        self.volumes: Store = volumes.store
        self.classes: Store = classes.store
        self._pods: Store = pods.store

    def named(self, claim: Obj) -> list[Obj]:
        """Volumes that name a claim, whatever their UID says."""
        return self.volumes.by_index(_NAMED, key_of(claim))

    def volumes_of(self, key: str) -> list[str]:
        """The names of the volumes that name the claim of this key."""
        return self.volumes.keys_by_index(_NAMED, key)

    def free(self, storage_class: str) -> list[Obj]:
        """Volumes of a class that nobody has."""
        return self.volumes.by_index(_FREE, storage_class)

    def pending(self, storage_class: str) -> list[str]:
        """The keys of claims of a class that are not bound."""
        return self.claims.keys_by_index(_PENDING, storage_class)

    def pods_of(self, key: str) -> list[Obj]:
        """Pods that use the claim of this key."""
        return self._pods.by_index(BY_CLAIM, key)
