"""What one kind brings to the generic verbs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from corral.cluster.apiserver.apply import TypeSchema, track_update
from corral.cluster.apiserver.apply import apply as server_side_apply
from corral.cluster.apiserver.auth.users import UserInfo
from corral.cluster.apiserver.errors import FieldError
from corral.cluster.apiserver.resources import ResourceInfo
from corral.cluster.apiserver.store import Entry, Event
from corral.kube.types import Obj


class Kind(ABC):
    """One kind in one served version. Every method may change the object it is given."""

    info: ResourceInfo
    storage_version: str
    """The apiVersion the objects are stored in."""
    allow_create_on_update: bool = False
    allow_unconditional_update: bool = True
    graceful: bool = False
    """Deleting leaves the object for a grace period (Pods)."""
    returns_deleted: bool = False
    """A finished delete answers with the object and not with a Status."""
    deprecation: str = ""
    """Warning that goes with every answer about the kind."""
    field_names: frozenset[str] = frozenset({"metadata.name", "metadata.namespace"})

    def __init__(self, info: ResourceInfo) -> None:
        self.info = info
        self.storage_version = info.api_version

    @property
    def recipe(self) -> tuple[Any, ...] | None:
        """A function and its arguments that make this kind in another process; None: it cannot."""
        return None

    def costs(self, size: int) -> int:
        """What a write of so many bytes may cost, in bytes of an ordinary object."""
        return size

    # -- form ------------------------------------------------------------------------------

    @abstractmethod
    def decode(self, body: bytes | Obj, *, strict: bool) -> tuple[Obj, list[str]]:
        """The normalised form of JSON bytes or a parsed object, and what strict decoding says."""

    @abstractmethod
    def normalise(self, obj: Obj) -> Obj:
        """The same without complaints; used after a patch and after a webhook."""

    @abstractmethod
    def default(self, obj: Obj) -> None: ...

    def default_applied(self, obj: Obj) -> None:
        """The defaults of an object that an apply made."""
        self.default(obj)

    def to_storage(self, obj: Obj) -> Obj:
        """Convert from this version to the stored one."""
        obj["apiVersion"] = self.storage_version
        return obj

    def from_storage(self, obj: Obj) -> Obj:
        """Convert a stored object to this version."""
        obj["apiVersion"] = self.info.api_version
        return obj

    async def prefetch(self, entries: Sequence[Entry]) -> None:  # noqa: B027 -- few kinds need it
        """Make ready what ``from_storage`` of these entries will need."""

    async def prefetch_events(self, events: Sequence[Event]) -> None:  # noqa: B027 -- likewise
        """The same for the entries of events."""

    async def served(self, obj: Obj) -> Obj:
        """One stored object in this version."""
        return self.from_storage(obj)

    async def stored(self, obj: Obj) -> Obj:
        """A finished object as it is stored; shares its metadata with ``obj``."""
        return obj

    def is_current(self, entry: Entry) -> bool:
        """The entry is stored in the version that is written today."""
        return True

    @property
    def plain(self) -> bool:
        """Stored bytes can be sent as they are."""
        return self.storage_version == self.info.api_version

    # -- writing ---------------------------------------------------------------------------

    def record_requester(self, obj: Obj, user: UserInfo) -> None:  # noqa: B027 -- few kinds do
        """Note on a new object who asked for it."""

    def prepare_create(self, obj: Obj) -> list[str]:
        """Returns warnings."""
        return []

    @abstractmethod
    def prepare_update(self, new: Obj, old: Obj, subresource: str) -> None: ...

    @abstractmethod
    def validate_create(self, obj: Obj) -> list[FieldError]: ...

    @abstractmethod
    def validate_update(self, new: Obj, old: Obj, subresource: str) -> list[FieldError]: ...

    def warnings(self, new: Obj, old: Obj | None) -> list[str]:
        return []

    @abstractmethod
    def type_schema(self) -> TypeSchema:
        """The structure of the kind, for field ownership."""

    @abstractmethod
    def resets(self, subresource: str) -> Sequence[tuple[str, ...]]:
        """The paths that a write through a subresource never owns."""

    def track(
        self, live: Obj | None, new: Obj, *, manager: str, now: str, subresource: str
    ) -> None:
        """Bring ``metadata.managedFields`` of ``new`` up to date."""
        track_update(
            self.type_schema(),
            live=live,
            new=new,
            manager=manager,
            api_version=self.info.api_version,
            now=now,
            subresource=subresource,
            reset_fields=self.resets(subresource),
        )

    def apply(
        self,
        live: Obj | None,
        config: Obj,
        *,
        manager: str,
        now: str,
        force: bool,
        subresource: str,
    ) -> Obj:
        """Server-side apply."""
        return server_side_apply(
            self.type_schema(),
            live=live,
            config=config,
            manager=manager,
            api_version=self.info.api_version,
            now=now,
            force=force,
            subresource=subresource,
            reset_fields=self.resets(subresource),
            kind=self.info.kind,
        )

    @abstractmethod
    def strategic(self, doc: Obj, body: bytes) -> Obj:
        """Strategic merge patch; raises UnsupportedMediaType where the kind has none."""

    # -- deleting --------------------------------------------------------------------------

    def default_propagation(self) -> str:
        return "Background"

    def delete_warnings(self, options: Obj) -> list[str]:
        """What to say about a delete with these options."""
        return []

    def start_delete(self, obj: Obj, now: str) -> None:  # noqa: B027 -- most kinds mark nothing
        """Mark what else must show that a delete has begun (a phase, a condition)."""

    def held(self, obj: Obj) -> bool:
        """Something beside ``metadata.finalizers`` keeps a deleted object for now."""
        return False

    def grace_period(self, obj: Obj, requested: int | None) -> int:
        return 0

    # -- selecting and scaling --------------------------------------------------------------

    def unknown_field(self, name: str) -> str:
        """The refusal of a field selector by a field that cannot be selected by."""
        return f"field label not supported: {name}"

    def fields(self, obj: Obj) -> dict[str, str]:
        meta = obj.get("metadata") or {}
        return {
            "metadata.name": meta.get("name", ""),
            "metadata.namespace": meta.get("namespace", ""),
        }

    @property
    def replicas_path(self) -> tuple[str, ...]:
        """Where the wanted replicas stand, for kinds with a scale subresource."""
        return ("spec", "replicas")

    def get_scale(self, obj: Obj, *, absent: int | None = None) -> Obj:
        """The Scale of an object; ``absent`` stands for replicas that it does not say."""
        raise AssertionError("only called where the catalog lists a scale subresource")

    def set_scale(self, obj: Obj, replicas: int) -> None:
        raise AssertionError("only called where the catalog lists a scale subresource")
