"""Custom resource definitions: naming, establishing, serving, and cleaning up after them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from corral.cluster.apiserver.admission.webhooks.client import WebhookClient
from corral.cluster.apiserver.controllers.access import Access
from corral.cluster.apiserver.controllers.queue import KeyedQueue
from corral.cluster.apiserver.conversion import ConvertedKind, Converter
from corral.cluster.apiserver.crd.definition.conditions import crd_conditions
from corral.cluster.apiserver.crd.structural import compile_version
from corral.cluster.apiserver.customs import CustomKind
from corral.cluster.apiserver.kinds import CLEANUP, Kinds
from corral.cluster.apiserver.resources import ResourceInfo, Subresource, version_rank
from corral.cluster.apiserver.store import DELETED, Event
from corral.kube import errors
from corral.kube.types import Obj

TABLE = "apiextensions.k8s.io/customresourcedefinitions"
VERBS = ("get", "patch", "update")
RECHECK = 0.1


class Definitions:
    """Follows the definitions; serving follows them at once, their status a moment later."""

    def __init__(self, access: Access, kinds: Kinds, client: WebhookClient) -> None:
        self._client = client
        self._access = access
        self._store = access.store
        self._kinds = kinds
        self._served: dict[str, Obj] = {}  # name → spec and accepted names that are served
        self._queue: KeyedQueue[str] = KeyedQueue("definitions", self._sync)

    def load(self) -> None:
        """Serve what is established already; before the first request."""
        for entry in self._store.scan(TABLE):
            self._serve(entry.decode())

    async def install(self, definitions: Iterable[Obj]) -> None:
        """Have definitions as they are here, and serve their kinds; before `start`.

        Raises:
            ApiError: one is wrong, or cannot be changed so.
        """
        await asyncio.gather(*map(self._install, definitions))
        self.load()

    async def _install(self, wanted: Obj) -> None:
        name = wanted["metadata"]["name"]
        entry = self._store.get(TABLE, name)
        if entry is None:
            await self._access.create(TABLE, "", wanted)
        else:
            spec = self._access.completed(TABLE, wanted)["spec"]
            if entry.decode()["spec"] != spec:

                def change(live: Obj) -> Obj:
                    live["spec"] = spec
                    return live

                await self._access.update(TABLE, "", name, change=change)
        await self._sync(name)

    def start(self) -> None:
        for entry in self._store.scan(TABLE):
            self._queue.add(entry.name)
        self._store.listen(self._on_event)
        self._queue.start()

    async def stop(self) -> None:
        await self._queue.stop()

    def _on_event(self, event: Event) -> None:
        entry = event.entry
        if entry.resource != TABLE:
            owner = self._cleaning.get(entry.resource)
            if owner and event.type == DELETED:
                self._queue.add(owner)
            return
        if event.type == DELETED:
            self._unserve(entry.name)
            for other in self._store.scan(TABLE):
                self._queue.add(other.name)  # a name may have become free
            return
        self._serve(entry.decode())
        self._queue.add(entry.name)

    @property
    def _cleaning(self) -> dict[str, str]:
        return {_table(crd): name for name, crd in self._served.items() if crd["deleting"]}

    # -- serving ---------------------------------------------------------------------------

    def _serve(self, crd: Obj) -> None:
        name = crd["metadata"]["name"]
        spec, status = crd["spec"], crd.get("status") or {}
        if not _is_true(status, "Established"):
            return
        deleting = "deletionTimestamp" in crd["metadata"]
        state = {"spec": spec, "names": status.get("acceptedNames") or {}, "deleting": deleting}
        if self._served.get(name) == state:
            return
        before = self._served.get(name)
        self._served[name] = state
        self._kinds.remove(spec["group"], spec["names"]["plural"])
        storage = next(v["name"] for v in spec["versions"] if v.get("storage"))
        for version in spec["versions"]:
            if version.get("served"):
                info = resource_info(crd, version)
                kind = self._kind(crd, info, f"{spec['group']}/{storage}")
                kind.leaving = deleting
                kind.deprecation = deprecation_warning(spec, version)
                self._kinds.add(kind)
        if before is not None and (before["spec"], before["names"]) != (spec, state["names"]):
            self._store.end_watches(_table(state))

    def _kind(self, crd: Obj, info: ResourceInfo, storage: str) -> CustomKind:
        compiled = compile_version(crd, info.version)
        if (crd["spec"].get("conversion") or {}).get("strategy") != "Webhook":
            return CustomKind(info, compiled, storage)
        return ConvertedKind(info, compiled, storage, Converter(self._client, crd))

    def _unserve(self, name: str) -> None:
        state = self._served.pop(name, None)
        if state is None:
            return
        spec = state["spec"]
        self._kinds.remove(spec["group"], spec["names"]["plural"])
        self._store.end_watches(_table(state))

    # -- status ----------------------------------------------------------------------------

    async def _sync(self, name: str) -> None:
        entry = self._store.get(TABLE, name)
        if entry is None:
            return
        crd = entry.decode()
        if "deletionTimestamp" in crd["metadata"]:
            await self._clean_up(crd)
            return
        others = [e.decode() for e in self._store.scan(TABLE) if e.name != name]
        wanted = crd_conditions(crd, others)
        if wanted != crd.get("status"):

            def change(live: Obj) -> Obj:
                same = live["metadata"]["resourceVersion"] == crd["metadata"]["resourceVersion"]
                live["status"] = wanted if same else crd_conditions(live, others)
                return live

            try:
                await self._access.update(TABLE, "", name, change=change, subresource="status")
            except errors.NotFound:
                return

    async def _clean_up(self, crd: Obj) -> None:
        """Delete every object of the definition, then let it go."""
        meta = crd["metadata"]
        if CLEANUP not in (meta.get("finalizers") or ()):
            return
        table = f"{crd['spec']['group']}/{crd['spec']['names']['plural']}"
        staying = [entry for entry in self._store.scan(table) if not entry.deleting]
        await self._access.delete_all(table, staying, {})
        if self._store.count(table):
            self._queue.add_after(meta["name"], RECHECK)
            return

        def change(live: Obj) -> Obj:
            kept = [f for f in live["metadata"].get("finalizers") or () if f != CLEANUP]
            live["metadata"]["finalizers"] = kept
            return live

        try:
            await self._access.update(TABLE, "", meta["name"], change=change)
        except errors.NotFound:
            return


def resource_info(crd: Obj, version: Obj) -> ResourceInfo:
    """The catalog entry of one version of a definition."""
    spec = crd["spec"]
    names = {**spec["names"], **((crd.get("status") or {}).get("acceptedNames") or {})}
    group, kind = spec["group"], names["kind"]
    subresources: dict[str, Subresource] = {}
    declared = version.get("subresources") or {}
    if "status" in declared:
        subresources["status"] = Subresource("status", group, version["name"], kind, VERBS)
    if "scale" in declared:
        subresources["scale"] = Subresource("scale", "autoscaling", "v1", "Scale", VERBS)
    return ResourceInfo(
        group=group,
        version=version["name"],
        plural=names["plural"],
        singular=names.get("singular") or kind.lower(),
        kind=kind,
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=subresources,
        list_kind=names.get("listKind") or f"{kind}List",
        custom=True,
    )


def deprecation_warning(spec: Obj, version: Obj) -> str:
    """What clients of a deprecated version are told; empty for any other."""
    if not version.get("deprecated"):
        return ""
    if version.get("deprecationWarning"):
        return str(version["deprecationWarning"])
    group, kind, name = spec["group"], spec["names"]["kind"], version["name"]
    newer = [
        v["name"]
        for v in spec["versions"]
        if v.get("served")
        and not v.get("deprecated")
        and version_rank(v["name"]) < version_rank(name)
    ]
    better = f"; use {group}/{min(newer, key=version_rank)} {kind}" if newer else ""
    return f"{group}/{name} {kind} is deprecated{better}"


def _is_true(status: Obj, condition: str) -> bool:
    return any(
        c["type"] == condition and c["status"] == "True" for c in status.get("conditions") or ()
    )


def _table(state: Obj) -> str:
    return f"{state['spec']['group']}/{state['spec']['names']['plural']}"
