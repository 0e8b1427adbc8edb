"""Delete and deletecollection: grace periods, finalizers, preconditions, propagation."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from corral.cluster.apiserver import errors as say
from corral.cluster.apiserver.crud.core import AdmissionRequest, Registry
from corral.cluster.apiserver.crud.kind import Kind
from corral.cluster.apiserver.fairness.dispatch import elsewhere
from corral.cluster.apiserver.requests import Context
from corral.cluster.apiserver.store import Entry, Stale
from corral.kube.types import Obj

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
MAX_TRIES = 8


class Deleter:
    """The verbs that take objects away."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._store = registry.store

    async def delete(
        self, kind: Kind, namespace: str, name: str, *, context: Context, options: Obj
    ) -> tuple[Obj, bool]:
        """Returns the object as it is now (or was last) and whether it is really gone."""
        problems = _validate(options)
        if problems:
            raise say.invalid("meta.k8s.io", "DeleteOptions", "", problems)
        for _ in range(MAX_TRIES):
            entry = self._registry.head(kind, namespace, name)
            obj = await kind.served(entry.decode())
            self._check_preconditions(kind, obj, options)
            request = AdmissionRequest(
                "DELETE", kind, namespace, name, None, obj, context, options=options
            )
            await self._registry.admission.validate(request)
            try:
                return await self._delete(kind, entry, context, options)
            except Stale:
                continue
        raise say.conflict(kind.info.group, kind.info.plural, name)

    async def _delete(
        self, kind: Kind, entry: Entry, context: Context, options: Obj
    ) -> tuple[Obj, bool]:
        obj = entry.decode()
        meta = obj["metadata"]
        now = self._registry.now()
        graceful, pending = _grace(kind, obj, options, now)
        if pending:
            return await kind.served(obj), False
        kind.start_delete(obj, _stamp(now))
        before = list(meta.get("finalizers") or ())
        finalizers = _finalizers(kind, before, options)
        if set(finalizers) != set(before):
            _set_finalizers(meta, finalizers)
        waits = bool(finalizers) or kind.held(obj)
        if waits and not graceful:
            _mark(meta, now)
        if waits or (graceful and meta["deletionGracePeriodSeconds"] > 0):
            if not context.dry_run and obj != entry.decode():
                await elsewhere(
                    self._store.write(
                        kind.info.table, entry.key, obj, expect=entry, fields=kind.fields
                    )
                )
            return await kind.served(obj), False
        if not context.dry_run:
            await elsewhere(
                self._store.write(
                    kind.info.table, entry.key, obj, expect=entry, delete=True, fields=kind.fields
                )
            )
        return await kind.served(obj), True

    def _check_preconditions(self, kind: Kind, obj: Obj, options: Obj) -> None:
        wanted = options.get("preconditions") or {}
        meta = obj["metadata"]
        info = kind.info
        uid = wanted.get("uid")
        if uid is not None and uid != meta.get("uid"):
            why = (
                f"the UID in the precondition ({uid}) does not match the UID in record "
                f"({meta.get('uid')}). The object might have been deleted and then recreated"
            )
            raise say.conflict(info.group, info.kind, meta["name"], why)
        version = wanted.get("resourceVersion")
        if version is not None and version != meta["resourceVersion"]:
            why = (
                f"the ResourceVersion in the precondition ({version}) does not match the "
                f"ResourceVersion in record ({meta['resourceVersion']}). The object might have "
                "been modified"
            )
            raise say.conflict(info.group, info.kind, meta["name"], why)

    async def delete_collection(
        self,
        kind: Kind,
        namespace: str,
        *,
        matches: Callable[[Entry], bool],
        context: Context,
        options: Obj,
    ) -> list[Obj]:
        """Delete all that match; returns them as they were."""
        prefix = f"{namespace}/" if namespace else ""
        found = [e for e in self._store.scan(kind.info.table, prefix) if matches(e)]
        for entry in found:
            if self._store.head(kind.info.table, entry.key) is None:
                continue
            await self.delete(
                kind, entry.namespace, entry.name, context=context, options=dict(options)
            )
        await kind.prefetch(found)
        return [kind.from_storage(entry.decode()) for entry in found]


def _validate(options: Obj) -> list[say.FieldError]:
    policy = options.get("propagationPolicy")
    problems = []
    if options.get("orphanDependents") is not None and policy is not None:
        problems.append(
            say.invalid_value(
                "propagationPolicy",
                policy,
                "orphanDependents and deletionPropagation cannot be both set",
            )
        )
    if policy is not None and policy not in ("Foreground", "Background", "Orphan"):
        problems.append(
            say.not_supported(
                "propagationPolicy", policy, ["Foreground", "Background", "Orphan", "nil"]
            )
        )
    dry_run = options.get("dryRun") or []
    if any(value != "All" for value in dry_run):
        problems.append(say.not_supported("dryRun", dry_run, ["All"]))
    return problems


def _grace(kind: Kind, obj: Obj, options: Obj, now: datetime) -> tuple[bool, bool]:
    """(graceful, pending): mark the object, or find that an earlier delete still runs."""
    if not kind.graceful:
        return False, False
    meta = obj["metadata"]
    requested = options.get("gracePeriodSeconds")
    if requested is not None and requested < 0:
        requested = 1
    if "deletionTimestamp" in meta:
        return _shorten(meta, requested, now)
    grace = kind.grace_period(obj, requested)
    meta["deletionTimestamp"] = _stamp(now + timedelta(seconds=grace))
    meta["deletionGracePeriodSeconds"] = grace
    if meta.get("generation"):
        meta["generation"] += 1
    return True, False


def _shorten(meta: Obj, requested: int | None, now: datetime) -> tuple[bool, bool]:
    """A second delete may only shorten the grace period."""
    current = meta.get("deletionGracePeriodSeconds")
    if not current:
        return False, False
    if requested is None or requested >= current:
        return False, True
    began = datetime.fromisoformat(meta["deletionTimestamp"]) - timedelta(seconds=current)
    ends = began + timedelta(seconds=requested)
    if ends < now:
        ends = now
        requested = 1 if requested else 0
    meta["deletionTimestamp"] = _stamp(ends)
    meta["deletionGracePeriodSeconds"] = requested
    return True, False


def _finalizers(kind: Kind, current: list[str], options: Obj) -> list[str]:
    kept = [f for f in current if f not in (ORPHAN, FOREGROUND)]
    policy = _propagation(kind, current, options)
    if policy == "Orphan":
        kept.append(ORPHAN)
    elif policy == "Foreground":
        kept.append(FOREGROUND)
    return kept


def _propagation(kind: Kind, finalizers: list[str], options: Obj) -> str:
    default = kind.default_propagation()
    if default == "Unsupported":
        return "Background"
    orphan = options.get("orphanDependents")
    if orphan is not None:
        return "Orphan" if orphan else "Background"
    policy = options.get("propagationPolicy")
    if policy:
        return str(policy)
    if ORPHAN in finalizers:
        return "Orphan"
    if FOREGROUND in finalizers:
        return "Foreground"
    return default


def _set_finalizers(meta: Obj, finalizers: list[str]) -> None:
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)


def _mark(meta: dict[str, Any], now: datetime) -> None:
    """Deletion waits for finalizers only."""
    if "deletionTimestamp" not in meta:
        meta["deletionTimestamp"] = _stamp(now)
        if meta.get("generation"):
            meta["generation"] += 1
    meta["deletionGracePeriodSeconds"] = 0


def _stamp(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")
