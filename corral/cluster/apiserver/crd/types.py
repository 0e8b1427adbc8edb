"""Types shared by the compiled parts of a schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from corral.cluster.apiserver.errors import FieldError
from corral.kube.types import Obj

__all__ = ["MISSING", "Errors", "Validator", "schema_types"]

Errors = list[FieldError]
Validator = Callable[[Any, str, Errors, Any], None]
"""(value, path, errors to add to, the old value or MISSING)."""


class _Missing:
    """No old value stands in relation to this one."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing()


def schema_types(schema: Obj) -> tuple[str, ...]:
    if schema.get("x-kubernetes-int-or-string"):
        return ("integer", "string")
    return (schema["type"],) if schema.get("type") else ()
