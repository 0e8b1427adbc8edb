"""Our kinds, one module per API group: schema, defaults, validation and columns in one place.

`all_kinds` and `all_crds` are what an installation needs. A kind is a pydantic model (`Kind`);
objects stay plain dicts. Below this package there is only `corral.kube`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from corral.kube.types import Obj

if TYPE_CHECKING:
    from corral.api.kind import Kind

__all__ = ["all_crds", "all_kinds", "kind_of"]


def all_kinds() -> list[type[Kind]]:
    """Every kind of ours."""
    from corral.api.kafkaml import kinds
    from corral.api.mpi import kinds as mpi
    from corral.api.propeller import kinds as propeller
    from corral.api.spot import kinds as spot
    from corral.api.training import kinds as training

    return [*training.KINDS, *mpi.KINDS, *spot.KINDS, *propeller.KINDS, *kinds.KINDS]


def all_crds() -> list[Obj]:
    """The CustomResourceDefinitions of every kind, new objects each time."""
    from corral.api.stored import stored_definitions

    return stored_definitions() or [kind.crd() for kind in all_kinds()]


def kind_of(obj: Obj) -> type[Kind] | None:
    """The kind of an object, where it is one of ours."""
    for kind in all_kinds():
        if (obj.get("apiVersion"), obj.get("kind")) == (
            kind.resource().api_version,
            kind.resource().kind,
        ):
            return kind
    return None
