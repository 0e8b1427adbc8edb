"""Claims, volumes and classes of one case; names of cluster-scoped objects are its own."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from corral.cluster.workloads.claims import storage_class
from tests.cluster.manifests import obj
from tests.cluster.objects import Objects, eventually
from tests.cluster.services.service_stage import Stage, settles

Obj = dict[str, Any]
CLAIMS, VOLUMES, CLASSES = "persistentvolumeclaims", "persistentvolumes", "storageclasses"
STORAGE = "storage.k8s.io/v1"


def claim(name: str = "data", size: str = "1Gi", **spec: Any) -> Obj:
    body = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
        **spec,
    }
    return obj("v1", "PersistentVolumeClaim", name, spec=body)


def user(name: str, claim_name: str, node: str = "") -> Obj:
    """A pod that uses a claim."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}
    spec: Obj = {
        "containers": [{"name": "main", "image": "example.test/web:1"}],
        "volumes": [volume],
        "terminationGracePeriodSeconds": 0,
    }
    if node:
        spec["nodeName"] = node
    return obj("v1", "Pod", name, spec=spec)


class ClaimStage(Stage):
    """What a case makes, and what becomes of it."""

    def __init__(self, cluster: Objects, objects: Objects, unique: str, folder: Path) -> None:
        super().__init__(cluster, objects, f"n-{unique}")
        self.unique = unique
        self.folder = folder
        self._classes: list[str] = []
        self._volumes: list[str] = []

    def close(self) -> None:
        super().close()
        for name in self.objects.names("v1", CLAIMS):
            self.objects.delete("v1", CLAIMS, name)
        for name in self._classes:
            self.cluster.delete(STORAGE, CLASSES, name)
        for name in self._volumes:
            self.cluster.delete("v1", VOLUMES, name)
            settles(partial(self.volume, name), None)

    def make_class(self, name: str = "folder", **fields: Any) -> str:
        """A class of our provisioner, which is not the default one."""
        name = f"{name}-{self.unique}"
        made = {**storage_class(), "metadata": {"name": name}, **fields}
        self.cluster.create(CLASSES, made)
        self._classes.append(name)
        return name

    def make_volume(self, name: str, size: str = "1Gi", **spec: Any) -> str:
        """A volume by hand; of the class of the case, so that no other claim gets it."""
        name = f"{name}-{self.unique}"
        body = {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": size},
            "hostPath": {"path": "/nowhere"},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": f"by-hand-{self.unique}",
            **spec,
        }
        labels = body.pop("labels", None)
        self.cluster.create(VOLUMES, obj("v1", "PersistentVolume", name, labels=labels, spec=body))
        self._volumes.append(name)
        return name

    def make_claim(self, name: str = "data", size: str = "1Gi", **spec: Any) -> Obj:
        spec.setdefault("storageClassName", f"by-hand-{self.unique}")
        return self.objects.create(CLAIMS, claim(name, size, **spec))

    # --- what became of it -----------------------------------------------------------------------

    def claim(self, name: str = "data") -> Obj:
        return self.objects.get("v1", CLAIMS, name)

    def claim_phase(self, name: str = "data") -> str:
        return str((self.claim(name).get("status") or {}).get("phase"))

    def volume(self, name: str) -> Obj | None:
        return self.cluster.find("v1", VOLUMES, name)

    def volume_phase(self, name: str) -> str:
        found = self.volume(name)
        return "" if found is None else str((found.get("status") or {}).get("phase"))

    def bound(self, name: str = "data", seconds: float = 60) -> Obj:
        """The claim, once it is bound."""

        def look() -> bool:
            return self.claim_phase(name) == "Bound"

        eventually(look, seconds=seconds)
        return self.claim(name)

    def folder_of(self, found: Obj) -> Path:
        """Where the data of a claim is."""
        return self.folder / f"pvc-{found['metadata']['uid']}"
