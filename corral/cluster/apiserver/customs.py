"""Custom kinds: what a CustomResourceDefinition makes of its objects."""

from __future__ import annotations

from typing import Any

import orjson

from corral.cluster.apiserver import apply, codec
from corral.cluster.apiserver import errors as say
from corral.cluster.apiserver.apply import TypeSchema
from corral.cluster.apiserver.builtin import validation
from corral.cluster.apiserver.codec import refusal
from corral.cluster.apiserver.codec.decode import parse_json
from corral.cluster.apiserver.codec.duplicates import duplicate_fields
from corral.cluster.apiserver.crd.metadata import finalizer_warnings
from corral.cluster.apiserver.crd.structural import CompiledVersion, compile_version
from corral.cluster.apiserver.crud.kind import Kind
from corral.cluster.apiserver.errors import FieldError, invalid, invalid_value
from corral.cluster.apiserver.resources import ResourceInfo
from corral.cluster.apiserver.store import Entry
from corral.kube import errors
from corral.kube.types import Obj


class CustomKind(Kind):
    """A kind that a CustomResourceDefinition describes, in one of its versions."""

    allow_unconditional_update = False

    def __init__(self, info: ResourceInfo, version: CompiledVersion, storage_version: str) -> None:
        super().__init__(info)
        self.version = version
        self.storage_version = storage_version
        self.leaving = False
        """The definition is being deleted: nothing new comes."""
        self._schema: TypeSchema | None = None
        self.field_names = frozenset(
            {"metadata.name", "metadata.namespace", *version.selectable_fields}
        )

    @property
    def recipe(self) -> tuple[Any, ...] | None:
        if type(self) is not CustomKind:
            return None
        return remade, self.info, self.version.source, self.storage_version, self.leaving

    def costs(self, size: int) -> int:
        nested = min(self.version.loops, 4) - 1
        return size if nested < 1 else int(size * (size / 1000) ** nested)

    def decode(self, body: bytes | Obj, *, strict: bool) -> tuple[Obj, list[str]]:
        problems: list[str] = []
        if isinstance(body, bytes):
            parsed = parse_json(self.info.kind, body)
            if strict:
                problems = duplicate_fields(body, parsed)
        else:
            parsed = body
        self._identify(parsed, body)
        dropped = self._conform(parsed)
        if strict:
            problems += [f'unknown field "{path}"' for path in dropped]
        return parsed, problems

    def _identify(self, obj: Obj, body: bytes | Obj) -> None:
        """An object must say what it is, and be of this kind where it names its version."""
        info = self.info
        for key, name in (("kind", "Kind"), ("apiVersion", "apiVersion")):
            value = obj.get(key)
            if not isinstance(value, str) or not value:
                raw = body if isinstance(body, bytes) else orjson.dumps(body)
                shown = raw.decode(errors="replace")
                raise refusal.unrecognized(
                    info.kind, f"Object '{name}' is missing in '{shown}'", raw
                )
        if obj["apiVersion"] == info.api_version and obj["kind"] != info.kind:
            problem = invalid_value("kind", obj["kind"], f"must be {info.kind}")
            name = (obj.get("metadata") or {}).get("name", "")
            raise invalid(info.group, obj["kind"], name, [problem])
        if not isinstance(obj.get("metadata", {}), dict | None):
            found = refusal.unmarshal(obj["metadata"])
            raise errors.BadRequest(
                f'{info.kind} in version "{info.version}" cannot be handled as a {info.kind}: '
                f"{found} into Go value of type v1.ObjectMeta"
            )

    def normalise(self, obj: Obj) -> Obj:
        self._conform(obj)
        return obj

    def _conform(self, obj: Obj) -> list[str]:
        """Bring an object into the form it is kept in; the paths of what was dropped."""
        dropped = self.version.prune(obj)
        for key, value in obj.items():
            obj[key] = codec.whole_numbers(value)
        try:
            obj["metadata"] = codec.normalise(_META, obj.get("metadata") or {})
        except errors.BadRequest as err:
            why = err.message.partition(" cannot be handled as a ObjectMeta: ")[2]
            kind, version = self.info.kind, self.info.version
            text = f'{kind} in version "{version}" cannot be handled as a {kind}: {why}'
            raise errors.BadRequest(text) from err
        return dropped

    def default(self, obj: Obj) -> None:
        self.version.default(obj)

    def default_applied(self, obj: Obj) -> None:
        self.version.default_applied(obj)

    def to_storage(self, obj: Obj) -> Obj:
        return obj  # validated in the version of the request, converted when stored

    async def stored(self, obj: Obj) -> Obj:
        return {**obj, "apiVersion": self.storage_version}

    def is_current(self, entry: Entry) -> bool:
        return bool(entry.decode().get("apiVersion") == self.storage_version)

    def from_storage(self, obj: Obj) -> Obj:
        obj["apiVersion"] = self.info.api_version
        self.version.prune(obj)
        self.version.default(obj)
        return obj

    def prepare_create(self, obj: Obj) -> list[str]:
        if self.leaving:
            raise say.forbidden(
                self.info.group,
                self.info.plural,
                obj["metadata"].get("name", ""),
                "create not allowed while custom resource definition is terminating",
            )
        if self.version.has_status:
            obj.pop("status", None)
        obj["metadata"]["generation"] = 1
        return []

    def prepare_update(self, new: Obj, old: Obj, subresource: str) -> None:
        if subresource == "status":
            self._prepare_status(new, old)
            return
        if self.version.has_status:
            _restore(new, old, "status")
        if _content(new, self.version.has_status) != _content(old, self.version.has_status):
            new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1

    def _prepare_status(self, new: Obj, old: Obj) -> None:
        """Only the status (and the bookkeeping of the write) comes from the new object."""
        status, meta = new.get("status"), new["metadata"]
        kept = {k: meta[k] for k in ("managedFields", "resourceVersion") if k in meta}
        for key in [k for k in new if k not in ("apiVersion", "kind")]:
            del new[key]
        new.update({k: v for k, v in old.items() if k not in ("status", "apiVersion", "kind")})
        new["metadata"] = {**old["metadata"], **kept}
        if status is not None:
            new["status"] = status

    def validate_create(self, obj: Obj) -> list[FieldError]:
        problems = validation.validate_object_meta(obj, namespaced=self.info.namespaced)
        return problems + self.version.validate(obj, None, earlier=problems)

    def validate_update(self, new: Obj, old: Obj, subresource: str) -> list[FieldError]:
        problems = validation.validate_object_meta_update(new, old)
        status = subresource == "status"
        return problems + self.version.validate(new, old, status=status, earlier=problems)

    def warnings(self, new: Obj, old: Obj | None) -> list[str]:
        return finalizer_warnings(new, old)

    def type_schema(self) -> TypeSchema:
        if self._schema is None:
            self._schema = apply.crd_schema(self.version.schema, preserve_unknown=False)
        return self._schema

    def resets(self, subresource: str) -> list[tuple[str, ...]]:
        if not self.version.has_status:
            return []
        if subresource == "status":
            return _STATUS_RESETS
        return [("status",)]

    def strategic(self, doc: Obj, body: bytes) -> Obj:
        raise errors.UnsupportedMediaType(
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json-patch+json, application/merge-patch+json, "
            "application/apply-patch+yaml"
        )

    def fields(self, obj: Obj) -> dict[str, str]:
        return {**super().fields(obj), **self.version.field_values(obj)}

    @property
    def replicas_path(self) -> tuple[str, ...]:
        scale = self.version.scale
        return tuple(scale.spec_replicas.removeprefix(".").split(".")) if scale else ()

    def get_scale(self, obj: Obj, *, absent: int | None = None) -> Obj:
        return self.version.get_scale(obj, absent=absent)

    def set_scale(self, obj: Obj, replicas: int) -> None:
        self.version.set_scale_replicas(obj, replicas)


def remade(info: ResourceInfo, source: tuple[Obj, str], storage: str, leaving: bool) -> CustomKind:
    """A kind from its recipe."""
    kind = CustomKind(info, compile_version(*source), storage)
    kind.leaving = leaving
    return kind


_META = codec.message("meta/v1.ObjectMeta")
_STATUS_RESETS: list[tuple[str, ...]] = [("spec",), ("metadata",)]


def _restore(new: Obj, old: Obj, key: str) -> None:
    if key in old:
        new[key] = old[key]
    else:
        new.pop(key, None)


def _content(obj: Obj, without_status: bool) -> Obj:
    """What makes a new generation of a custom object."""
    out = {k: v for k, v in obj.items() if k != "metadata"}
    if without_status:
        out.pop("status", None)
    return out
