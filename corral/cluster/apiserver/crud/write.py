"""Create, update, patch and apply.

The order is Kubernetes': decode and default, record field ownership, mutating admission, prepare,
validate, validating admission, store. Everything between reading the head and writing is repeated
when somebody else was first, unless the caller named a resource version.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from corral.cluster.apiserver import errors as say
from corral.cluster.apiserver.apply import keep_times, managers_are_valid
from corral.cluster.apiserver.crud.core import AdmissionRequest, Registry
from corral.cluster.apiserver.crud.kind import Kind
from corral.cluster.apiserver.crud.read import is_revision, no_revision
from corral.cluster.apiserver.errors import FieldError
from corral.cluster.apiserver.fairness.dispatch import elsewhere
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
        strip_meta(meta, tracked=tracked)
        do = partial(registry.heavy.do, context.user, context.size)
        if not tracked:
            await do(track_change, kind, None, obj, context, now, "")
        request = AdmissionRequest(
            "CREATE", kind, namespace, name, obj, None, context, options=options
        )
        recorded = meta.get("managedFields")
        if await registry.admission.mutate(request):
            obj = request.object or obj
            check_namespace(kind, namespace, obj)
            meta = obj["metadata"]
            strip_meta(meta, tracked=True)
            keep_managers(meta, recorded, context)
            versioned = versioned or bool(meta.pop("resourceVersion", None))
            request.name = name = meta.get("name", "")  # a webhook may name a new object
        meta["uid"] = registry.new_uid()
        meta["creationTimestamp"] = now
        obj = await do(prepared, kind, obj, context)
        hook = registry.hooks.get(info.table)
        if hook:
            hook.before_create(obj, context)
        await do(check_new, kind, obj, name, context)
        request.object = obj
        await registry.admission.validate(request)
        if versioned:
            raise errors.ApiError("resourceVersion should not be set on objects to be created")
        key = registry.key(kind, namespace, name)
        there = self._store.head(info.table, key)
        if there is not None:
            raise exists(kind, name, there)
        if not context.dry_run:
            stored = await kind.stored(obj)
            await elsewhere(
                self._store.write(info.table, key, stored, expect=None, fields=kind.fields)
            )
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
                obj = await registry.heavy.do(context.user, context.size, change, None)
                check_namespace(kind, namespace, obj)
                check_name(obj, name)
                check_no_uid(kind, obj, name)
                obj["metadata"].pop("resourceVersion", None)
                made = await self._create(
                    kind, namespace, obj, context, options or {}, tracked=not track
                )
                return made, True
            do = partial(registry.heavy.do, context.user, context.size + len(entry.value))
            live = await kind.served(await do(entry.decode))
            new = await do(change, live)
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
        do = partial(registry.heavy.do, context.user, context.size + len(entry.value))
        old = await kind.served(await do(entry.decode))
        now = registry.timestamp()
        if track:
            await do(track_change, kind, old, new, context, now, subresource)
        request = AdmissionRequest(
            "UPDATE", kind, namespace, entry.name, new, old, context, subresource, options
        )
        recorded = new["metadata"].get("managedFields")
        if await registry.admission.mutate(request):
            new = request.object or new
            check_namespace(kind, namespace, new)
            keep_managers(new["metadata"], recorded, context)
            if subresource in UNVALIDATED:
                keep_identity(new["metadata"], old["metadata"])
        check_version(kind, new, entry.name, entry.rv)
        new, old = kind.to_storage(new), kind.to_storage(old)
        carry_meta(new["metadata"], old["metadata"])
        new["metadata"]["resourceVersion"] = str(entry.rv)
        await do(kind.prepare_update, new, old, subresource)
        hook = registry.hooks.get(info.table)
        if hook and not subresource:
            hook.before_update(new, old, context)
        await do(check_change, kind, new, old, entry.name, subresource, context)
        same = await do(is_same, new, old)
        request.object, request.old = new, old
        await registry.admission.validate(request)  # what follows must not wait (quota)
        if context.dry_run or (same and kind.is_current(entry)):
            return kind.from_storage(new)
        stored = await kind.stored(new)
        if finished_deleting(new["metadata"]) and not kind.held(new):
            await elsewhere(
                self._store.write(
                    info.table, entry.key, stored, expect=entry, delete=True, fields=kind.fields
                )
            )
            new["metadata"]["resourceVersion"] = str(entry.rv)  # it was not written, it is gone
        else:
            await elsewhere(
                self._store.write(info.table, entry.key, stored, expect=entry, fields=kind.fields)
            )
        return kind.from_storage(new)


def strip_meta(meta: Obj, *, tracked: bool) -> None:
    """Take away what only the server sets; ``tracked``: field ownership is recorded already."""
    if not tracked:
        meta.pop("managedFields", None)
    meta.pop("deletionTimestamp", None)
    meta.pop("deletionGracePeriodSeconds", None)
    meta.pop("selfLink", None)


def track_change(
    kind: Kind, old: Obj | None, new: Obj, context: Context, now: str, subresource: str
) -> None:
    """Record who owns the fields of a write."""
    kind.track(old, new, manager=context.manager, now=now, subresource=subresource)


def prepared(kind: Kind, obj: Obj, context: Context) -> Obj:
    """A new object in its stored version, with what only the server sets."""
    for text in kind.prepare_create(obj):
        context.warn(text)
    kind.record_requester(obj, context.user)
    return kind.to_storage(obj)


def check_new(kind: Kind, obj: Obj, name: str, context: Context) -> None:
    """Validate a new object. Raises Invalid."""
    problems = kind.validate_create(obj)
    if problems:
        raise say.invalid(kind.info.group, kind.info.kind, name, problems)
    for text in kind.warnings(obj, None):
        context.warn(text)


def check_change(
    kind: Kind, new: Obj, old: Obj, name: str, subresource: str, context: Context
) -> None:
    """Validate a changed object. Raises Invalid."""
    problems = kind.validate_update(new, old, subresource)
    problems = problems or changed_identity(new["metadata"], old["metadata"])
    if problems:
        raise say.invalid(kind.info.group, kind.info.kind, name, problems)
    if subresource in ("", "scale"):
        for text in kind.warnings(new, old):
            context.warn(text)


def is_same(new: Obj, old: Obj) -> bool:
    """Nothing would change; ``new`` then keeps the times of ``old``."""
    keep_times(old, new)
    return new == old


UNVALIDATED = frozenset({"binding", "finalize", "approval"})
"""Subresources whose writes are not validated as a whole."""


_IDENTITY = ("name", "namespace", "uid")


def changed_identity(new: Obj, old: Obj) -> list[FieldError]:
    """An object stays where it is stored, whatever the validation of a subresource looks at."""
    return [
        say.invalid_value(f"metadata.{field}", new.get(field, ""), "field is immutable")
        for field in _IDENTITY
        if new.get(field) != old.get(field)
    ]


def keep_identity(new: Obj, old: Obj) -> None:
    """What webhooks did to who an object is counts for nothing."""
    for field in _IDENTITY:
        if field in old:
            new[field] = old[field]


def keep_managers(meta: Obj, recorded: Any, context: Context) -> None:
    """Field ownership that a webhook made unreadable is put back, with a warning, as upstream."""
    found = meta.get("managedFields")
    if found == recorded or found is None or managers_are_valid(found):
        return
    if recorded is None:
        meta.pop("managedFields")
    else:
        meta["managedFields"] = recorded
    context.warn(
        ".metadata.managedFields was in an invalid state after admission; this could be caused by "
        "an outdated mutating admission controller; please fix your requests: invalid fields"
    )


def exists(kind: Kind, name: str, there: Entry) -> errors.AlreadyExists:
    """The refusal of a second object of one name."""
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


def check_version(kind: Kind, new: Obj, name: str, rv: int) -> None:
    """Optimistic concurrency: a named resource version must be the current one."""
    info = kind.info
    meta = new["metadata"]
    version = meta.get("resourceVersion")
    if not version or version == "0":
        if not kind.allow_unconditional_update:
            problem = say.invalid_value(
                "metadata.resourceVersion", 0, "must be specified for an update"
            )
            raise say.invalid(info.group, info.plural, name, [problem])
    elif version != str(rv):
        if not is_revision(version):
            raise errors.ApiError(no_revision(version))
        raise say.conflict(info.group, info.plural, name)


_CARRIED = ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")


def carry_meta(new: Obj, old: Obj) -> None:
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
