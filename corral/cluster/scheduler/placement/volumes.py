"""Where the volumes that a pod mounts let it run, as kube-scheduler decides it.

Claims that are bound bind the pod to nodes that their volumes can be used from. Claims that wait
for a consumer get a volume that exists and suits the node, the smallest that will do, or else are
provisioned for the node. Left out: storage capacity tracking and limits of attached volumes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from corral.cluster.scheduler.placement.affinity import NodeTerm, selector_of
from corral.cluster.scheduler.placement.nodes import NodeInfo
from corral.cluster.scheduler.placement.pods import ClaimUse, PodInfo
from corral.cluster.scheduler.placement.rejections import Rejection
from corral.cluster.scheduler.placement.storage import Storage, class_of, is_bound
from corral.kube.quantity import Quantity
from corral.kube.types import Obj

__all__ = ["NO_VOLUMES", "VolumeFilter", "VolumePlan"]

BINDING: Final = "VolumeBinding"
RESTRICTIONS: Final = "VolumeRestrictions"
_NODE_CONFLICT: Final = "node(s) didn't match PersistentVolume's node affinity"
_NO_MATCH: Final = "node(s) didn't find available persistent volumes to bind"
_NO_VOLUME: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
_IN_USE: Final = Rejection(
    RESTRICTIONS,
    (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
        "already in-use by another pod",
    ),
)
_NOT_SUPPORTED: Final = "kubernetes.io/no-provisioner"


@dataclass(frozen=True, slots=True)
class VolumePlan:
    """What must happen to claims before the pod can be bound to a node."""

    provisions: tuple[str, ...] = ()
    """Claims (``namespace/name``) to be provisioned for the node."""
    bindings: tuple[tuple[str, str], ...] = ()
    """Claims and the volumes that they get."""

    def __bool__(self) -> bool:
        return bool(self.provisions or self.bindings)


NO_VOLUMES: Final = VolumePlan()


class VolumeFilter:
    """The claims of one pod against the storage as it is now."""

    def __init__(self, storage: Storage, pod: PodInfo) -> None:
        self._storage = storage
        self._pod = pod
        self._exclusive: set[str] = set()
        self._users = 0
        self._bound: list[Obj] = []
        self._unbound: list[str] = []
        self.problem: tuple[str, str] | None = None
        """The rule and the reason why no node will do."""
        for use in pod.claims:
            self.problem = self._read(use)
            if self.problem is not None:
                return
        self._unbound.sort(key=lambda key: _size(storage.claims[key]))

    def _read(self, use: ClaimUse) -> tuple[str, str] | None:
        storage, pod = self._storage, self._pod
        key = f"{pod.namespace}/{use.name}"
        claim = storage.claims.get(key)
        if claim is None:
            return _missing(use)
        spec, phase = claim.get("spec") or {}, (claim.get("status") or {}).get("phase")
        if phase == "Lost":
            volume = spec.get("volumeName") or ""
            why = f'bound to non-existent persistentvolume "{volume}"'
            return BINDING, f'persistentvolumeclaim "{use.name}" {why}'
        if claim["metadata"].get("deletionTimestamp"):
            return BINDING, f'persistentvolumeclaim "{use.name}" is being deleted'
        if use.ephemeral and not _made_for(claim, pod):
            why = f"pvc {key} was not created for pod {pod.full_name} (pod is not owner)"
            return BINDING, why.replace("pvc", "PVC", 1)
        if "ReadWriteOncePod" in (spec.get("accessModes") or ()):
            self._exclusive.add(use.name)
            self._users += len(storage.users.get(key, set()) - {pod.key}) and 1
        if is_bound(claim):
            self._bound.append(claim)
        elif storage.waits_for_consumer(claim) and not spec.get("volumeName"):
            self._unbound.append(key)
        else:
            return BINDING, "pod has unbound immediate PersistentVolumeClaims"
        return None

    def check(self, node: NodeInfo) -> Rejection | None:
        if self._users > 0:
            return _IN_USE
        found = self.plan(node)
        return found if isinstance(found, Rejection) else None

    def update(self, pod: PodInfo, sign: int) -> None:
        """Count a pod in (1) or out (-1)."""
        if self._exclusive and pod.namespace == self._pod.namespace:
            self._users += sign * sum(use.name in self._exclusive for use in pod.claims)

    def plan(self, node: NodeInfo) -> VolumePlan | Rejection:
        """What the pod's claims need on a node, or why they keep the pod from it."""
        reasons = []
        if reason := self._bound_elsewhere(node):
            reasons.append(reason)
        plan = self._plan_unbound(node)
        if plan is None:
            reasons.append(_NO_MATCH)
        if reasons or plan is None:
            return Rejection(BINDING, tuple(sorted(reasons)), resolvable=False)
        return plan

    def _bound_elsewhere(self, node: NodeInfo) -> str:
        for claim in self._bound:
            volume = self._storage.volumes.get(claim["spec"]["volumeName"])
            if volume is None:
                return _NO_VOLUME
            if not _usable_on(volume, node):
                return _NODE_CONFLICT
        return ""

    def _plan_unbound(self, node: NodeInfo) -> VolumePlan | None:
        storage = self._storage
        provisions: list[str] = []
        bindings: list[tuple[str, str]] = []
        taken: set[str] = set()
        for key in self._unbound:
            selected = storage.selected_node(key)
            if selected and selected != node.name:
                return None
            volume = "" if selected else self._match(key, node, taken)
            if volume:
                taken.add(volume)
                bindings.append((key, volume))
            elif self._provisionable(key, node):
                provisions.append(key)
            else:
                return None
        return VolumePlan(tuple(provisions), tuple(bindings))

    def _match(self, key: str, node: NodeInfo, taken: set[str]) -> str:
        """The volume for a claim: one that is reserved for it, else the smallest that suits."""
        claim, best, least = self._storage.claims[key], "", 0
        for name, volume in self._storage.volumes.items():
            if name in taken or volume["metadata"].get("deletionTimestamp"):
                continue
            owner, size = self._storage.given_to(volume), _capacity(volume)
            if (owner and owner != key) or size < _size(claim) or not _same_mode(claim, volume):
                continue
            if owner == key:
                return name if _usable_on(volume, node) else ""
            if (not best or size < least) and _suits(claim, volume) and _usable_on(volume, node):
                best, least = name, size
        return best

    def _provisionable(self, key: str, node: NodeInfo) -> bool:
        found = self._storage.classes.get(class_of(self._storage.claims[key]))
        if found is None or found.get("provisioner") in (None, "", _NOT_SUPPORTED):
            return False
        terms = found.get("allowedTopologies") or ()
        return not terms or any(_topology_matches(term, node.labels) for term in terms)


