"""What a family decides about one object. No I/O, no clock.

A decision is carried out in a fixed order by `corral.runtime.family.reconciler`: the status is
written, bound to the version that was read; then events are recorded; then objects are deleted,
applied and created. Whoever writes the status has claimed what it says: of two operators that
decide at the same time, one creates nothing. An operator that ends between any two of these steps
leaves a status from which the next one decides the same, so a decision has to name what is missing
and not what was named before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from corral.api.fields import Model
from corral.kube.client import Propagation
from corral.kube.resources import Resource
from corral.kube.types import Obj
from corral.runtime.family.events import Event

__all__ = ["Child", "Decision", "Deletion", "Refusal"]

S = TypeVar("S", bound=Model)


@dataclass(frozen=True, slots=True)
class Child:
    """An object that should exist; `Family.build` makes its manifest."""

    resource: Resource
    name: str
    role: str = ""
    """What it is for, where a family has several kinds of children of one resource."""
    detail: Any = field(default=None, compare=False)
    """Whatever `Family.build` needs to know of it beside the observation."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """An object that should not exist; it is deleted by its UID."""

    resource: Resource
    obj: Obj
    grace_seconds: int | None = None
    propagation: Propagation | None = "Background"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the API server did not take a child, or why its name cannot be used."""

    reason: str
    """For a condition: ``NameTaken``, ``QuotaExceeded``, ``Forbidden`` or ``Refused``."""
    message: str


@dataclass(frozen=True)
class Decision(Generic[S]):
    """What to do about one object."""

    status: S | None = None
    """The whole status as it should be; only the difference is written. None: as it is."""
    events: tuple[Event, ...] = ()
    """What the status tells anew: recorded after its write, and only if something was written."""
    delete: tuple[Deletion, ...] = ()
    apply: tuple[Child, ...] = ()
    """Server-side apply; the owner reference and the field manager are the base's."""
    create: tuple[Child, ...] = ()
    """Created once. One of the same name that is somebody else's is a `Refusal`."""
    finalized: bool = False
    """Of an object that is being deleted: nothing is left, its finalizer is removed."""
    requeue_after: float | None = None
    """Seconds after which to decide again though nothing has changed."""
