"""A small world for admission plugins: a real store, the real kinds, the real write path."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from corral.cluster.apiserver.admission.chain import Chain, Plugin
from corral.cluster.apiserver.auth.authorization import Authorizer
from corral.cluster.apiserver.auth.users import UserInfo
from corral.cluster.apiserver.crud.core import AdmissionRequest, Registry
from corral.cluster.apiserver.crud.delete import Deleter
from corral.cluster.apiserver.crud.kind import Kind
from corral.cluster.apiserver.crud.write import Writer
from corral.cluster.apiserver.kinds import BuiltinKind
from corral.cluster.apiserver.requests import Context
from corral.cluster.apiserver.resources import Catalog
from corral.cluster.apiserver.store import Store
from corral.kube.types import Obj

NS = "team"
ADMIN = UserInfo("admin", uid="1", groups=("system:masters", "system:authenticated"))


class World:
    """Objects go in by kind; ``plugins`` decide what happens to them."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.catalog = Catalog()
        self.authorizer = Authorizer()
        self._kinds: dict[tuple[str, str, str], Kind] = {}
        self.user = ADMIN
        self.warnings: list[str] = []
        self.plugins: list[Plugin] = []
        self.namespace = NS

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        key = (group, version, plural)
        if key not in self._kinds:
            info = self.catalog.find(*key)
            if info is None:
                return None
            self._kinds[key] = BuiltinKind(info)
        return self._kinds[key]

    def kind(self, obj: Obj) -> Kind:
        group, _, version = obj["apiVersion"].rpartition("/")
        info = self.catalog.by_kind(group, version, obj["kind"])
        assert info is not None, obj["kind"]
        kind = self.find(group, version, info.plural)
        assert kind is not None
        return kind

    def _prepared(self, obj: Obj) -> tuple[Kind, str, Obj]:
        kind = self.kind(obj)
        decoded, _ = kind.decode(orjson.dumps(obj), strict=False)
        kind.default(decoded)
        return kind, self.namespace if kind.info.namespaced else "", decoded

    def _registry(self) -> Registry:
        return Registry(self.store, Chain(self.plugins), kind_of=self.find)

    def context(self, *, dry_run: bool = False) -> Context:
        context = Context(self.user, manager="test", dry_run=dry_run)
        self.warnings = context.warnings
        return context

    async def create(self, obj: Obj, *, dry_run: bool = False) -> Obj:
        """Through decoding, defaulting, admission, validation, storage."""
        kind, namespace, decoded = self._prepared(obj)
        return await Writer(self._registry()).create(
            kind, namespace, decoded, context=self.context(dry_run=dry_run)
        )

    async def update(self, obj: Obj, *, subresource: str = "", dry_run: bool = False) -> Obj:
        kind, namespace, decoded = self._prepared(obj)
        done, _ = await Writer(self._registry()).update(
            kind,
            namespace,
            obj["metadata"]["name"],
            change=lambda live: decoded,
            context=self.context(dry_run=dry_run),
            subresource=subresource,
        )
        return done

    async def delete(self, obj: Obj) -> Obj:
        kind = self.kind(obj)
        namespace = self.namespace if kind.info.namespaced else ""
        options = {"gracePeriodSeconds": 0}
        done, _ = await Deleter(self._registry()).delete(
            kind, namespace, obj["metadata"]["name"], context=self.context(), options=options
        )
        return done

    async def put(self, obj: Obj) -> None:
        """Store as it is, past every check; replaces what is there."""
        kind = self.kind(obj)
        meta = obj["metadata"]
        if kind.info.namespaced:
            meta.setdefault("namespace", self.namespace)
        key = f"{meta['namespace']}/{meta['name']}" if kind.info.namespaced else meta["name"]
        head = self.store.head(kind.info.table, key)
        await self.store.write(kind.info.table, key, obj, expect=head)

    def stored(self, kind: str, name: str, *, api_version: str = "v1") -> Obj:
        info = self.kind({"apiVersion": api_version, "kind": kind}).info
        key = f"{self.namespace}/{name}" if info.namespaced else name
        entry = self.store.head(info.table, key)
        assert entry is not None
        return entry.decode()

    def request(
        self, operation: str, obj: Obj | None, old: Obj | None = None, *, subresource: str = ""
    ) -> AdmissionRequest:
        """A request by hand, for plugins that need no write."""
        some = obj or old or {}
        kind = self.kind(some)
        namespace = self.namespace if kind.info.namespaced else ""
        name = some["metadata"].get("name", "")
        return AdmissionRequest(
            operation, kind, namespace, name, obj, old, self.context(), subresource
        )


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    store = Store(tmp_path / "db")
    store.open()
    made = World(store)
    await made.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}})
    yield made
    await store.close()


@pytest.fixture
def pod() -> Callable[..., Obj]:
    """``pod(name, spec={…}, **container)``; keyword ``meta`` goes into the metadata."""

    def make(name: str, spec: Obj | None = None, **container: Any) -> Obj:
        meta = container.pop("meta", {})
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, **meta},
            "spec": {"containers": [{"name": "c", "image": "i", **container}], **(spec or {})},
        }

    return make
