"""Create, update, patch and apply.

The order is Kubernetes': decode and default, record field ownership, mutating admission, prepare,
validate, validating admission, store. Everything between reading the head and writing is repeated
when somebody else was first, unless the caller named a resource version.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from corral.cluster.apiserver import errors as say
from corral.cluster.apiserver.apply import keep_times
from corral.cluster.apiserver.registry.core import AdmissionRequest, Registry
from corral.cluster.apiserver.registry.kind import Kind
from corral.cluster.apiserver.requests import Context
from corral.cluster.apiserver.store import Entry, Stale
from corral.kube import errors
from corral.kube.types import Obj

MAX_TRIES = 8

Change = Callable[[Obj | None], Obj]
"""From the live object (in the requested version, None when there is none) to the wanted one."""


class Writer:
    """The verbs that store objects."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._store = registry.store

    # -- create ----------------------------------------------------------------------------

    async def create(
        self, kind: Kind, namespace: str, obj: Obj, *, context: Context, options: Obj | None = None
    ) -> Obj:
        """Store a new object; returns it as stored, in the version of ``kind``."""
        check_namespace(kind, namespace, obj)
        meta = obj["metadata"]
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = self._free_name(kind, namespace, meta["generateName"])
        versioned = bool(meta.pop("resourceVersion", None))
        return await self._create(kind, namespace, obj, context, options or {}, versioned=versioned)

    def _free_name(self, kind: Kind, namespace: str, base: str) -> str:
        for _ in range(MAX_TRIES):
            name = self._registry.generate_name(base)
            key = self._registry.key(kind, namespace, name)
            if self._store.head(kind.info.table, key) is None:
                break
        return name

    async def _create(
        self,
        kind: Kind,
        namespace: str,
        obj: Obj,
        context: Context,
        options: Obj,
        *,
        tracked: bool = False,
        versioned: bool = False,
    ) -> Obj:
        """``versioned``: the client named a resource version, which a new object cannot have."""
        registry = self._registry
        info = kind.info
        meta = obj["metadata"]
        now = registry.timestamp()
        name = meta.get("name", "")
        if not tracked:
            meta.pop("managedFields", None)
        meta.pop("deletionTimestamp", None)
        meta.pop("deletionGracePeriodSeconds", None)
        meta.pop("selfLink", None)
        if not tracked:
            kind.track(None, obj, manager=context.manager, now=now, subresource="")
        request = AdmissionRequest(
            "CREATE", kind, namespace, name, obj, None, context, options=options
        )
        if await registry.admission.mutate(request):
            obj = request.object or obj
            meta = obj["metadata"]
        meta["uid"] = registry.new_uid()
        meta["creationTimestamp"] = now
        for text in kind.prepare_create(obj):
            context.warn(text)
        kind.record_requester(obj, context.user)
        obj = kind.to_storage(obj)
        meta = obj["metadata"]
        hook = registry.hooks.get(info.table)
        if hook:
            hook.before_create(obj, context)
        problems = kind.validate_create(obj)
        if problems:
            raise say.invalid(info.group, info.kind, name, problems)
        for text in kind.warnings(obj, None):
            context.warn(text)
        request.object = obj
        await registry.admission.validate(request)
        if versioned:
            raise errors.ApiError("resourceVersion should not be set on objects to be created")
        key = registry.key(kind, namespace, name)
        there = self._store.head(info.table, key)
        if there is not None:
            raise _exists(kind, name, there)
        if not context.dry_run:
            stored = await kind.stored(obj)
            await self._store.write(info.table, key, stored, expect=None, fields=kind.fields)
        return kind.from_storage(obj)

    # -- update ----------------------------------------------------------------------------

    async def update(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        *,
        change: Change,
        context: Context,
        subresource: str = "",
        create: bool = False,
        track: bool = True,
        options: Obj | None = None,
    ) -> tuple[Obj, bool]:
        """Replace an object by what ``change`` makes of it; True when it was created.

        ``track`` False means that ``change`` already recorded field ownership (apply).
        """
        registry = self._registry
        key = registry.key(kind, namespace, name)
        for _ in range(MAX_TRIES):
            entry = self._store.head(kind.info.table, key)
            if entry is None:
                if not create:
                    raise registry.not_found(kind, name)
                obj = change(None)
                check_namespace(kind, namespace, obj)
                check_name(obj, name)
                check_no_uid(kind, obj, name)
                obj["metadata"].pop("resourceVersion", None)
                made = await self._create(
                    kind, namespace, obj, context, options or {}, tracked=not track
                )
                return made, True
            live = await kind.served(entry.decode())
            new = change(live)
            check_namespace(kind, namespace, new)
            check_name(new, name)
            try:
                done = await self._replace(
                    kind, namespace, entry, new, context, subresource, track, options or {}
                )
            except Stale:
                continue
            return done, False
        raise say.conflict(kind.info.group, kind.info.plural, name)

    async def _replace(
        self,
        kind: Kind,
        namespace: str,
        entry: Entry,
        new: Obj,
        context: Context,
        subresource: str,
        track: bool,
        options: Obj,
    ) -> Obj:
        registry = self._registry
        info = kind.info
        old = await kind.served(entry.decode())
        now = registry.timestamp()
        if track:
            kind.track(old, new, manager=context.manager, now=now, subresource=subresource)
        request = AdmissionRequest(
            "UPDATE", kind, namespace, entry.name, new, old, context, subresource, options
        )
        if await registry.admission.mutate(request):
            new = request.object or new
        check_version(kind, new, entry)
        new, old = kind.to_storage(new), kind.to_storage(old)
        _carry_meta(new["metadata"], old["metadata"])
        new["metadata"]["resourceVersion"] = str(entry.rv)
        kind.prepare_update(new, old, subresource)
        hook = registry.hooks.get(info.table)
        if hook and not subresource:
            hook.before_update(new, old, context)
        problems = kind.validate_update(new, old, subresource)
        if problems:
            raise say.invalid(info.group, info.kind, entry.name, problems)
        if subresource in ("", "scale"):
            for text in kind.warnings(new, old):
                context.warn(text)
        request.object, request.old = new, old
        await registry.admission.validate(request)
        keep_times(old, new)
        if context.dry_run or (new == old and kind.is_current(entry)):
            return kind.from_storage(new)
        stored = await kind.stored(new)
        if finished_deleting(new["metadata"]) and not kind.held(new):
            await self._store.write(
                info.table, entry.key, stored, expect=entry, delete=True, fields=kind.fields
            )
            new["metadata"]["resourceVersion"] = str(entry.rv)  # it was not written, it is gone
        else:
            await self._store.write(info.table, entry.key, stored, expect=entry, fields=kind.fields)
        return kind.from_storage(new)


