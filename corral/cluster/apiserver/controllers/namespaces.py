"""Namespaces: what every one holds from the start, and emptying those that are deleted."""

from __future__ import annotations

from corral.cluster.apiserver.controllers.access import Access
from corral.cluster.apiserver.controllers.queue import KeyedQueue
from corral.cluster.apiserver.store import ADDED, DELETED, Event
from corral.kube import errors
from corral.kube.types import Obj

TABLE = "/namespaces"
ACCOUNTS = "/serviceaccounts"
CONFIG_MAPS = "/configmaps"
PODS = "/pods"
ROOT_CA = "kube-root-ca.crt"
RECHECK = 0.2
"""Seconds between looks at a namespace whose content does not go away yet."""


class Namespaces:
    """Keeps the default service account and the root CA in, and empties what goes."""

    def __init__(self, access: Access, ca_pem: str) -> None:
        self._access = access
        self._store = access.store
        self._ca_pem = ca_pem
        self._queue: KeyedQueue[str] = KeyedQueue("namespaces", self._sync)

    def start(self) -> None:
        for entry in self._store.scan(TABLE):
            self._queue.add(entry.name)
        self._store.listen(self._on_event)
        self._queue.start()

    async def stop(self) -> None:
        await self._queue.stop()

    def _on_event(self, event: Event) -> None:
        entry = event.entry
        if entry.resource == TABLE:
            if event.type != DELETED:
                self._queue.add(entry.name)
        elif entry.resource == CONFIG_MAPS and entry.name == ROOT_CA:
            if event.type != ADDED:
                self._queue.add(entry.namespace)
        elif event.type == DELETED and entry.namespace:
            owner = self._store.get(TABLE, entry.namespace)
            if entry.resource == ACCOUNTS or (owner is not None and owner.deleting):
                self._queue.add(entry.namespace)

    async def _sync(self, name: str) -> None:
        entry = self._store.get(TABLE, name)
        if entry is None:
            return
        if entry.deleting:
            await self._empty(name)
            return
        if self._store.head(ACCOUNTS, f"{name}/default") is None:
            await self._ensure(ACCOUNTS, name, _account())
        bundle = self._store.head(CONFIG_MAPS, f"{name}/{ROOT_CA}")
        if bundle is None:
            await self._ensure(CONFIG_MAPS, name, _root_ca(self._ca_pem))
        elif bundle.decode().get("data") != {"ca.crt": self._ca_pem}:
            await self._restore(name)

    async def _ensure(self, table: str, namespace: str, obj: Obj) -> None:
        try:
            await self._access.create(table, namespace, obj)
        except (errors.AlreadyExists, errors.Forbidden, errors.NotFound):
            return  # somebody was first, or the namespace goes away

    async def _restore(self, namespace: str) -> None:
        """Somebody changed the root CA."""

        def change(live: Obj) -> Obj:
            live["data"] = {"ca.crt": self._ca_pem}
            return live

        try:
            await self._access.update(CONFIG_MAPS, namespace, ROOT_CA, change=change)
        except errors.NotFound:
            self._queue.add(namespace)

    async def _empty(self, name: str) -> None:
        """Delete all content, pods first: what they use stays until they are gone."""
        remaining: dict[str, int] = {}
        held: dict[str, int] = {}
        if await self._clear(PODS, name, {}, {}):
            await self._report(name, {}, {})
            self._queue.add_after(name, RECHECK)
            return
        for table in self._store.resources():
            await self._clear(table, name, remaining, held)
        await self._report(name, remaining, held)
        if remaining:
            self._queue.add_after(name, RECHECK)
        else:
            await self._finalize(name)

    async def _clear(
        self, table: str, name: str, remaining: dict[str, int], held: dict[str, int]
    ) -> int:
        """Delete what a table has of the namespace; counts what does not go away yet."""
        kind = self._access.kind(table)
        if kind is None or not kind.info.namespaced:
            return 0
        staying = [e for e in self._store.scan(table, f"{name}/") if not e.deleting]
        await self._access.delete_all(table, staying, {"propagationPolicy": "Background"})
        left = list(self._store.scan(table, f"{name}/"))
        if left:
            remaining[f"{kind.info.plural}.{kind.info.group}"] = len(left)
        for entry in left:
            for finalizer in entry.decode()["metadata"].get("finalizers") or ():
                held[finalizer] = held.get(finalizer, 0) + 1
        return len(left)

    async def _finalize(self, name: str) -> None:
        def change(live: Obj) -> Obj:
            spec = live.setdefault("spec", {})
            left = [f for f in spec.get("finalizers") or () if f != "kubernetes"]
            if left:
                spec["finalizers"] = left
            else:
                spec.pop("finalizers", None)
            return live

        try:
            await self._access.update(TABLE, "", name, change=change, subresource="finalize")
        except errors.NotFound:
            return

    async def _report(self, name: str, remaining: dict[str, int], held: dict[str, int]) -> None:
        """The conditions that say why a namespace is still there."""
        now = self._access.verbs.registry.timestamp()

        def change(live: Obj) -> Obj:
            status = live.setdefault("status", {})
            before = {c["type"]: c for c in status.get("conditions") or ()}
            wanted = _conditions(remaining, held)
            for condition in wanted:
                old = before.get(condition["type"])
                same = old is not None and old["status"] == condition["status"]
                condition["lastTransitionTime"] = old["lastTransitionTime"] if same and old else now
            status["conditions"] = wanted
            return live

        try:
            await self._access.update(TABLE, "", name, change=change, subresource="status")
        except errors.NotFound:
            return


def _account() -> Obj:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}


def _root_ca(pem: str) -> Obj:
    about = (
        "Contains a CA bundle that can be used to verify the kube-apiserver when using internal "
        "endpoints such as the internal service IP or kubernetes.default.svc. No other usage is "
        "guaranteed across distributions of Kubernetes clusters."
    )
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": ROOT_CA, "annotations": {"kubernetes.io/description": about}},
        "data": {"ca.crt": pem},
    }


def _conditions(remaining: dict[str, int], held: dict[str, int]) -> list[Obj]:
    content = ", ".join(
        f"{name} has {count} resource instances" for name, count in sorted(remaining.items())
    )
    finalizers = ", ".join(
        f"{name} in {count} resource instances" for name, count in sorted(held.items())
    )
    return [
        _condition("NamespaceDeletionDiscoveryFailure", False, "ResourcesDiscovered",
                   "All resources successfully discovered"),
        _condition("NamespaceDeletionGroupVersionParsingFailure", False, "ParsedGroupVersions",
                   "All legacy kube types successfully parsed"),
        _condition("NamespaceDeletionContentFailure", False, "ContentDeleted",
                   "All content successfully deleted, may be waiting on finalization"),
        _condition("NamespaceContentRemaining", bool(remaining),
                   "SomeResourcesRemain" if remaining else "ContentRemoved",
                   f"Some resources are remaining: {content}" if remaining
                   else "All content successfully removed"),
        _condition("NamespaceFinalizersRemaining", bool(held),
                   "SomeFinalizersRemain" if held else "ContentHasNoFinalizers",
                   f"Some content in the namespace has finalizers remaining: {finalizers}" if held
                   else "All content-preserving finalizers finished"),
    ]  # fmt: skip


def _condition(type_: str, status: bool, reason: str, message: str) -> Obj:
    return {
        "type": type_,
        "status": "True" if status else "False",
        "reason": reason,
        "message": message,
    }
