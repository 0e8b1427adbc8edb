"""The quota controller: ``status`` of every ResourceQuota, counted from what is stored.

Admission only ever adds. What deletes, finished pods and changed quotas free or need is found by
counting again. A count is exact: it is made when all charges of a quota are durable, and a charge
becomes durable together with its object; it is written only if nothing was charged meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime

from corral.cluster.apiserver.admission.lookup import Parsed
from corral.cluster.apiserver.admission.quotas.amounts import ZERO, Amounts, amounts
from corral.cluster.apiserver.admission.quotas.plugin import QUOTAS, scopes_of
from corral.cluster.apiserver.admission.quotas.usage import (
    CLAIMS,
    IGNORED,
    PODS,
    SERVICES,
    Counted,
    counted,
    tracks,
)
from corral.cluster.apiserver.crud.kind import Kind
from corral.cluster.apiserver.store import ADDED, DELETED, Entry, Event, Stale, Store, StoreError
from corral.kube.types import Obj

__all__ = ["QuotaUsage"]

log = logging.getLogger(__name__)
_SHARE = 10
"""Counting takes at most about this fraction of the time (one over it)."""
_CHANGING = frozenset({PODS, CLAIMS, SERVICES})
"""Tables whose objects can come to use less without being deleted."""


class QuotaUsage:
    """Keeps the status of quotas right while it runs. ``kind`` is the one of ResourceQuota."""

    def __init__(
        self,
        store: Store,
        *,
        kind: Kind | None = None,
        resync: float = 300.0,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        self._store = store
        self._kind = kind
        self._resync = resync
        self._clock = clock or (lambda: datetime.now(UTC))
        self._counted: dict[str, Parsed[Counted]] = {}
        self._dirty: set[str] = set()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._listening = False

    def start(self) -> None:
        """Count everything, then follow the store."""
        if not self._listening:
            self._store.listen(self._on_event)
            self._listening = True
        self._mark_all()
        self._task = asyncio.create_task(self._run(), name="quota-usage")

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _mark_all(self) -> None:
        self._dirty.update(entry.key for entry in self._store.scan(QUOTAS))
        self._wake.set()

    def _on_event(self, event: Event) -> None:
        entry = event.entry
        if self._task is None or not entry.namespace:
            return
        if entry.resource == QUOTAS and event.type != DELETED:
            if event.type == ADDED or entry.key in self._dirty or _limits_changed(entry):
                self._mark(entry.key)
            return
        if not self._store.count(QUOTAS) or entry.resource in IGNORED:
            return
        if event.type != DELETED and not (event.prev and entry.resource in _CHANGING):
            return
        quotas = [quota.key for quota in self._store.scan(QUOTAS, f"{entry.namespace}/")]
        if quotas and (event.type == DELETED or _uses_other(event)):
            for key in quotas:
                self._mark(key)

    def _mark(self, key: str) -> None:
        self._dirty.add(key)
        self._wake.set()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                async with asyncio.timeout(self._resync):
                    await self._wake.wait()
            except TimeoutError:
                self._mark_all()
            self._wake.clear()
            began = loop.time()
            for key in sorted(self._dirty):
                try:
                    self._recount(key)
                except (KeyError, ValueError, AttributeError):
                    log.exception("cannot count what quota %s uses", key)
                    self._dirty.discard(key)
            # Pace with the size of the namespaces; small ones are counted at once.
            await asyncio.sleep((loop.time() - began) * _SHARE)

    def _recount(self, key: str) -> None:
        """Write the status of one quota, unless it is about to change anyway."""
        entry = self._store.head(QUOTAS, key)
        if entry is None:
            self._dirty.discard(key)
            return
        if entry is not self._store.get(QUOTAS, key):
            return  # its event comes, and it is still marked
        self._dirty.discard(key)
        quota = entry.decode()
        hard = (quota.get("spec") or {}).get("hard") or {}
        status = quota.get("status") or {}
        used = self._usage(entry.namespace, quota, hard)
        known = {n: q for n, q in amounts(status.get("used")).items() if n in hard}
        after = {**known, **used}
        same_hard = amounts(status.get("hard")) == amounts(hard) and "hard" in status
        if same_hard and "used" in status and amounts(status["used"]) == after:
            return
        new_status = {"hard": dict(hard), "used": {n: str(q) for n, q in after.items()}}
        self._write(entry, quota, {k: v for k, v in new_status.items() if v})

    def _usage(self, namespace: str, quota: Obj, names: Obj) -> Amounts:
        total: Amounts = {}
        scopes = scopes_of(quota)
        for table in self._tables(names):
            mine = tracks(table, names)
            for name in mine:
                total.setdefault(name, ZERO)
            for one in self._objects(table, namespace):
                if all(one.matches(scope) for scope in scopes):
                    for name in mine:
                        if name in one.usage:
                            total[name] = total[name] + one.usage[name]
        return total

    def _tables(self, names: Obj) -> list[str]:
        """The tables that count against these names, whether they have objects or not."""
        known = {PODS, SERVICES, CLAIMS, "/configmaps", "/secrets", QUOTAS}
        known |= {"/replicationcontrollers", *(_counted_table(n) for n in names)}
        return sorted(t for t in known if t and t not in IGNORED and tracks(t, names))

    def _objects(self, table: str, namespace: str) -> list[Counted]:
        parsed = self._counted.get(table)
        if parsed is None:
            if not self._store.count(table):
                return []  # quotas may name kinds that nobody has defined
            parsed = self._counted[table] = Parsed(
                self._store, table, lambda obj: counted(table, obj)
            )
        now = self._clock()
        return [
            one if one.until is None or now <= one.until else one._replace(usage=_gone(one))
            for one in parsed.scan(f"{namespace}/")
        ]

    def _write(self, entry: Entry, quota: Obj, status: Obj) -> None:
        old = entry.decode()
        quota["status"] = status
        if self._kind is not None:
            self._kind.track(
                old,
                quota,
                manager="kube-controller-manager",
                now=self._clock().strftime("%Y-%m-%dT%H:%M:%SZ"),
                subresource="status",
            )
        try:
            done = self._store.write(QUOTAS, entry.key, quota, expect=entry)
        except Stale:
            self._mark(entry.key)
        else:
            done.add_done_callback(_report)


def _gone(one: Counted) -> Amounts:
    return {name: amount for name, amount in one.usage.items() if name.startswith("count/")}


def _counted_table(name: str) -> str:
    """``count/jobs.batch`` → ``batch/jobs``."""
    if not name.startswith("count/"):
        return ""
    plural, _, group = name.removeprefix("count/").partition(".")
    return f"{group}/{plural}"


def _limits_changed(entry: Entry) -> bool:
    quota = entry.decode()
    hard = (quota.get("spec") or {}).get("hard") or {}
    return amounts(hard) != amounts((quota.get("status") or {}).get("hard"))


def _uses_other(event: Event) -> bool:
    before = event.prev
    if before is None:
        return False
    table = event.entry.resource
    return counted(table, before.decode()) != counted(table, event.entry.decode())


def _report(done: asyncio.Future[Entry]) -> None:
    if done.cancelled():
        return
    error = done.exception()
    if isinstance(error, StoreError):
        log.warning("the usage of a quota could not be stored: %s", error)
