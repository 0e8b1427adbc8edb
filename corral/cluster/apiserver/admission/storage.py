"""Storage and ingress classes: defaults, protection while in use, growing of claims."""

from __future__ import annotations

from typing import NamedTuple

from corral.cluster.apiserver.admission.chain import Plugin
from corral.cluster.apiserver.admission.lookup import Parsed
from corral.cluster.apiserver.admission.quotas.amounts import ZERO, quantity
from corral.cluster.apiserver.admission.refusals import refuse
from corral.cluster.apiserver.crud.core import AdmissionRequest
from corral.cluster.apiserver.store import Store
from corral.kube.quantity import Quantity
from corral.kube.types import Obj

__all__ = [
    "ClaimResize",
    "DefaultIngressClass",
    "DefaultStorageClass",
    "InUseProtection",
    "claim_class",
]

CLAIMS, VOLUMES = "/persistentvolumeclaims", "/persistentvolumes"
ATTRIBUTES_CLASSES = "storage.k8s.io/volumeattributesclasses"
STORAGE_CLASSES = "storage.k8s.io/storageclasses"
INGRESSES, INGRESS_CLASSES = "networking.k8s.io/ingresses", "networking.k8s.io/ingressclasses"

BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
INGRESS_CLASS = "kubernetes.io/ingress.class"
_DEFAULT_STORAGE = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_DEFAULT_INGRESS = ("ingressclass.kubernetes.io/is-default-class",)
_FINALIZERS = {
    CLAIMS: "kubernetes.io/pvc-protection",
    VOLUMES: "kubernetes.io/pv-protection",
    ATTRIBUTES_CLASSES: "kubernetes.io/vac-protection",
}


class _Class(NamedTuple):
    name: str
    created: str
    annotations: dict[str, str]
    expands: bool


def _class(obj: Obj) -> _Class:
    meta = obj["metadata"]
    return _Class(
        meta["name"],
        meta.get("creationTimestamp") or "",
        meta.get("annotations") or {},
        bool(obj.get("allowVolumeExpansion")),
    )


def _default(classes: Parsed[_Class], marks: tuple[str, ...]) -> str | None:
    """The newest class that is marked as default; the first name among equals."""
    marked = [c for c in classes.scan() if any(c.annotations.get(mark) == "true" for mark in marks)]
    marked.sort(key=lambda c: c.name)
    return max(marked, key=lambda c: c.created).name if marked else None


def claim_class(claim: Obj) -> str:
    """The storage class a claim asks for; the old annotation comes first."""
    annotations = claim["metadata"].get("annotations") or {}
    if BETA_CLASS in annotations:
        return str(annotations[BETA_CLASS])
    return str((claim.get("spec") or {}).get("storageClassName") or "")


class DefaultStorageClass(Plugin):
    """A claim that says nothing of its class gets the default one."""

    tables = frozenset({CLAIMS})

    def __init__(self, store: Store) -> None:
        self._classes = Parsed(store, STORAGE_CLASSES, _class)

    async def mutate(self, request: AdmissionRequest) -> bool:
        claim = request.object
        if request.operation != "CREATE" or request.subresource or claim is None:
            return False
        spec = claim.setdefault("spec", {})
        if BETA_CLASS in (claim["metadata"].get("annotations") or ()):
            return False
        if spec.get("storageClassName") is not None:
            return False
        name = _default(self._classes, _DEFAULT_STORAGE)
        if name is None:
            return False
        spec["storageClassName"] = name
        return True


class InUseProtection(Plugin):
    """Claims, volumes and attribute classes are held by a finalizer while they are used."""

    tables = frozenset(_FINALIZERS)

    async def mutate(self, request: AdmissionRequest) -> bool:
        if request.operation != "CREATE" or request.subresource or request.object is None:
            return False
        meta = request.object["metadata"]
        wanted = _FINALIZERS[request.kind.info.table]
        present = meta.get("finalizers") or []
        if wanted in present:
            return False
        meta["finalizers"] = [*present, wanted]
        return True


class ClaimResize(Plugin):
    """A claim grows only when it is bound and its class allows it."""

    tables = frozenset({CLAIMS})

    def __init__(self, store: Store) -> None:
        self._classes = Parsed(store, STORAGE_CLASSES, _class)

    async def validate(self, request: AdmissionRequest) -> None:
        new, old = request.object, request.old
        if request.operation != "UPDATE" or request.subresource or new is None or old is None:
            return
        if _size(new) <= _size(old):
            return
        if (old.get("status") or {}).get("phase") != "Bound":
            raise refuse(request, "Only bound persistent volume claims can be expanded")
        wanted = claim_class(new)
        found = self._classes.get(wanted) if wanted and wanted == claim_class(old) else None
        if found is None or not found.expands:
            raise refuse(
                request,
                "only dynamically provisioned pvc can be resized and the storageclass that "
                "provisions the pvc must support resize",
            )


def _size(claim: Obj) -> Quantity:
    resources = (claim.get("spec") or {}).get("resources") or {}
    text = (resources.get("requests") or {}).get("storage")
    return ZERO if text is None else quantity(str(text))


class DefaultIngressClass(Plugin):
    """An ingress that says nothing of its class gets the default one."""

    tables = frozenset({INGRESSES})

    def __init__(self, store: Store) -> None:
        self._classes = Parsed(store, INGRESS_CLASSES, _class)

    async def mutate(self, request: AdmissionRequest) -> bool:
        ingress = request.object
        if request.operation != "CREATE" or request.subresource or ingress is None:
            return False
        spec = ingress.setdefault("spec", {})
        if spec.get("ingressClassName") is not None:
            return False
        if INGRESS_CLASS in (ingress["metadata"].get("annotations") or ()):
            return False
        name = _default(self._classes, _DEFAULT_INGRESS)
        if name is None:
            return False
        spec["ingressClassName"] = name
        return True
