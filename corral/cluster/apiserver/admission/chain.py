"""The chain of admission plugins."""

from __future__ import annotations

from collections.abc import Sequence

from corral.cluster.apiserver.crud.core import AdmissionRequest


class Plugin:
    """One admission plugin. ``tables`` names the tables it cares about; None = all of them."""

    tables: frozenset[str] | None = None

    def looks(self, request: AdmissionRequest) -> bool:
        """Whether it may look at the object of a request (of a table that it cares for)."""
        return True

    async def mutate(self, request: AdmissionRequest) -> bool:
        """Change ``request.object``, leaving it normal and defaulted; True when it did."""
        return False

    async def validate(self, request: AdmissionRequest) -> None:
        """Raise to refuse."""


class Chain:
    """Runs the plugins in order. Plugins that do not care for a table cost nothing."""

    def __init__(self, plugins: Sequence[Plugin]) -> None:
        self._plugins = plugins
        self._mutating: dict[str, list[Plugin]] = {}
        self._validating: dict[str, list[Plugin]] = {}

    def _of(self, cache: dict[str, list[Plugin]], table: str, method: str) -> list[Plugin]:
        found = cache.get(table)
        if found is None:
            base = getattr(Plugin, method)
            found = cache[table] = [
                p
                for p in self._plugins
                if (p.tables is None or table in p.tables) and getattr(type(p), method) is not base
            ]
        return found

    def looks(self, request: AdmissionRequest) -> bool:
        """Whether any plugin may look at the object of a request."""
        table = request.kind.info.table
        plugins = {
            *self._of(self._mutating, table, "mutate"),
            *self._of(self._validating, table, "validate"),
        }
        return any(plugin.looks(request) for plugin in plugins)

    async def mutate(self, request: AdmissionRequest) -> bool:
        changed = False
        for plugin in self._of(self._mutating, request.kind.info.table, "mutate"):
            changed |= await plugin.mutate(request)
        return changed

    async def validate(self, request: AdmissionRequest) -> None:
        for plugin in self._of(self._validating, request.kind.info.table, "validate"):
            await plugin.validate(request)
