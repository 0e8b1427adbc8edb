"""Changes to a job that is there: suspend, resume, scale, and run again.

A restart deletes the job and creates it anew under its name, with its spec, labels and annotations:
controllers treat a job that is over as over for good. Before anything is deleted the API server is
asked whether it would take the new one; once it is deleted, the restart is carried through even if
the caller is cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from corral.jobs import errors
from corral.jobs.kinds import JobKind
from corral.jobs.phases import section, text
from corral.jobs.translate import Asked, telling
from corral.jobs.watching import Scope, wait_for
from corral.kube.client import KubeClient
from corral.kube.types import Obj

__all__ = ["RESTARTED_ANNOTATION", "Target", "fresh_copy", "restart", "scale", "set_suspended"]

RESTARTED_ANNOTATION: Final = "corral.dev/restarted-at"
FIELD_MANAGER: Final = "corral"
_GONE_SECONDS: Final = 120.0
"""How long the objects of a deleted job may take to go."""
_ATTEMPTS: Final = 5
_COPIED: Final = ("name", "namespace", "labels", "annotations", "ownerReferences")


@dataclass(frozen=True, slots=True)
class Target:
    """Which job, and which version of it where that matters."""

    kind: JobKind
    namespace: str
    name: str
    resource_version: str | None = None

    def asked(self, verb: str, subresource: str = "") -> Asked:
        kind = self.kind
        return Asked(verb, kind.resource, self.namespace, self.name, subresource)


async def set_suspended(client: KubeClient, target: Target, *, suspended: bool) -> Obj:
    """Ask for suspension or its end.

    Raises:
        NotSupported: the kind knows no suspension.
        Conflict: the job is over.
    """
    kind = target.kind
    word = "suspended" if suspended else "resumed"
    if not kind.suspendable:
        raise errors.NotSupported(
            f"{kind.kind}s cannot be {word}", hint="delete the job, and create it again later"
        )
    with telling(target.asked("get")):
        found = await client.get(kind.resource, target.name, namespace=target.namespace)
    if kind.finished(found):
        raise errors.Conflict(
            f"{target.asked('').what} is {kind.phase(found)}: it cannot be {word} any more",
            hint=f"`corral restart {kind.singular} {target.name}` runs it again",
        )
    return await _set(client, target, kind.suspend_path, suspended)


async def scale(client: KubeClient, target: Target, *, replicas: int) -> Obj:
    """Ask for another number of replicas.

    Raises:
        NotSupported: the kind has none.
        Invalid: the number is none that the kind takes.
    """
    kind = target.kind
    if not kind.scalable:
        raise errors.NotSupported(f"{kind.kind}s have no number of replicas to change")
    if replicas < 0:
        problem = errors.FieldProblem("replicas", "must not be negative", "FieldValueInvalid")
        raise errors.Invalid("the number of replicas must not be negative", fields=(problem,))
    return await _set(client, target, kind.scale_path or ("spec", "replicas"), replicas)


async def _set(client: KubeClient, target: Target, path: tuple[str, ...], value: bool | int) -> Obj:
    patch: Obj = {}
    inner = patch
    for name in path[:-1]:
        inner = inner.setdefault(name, {})
    inner[path[-1]] = value
    if target.resource_version:
        patch["metadata"] = {"resourceVersion": target.resource_version}
    with telling(target.asked("patch")):
        return await client.patch(
            target.kind.resource,
            target.name,
            patch=patch,
            namespace=target.namespace,
            field_manager=FIELD_MANAGER,
        )


# --- restart -------------------------------------------------------------------------------------


async def restart(
    client: KubeClient, target: Target, *, force: bool, clock: Callable[[], datetime]
) -> Obj:
    """Run a job again.

    Raises:
        NotSupported: the kind is nothing that runs.
        Conflict: it is not over, and ``force`` was not given; or it is owned by another object.
        RestartIncomplete: it was deleted and could not be created; the error has the manifest.
    """
    kind = target.kind
    if not kind.restartable:
        raise errors.NotSupported(f"{kind.kind}s do not run, so they cannot be restarted")
    with telling(target.asked("get")):
        old = await client.get(kind.resource, target.name, namespace=target.namespace)
    _check_restart(target, old, force=force)
    fresh = fresh_copy(old, restarted_at=clock())
    await _rehearse(client, target, fresh)
    task = asyncio.create_task(_replace(client, target, old=old, fresh=fresh))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        # Bounded, and the job would be lost otherwise.
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()
        raise


def _check_restart(target: Target, old: Obj, *, force: bool) -> None:
    kind, metadata = target.kind, section(old, "metadata")
    what = target.asked("").what
    version = metadata.get("resourceVersion")
    if target.resource_version and target.resource_version != version:
        raise errors.Changed(f"{what} has changed", hint="read it again and repeat the restart")
    if "deletionTimestamp" in metadata:
        raise errors.Conflict(f"{what} is being deleted", hint="create it again when it is gone")
    if any(owner.get("controller") for owner in metadata.get("ownerReferences") or ()):
        raise errors.Conflict(
            f"{what} belongs to another object, which would make it anew itself",
            hint="restart the object that owns it",
        )
    if not force and not kind.finished(old):
        raise errors.Conflict(
            f"{what} is {kind.phase(old)}: only a job that is over is restarted",
            hint="wait for it, or restart it with force, which deletes what it has done so far",
        )


def fresh_copy(old: Obj, *, restarted_at: datetime) -> Obj:
    """The same job as if it had just been written; nothing the server or a controller added."""
    metadata = {
        key: deepcopy(value)
        for key, value in section(old, "metadata").items()
        if key in _COPIED and value
    }
    stamp = restarted_at.isoformat(timespec="seconds").replace("+00:00", "Z")
    metadata["annotations"] = {**section(metadata, "annotations"), RESTARTED_ANNOTATION: stamp}
    rest = {key: deepcopy(value) for key, value in old.items() if key not in ("metadata", "status")}
    return {**rest, "metadata": metadata}


async def _rehearse(client: KubeClient, target: Target, fresh: Obj) -> None:
    """Would the API server take it? Under another name, since this one is still taken."""
    metadata = {key: value for key, value in fresh["metadata"].items() if key != "name"}
    metadata["generateName"] = f"{target.name[:40].rstrip('-')}-"
    with telling(Asked.of("create", target.kind, target.namespace)):
        await client.create(
            target.kind.resource,
            {**fresh, "metadata": metadata},
            namespace=target.namespace,
            field_manager=FIELD_MANAGER,
            dry_run=True,
        )


async def _replace(client: KubeClient, target: Target, *, old: Obj, fresh: Obj) -> Obj:
    kind, metadata = target.kind, section(old, "metadata")
    with telling(target.asked("delete")):
        await client.delete(
            kind.resource,
            target.name,
            namespace=target.namespace,
            # The new pods have the names of the old ones: those must be gone first.
            propagation="Foreground",
            uid=text(metadata.get("uid")),
            resource_version=target.resource_version or "",
        )
    scope = Scope(kind, target.namespace, target.name)
    try:
        await wait_for(client, scope, "Deleted", timeout=_GONE_SECONDS)
        return await _create(client, target, fresh)
    except errors.JobError as error:
        raise errors.RestartIncomplete(
            f"{target.asked('').what} was deleted but not created again: {error.message}",
            hint="apply the manifest of this error once the old job is gone",
            manifest=fresh,
        ) from error


async def _create(client: KubeClient, target: Target, fresh: Obj) -> Obj:
    for attempt in range(_ATTEMPTS):
        try:
            with telling(target.asked("create")):
                return await client.create(
                    target.kind.resource,
                    fresh,
                    namespace=target.namespace,
                    field_manager=FIELD_MANAGER,
                )
        except errors.Unavailable:
            if attempt == _ATTEMPTS - 1:
                raise
            await asyncio.sleep(0.5 * 2**attempt)  # the server is away; the job is not there
        except errors.AlreadyExists:
            if attempt == 0:
                raise
            # The answer to the request before was lost, not the request.
            with telling(target.asked("get")):
                return await client.get(
                    target.kind.resource, target.name, namespace=target.namespace
                )
    raise AssertionError("unreachable")
