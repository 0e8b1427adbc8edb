"""ResourceQuota: nothing is created that a quota of its namespace has no room for.

A request is charged to ``status.used`` of every quota it falls under, in the same step of the
event loop in which its object is written; both reach the disk in one commit. So the sum of what
is stored never exceeds a quota, however many clients race. For that, this plugin must be the last
one, and what follows it must not wait before it writes. Dry runs are checked, not charged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from corral.cluster.apiserver.admission.chain import Plugin
from corral.cluster.apiserver.admission.quotas.amounts import ZERO, Amounts, amounts
from corral.cluster.apiserver.admission.quotas.usage import (
    CLAIMS,
    IGNORED,
    PODS,
    SERVICES,
    Counted,
    counted,
    missing_amounts,
    tracks,
)
from corral.cluster.apiserver.admission.refusals import refuse
from corral.cluster.apiserver.crud.core import AdmissionRequest
from corral.cluster.apiserver.store import Entry, Store
from corral.kube.types import Obj

__all__ = ["QUOTAS", "ResourceQuota", "scopes_of"]

QUOTAS = "/resourcequotas"


def scopes_of(quota: Obj) -> list[Obj]:
    """Both ways to name scopes, as selectors."""
    spec = quota.get("spec") or {}
    plain = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()]
    selector: list[Obj] = (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    return plain + selector


class ResourceQuota(Plugin):
    """Checks and charges."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def looks(self, request: AdmissionRequest) -> bool:
        return request.kind.info.table in (PODS, CLAIMS, SERVICES)  # others are only counted

    async def validate(self, request: AdmissionRequest) -> None:
        if not request.namespace or not self._store.count(QUOTAS):
            return
        if request.operation not in ("CREATE", "UPDATE") or request.object is None:
            return
        table = request.kind.info.table
        if not request.kind.info.namespaced or table in IGNORED or not _handles(request):
            return
        quotas = [
            head
            for entry in self._store.scan(QUOTAS, f"{request.namespace}/")
            if (head := self._store.head(QUOTAS, entry.key)) is not None
        ]
        if quotas:
            self._evaluate(request, table, quotas)

    def _evaluate(self, request: AdmissionRequest, table: str, quotas: list[Entry]) -> None:
        assert request.object is not None
        new = counted(table, request.object)
        interesting = []
        for entry in quotas:
            quota = entry.decode()
            if self._applies(request, table, new, quota):
                interesting.append((entry, quota))
        if not interesting:
            return
        negative = sorted(name for name, amount in new.usage.items() if amount < ZERO)
        if negative:
            why = f"quota usage is negative for resource(s): {','.join(negative)}"
            raise refuse(request, why)
        charges = []
        for entry, quota in interesting:
            used = self._charge(request, quota, _delta(request, table, new, quota))
            if used is not None:
                charges.append((entry, quota, used))
        if not request.context.dry_run and not self._will_fail(request, table):
            for entry, quota, used in charges:
                self._write(entry, quota, used)

    def _applies(self, request: AdmissionRequest, table: str, new: Counted, quota: Obj) -> bool:
        status = quota.get("status") or {}
        hard = status.get("hard") or {}
        names = tracks(table, hard)
        if not names or not all(new.matches(scope) for scope in scopes_of(quota)):
            return False
        name = quota["metadata"]["name"]
        if table == PODS:
            missing = missing_amounts(request.object or {}, names)
            if missing:
                raise refuse(request, f"failed quota: {name}: {missing}")
        used = status.get("used") or {}
        if any(n not in used for n in names):
            listed = ",".join(sorted(names))
            raise refuse(request, f"status unknown for quota: {name}, resources: {listed}")
        return True

    def _charge(self, request: AdmissionRequest, quota: Obj, delta: Amounts) -> Amounts | None:
        """The new usage, or None when nothing changes. Raises Forbidden when it is too much."""
        status = quota["status"]
        hard, used = amounts(status.get("hard")), amounts(status.get("used"))
        requested = {n: q for n, q in delta.items() if q and n in hard}
        if not requested:
            return None
        after = dict(used)
        for name, amount in requested.items():
            after[name] = used[name] + amount if name in used else amount
        exceeded = [n for n in requested if after[n] > hard[n]]
        if exceeded and request.subresource != "status":
            raise refuse(
                request,
                f"exceeded quota: {quota['metadata']['name']}, "
                f"requested: {_show(requested, exceeded)}, used: {_show(used, exceeded)}, "
                f"limited: {_show(hard, exceeded)}",
            )
        return after

    def _will_fail(self, request: AdmissionRequest, table: str) -> bool:
        """The write cannot succeed any more, so it must not be charged."""
        head = self._store.head(table, f"{request.namespace}/{request.name}")
        if request.operation == "CREATE":
            return head is not None
        version = ((request.old or {}).get("metadata") or {}).get("resourceVersion")
        return head is None or version != str(head.rv)

    def _write(self, entry: Entry, quota: Obj, used: Amounts) -> None:
        quota["status"]["used"] = {name: str(amount) for name, amount in used.items()}
        charged = self._store.write(QUOTAS, entry.key, quota, expect=entry)
        # Not awaited: a failed commit fails the object's own write too, and that one reports it.
        charged.add_done_callback(_seen)


def _seen(done: asyncio.Future[Any]) -> None:
    if not done.cancelled():
        done.exception()


def _handles(request: AdmissionRequest) -> bool:
    table, subresource = request.kind.info.table, request.subresource
    create = request.operation == "CREATE"
    if table == PODS:
        if subresource:
            return subresource == "resize" and not create
        return create or _terminating(request.object) != _terminating(request.old)
    if table == CLAIMS and subresource == "status" and not create:
        return bool(_allocated(request.object) != _allocated(request.old))
    if subresource:
        return False
    return create or table in (SERVICES, CLAIMS)


def _terminating(pod: Obj | None) -> bool:
    deadline = ((pod or {}).get("spec") or {}).get("activeDeadlineSeconds")
    return deadline is not None and int(deadline) >= 0


def _allocated(claim: Obj | None) -> Any:
    resources = ((claim or {}).get("status") or {}).get("allocatedResources") or {}
    return resources.get("storage")


def _delta(request: AdmissionRequest, table: str, new: Counted, quota: Obj) -> Amounts:
    """What the request adds; an object that newly falls under a quota adds all it is."""
    if request.operation != "UPDATE" or request.old is None:
        return new.usage
    old = counted(table, request.old)
    if not all(old.matches(scope) for scope in scopes_of(quota)):
        return new.usage
    delta = {name: amount - old.usage.get(name, ZERO) for name, amount in new.usage.items()}
    return {name: amount for name, amount in delta.items() if amount > ZERO}


def _show(listed: Amounts, names: Iterable[str]) -> str:
    return ",".join(f"{name}={listed[name]}" for name in sorted(names) if name in listed)
