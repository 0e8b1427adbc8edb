"""The garbage collector: dependents follow their owners.

It keeps who owns whom in memory, from every durable event. An object goes when none of its owners
exists any more; ``Foreground`` keeps the owner until its blocking dependents are gone; ``Orphan``
takes the owner's references off its dependents first.
"""

from __future__ import annotations

from corral.cluster.apiserver.controllers.access import Access
from corral.cluster.apiserver.controllers.queue import KeyedQueue
from corral.cluster.apiserver.crud.delete import FOREGROUND, ORPHAN
from corral.cluster.apiserver.store import DELETED, Entry, Event
from corral.kube import errors
from corral.kube.types import Obj

Where = tuple[str, str]
"""A table and a key in it."""


class GarbageCollector:
    """Follows every event of the store."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._store = access.store
        self._by_uid: dict[str, Where] = {}
        self._dependents: dict[str, set[Where]] = {}
        self._owners: dict[Where, tuple[str, ...]] = {}
        self._items: KeyedQueue[Where] = KeyedQueue("gc", self._item)
        self._finishing: KeyedQueue[Where] = KeyedQueue("gc-owners", self._owner)

    def start(self) -> None:
        for table in self._store.resources():
            for entry in self._store.scan(table):
                self._learn(entry)
        for where in list(self._owners):
            self._items.add(where)
        for where in list(self._by_uid.values()):
            self._look_at_owner(where)
        self._store.listen(self._on_event)
        self._items.start()
        self._finishing.start()

    async def stop(self) -> None:
        await self._items.stop()
        await self._finishing.stop()

    # -- the graph -------------------------------------------------------------------------

    def _on_event(self, event: Event) -> None:
        entry = event.entry
        where = (entry.resource, entry.key)
        if event.type == DELETED:
            self._forget(entry, where)
            return
        if entry.owners or where in self._owners:
            self._learn(entry)
            if entry.owners:
                self._items.add(where)
                self._look_at_owners(entry)  # perhaps it no longer blocks them
        else:
            self._by_uid[entry.uid] = where
        if entry.deleting:
            self._look_at_owner(where)

    def _learn(self, entry: Entry) -> None:
        where = (entry.resource, entry.key)
        self._by_uid[entry.uid] = where
        before, after = self._owners.get(where, ()), entry.owners
        for uid in before:
            if uid not in after:
                self._drop(uid, where)
        for uid in after:
            self._dependents.setdefault(uid, set()).add(where)
        if after:
            self._owners[where] = after
        else:
            self._owners.pop(where, None)

    def _drop(self, uid: str, where: Where) -> None:
        """``where`` no longer depends on ``uid``; a waiting owner may now go."""
        found = self._dependents.get(uid)
        if found is None:
            return
        found.discard(where)
        if not found:
            del self._dependents[uid]
        owner = self._by_uid.get(uid)
        if owner is not None:
            self._look_at_owner(owner)

    def _forget(self, entry: Entry, where: Where) -> None:
        if self._by_uid.get(entry.uid) == where:
            del self._by_uid[entry.uid]
        for dependent in self._dependents.get(entry.uid, ()):
            self._items.add(dependent)
        for uid in self._owners.pop(where, ()):
            self._drop(uid, where)

    def _look_at_owners(self, entry: Entry) -> None:
        for uid in entry.owners:
            owner = self._by_uid.get(uid)
            if owner is not None:
                self._look_at_owner(owner)

    def _look_at_owner(self, where: Where) -> None:
        entry = self._store.get(*where)
        if entry is not None and entry.deleting:
            self._finishing.add(where)

    # -- dependents ------------------------------------------------------------------------

    async def _item(self, where: Where) -> None:
        """Delete an object whose owners are gone; take off references to those that are."""
        entry = self._store.get(*where)
        if entry is None or not entry.owners:
            return
        obj = entry.decode()
        meta = obj["metadata"]
        if entry.deleting and FOREGROUND not in (meta.get("finalizers") or ()):
            return
        solid, dangling, waiting = self._classify(entry, meta["ownerReferences"])
        if solid:
            if dangling or waiting:
                await self._remove_references(entry, {r["uid"] for r in dangling + waiting})
            return
        if entry.deleting:
            return
        in_foreground = bool(waiting) and entry.uid in self._dependents
        if in_foreground and self._closes_a_circle(entry):
            await self._unblock(entry)
        await self._delete(entry, _policy(meta, in_foreground=in_foreground))

    def _closes_a_circle(self, entry: Entry) -> bool:
        """One of its dependents waits for dependents of its own, and so perhaps for this one."""
        found = [self._store.get(*where) for where in self._dependents.get(entry.uid, ())]
        return any(e is not None and e.deleting and _in_foreground(e) for e in found)

    async def _unblock(self, entry: Entry) -> None:
        """Let the owners go first: in a circle somebody must."""

        def change(live: Obj) -> Obj:
            for reference in live["metadata"].get("ownerReferences") or ():
                if reference.get("blockOwnerDeletion"):
                    reference["blockOwnerDeletion"] = False
            return live

        await self._quietly_update(entry, change)

    def _classify(
        self, entry: Entry, references: list[Obj]
    ) -> tuple[list[Obj], list[Obj], list[Obj]]:
        solid, dangling, waiting = [], [], []
        for reference in references:
            owner = self._find_owner(entry, reference)
            if owner is None:
                dangling.append(reference)
            elif owner.deleting and _in_foreground(owner):
                waiting.append(reference)
            else:
                solid.append(reference)
        return solid, dangling, waiting

    def _find_owner(self, entry: Entry, reference: Obj) -> Entry | None:
        """The owner, if it is there under the name, kind and scope the reference gives."""
        where = self._by_uid.get(reference.get("uid", ""))
        owner = self._store.get(*where) if where else None
        if owner is None or owner.uid != reference.get("uid"):
            return None
        if owner.namespace and owner.namespace != entry.namespace:
            return None
        kind = self._access.kind(owner.resource)
        group = reference.get("apiVersion", "").rpartition("/")[0]
        if kind is None or owner.name != reference.get("name"):
            return None
        same = kind.info.kind == reference.get("kind") and kind.info.group == group
        return owner if same or kind.info.kind == "Event" else None

    async def _remove_references(self, entry: Entry, uids: set[str]) -> None:
        def change(live: Obj) -> Obj:
            meta = live["metadata"]
            left = [r for r in meta.get("ownerReferences") or () if r["uid"] not in uids]
            if left:
                meta["ownerReferences"] = left
            else:
                meta.pop("ownerReferences", None)
            return live

        await self._quietly_update(entry, change)

    async def _quietly_update(self, entry: Entry, change: object) -> None:
        try:
            await self._access.update(
                entry.resource, entry.namespace, entry.name, change=change,  # type: ignore[arg-type]
            )  # fmt: skip
        except errors.NotFound:
            return

    async def _delete(self, entry: Entry, policy: str) -> None:
        options = {"propagationPolicy": policy, "preconditions": {"uid": entry.uid}}
        try:
            await self._access.delete(entry.resource, entry.namespace, entry.name, options)
        except (errors.NotFound, errors.Conflict):
            return

    # -- owners that wait ------------------------------------------------------------------

    async def _owner(self, where: Where) -> None:
        """Do for a deleted owner what its finalizer asks for."""
        entry = self._store.get(*where)
        if entry is None or not entry.deleting:
            return
        finalizers = entry.decode()["metadata"].get("finalizers") or ()
        if ORPHAN in finalizers:
            await self._orphan(entry)
        elif FOREGROUND in finalizers:
            await self._foreground(entry)

    async def _orphan(self, entry: Entry) -> None:
        for where in list(self._dependents.get(entry.uid, ())):
            dependent = self._store.get(*where)
            if dependent is not None:
                await self._remove_references(dependent, {entry.uid})
        await self._remove_finalizer(entry, ORPHAN)

    async def _foreground(self, entry: Entry) -> None:
        blocking = False
        for where in list(self._dependents.get(entry.uid, ())):
            dependent = self._store.get(*where)
            if dependent is None:
                continue
            references = dependent.decode()["metadata"].get("ownerReferences") or ()
            mine = [r for r in references if r["uid"] == entry.uid]
            if any(r.get("blockOwnerDeletion") for r in mine):
                blocking = True
            self._items.add(where)
        if not blocking:
            await self._remove_finalizer(entry, FOREGROUND)

    async def _remove_finalizer(self, entry: Entry, finalizer: str) -> None:
        def change(live: Obj) -> Obj:
            meta = live["metadata"]
            left = [f for f in meta.get("finalizers") or () if f != finalizer]
            if left:
                meta["finalizers"] = left
            else:
                meta.pop("finalizers", None)
            return live

        await self._quietly_update(entry, change)


def _in_foreground(entry: Entry) -> bool:
    return FOREGROUND in (entry.decode()["metadata"].get("finalizers") or ())


def _policy(meta: Obj, *, in_foreground: bool) -> str:
    if in_foreground:
        return "Foreground"
    finalizers = meta.get("finalizers") or ()
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"