def _exists(kind: Kind, name: str, there: Entry) -> errors.AlreadyExists:
    refusal = say.already_exists(kind.info.group, kind.info.plural, name)
    if "deletionTimestamp" in there.decode()["metadata"]:
        text = f"object is being deleted: {refusal.message}"
        return errors.AlreadyExists(text, details=refusal.details)
    return refusal


def check_namespace(kind: Kind, namespace: str, obj: Obj) -> None:
    """The object's namespace must be the request's; an empty one is filled in."""
    meta = obj.setdefault("metadata", {})
    own = meta.get("namespace", "")
    if not kind.info.namespaced:
        meta.pop("namespace", None)
    elif own != namespace:
        if own:
            raise errors.BadRequest(
                "the namespace of the provided object does not match the namespace sent on the "
                "request"
            )
        meta["namespace"] = namespace


def check_name(obj: Obj, name: str) -> None:
    """The object's own name must be the one in the URL."""
    own = (obj.get("metadata") or {}).get("name", "")
    if not own:
        raise errors.BadRequest(
            f"the name of the object ({name} based on URL) was undeterminable: name must be "
            "provided"
        )
    if own != name:
        raise errors.BadRequest(
            f"the name of the object ({own}) does not match the name on the URL ({name})"
        )


def check_uid(kind: Kind, obj: Obj, live: Obj) -> None:
    """A whole object that names a uid is meant for that object only."""
    uid, own = obj["metadata"].get("uid"), live["metadata"]["uid"]
    if uid and uid != own:
        raise say.conflict(
            kind.info.group,
            kind.info.plural,
            live["metadata"]["name"],
            f"Precondition failed: UID in precondition: {uid}, UID in object meta: {own}",
        )


def check_no_uid(kind: Kind, obj: Obj, name: str) -> None:
    """Who names a uid means an object that is there."""
    uid = obj["metadata"].get("uid")
    if uid:
        why = (
            f"uid mismatch: the provided object specified uid {uid}, and no existing object was "
            "found"
        )
        raise say.conflict(kind.info.group, kind.info.plural, name, why)


def check_version(kind: Kind, new: Obj, entry: Entry) -> None:
    """Optimistic concurrency: a named resource version must be the current one."""
    info = kind.info
    meta = new["metadata"]
    version = meta.get("resourceVersion")
    if not version or version == "0":
        if not kind.allow_unconditional_update:
            problem = say.invalid_value(
                "metadata.resourceVersion", 0, "must be specified for an update"
            )
            raise say.invalid(info.group, info.plural, entry.name, [problem])
    elif version != str(entry.rv):
        if not version.isdigit():
            raise errors.ApiError(f'strconv.ParseUint: parsing "{version}": invalid syntax')
        raise say.conflict(info.group, info.plural, entry.name)


_CARRIED = ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")


def _carry_meta(new: Obj, old: Obj) -> None:
    """What an update can never change."""
    for field in _CARRIED:
        if field in old:
            new[field] = old[field]
        else:
            new.pop(field, None)
    new.setdefault("uid", old.get("uid"))
    new.pop("selfLink", None)


def finished_deleting(meta: dict[str, Any]) -> bool:
    """The last finalizer is gone and the grace period is over."""
    return (
        "deletionTimestamp" in meta
        and not meta.get("finalizers")
        and not meta.get("deletionGracePeriodSeconds")
    )
