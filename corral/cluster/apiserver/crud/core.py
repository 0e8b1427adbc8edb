"""What the verbs share: the store, the kinds, admission, the clock."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

import orjson

from corral.cluster.apiserver import errors as say
from corral.cluster.apiserver.crud.kind import Kind
from corral.cluster.apiserver.heavy import HeavyWork
from corral.cluster.apiserver.requests import Context
from corral.cluster.apiserver.store import Entry, Store
from corral.kube import errors
from corral.kube.types import Obj

NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
MAX_GENERATED_BASE = 58


@dataclass(slots=True)
class AdmissionRequest:
    """What admission sees of a write; mutating plugins replace or change ``object``."""

    operation: str
    kind: Kind
    namespace: str
    name: str
    object: Obj | None
    old: Obj | None
    context: Context
    subresource: str = ""
    options: Obj = field(default_factory=dict)


class Admission(Protocol):
    """The admission chain."""

    def looks(self, request: AdmissionRequest) -> bool:
        """Whether admission may look at the object of this request."""
        ...

    async def mutate(self, request: AdmissionRequest) -> bool:
        """Change or replace the object, leaving it normal and defaulted; True when it did."""
        ...

    async def validate(self, request: AdmissionRequest) -> None:
        """Raise to refuse. Runs last before the write."""
        ...


class Registry:
    """The state that the verbs work on."""

    def __init__(
        self,
        store: Store,
        admission: Admission,
        *,
        kind_of: Callable[[str, str, str], Kind | None],
        rng: random.Random | None = None,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        self.store = store
        self.admission = admission
        self.kind_of = kind_of
        """(group, version, plural) → Kind."""
        self._rng = rng or random.SystemRandom()
        self._clock = clock or (lambda: datetime.now(UTC))
        self.heavy = HeavyWork()
        self.hooks: dict[str, WriteHook] = {}
        """By table: extra work that belongs to a write (allocating addresses, …)."""

    def now(self) -> datetime:
        return self._clock()

    def timestamp(self) -> str:
        return self._clock().strftime("%Y-%m-%dT%H:%M:%SZ")

    def new_uid(self) -> str:
        return str(uuid.uuid4())

    def generate_name(self, base: str) -> str:
        suffix = "".join(self._rng.choices(NAME_LETTERS, k=5))
        return base[:MAX_GENERATED_BASE] + suffix

    def key(self, kind: Kind, namespace: str, name: str) -> str:
        return f"{namespace}/{name}" if kind.info.namespaced else name

    def head(self, kind: Kind, namespace: str, name: str) -> Entry:
        """The newest version of an object, to build a write on. Raises NotFound."""
        entry = self.store.head(kind.info.table, self.key(kind, namespace, name))
        if entry is None:
            raise self.not_found(kind, name)
        return entry

    def not_found(self, kind: Kind, name: str) -> errors.NotFound:
        return say.not_found(kind.info.group, kind.info.plural, name)

    def encode_out(self, kind: Kind, entry: Entry) -> bytes:
        """An entry's bytes in the version of ``kind``."""
        if kind.plain and not kind.info.custom:
            return entry.value
        return orjson.dumps(kind.from_storage(entry.decode()))


class WriteHook(Protocol):
    """Work that belongs to the write of one kind: allocate, refuse, release."""

    def before_create(self, obj: Obj, context: Context) -> None: ...

    def before_update(self, new: Obj, old: Obj, context: Context) -> None: ...
