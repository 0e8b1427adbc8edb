"""`Answer`: base of the models that Python, JSON and the OpenAPI document share."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
)
from pydantic.alias_generators import to_camel

from corral.kube.types import Obj

__all__ = ["Answer", "named"]


def named(name: str, default: str) -> Any:
    """A text whose name in JSON is not its name in Python."""
    return Field(default, validation_alias=name, serialization_alias=name)


class Answer(BaseModel):
    """A value with the names of Kubernetes in JSON, where unknown members are left out."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)

    required: ClassVar[tuple[str, ...]] = ()
    """Members that are in the JSON even if they are empty texts."""

    @model_serializer(mode="wrap")
    def _known(self, handler: SerializerFunctionWrapHandler) -> Obj:
        found: Obj = handler(self)
        return {
            key: value
            for key, value in found.items()
            if value is not None and (value != "" or key in self.required)
        }

    def as_object(self) -> Obj:
        return self.model_dump(mode="json", by_alias=True)

    @classmethod
    def read(cls, found: Obj) -> Self:
        """What `as_object` made; members that are not known here are left out."""
        return cls.model_validate(found)

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """Its schema, and those of its parts, by their names."""
        schema = cls.model_json_schema(ref_template="#/components/schemas/{model}")
        parts: dict[str, Any] = schema.pop("$defs", {})
        return {**parts, cls.__name__: {**schema, "required": list(cls.required)}}
