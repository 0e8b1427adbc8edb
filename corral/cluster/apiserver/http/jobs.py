"""The computation of one large write, from bytes to bytes, in a process of its own.

Does what ``registry.write`` does around admission: decode, change, track, prepare, validate,
encode. Only for kinds whose objects admission does not look at.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import orjson

from corral.cluster.apiserver.crud import write
from corral.cluster.apiserver.crud.core import MAX_GENERATED_BASE
from corral.cluster.apiserver.crud.kind import Kind
from corral.cluster.apiserver.http.bodies import decode_object
from corral.cluster.apiserver.http.options import APPLY
from corral.cluster.apiserver.http.patching import patcher
from corral.cluster.apiserver.requests import Context
from corral.cluster.apiserver.workers import portable
from corral.kube import errors
from corral.kube.types import Obj


@dataclass(frozen=True, slots=True)
class Job:
    """One write; ``value`` is the stored object, None for a new one."""

    recipe: bytes
    namespace: str
    name: str
    subresource: str
    value: bytes | None
    rv: int
    body: bytes
    form: str
    """The media type of the body."""
    patch: bool
    context: Context
    now: str
    uid: str
    """Of a new object; stands for its resource version until that is known."""
    suffix: str
    """What makes a name of a ``generateName``."""


@dataclass(slots=True)
class Outcome:
    """What came of it, as bytes around the resource version that is not known yet."""

    stored: tuple[bytes, bytes] = (b"", b"")
    served: tuple[bytes, bytes] | None = None
    """The object as the client sees it, where that differs."""
    meta: Obj = field(default_factory=dict)
    """The metadata, without annotations and managed fields."""
    fields: dict[str, str] = field(default_factory=dict)
    same: bool = False
    gone: bool = False
    versioned: bool = False
    """The client named a resource version, which a new object cannot have."""
    whole: bool = False
    """There is no resource version to be put in."""
    warnings: list[str] = field(default_factory=list)
    refusal: errors.ApiError | None = None
    """Raised after mutating admission, as validation comes after it."""

    def stored_as(self, rv: int) -> bytes:
        return self._joined(self.stored, rv)

    def served_as(self, rv: int) -> bytes:
        return self._joined(self.served or self.stored, rv)

    def _joined(self, parts: tuple[bytes, bytes], rv: int) -> bytes:
        if self.whole:
            return parts[0]
        return b"".join((parts[0], b'"resourceVersion":"', str(rv).encode(), b'"', parts[1]))


def create(job: Job) -> Outcome:
    """A new object from a body."""
    kind = made(job.recipe)
    obj = _sent(kind, job)
    write.check_namespace(kind, job.namespace, obj)
    meta = obj["metadata"]
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = meta["generateName"][:MAX_GENERATED_BASE] + job.suffix
    versioned = bool(meta.pop("resourceVersion", None))
    return _created(kind, job, obj, tracked=False, versioned=versioned)


def update(job: Job) -> Outcome:
    """A changed object, or a new one where an apply or a PUT finds none."""
    kind, context = made(job.recipe), job.context
    change = _change(kind, job)
    if job.value is None:
        obj = change(None)
        write.check_namespace(kind, job.namespace, obj)
        write.check_name(obj, job.name)
        write.check_no_uid(kind, obj, job.name)
        obj["metadata"].pop("resourceVersion", None)
        return _created(kind, job, obj, tracked=_applies(job))
    live = orjson.loads(job.value)
    current = not kind.info.custom or live.get("apiVersion") == kind.storage_version
    new = change(kind.from_storage(live))
    write.check_namespace(kind, job.namespace, new)
    write.check_name(new, job.name)
    old = kind.from_storage(orjson.loads(job.value))
    if not _applies(job):
        write.track_change(kind, old, new, context, job.now, job.subresource)
    write.check_version(kind, new, job.name, job.rv)
    new, old = kind.to_storage(new), kind.to_storage(old)
    write.carry_meta(new["metadata"], old["metadata"])
    new["metadata"]["resourceVersion"] = str(job.rv)
    kind.prepare_update(new, old, job.subresource)
    refusal = _refused(
        lambda: write.check_change(kind, new, old, job.name, job.subresource, context)
    )
    same = refusal is None and write.is_same(new, old) and current
    return _outcome(kind, new, job, refusal=refusal, same=same)


def _created(kind: Kind, job: Job, obj: Obj, *, tracked: bool, versioned: bool = False) -> Outcome:
    meta, context = obj["metadata"], job.context
    name = meta.get("name", "")
    write.strip_meta(meta, tracked=tracked)
    if not tracked:
        write.track_change(kind, None, obj, context, job.now, "")
    meta["uid"], meta["creationTimestamp"] = job.uid, job.now
    obj = write.prepared(kind, obj, context)
    refusal = _refused(lambda: write.check_new(kind, obj, name, context))
    out = _outcome(kind, obj, job, refusal=refusal, whole=context.dry_run)
    out.versioned = versioned
    return out


def _refused(check: Callable[[], None]) -> errors.ApiError | None:
    try:
        check()
    except errors.ApiError as err:
        return portable(err)
    return None


def _outcome(
    kind: Kind,
    obj: Obj,
    job: Job,
    *,
    refusal: errors.ApiError | None,
    same: bool = False,
    whole: bool = False,
) -> Outcome:
    meta = obj["metadata"]
    kept = {k: v for k, v in meta.items() if k not in ("annotations", "managedFields")}
    out = Outcome(meta=kept, refusal=refusal, same=same, whole=whole)
    out.warnings = job.context.warnings
    if refusal is not None:
        return out
    out.gone = write.finished_deleting(meta) and not kind.held(obj)
    out.fields = kind.fields(obj)
    if not whole:
        meta["resourceVersion"] = job.uid
    out.stored = _parts(_now(kind.stored(obj)), job.uid)
    served = kind.from_storage(obj)
    if kind.info.custom or not kind.plain:
        out.served = _parts(served, job.uid)
    return out


def _parts(obj: Obj, version: str) -> tuple[bytes, bytes]:
    raw = orjson.dumps(obj)
    before, _, after = raw.partition(orjson.dumps({"resourceVersion": version})[1:-1])
    return before, after


def _now(work: Coroutine[Any, Any, Obj]) -> Obj:
    """The result of a coroutine that does not wait."""
    try:
        work.send(None)
    except StopIteration as done:
        found: Obj = done.value
        return found
    raise AssertionError("a kind with a recipe does not wait to be stored")


def _applies(job: Job) -> bool:
    return job.patch and job.form == APPLY


def _sent(kind: Kind, job: Job) -> Obj:
    return decode_object(kind, job.body, job.form, job.context)


def _change(kind: Kind, job: Job) -> write.Change:
    if job.patch:
        return patcher(
            kind, job.body, job.form, job.context,
            subresource=job.subresource, now=lambda: job.now,
        )  # fmt: skip

    def sent(live: Obj | None) -> Obj:
        obj = _sent(kind, job)
        write.check_namespace(kind, job.namespace, obj)
        write.check_name(obj, job.name)
        if live is not None:
            write.check_uid(kind, obj, live)
        return obj

    return sent


@lru_cache(64)
def made(recipe: bytes) -> Kind:
    """The kind of a recipe."""
    make, *args = pickle.loads(recipe)
    kind: Kind = make(*args)
    return kind
