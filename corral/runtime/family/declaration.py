"""`Family`: what a family of objects declares, and the few functions that it is made of.

A subclass names its kind and what belongs to it (`Owned`) or concerns it (`Watched`); informers,
indexes, watches and the consistency of caches follow from that. `Family.observe` reads,
`Family.decide` decides without I/O, `Family.build` makes manifests without I/O. Everything else is
done by `corral.runtime.family.reconciler`. docs/new-family.md is a recipe.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar

from corral.api.fields import Model
from corral.api.kind import Kind
from corral.kube.resources import Resource
from corral.kube.types import Obj
from corral.runtime.family.decision import Child, Decision, Refusal
from corral.runtime.informers.handlers import Mapper, Predicate, ignore_creates, spec_changed

if TYPE_CHECKING:
    from corral.runtime.family.caches import Caches
    from corral.runtime.informers.informer import Change

__all__ = ["Family", "FamilySettings", "Owned", "Watched"]

O = TypeVar("O")  # noqa: E741 - an observation
S = TypeVar("S", bound=Model)


class FamilySettings(Protocol):
    """What the base needs of a family's settings; durations in seconds."""

    @property
    def workers(self) -> int:
        """Objects that are worked on at the same time."""

    @property
    def timeout(self) -> float | None:
        """For one look at one object; None: no limit."""

    @property
    def field_manager(self) -> str:
        """Under which objects are written."""


@dataclass(frozen=True, slots=True)
class Owned:
    """Objects that belong to those of the family."""

    resource: Resource
    label: str = ""
    """A label selector: only such objects are kept in memory."""
    keys: Callable[[Obj], Iterable[str]] | None = None
    """The keys of the objects that one belongs to, by its labels; None: its controller's."""
    when: Predicate = ignore_creates
    """Which changes have the owner looked at."""
    after: Callable[[Change], float] | None = None
    """Seconds for which other changes may join one."""


@dataclass(frozen=True, slots=True)
class Watched:
    """Objects of others that a family reads and is woken by."""

    resource: Resource
    wakes: Callable[[Caches], Mapper] | None = None
    """Makes what maps a change to keys of the family; None: it is only read."""
    when: Predicate | None = None
    after: Callable[[Change], float] | None = None


class Family(ABC, Generic[O, S]):
    """A kind, and how its objects are looked after.

    ``O`` is the type of an observation of one object, ``S`` that of its status.

    An instance serves one operator process and may keep what it knows beside the API in memory
    (see `forget`), but no decision may depend on that alone: it is lost with the process.
    """

    kind: ClassVar[type[Kind]]
    component: ClassVar[str]
    """The source of its Events."""
    owns: ClassVar[tuple[Owned, ...]] = ()
    watches: ClassVar[tuple[Watched, ...]] = ()
    finalizer: ClassVar[str] = ""
    """Kept on objects for which `needs_finalizer` holds until a decision is ``finalized``."""
    settings: FamilySettings

    @property
    def name(self) -> str:
        """Of the controller, in logs and metrics."""
        return self.kind.names.kind.lower()

    def concerns(self, change: Change) -> bool:
        """Whether a change of an object itself has it looked at; by default not of its status."""
        return spec_changed(change)

    @abstractmethod
    async def observe(self, obj: Obj, caches: Caches) -> O:
        """Everything that a decision depends on, the time included.

        It reads caches, and may ask others (a log, a registry), but changes nothing. The object may
        have a ``deletionTimestamp`` only if the family has a finalizer.

        Raises:
            pydantic.ValidationError: the object is older than its schema: it is left alone.
        """

    @abstractmethod
    def decide(self, observed: O) -> Decision[S]:
        """What to do: the same for the same observation, nothing when all is as it should be."""

    def build(self, child: Child, observed: O) -> Obj:
        """The manifest of a child, without an owner reference."""
        raise NotImplementedError(f"{type(self).__name__} declares no children")

    def refused(self, decision: Decision[S], refusal: Refusal, observed: O) -> Decision[S]:
        """The decision as it is while a child is refused: its status and events should say so."""
        return decision

    def needs_finalizer(self, obj: Obj) -> bool:
        return bool(self.finalizer)

    async def finalize(self, observed: O) -> Decision[S]:
        """What to do about an object with the finalizer that is being deleted.

        Unlike `decide` it may do I/O outside of the cluster that does no harm when done twice.
        """
        return Decision(finalized=True)

    def written(self, obj: Obj, status: Obj) -> None:
        """A new status was written of an object, which is as it was before; for figures."""

    def forget(self, key: str) -> None:
        """The object is gone."""
