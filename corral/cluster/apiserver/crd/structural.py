"""One version of a CRD, compiled: everything the server does with its objects.

Compile once per CRD change; the methods are then cheap. ``prune`` and ``default`` mutate the
object they are given, everything else leaves it alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cached_property
from time import thread_time
from typing import Any

from corral.cluster.apiserver.crd.columns import column_definitions, compile_row
from corral.cluster.apiserver.crd.defaulting import compile_defaulting
from corral.cluster.apiserver.crd.jsonpath import compile_path
from corral.cluster.apiserver.crd.listtypes import compile_listtypes
from corral.cluster.apiserver.crd.metadata import (
    compile_embedded,
    compile_embedded_metadata,
    prune_metadata,
)
from corral.cluster.apiserver.crd.problems import NO_PATH, go_number
from corral.cluster.apiserver.crd.pruning import compile_pruning
from corral.cluster.apiserver.crd.publish import list_schema, published_schema
from corral.cluster.apiserver.crd.rules import SECONDS_PER_OBJECT, compile_rules, deepest_loops
from corral.cluster.apiserver.crd.scale import ScalePaths
from corral.cluster.apiserver.crd.types import MISSING, Errors
from corral.cluster.apiserver.crd.values import compile_values
from corral.cluster.apiserver.errors import FieldError, invalid_value
from corral.kube.errors import BadRequest
from corral.kube.types import Obj

__all__ = ["CompiledVersion", "compile_version"]

# Rules may rely on the schema, so these failures keep them from running.
_BLOCKING = frozenset(
    (
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    )
)
_NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; correct the existing "
    "errors to complete validation"
)


def compile_version(crd: Obj, version: str) -> CompiledVersion:
    """Compile the named version of a CRD.

    Raises:
        KeyError: the CRD has no such version.
    """
    for candidate in crd["spec"]["versions"]:
        if candidate["name"] == version:
            return CompiledVersion(crd, candidate)
    raise KeyError(version)


class CompiledVersion:
    """What one version of a CRD means for its objects."""

    def __init__(self, crd: Obj, version: Obj) -> None:
        spec = crd["spec"]
        self._crd, self._version = crd, version
        self.name: str = version["name"]
        self.kind: str = spec["names"]["kind"]
        self.schema: Obj = (version.get("schema") or {}).get("openAPIV3Schema") or {
            "type": "object"
        }
        subresources = version.get("subresources") or {}
        self.has_status = subresources.get("status") is not None
        self.scale = _scale_paths(subresources.get("scale"))
        self.selectable_fields: list[str] = [
            f["jsonPath"].removeprefix(".") for f in version.get("selectableFields") or ()
        ]
        self._selectors = [(name, compile_path(f".{name}")) for name in self.selectable_fields]
        preserve = spec.get("preserveUnknownFields") is True
        self._prune = None if preserve else compile_pruning(self.schema, root=True)
        self._embedded_meta = compile_embedded_metadata(self.schema)
        self._embedded = compile_embedded(self.schema)
        self._default = compile_defaulting(self.schema)
        self._values = compile_values(self.schema)
        self._lists = compile_listtypes(self.schema)
        self._rules = compile_rules(self.schema)

    @property
    def source(self) -> tuple[Obj, str]:
        """What ``compile_version`` makes this from."""
        return self._crd, self.name

    @cached_property
    def loops(self) -> int:
        """How deep loops are nested in the rules."""
        return deepest_loops(self.schema)

    def prune(self, obj: Obj) -> list[str]:
        """Drop what the schema does not know, in place; the paths dropped (``spec.foo``).

        Raises:
            BadRequest: an embedded resource has metadata of the wrong types.
        """
        metadata = obj.get("metadata")
        dropped = prune_metadata(metadata, "metadata") if metadata else []
        found = self._prune(obj) if self._prune is not None else None
        if found:
            dropped += sorted(found)
        if self._embedded_meta is not None:
            try:
                dropped += sorted(self._embedded_meta(obj, ""))
            except ValueError as why:
                subject = f'{self.kind} in version "{self.name}"'
                said = f"{subject} cannot be handled as a {self.kind}: {why}"
                raise BadRequest(said) from None
        return dropped

    def default(self, obj: Obj) -> None:
        """Fill in defaults and drop nulls the schema does not allow, in place."""
        if self._default is not None:
            self._default(obj)

    @cached_property
    def _default_applied(self) -> Any:
        return compile_defaulting(self.schema, drop=False)

    def default_applied(self, obj: Obj) -> None:
        """The same after an apply, which keeps nulls: they are the client's to answer for."""
        if self._default_applied is not None:
            self._default_applied(obj)

    def validate(
        self,
        obj: Obj,
        old: Obj | None,
        *,
        status: bool = False,
        earlier: Sequence[FieldError] = (),
    ) -> list[FieldError]:
        """Everything wrong with an object; ``status`` for writes to the status subresource.

        ``earlier`` are problems found before, which may keep the rules from running.
        """
        before: Any = MISSING if old is None else old
        out: Errors = []
        if status and old is not None:
            self._validate_status(obj, old, out)
        else:
            self._values(obj, "", out, before)
        if self.scale is not None:
            out += self.scale.validate(obj, status_only=status)
        if self._embedded is not None and not status:
            self._embedded(obj, "", out, MISSING)
        if self._lists is not None:
            self._validate_lists(obj, old, out)
        if self._rules is not None:
            if any(problem.type in _BLOCKING for problem in (*earlier, *out)):
                out.append(invalid_value(NO_PATH, None, _NOT_CHECKED))
            else:
                self._rules(obj, before, "", None, out, thread_time() + SECONDS_PER_OBJECT)
        return out

    def _validate_status(self, obj: Obj, old: Obj, out: Errors) -> None:
        if "status" not in obj or self._status_values is None:
            return
        found: Errors = []
        self._status_values(obj["status"], "", found, old.get("status", MISSING))
        for problem in found:
            where = "status" if problem.field == NO_PATH else f"status.{problem.field}"
            out.append(FieldError(problem.type, where, problem.body))

    @cached_property
    def _status_values(self) -> Any:
        schema = (self.schema.get("properties") or {}).get("status")
        return compile_values(schema) if schema else None

    def _validate_lists(self, obj: Obj, old: Obj | None, out: Errors) -> None:
        found: Errors = []
        assert self._lists is not None
        self._lists(obj, "", found, MISSING)
        if found and old is not None:
            earlier: Errors = []
            self._lists(old, "", earlier, MISSING)
            if earlier:
                return  # the stored object breaks the rule already
        out += found

    def get_scale(self, obj: Obj, *, absent: int | None = None) -> Obj:
        """The autoscaling/v1 Scale of an object of a kind with a scale subresource."""
        if self.scale is None:
            raise LookupError(f"{self.kind} has no scale subresource")
        return self.scale.get(obj, absent=absent)

    def set_scale_replicas(self, obj: Obj, replicas: int) -> None:
        """Write the wanted replicas, in place."""
        if self.scale is None:
            raise LookupError(f"{self.kind} has no scale subresource")
        self.scale.set(obj, replicas)

    @cached_property
    def columns(self) -> list[Obj]:
        """The Table's column definitions."""
        return column_definitions(self._version)

    @cached_property
    def _row(self) -> Callable[[Obj, Callable[[], datetime]], list[Any]]:
        return compile_row(self._version)

    def row(self, obj: Obj, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> list[Any]:
        """The cells of an object's row, one per column."""
        return self._row(obj, now)

    def field_values(self, obj: Obj) -> dict[str, str]:
        """The values of the selectable fields; absent ones are empty."""
        out = {}
        for name, find in self._selectors:
            found = find(obj)
            out[name] = _field_text(found[0]) if found else ""
        return out

    @cached_property
    def openapi(self) -> Obj:
        """The published OpenAPI v3 schema of the kind."""
        return published_schema(self._crd, self._version)

    @cached_property
    def openapi_list(self) -> Obj:
        """The published OpenAPI v3 schema of the kind's list."""
        return list_schema(self._crd, self._version)


def _scale_paths(scale: Obj | None) -> ScalePaths | None:
    if scale is None:
        return None
    paths = scale["specReplicasPath"], scale["statusReplicasPath"]
    return ScalePaths(*paths, scale.get("labelSelectorPath"))


def _field_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return go_number(value)
    return "" if value is None else str(value)
