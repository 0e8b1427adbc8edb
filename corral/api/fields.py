"""Types that fields of our kinds are made of: what a model accepts and what its schema says.

Every type accepts exactly the values that a kube-apiserver accepts by the schema the type gives.
Python names are snake case, wire names are camel case. An absent field is ``None`` in a model.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    StringConstraints,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from corral.api.stored import are_stored
from corral.kube.types import Obj

__all__ = [
    "AnyObject",
    "Condition",
    "Conditions",
    "Int32",
    "Int64",
    "LocalReference",
    "Metadata",
    "Model",
    "PodTemplate",
    "Procs",
    "QuantityText",
    "Seconds",
    "Span",
    "Text",
    "Timestamp",
    "cel",
    "immutable",
    "section",
    "span_seconds",
]

QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
SPAN_PATTERN = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"
_INT_OR_STRING: Obj = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}


class Model(BaseModel):
    """A part of an object: unknown fields are ignored, types are not converted."""

    model_config = ConfigDict(
        # most processes load all kinds and look at objects of few
        defer_build=True,
        alias_generator=to_camel,
        populate_by_name=True,
        strict=True,
        extra="ignore",
        # they are in the schemas: nobody needs them where those are stored
        use_attribute_docstrings=not are_stored(),
    )


M = TypeVar("M", bound=Model)


def section(model: type[M]) -> Any:
    """A field that is never absent: an empty object by default, filled by its own defaults."""
    return Field(default_factory=model, json_schema_extra={"default": {}})


def cel(rule: str, message: str, *, field: str = "", reason: str = "") -> Obj:
    """A rule that the API server itself checks; ``self`` is the value the rule stands at."""
    out: Obj = {"rule": rule, "message": message}
    if field:
        out["fieldPath"] = field
    if reason:
        out["reason"] = reason
    return out


def immutable() -> dict[str, Any]:
    """The schema extension of a field that may never change."""
    return {"x-kubernetes-validations": [cel("self == oldSelf", "field is immutable")]}


# --- numbers and texts -------------------------------------------------------------------------


def _whole(value: Any) -> Any:
    """JSON has one kind of number: 3.0 is an integer to Kubernetes too."""
    return int(value) if type(value) is float and value.is_integer() else value


Int32 = Annotated[
    int, BeforeValidator(_whole), Field(json_schema_extra={"format": "int32"}, le=2**31 - 1)
]
Int64 = Annotated[int, BeforeValidator(_whole), Field(json_schema_extra={"format": "int64"})]
Text = Annotated[str, StringConstraints(max_length=1024)]
Timestamp = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
Span = Annotated[str, StringConstraints(pattern=SPAN_PATTERN, max_length=32)]
"""A length of time: ``90s``, ``10m``, ``1h30m``."""
Seconds = Annotated[Int64, Field(ge=0)]

_SPAN_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_SPAN_UNIT = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def span_seconds(span: str) -> float:
    """A `Span` in seconds.

    Raises:
        ValueError: the text is no length of time.
    """
    if not re.match(SPAN_PATTERN, span):
        raise ValueError(f"{span!r} is no length of time such as 90s, 10m or 1h30m")
    seconds = sum(float(amount) * _SPAN_UNIT[unit] for amount, unit in _SPAN_PART.findall(span))
    return timedelta(seconds=seconds).total_seconds()


def kind_name(value: Any) -> str:
    """The JSON type of a value, as validators of OpenAPI call it."""
    names: dict[type, str] = {
        bool: "boolean", str: "string", int: "integer", float: "number", list: "array",
        dict: "object",
    }  # fmt: skip
    return names.get(type(value), "null")


def _check_int_or_string(value: Any, pattern: str) -> int | str:
    value = _whole(value)
    if type(value) not in (int, str):
        expected = {"expected": "integer,string"}
        raise PydanticCustomError("k8s_type", "not of type {expected}", expected)
    if isinstance(value, str) and not re.search(pattern, value):
        wanted = {"pattern": pattern}
        raise PydanticCustomError("string_pattern_mismatch", "does not match {pattern}", wanted)
    kept: int | str = value
    return kept


def _check_quantity(value: Any) -> int | str:
    return _check_int_or_string(value, QUANTITY_PATTERN)


def _check_procs(value: Any) -> int | str:
    kept = _check_int_or_string(value, "^auto$")
    if isinstance(kept, int) and kept < 1:
        raise PydanticCustomError("greater_than_equal", "less than {ge}", {"ge": 1})
    return kept


QuantityText = Annotated[
    int | str,
    PlainValidator(_check_quantity),
    WithJsonSchema({**_INT_OR_STRING, "pattern": QUANTITY_PATTERN}),
]
"""An amount as in resources: ``4``, ``500m``, ``50Gi``."""
Procs = Annotated[
    int | str,
    PlainValidator(_check_procs),
    WithJsonSchema({**_INT_OR_STRING, "pattern": "^auto$", "minimum": 1}),
]
"""A number of processes, or ``auto``."""

# --- objects of others -------------------------------------------------------------------------


_OPEN: Obj = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
AnyObject = Annotated[dict[str, Any], WithJsonSchema(_OPEN)]
"""An object whose fields are not ours to know; kept as it is."""
PodTemplate = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {
            **_OPEN,
            "properties": {"metadata": dict(_OPEN), "spec": dict(_OPEN)},
        }
    ),
]
"""A core/v1 PodTemplateSpec; what is in it is checked when a pod is made of it."""
Metadata = Annotated[dict[str, Any], WithJsonSchema({"type": "object"})]


class LocalReference(Model):
    """Names an object of the same namespace."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=253)]


class Condition(Model):
    """What is known about one aspect of an object (metav1.Condition)."""

    type: Annotated[
        str,
        StringConstraints(
            max_length=316,
            pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
            r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
        ),
    ]
    status: Literal["True", "False", "Unknown"]
    observed_generation: Annotated[Int64, Field(ge=0)] | None = None
    last_transition_time: Timestamp
    reason: Annotated[
        str,
        StringConstraints(
            min_length=1, max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
        ),
    ]
    message: Annotated[str, StringConstraints(max_length=32768)]


Conditions = Annotated[
    list[Condition],
    Field(
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        }
    ),
]
