"""Volume claims, volumes and storage classes as the scheduler believes them to be.

As with pods, what was just decided counts before it is seen: a claim that a node was chosen for,
a volume that was given to a claim. An assumption ends when it is taken back, or with the object.
"""

from __future__ import annotations

from typing import Final

from corral.kube.types import Obj

__all__ = ["SELECTED_NODE", "Storage", "is_bound"]

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_OLD_CLASS: Final = "volume.beta.kubernetes.io/storage-class"


def is_bound(claim: Obj) -> bool:
    """Whether a claim has its volume, and both sides know it."""
    annotations = claim["metadata"].get("annotations") or {}
    return bool((claim.get("spec") or {}).get("volumeName")) and _BIND_COMPLETED in annotations


def class_of(obj: Obj) -> str:
    """The storage class that a claim or a volume names; empty: none."""
    annotations = obj["metadata"].get("annotations") or {}
    spec = obj.get("spec") or {}
    return str(annotations.get(_OLD_CLASS) or spec.get("storageClassName") or "")


class Storage:
    """Claims by ``namespace/name``, volumes and classes by name."""

    def __init__(self) -> None:
        self.claims: dict[str, Obj] = {}
        self.volumes: dict[str, Obj] = {}
        self.classes: dict[str, Obj] = {}
        self.users: dict[str, set[str]] = {}
        """The keys of the placed pods that use a claim."""
        self._chosen: dict[str, str] = {}
        """Claim to the node that it was assumed for."""
        self._given: dict[str, str] = {}
        """Volume to the claim that it was assumed for."""

    def set_claim(self, claim: Obj) -> None:
        meta = claim["metadata"]
        self.claims[f"{meta.get('namespace') or ''}/{meta['name']}"] = claim

    def remove_claim(self, key: str) -> None:
        self.claims.pop(key, None)
        self._chosen.pop(key, None)

    def set_volume(self, volume: Obj) -> None:
        self.volumes[volume["metadata"]["name"]] = volume

    def remove_volume(self, name: str) -> None:
        self.volumes.pop(name, None)
        self._given.pop(name, None)

    def waits_for_consumer(self, claim: Obj) -> bool:
        """Whether the claim gets its volume only when a pod that uses it has a node."""
        found = self.classes.get(class_of(claim))
        return found is not None and found.get("volumeBindingMode") == "WaitForFirstConsumer"

    def selected_node(self, key: str) -> str:
        """The node that a claim is to be provisioned for; empty: not chosen yet."""
        if assumed := self._chosen.get(key):
            return assumed
        annotations = self.claims[key]["metadata"].get("annotations") or {}
        return str(annotations.get(SELECTED_NODE) or "")

    def given_to(self, volume: Obj) -> str:
        """The claim that a volume belongs to, bound or assumed; empty: it is free."""
        reference = (volume.get("spec") or {}).get("claimRef")
        if reference:
            return f"{reference.get('namespace') or ''}/{reference.get('name') or ''}"
        return self._given.get(volume["metadata"]["name"], "")

    def assume(
        self, node: str, *, provisions: tuple[str, ...], bindings: tuple[tuple[str, str], ...]
    ) -> None:
        """Count claims as chosen for a node, and volumes (claim, volume) as given away."""
        for claim in provisions:
            self._chosen[claim] = node
        for claim, volume in bindings:
            self._given[volume] = claim

    def forget(self, *, provisions: tuple[str, ...], bindings: tuple[tuple[str, str], ...]) -> None:
        """Take assumptions back; also when they have come true."""
        for claim in provisions:
            self._chosen.pop(claim, None)
        for _, volume in bindings:
            self._given.pop(volume, None)
