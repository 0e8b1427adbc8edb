"""The kinds: built-in ones put together from their parts, custom ones from their definitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from corral.cluster.apiserver import apply, codec, schema
from corral.cluster.apiserver.apply import TypeSchema
from corral.cluster.apiserver.auth.users import UserInfo
from corral.cluster.apiserver.builtin import validation
from corral.cluster.apiserver.builtin.defaults import apply_defaults
from corral.cluster.apiserver.builtin.strategy import (
    EPHEMERAL_CONTAINERS_FIELDS,
    RESIZE_FIELDS,
    strategy_for,
)
from corral.cluster.apiserver.builtin.strategy.cluster import SigningRequestStrategy
from corral.cluster.apiserver.builtin.strategy.conversion import convert
from corral.cluster.apiserver.crud.kind import Kind
from corral.cluster.apiserver.errors import FieldError
from corral.cluster.apiserver.patch import apply_strategic_patch
from corral.cluster.apiserver.resources import Catalog, ResourceInfo
from corral.kube.selectors import Selector
from corral.kube.types import Obj

STORED_AS = {
    ("autoscaling", "HorizontalPodAutoscaler"): ("autoscaling", "v2"),
    ("events.k8s.io", "Event"): ("", "v1"),
}
"""Kinds served in several versions, and the one they are stored in."""

RETURNS_DELETED = frozenset(
    {
        "Pod", "PodTemplate", "Service", "ServiceAccount", "Namespace", "PersistentVolume",
        "PersistentVolumeClaim", "ResourceQuota", "StorageClass", "CSIDriver", "CSINode",
        "VolumeAttachment", "VolumeAttributesClass", "DeviceClass", "ResourceClaim",
        "ResourceClaimTemplate", "ResourceSlice",
    }
)  # fmt: skip
PREPARES = {
    "": "prepare_update",
    "scale": "prepare_update",
    "status": "prepare_status_update",
    "ephemeralcontainers": "prepare_ephemeral_containers",
    "resize": "prepare_resize",
    "finalize": "prepare_finalize",
    "approval": "prepare_approval",
}
"""What a strategy calls its part in a write, by subresource."""
ORPHANED_PODS = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background "
    "to remove them or set propagationPolicy=Orphan to suppress this warning"
)
_JOB = ("batch", "v1", "Job")
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


class BuiltinKind(Kind):
    """A kind with Go-typed fields, its own defaults, strategy and validation."""

    def __init__(self, info: ResourceInfo) -> None:
        super().__init__(info)
        self._gvk = (info.group, info.version, info.kind)
        message = codec.message_for(*self._gvk)
        assert message is not None, self._gvk
        self._message = message
        self._strategy = strategy_for(info.group, info.kind)
        self._schema: TypeSchema | None = None
        group, version = STORED_AS.get((info.group, info.kind), (info.group, info.version))
        self._stored = (group, version)
        self.storage_version = f"{group}/{version}" if group else version
        self._converts = self.storage_version != info.api_version
        self._emptied = codec.emptied(codec.message_for(group, version, info.kind) or message)
        self.allow_create_on_update = self._strategy.allow_create_on_update
        self.allow_unconditional_update = self._strategy.allow_unconditional_update
        self.graceful = self._strategy.graceful_delete
        self.returns_deleted = info.kind in RETURNS_DELETED
        self.field_names = self._strategy.field_names
        self.deprecation = self._strategy.deprecation

    @property
    def recipe(self) -> tuple[Any, ...]:
        return type(self), self.info

    # -- form ------------------------------------------------------------------------------

    def decode(self, body: bytes | Obj, *, strict: bool) -> tuple[Obj, list[str]]:
        decoded = codec.decode_json(self._message, body, strict=strict)
        return decoded.obj, decoded.problems

    def normalise(self, obj: Obj) -> Obj:
        return codec.normalise(self._message, obj)

    def default(self, obj: Obj) -> None:
        apply_defaults(*self._gvk, obj)
        if self._converts:
            # Conversion has defaults of its own, and what it cannot carry is not there at all.
            seen = self.from_storage(self.to_storage(dict(obj)))
            obj.clear()
            obj.update(seen)

    def to_storage(self, obj: Obj) -> Obj:
        if self._converts:
            group, version = self._stored
            obj = convert(obj, self.info.api_version, self.storage_version)
            apply_defaults(group, version, self.info.kind, obj)
        if self._emptied is not None:
            self._emptied(obj)
        return obj

    def from_storage(self, obj: Obj) -> Obj:
        if self._converts:
            return convert(obj, self.storage_version, self.info.api_version)
        return obj

    # -- writing ---------------------------------------------------------------------------

    def prepare_create(self, obj: Obj) -> list[str]:
        return list(self._strategy.prepare_create(obj))

    def record_requester(self, obj: Obj, user: UserInfo) -> None:
        if isinstance(self._strategy, SigningRequestStrategy):
            self._strategy.record_requester(obj, user.as_object())

    def prepare_update(self, new: Obj, old: Obj, subresource: str) -> None:
        if subresource == "binding":
            return
        prepare = getattr(self._strategy, PREPARES[subresource])
        prepare(new, old)

    def validate_create(self, obj: Obj) -> list[FieldError]:
        group, version = self._stored
        return validation.validate_create(group, version, self.info.kind, obj)

    def validate_update(self, new: Obj, old: Obj, subresource: str) -> list[FieldError]:
        group, version = self._stored
        if subresource in ("", "scale"):
            return validation.validate_update(group, version, self.info.kind, new, old)
        if subresource in ("binding", "finalize", "approval"):
            return []
        if subresource == "ephemeralcontainers":
            return validation.validate_ephemeral_containers(new, old)
        if subresource == "resize":
            return validation.validate_update(group, version, self.info.kind, new, old)
        return validation.validate_status_update(group, version, self.info.kind, new, old)

    def warnings(self, new: Obj, old: Obj | None) -> list[str]:
        if old is None:
            return self._strategy.warnings_create(new)
        return self._strategy.warnings_update(new, old)

    def type_schema(self) -> TypeSchema:
        if self._schema is None:
            name = schema.definition_name(*self._gvk)
            assert name is not None, self._gvk
            self._schema = apply.builtin_schema(name)
        return self._schema

    def resets(self, subresource: str) -> Any:
        match subresource:
            case "" | "scale" | "binding":
                return self._strategy.reset_fields
            case "ephemeralcontainers":
                return EPHEMERAL_CONTAINERS_FIELDS
            case "resize":
                return RESIZE_FIELDS
            case _:
                return self._strategy.status_reset_fields

    def strategic(self, doc: Obj, body: bytes) -> Obj:
        name = schema.definition_name(*self._gvk)
        assert name is not None, self._gvk
        return apply_strategic_patch(doc, body, name)

    # -- deleting --------------------------------------------------------------------------

    def default_propagation(self) -> str:
        if not self._strategy.supports_propagation:
            return "Unsupported"
        return self._strategy.default_propagation({}, self._gvk)

    def delete_warnings(self, options: Obj) -> list[str]:
        unsaid = all(options.get(n) is None for n in ("propagationPolicy", "orphanDependents"))
        return [ORPHANED_PODS] if self._gvk == _JOB and unsaid else []

    def grace_period(self, obj: Obj, requested: int | None) -> int:
        return self._strategy.graceful_period(obj, requested)

    def start_delete(self, obj: Obj, now: str) -> None:
        if self.info.kind == "Namespace":
            obj.setdefault("status", {})["phase"] = "Terminating"

    def held(self, obj: Obj) -> bool:
        return self.info.kind == "Namespace" and bool((obj.get("spec") or {}).get("finalizers"))

    # -- selecting and scaling --------------------------------------------------------------

    def fields(self, obj: Obj) -> dict[str, str]:
        return self._strategy.selectable_fields(obj)

    def unknown_field(self, name: str) -> str:
        return self._strategy.unsupported_field(name)

    def get_scale(self, obj: Obj, *, absent: int | None = None) -> Obj:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        selector = spec.get("selector")
        if self.info.kind == "ReplicationController":
            selector = {"matchLabels": selector or {}}
        return scale_object(
            obj,
            replicas=spec.get("replicas", 0),
            current=status.get("replicas", 0),
            selector=str(Selector.from_object(selector)) if selector else "",
        )

    def set_scale(self, obj: Obj, replicas: int) -> None:
        obj.setdefault("spec", {})["replicas"] = replicas


def scale_object(obj: Obj, *, replicas: int, current: int, selector: str) -> Obj:
    """The autoscaling/v1 Scale of an object."""
    meta = obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Obj = {"replicas": current}
    if selector:
        status["selector"] = selector
    spec: Obj = {"replicas": replicas} if replicas else {}
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {k: meta[k] for k in kept if k in meta},
        "spec": spec,
        "status": status,
    }


class Kinds:
    """All kinds that are served; built-in ones are made when first asked for."""

    def __init__(
        self, catalog: Catalog, particular: Mapping[tuple[str, str], type[BuiltinKind]]
    ) -> None:
        self._catalog = catalog
        self._particular = particular
        """Built-in kinds with a class of their own, by group and kind."""
        self._made: dict[tuple[str, str, str], Kind] = {}

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        """The kind of a resource, or None when it is not served or not stored."""
        key = (group, version, plural)
        kind = self._made.get(key)
        if kind is None:
            info = self._catalog.find(group, version, plural)
            if info is None or info.custom or "watch" not in info.verbs:
                return None
            made = self._particular.get((info.group, info.kind), BuiltinKind)
            kind = self._made[key] = made(info)
        return kind

    def add(self, kind: Kind) -> None:
        """Serve a custom kind."""
        info = kind.info
        self._catalog.add(info)
        self._made[info.group, info.version, info.plural] = kind

    def remove(self, group: str, plural: str) -> None:
        self._catalog.remove(group, plural)
        for key in [k for k in self._made if k[0] == group and k[2] == plural]:
            del self._made[key]
