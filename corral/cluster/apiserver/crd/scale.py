"""The scale subresource of custom resources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from corral.cluster.apiserver.crd.problems import go_number
from corral.cluster.apiserver.crd.types import Errors
from corral.cluster.apiserver.errors import internal, invalid_value
from corral.kube.errors import BadRequest
from corral.kube.types import Obj

__all__ = ["ScalePaths"]

_MAX_REPLICAS = 2**31 - 1
_META = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
_GO_TYPES = {str: "string", bool: "bool", float: "float64", int: "int64", list: "[]interface {}"}


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where a kind keeps what a Scale shows; paths like ``.spec.replicas``."""

    spec_replicas: str
    status_replicas: str
    label_selector: str | None

    def get(self, obj: Obj, *, absent: int | None = None) -> Obj:
        """The autoscaling/v1 Scale of an object; ``absent`` stands for replicas it has not.

        Raises:
            InternalError: the object has no replicas where they should be.
        """
        found, why = _read(obj, self.spec_replicas, int)
        if why:
            raise internal(why)
        found = absent if found is None else found
        if found is None:
            raise internal(f'the spec replicas field "{self.spec_replicas}" does not exist')
        status: Obj = {"replicas": _read(obj, self.status_replicas, int)[0] or 0}
        if self.label_selector:
            selector = _read(obj, self.label_selector, str)[0]
            status |= {"selector": selector} if selector else {}
        meta = {k: obj["metadata"][k] for k in _META if obj["metadata"].get(k)}
        spec = {"replicas": found} if found else {}
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": meta,
            "spec": spec,
            "status": status,
        }

    def set(self, obj: Obj, replicas: int) -> None:
        """Write the wanted replicas, in place."""
        *parents, last = _split(self.spec_replicas)
        for name in parents:
            obj = obj.setdefault(name, {})
            if not isinstance(obj, dict):
                raise BadRequest(
                    f"value cannot be set because {name} is not a map[string]interface{{}}"
                )
        obj[last] = replicas

    def validate(self, obj: Obj, *, status_only: bool = False) -> Errors:
        """Replicas must be integers a Scale can carry."""
        out: Errors = []
        if not status_only:
            _check_replicas(obj, self.spec_replicas, out)
        _check_replicas(obj, self.status_replicas, out)
        if self.label_selector:
            _, why = _read(obj, self.label_selector, str)
            if why:
                out.append(invalid_value(self.label_selector, "", why))
        return out


def _split(path: str) -> list[str]:
    return path.removeprefix(".").split(".")


def _read(obj: Obj, path: str, wanted: type) -> tuple[Any, str]:
    value: Any = obj
    names = _split(path)
    for i, name in enumerate(names):
        if type(value) is not dict:
            if value is None:
                return None, ""
            where = "." + ".".join(names)
            return None, _mismatch(where, value, "map[string]interface{}")
        if name not in value:
            return None, ""
        value = value[name]
        if value is None and i < len(names) - 1:
            return None, ""
    if type(value) is wanted:
        return value, ""
    expected = "int64" if wanted is int else "string"
    return None, _mismatch("." + ".".join(names), value, expected)


def _mismatch(path: str, value: Any, expected: str) -> str:
    kind = "<nil>" if value is None else _GO_TYPES.get(type(value), "map[string]interface {}")
    return f"{path} accessor error: {_shown(value)} is of the type {kind}, expected {expected}"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return go_number(value)
    if isinstance(value, dict):
        return "map[" + " ".join(f"{k}:{_shown(v)}" for k, v in sorted(value.items())) + "]"
    if isinstance(value, list):
        return "[" + " ".join(_shown(v) for v in value) + "]"
    return "<nil>" if value is None else str(value)


def _check_replicas(obj: Obj, path: str, out: Errors) -> None:
    value, why = _read(obj, path, int)
    if why:
        out.append(invalid_value(path, 0, why))
    elif value is not None and value < 0:
        out.append(invalid_value(path, value, "should be a non-negative integer"))
    elif value is not None and value > _MAX_REPLICAS:
        out.append(invalid_value(path, value, f"should be less than or equal to {_MAX_REPLICAS}"))
