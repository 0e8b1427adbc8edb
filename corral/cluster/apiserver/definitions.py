"""CustomResourceDefinition as a kind: built-in by its type, with rules of its own."""

from __future__ import annotations

from corral.cluster.apiserver.crd.definition.kind import (
    default_crd,
    validate_crd,
    validate_crd_update,
)
from corral.cluster.apiserver.errors import FieldError
from corral.cluster.apiserver.kinds import CLEANUP, BuiltinKind
from corral.kube.types import Obj


class DefinitionKind(BuiltinKind):
    """The kind that makes kinds."""

    def default(self, obj: Obj) -> None:
        default_crd(obj)

    def prepare_create(self, obj: Obj) -> list[str]:
        obj["metadata"]["generation"] = 1
        empty = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}}
        obj["status"] = {**empty, "storedVersions": []}
        _store_version(obj)
        return []

    def prepare_update(self, new: Obj, old: Obj, subresource: str) -> None:
        if subresource == "status":
            new["spec"] = old["spec"]
            return
        new["status"] = old["status"]
        if new["spec"] != old["spec"]:
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        _store_version(new)

    def validate_create(self, obj: Obj) -> list[FieldError]:
        return validate_crd(obj)

    def validate_update(self, new: Obj, old: Obj, subresource: str) -> list[FieldError]:
        return validate_crd_update(new, old)

    def resets(self, subresource: str) -> list[tuple[str, ...]]:
        return [("spec",)] if subresource == "status" else [("status",)]

    def start_delete(self, obj: Obj, now: str) -> None:
        """A definition goes only after its objects: hold it until they are cleaned up."""
        if "deletionTimestamp" in obj["metadata"]:
            return
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if CLEANUP not in finalizers:
            finalizers.append(CLEANUP)
        status = obj.setdefault("status", {})
        conditions = [c for c in status.get("conditions") or () if c["type"] != "Terminating"]
        conditions.append(
            {
                "type": "Terminating",
                "status": "True",
                "lastTransitionTime": now,
                "reason": "InstanceDeletionPending",
                "message": "CustomResourceDefinition marked for deletion; CustomResource deletion "
                "will begin soon",
            }
        )
        status["conditions"] = conditions


def _store_version(crd: Obj) -> None:
    """Objects may from now on be stored in the storage version."""
    stored = crd["status"].get("storedVersions") or []
    for version in crd["spec"].get("versions") or ():
        if version.get("storage") and version.get("name") not in stored:
            stored = [*stored, version.get("name")]
    crd["status"]["storedVersions"] = stored
