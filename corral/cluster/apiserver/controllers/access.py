"""How the server's own controllers reach objects: by table, as the system itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from corral.cluster.apiserver.auth.users import MASTERS, UserInfo
from corral.cluster.apiserver.crud.kind import Kind
from corral.cluster.apiserver.http.verbs import Verbs
from corral.cluster.apiserver.requests import Context
from corral.cluster.apiserver.resources import Catalog
from corral.cluster.apiserver.store import Entry, Store
from corral.kube import errors
from corral.kube.types import Obj

TOGETHER = 64
"""Deletes under way at a time: they share commits."""


class Access:
    """The verbs, without HTTP, for one named part of the system."""

    def __init__(self, verbs: Verbs, catalog: Catalog, manager: str) -> None:
        self.verbs = verbs
        self.store: Store = verbs.registry.store
        self._catalog = catalog
        self._manager = manager
        self._user = UserInfo(f"system:serviceaccount:kube-system:{manager}", groups=(MASTERS,))

    def context(self) -> Context:
        return Context(self._user, manager=self._manager)

    def kind(self, table: str) -> Kind | None:
        """The kind that is stored in a table, in its storage version where that is served."""
        found: Kind | None = None
        for info in self._catalog:
            if info.table == table and "watch" in info.verbs:
                kind = self.verbs.registry.kind_of(info.group, info.version, info.plural)
                if kind is not None and kind.storage_version == info.api_version:
                    return kind
                found = found or kind
        return found

    def completed(self, table: str, obj: Obj) -> Obj:
        """An object as it is before it is stored: as the server writes it, with its defaults."""
        kind = self.kind(table)
        assert kind is not None, table
        out = kind.normalise(obj)
        kind.default(out)
        return out

    async def create(self, table: str, namespace: str, obj: Obj) -> None:
        kind = self.kind(table)
        assert kind is not None, table
        whole = self.completed(table, obj)
        await self.verbs.writer.create(kind, namespace, whole, context=self.context())

    async def update(
        self,
        table: str,
        namespace: str,
        name: str,
        *,
        change: Callable[[Obj], Obj],
        subresource: str = "",
    ) -> None:
        kind = self.kind(table)
        if kind is None:
            return

        def changed(live: Obj | None) -> Obj:
            assert live is not None
            return change(live)

        await self.verbs.writer.update(
            kind, namespace, name, change=changed, context=self.context(), subresource=subresource
        )

    async def delete(self, table: str, namespace: str, name: str, options: Obj) -> None:
        kind = self.kind(table)
        if kind is None:
            return
        await self.verbs.deleter.delete(
            kind, namespace, name, context=self.context(), options=options
        )

    async def delete_all(self, table: str, entries: Sequence[Entry], options: Obj) -> None:
        """Delete many objects; those that are gone or just changed wait for the next look."""
        for start in range(0, len(entries), TOGETHER):
            results = await asyncio.gather(
                *(
                    self.delete(table, entry.namespace, entry.name, dict(options))
                    for entry in entries[start : start + TOGETHER]
                ),
                return_exceptions=True,
            )
            for result in results:
                if isinstance(result, BaseException) and not isinstance(
                    result, errors.NotFound | errors.Conflict
                ):
                    raise result
