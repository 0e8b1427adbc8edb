"""`ResourceSpec`: what one replica, launcher or worker needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from corral.kube.quantity import Quantity
from corral.kube.types import Obj

__all__ = ["ResourceSpec"]

Amount = int | float | str


@dataclass(frozen=True, slots=True)
class ResourceSpec:
    """CPU, memory and accelerators of one pod; what is asked for is also the limit.

    >>> ResourceSpec(cpu=2, memory="8Gi", gpu=1).requirements()["limits"]["nvidia.com/gpu"]
    '1'
    """

    cpu: Amount | None = None
    """Cores: 2, 0.5 or "500m"."""
    memory: Amount | None = None
    """Bytes, or a text such as "8Gi"."""
    gpu: int = 0
    """Whole accelerators."""
    gpu_resource: str = "nvidia.com/gpu"
    """What the cluster calls them."""
    ephemeral_storage: Amount | None = None
    extra: Mapping[str, Amount] = field(default_factory=dict)
    """Other resources by their full name."""
    limits: Mapping[str, Amount] = field(default_factory=dict)
    """Limits that are not what is asked for; only these names differ."""

    def __post_init__(self) -> None:
        if self.gpu < 0:
            raise ValueError(f"gpu is {self.gpu}: it must be 0 or more")
        for name, amount in {**self._asked(), **self.limits}.items():
            _checked(name, amount)

    @classmethod
    def of(cls, value: ResourceSpec | Mapping[str, Any] | None) -> ResourceSpec:
        """One of these, from its fields or from a Kubernetes ResourceRequirements."""
        if isinstance(value, ResourceSpec):
            return value
        if not value:
            return cls()
        if value.keys() & {"requests", "limits"} and not value.keys() - {"requests", "limits"}:
            return cls.read(value)
        try:
            return cls(**value)
        except TypeError as err:
            known = ", ".join(cls.__dataclass_fields__)
            raise ValueError(f"resources: {sorted(value)} are not all of {known}") from err

    @classmethod
    def read(cls, requirements: Mapping[str, Any]) -> Self:
        """From a Kubernetes ResourceRequirements."""
        asked = {**(requirements.get("limits") or {}), **(requirements.get("requests") or {})}
        limits = {
            name: amount
            for name, amount in (requirements.get("limits") or {}).items()
            if asked.get(name) != amount
        }
        gpu = next((name for name in asked if name.endswith("/gpu")), "")
        return cls(
            cpu=asked.pop("cpu", None),
            memory=asked.pop("memory", None),
            gpu=int(asked.pop(gpu, 0)),
            gpu_resource=gpu or "nvidia.com/gpu",
            ephemeral_storage=asked.pop("ephemeral-storage", None),
            extra=asked,
            limits=limits,
        )

    def requirements(self) -> Obj:
        """The Kubernetes ResourceRequirements; empty where nothing is asked for."""
        asked = {name: _text(amount) for name, amount in self._asked().items()}
        if not asked and not self.limits:
            return {}
        limits = {**asked, **{name: _text(amount) for name, amount in self.limits.items()}}
        return {"requests": asked, "limits": limits} if asked else {"limits": limits}

    def _asked(self) -> dict[str, Amount]:
        named = {
            "cpu": self.cpu,
            "memory": self.memory,
            self.gpu_resource: self.gpu or None,
            "ephemeral-storage": self.ephemeral_storage,
        }
        return {**{name: value for name, value in named.items() if value is not None}, **self.extra}


def _text(amount: Amount) -> str:
    return f"{amount:g}" if isinstance(amount, float) else str(amount)


def _checked(name: str, amount: Amount) -> None:
    try:
        if Quantity.parse(_text(amount)).nano < 0:
            raise ValueError("it must not be negative")
    except ValueError as err:
        raise ValueError(
            f"{name} = {amount!r} is no amount: write 2, 0.5, '500m', '8Gi' or the like ({err})"
        ) from err