def _missing(use: ClaimUse) -> tuple[str, str]:
    if use.ephemeral:
        wanted = "waiting for ephemeral volume controller to create the persistentvolumeclaim"
        return BINDING, f'{wanted} "{use.name}"'
    return RESTRICTIONS, f'persistentvolumeclaim "{use.name}" not found'


def _made_for(claim: Obj, pod: PodInfo) -> bool:
    return any(
        reference.get("controller") and reference.get("uid") == pod.key
        for reference in claim["metadata"].get("ownerReferences") or ()
    )


def _usable_on(volume: Obj, node: NodeInfo) -> bool:
    """Whether the volume's node affinity (which local volumes have) lets the node use it."""
    required = ((volume.get("spec") or {}).get("nodeAffinity") or {}).get("required")
    if required is None:
        return True
    terms = map(NodeTerm.parse, required.get("nodeSelectorTerms") or ())
    return any(term is not None and term.matches(node.name, node.labels) for term in terms)


def _suits(claim: Obj, volume: Obj) -> bool:
    wanted, has = claim.get("spec") or {}, volume.get("spec") or {}
    if (volume.get("status") or {}).get("phase") != "Available":
        return False
    if class_of(claim) != class_of(volume):
        return False
    if wanted.get("volumeAttributesClassName") != has.get("volumeAttributesClassName"):
        return False
    selector = wanted.get("selector")
    labels = volume["metadata"].get("labels") or {}
    if selector is not None and not selector_of(selector).matches(labels):
        return False
    return set(wanted.get("accessModes") or ()) <= set(has.get("accessModes") or ())


def _same_mode(claim: Obj, volume: Obj) -> bool:
    modes = [(obj.get("spec") or {}).get("volumeMode") or "Filesystem" for obj in (claim, volume)]
    return bool(modes[0] == modes[1])


def _size(claim: Obj) -> int:
    resources = (claim.get("spec") or {}).get("resources") or {}
    return _nano((resources.get("requests") or {}).get("storage"))


def _capacity(volume: Obj) -> int:
    return _nano(((volume.get("spec") or {}).get("capacity") or {}).get("storage"))


def _nano(quantity: Any) -> int:
    return Quantity.parse(str(quantity)).nano if quantity is not None else 0


def _topology_matches(term: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    wanted = term.get("matchLabelExpressions") or ()
    return all(labels.get(one.get("key", "")) in (one.get("values") or ()) for one in wanted)
