"""The verbs on a real store, with a clock that stands still and nobody who objects."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from corral.cluster.apiserver.auth.users import UserInfo
from corral.cluster.apiserver.crud.core import AdmissionRequest, Registry
from corral.cluster.apiserver.crud.delete import Deleter
from corral.cluster.apiserver.crud.kind import Kind
from corral.cluster.apiserver.crud.read import Reader
from corral.cluster.apiserver.crud.write import Writer
from corral.cluster.apiserver.kinds import Kinds
from corral.cluster.apiserver.requests import Context
from corral.cluster.apiserver.resources import Catalog
from corral.cluster.apiserver.store import Store
from corral.kube.types import Obj


class Open:
    """Admission that lets everything pass."""

    async def mutate(self, request: AdmissionRequest) -> bool:
        return False

    async def validate(self, request: AdmissionRequest) -> None:
        return None


class RegistryWorld:
    """A registry and what one does with it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.kinds = Kinds(Catalog(), {})
        self.now = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
        self.registry = Registry(
            store, Open(), kind_of=self.kinds.find, rng=random.Random(1), clock=lambda: self.now
        )
        self.writer = Writer(self.registry)
        self.deleter = Deleter(self.registry)
        self.reader = Reader(self.registry)

    def kind(self, plural: str, group: str = "") -> Kind:
        found = self.kinds.find(group, "v1", plural)
        assert found is not None
        return found

    def context(self, *, dry_run: bool = False) -> Context:
        return Context(UserInfo("ann"), manager="test", dry_run=dry_run)

    async def create(self, plural: str, obj: Obj) -> Obj:
        kind = self.kind(plural)
        decoded = kind.normalise(obj)
        kind.default(decoded)
        return await self.writer.create(kind, "ns", decoded, context=self.context())

    async def config_map(self, name: str, **meta: object) -> Obj:
        return await self.create(
            "configmaps",
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **meta}},
        )

    async def delete(
        self, plural: str, name: str, *, dry_run: bool = False, **options: object
    ) -> tuple[Obj, bool]:
        return await self.deleter.delete(
            self.kind(plural), "ns", name, context=self.context(dry_run=dry_run), options=options
        )

    def stored(self, plural: str, name: str) -> Obj | None:
        entry = self.store.get(f"/{plural}", f"ns/{name}")
        return entry.decode() if entry else None

    def pass_time(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[RegistryWorld]:
    store = Store(tmp_path)
    store.open()
    yield RegistryWorld(store)
    await store.close()
