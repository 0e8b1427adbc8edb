"""`Kind`: a kind of ours as a pydantic model: schema, defaults, validation, columns, definition.

Objects stay plain dicts on the wire and in stores. A kind reads them (`Kind.read`), completes them
(`Kind.default`), and says everything that is wrong with them (`Kind.validate`), with or without a
webhook in front. What the CustomResourceDefinition says agrees with what the model says: the first
is made of the second.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Self

from pydantic import Field, ValidationError

from corral.api.fields import Metadata, Model
from corral.api.names import Names
from corral.api.schema import apply_defaults, structural_schema
from corral.api.stored import stored_schema
from corral.api.structure import salvage, structural_problems, touches
from corral.kube.problems import FieldError, invalid_value, too_long
from corral.kube.resources import Resource
from corral.kube.types import Obj

__all__ = ["Check", "Column", "Kind", "Names", "Scale"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of ``kubectl get``."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False
    """Only with ``-o wide``."""
    description: str = ""

    def as_object(self) -> Obj:
        out: Obj = {"name": self.name, "type": self.type, "jsonPath": self.path}
        if self.description:
            out["description"] = self.description
        return {**out, "priority": 1} if self.wide else out


@dataclass(frozen=True, slots=True)
class Scale:
    """Where the scale subresource finds its numbers."""

    spec: str
    status: str
    selector: str

    def as_object(self) -> Obj:
        return {
            "specReplicasPath": self.spec,
            "statusReplicasPath": self.status,
            "labelSelectorPath": self.selector,
        }


@dataclass(frozen=True, slots=True)
class Check:
    """Mistakes that the schema alone cannot see; found lazily.

    A check is left out where something it reads is wrong already, so that nobody is told about
    consequences of another mistake.
    """

    reads: tuple[str, ...]
    problems: Iterable[FieldError]


class Kind(Model):
    """Base of all kinds; a subclass sets the class variables and has ``spec`` and ``status``."""

    names: ClassVar[Names]
    columns: ClassVar[tuple[Column, ...]] = ()
    scale: ClassVar[Scale | None] = None
    name_schema: ClassVar[Obj] = {}
    """What the name must be like, beyond what every name must."""

    api_version: str
    kind: str
    metadata: Metadata = Field(default_factory=dict)

    @classmethod
    def read(cls, obj: Obj) -> Self:
        """The object as a model, with defaults for what is absent.

        Raises:
            ValidationError: the object does not fit the schema; see `validate` for what to say.
        """
        copy = _bare_copy(obj)
        apply_defaults(cls.schema(), copy)
        return cls.model_validate(copy)

    @classmethod
    def default(cls, obj: Obj) -> None:
        """Complete an object in place, as the API server does by the definition, and more."""
        apply_defaults(cls.schema(), obj)
        cls.complete(obj)

    @classmethod
    def complete(cls, obj: Obj) -> None:
        """Defaults that depend on other fields; in place, and the object may be wrong."""

    @classmethod
    def validate(  # type: ignore[override]  # BaseModel's is deprecated and unused
        cls, obj: Obj, old: Obj | None = None
    ) -> list[FieldError]:
        """Everything that is wrong with an object, or with the change from ``old`` to it."""
        copy = _bare_copy(obj)
        apply_defaults(cls.schema(), copy)
        model, left_out, found = cls._parse(copy)
        found = [*cls._name_problems(copy), *found]
        if model is None:
            return found
        for check in model.checks(cls._read_old(old)):
            if not any(touches(path, left_out) for path in check.reads):
                found += check.problems
        return found

    @classmethod
    def _parse(cls, obj: Obj) -> tuple[Self | None, list[str], list[FieldError]]:
        """What can be read, the paths of what cannot, and why not."""
        try:
            return cls.model_validate(obj), [], []
        except ValidationError as error:
            model, left_out = salvage(cls, obj)
            return model, left_out, structural_problems(error, cls.schema())

    @classmethod
    def _read_old(cls, old: Obj | None) -> Self | None:
        """The old object; none where it is so wrong that nothing can be compared with it."""
        if old is None:
            return None
        copy = _bare_copy(old)
        apply_defaults(cls.schema(), copy)
        return salvage(cls, copy)[0]

    @classmethod
    def _name_problems(cls, obj: Obj) -> list[FieldError]:
        metadata = obj.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if not cls.name_schema or not isinstance(name, str):
            return []
        return list(_name_problems(name, cls.name_schema))

    def checks(self, old: Self | None) -> Iterator[Check]:
        """The rules of the kind, for this object and the one before it."""
        return iter(())

    @classmethod
    def warnings(cls, obj: Obj, old: Obj | None = None) -> list[str]:
        """What is allowed but probably not meant."""
        copy = _bare_copy(obj)
        apply_defaults(cls.schema(), copy)
        model = salvage(cls, copy)[0]
        return list(model.remarks()) if model is not None else []

    def remarks(self) -> Iterator[str]:
        """The warnings about this object."""
        return iter(())

    # --- the definition --------------------------------------------------------------------------

    @classmethod
    def resource(cls) -> Resource:
        return cls.names.resource

    @classmethod
    def qualified(cls) -> str:
        """``plural.group``: how the definition is called."""
        return f"{cls.names.plural}.{cls.names.group}"

    @classmethod
    def schema(cls) -> Obj:  # type: ignore[override]  # BaseModel's is deprecated and unused
        """The structural schema; shared: do not change."""
        return _schema(cls)

    @classmethod
    def crd(cls) -> Obj:
        """The CustomResourceDefinition, a new object each time."""
        names = cls.names
        subresources: Obj = {"status": {}}
        if cls.scale is not None:
            subresources["scale"] = cls.scale.as_object()
        version: Obj = {
            "name": names.version,
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": _copied(cls.schema())},
            "subresources": subresources,
        }
        if cls.columns:
            version["additionalPrinterColumns"] = [column.as_object() for column in cls.columns]
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": cls.qualified()},
            "spec": {
                "group": names.group,
                "names": names.as_object(),
                "scope": "Namespaced" if names.namespaced else "Cluster",
                "versions": [version],
            },
        }


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _bare_copy(obj: Obj) -> Obj:
    """A copy that may be completed; nothing of the metadata is changed but its top."""
    out = {key: _copied(item) for key, item in obj.items() if key != "metadata"}
    metadata = obj.get("metadata")
    return {**out, "metadata": dict(metadata) if isinstance(metadata, dict) else metadata or {}}


@cache
def _schema(kind: type[Kind]) -> Obj:
    return stored_schema(kind.qualified()) or _made(kind)


def _made(kind: type[Kind]) -> Obj:
    schema = structural_schema(kind)
    properties = schema["properties"]
    # These three belong to every kind; the API server fills them in itself.
    properties["apiVersion"] = {"type": "string"}
    properties["kind"] = {"type": "string"}
    properties["metadata"] = {"type": "object"}
    if kind.name_schema:
        properties["metadata"]["properties"] = {"name": {"type": "string", **kind.name_schema}}
    needed = [name for name in schema.get("required") or () if name not in ("apiVersion", "kind")]
    schema.pop("required", None)
    if needed:
        schema["required"] = needed
    schema["description"] = (kind.__doc__ or "").strip()
    return schema


def _name_problems(name: str, schema: Obj) -> Iterator[FieldError]:
    path = "metadata.name"
    if len(name) > schema.get("maxLength", 253):
        yield too_long(path, schema["maxLength"])
    elif not re.search(schema.get("pattern", ""), name):
        yield invalid_value(path, name, f"{path} in body should match '{schema['pattern']}'")
