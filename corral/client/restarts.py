"""Running a job again.

A job that is over is deleted and created anew under its name, with its spec, labels and
annotations: controllers treat it as over for good. Before anything is deleted, the API server is
asked whether it would take the new one. What would be lost with the old one, such as checkpoints,
needs ``force``.

A job that is not over is restarted with ``force`` only: in place where its controller knows how to
go on from what was reached (it is suspended and resumed), else like one that is over.

Whatever the way, a restart that has begun is carried through even if its caller is cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from copy import deepcopy
from datetime import datetime
from typing import Any, Final

from corral.client import errors
from corral.client.actions import FIELD_MANAGER, JobReference, set_field
from corral.client.code import give_code, let_go_of_code
from corral.client.kinds import JobKind
from corral.client.phases import section, status_of, text
from corral.client.translate import ApiRequest, translating
from corral.client.watching import Scope, changes, wait_for
from corral.kube.client import KubeClient
from corral.kube.errors import ApiError
from corral.kube.types import Obj

__all__ = ["RESTARTED_ANNOTATION", "fresh_copy", "restart"]

RESTARTED_ANNOTATION: Final = "corral.dev/restarted-at"
_PATIENCE: Final = 120.0
"""Seconds that the pods of the old run may take to go."""
_ATTEMPTS: Final = 5
_COPIED: Final = ("name", "namespace", "labels", "annotations", "ownerReferences")


async def restart(
    client: KubeClient, target: JobReference, *, force: bool, clock: Callable[[], datetime]
) -> Obj:
    """Run a job again.

    Raises:
        NotSupported: the kind is nothing that runs.
        Conflict: it is not over, or something would be lost, and ``force`` was not given.
        RestartIncomplete: it was deleted and could not be created; the error has the manifest.
    """
    kind = target.kind
    if not kind.restartable:
        raise errors.NotSupported(f"{kind.kind}s do not run, so they cannot be restarted")
    with translating(target.asked("get")):
        old = await client.get(kind.resource, target.name, namespace=target.namespace)
    _check(target, old, force=force)
    if kind.restarts_in_place and not kind.finished(old):
        return await _carried_through(_in_place(client, target))
    fresh = fresh_copy(old, restarted_at=clock())
    await _rehearse(client, target, fresh)
    return await _carried_through(_anew(client, target, old=old, fresh=fresh))


async def _carried_through(work: Coroutine[Any, Any, Obj]) -> Obj:
    """The result of work that is not left half done; it is bounded."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # nobody is left to be told
        raise


def _check(target: JobReference, old: Obj, *, force: bool) -> None:
    kind, metadata = target.kind, section(old, "metadata")
    what = target.asked("").what
    version = metadata.get("resourceVersion")
    if target.resource_version and target.resource_version != version:
        raise errors.Changed(f"{what} has changed", hint="read it again and repeat the restart")
    if "deletionTimestamp" in metadata:
        raise errors.Conflict(f"{what} is being deleted", hint="create it again when it is gone")
    owners = metadata.get("ownerReferences")
    if isinstance(owners, list) and any(o.get("controller") for o in owners):
        raise errors.Conflict(
            f"{what} belongs to another object, which would make it anew itself",
            hint="restart the object that owns it",
        )
    if not force:
        _check_unforced(kind, old, what)


def _check_unforced(kind: JobKind, old: Obj, what: str) -> None:
    if not kind.finished(old):
        goes_on = "goes on from its last checkpoint" if kind.restarts_in_place else "begins anew"
        raise errors.Conflict(
            f"{what} is {kind.phase(old)}: only a job that is over is restarted",
            hint=f"wait for it, or restart it with force: then it is stopped and {goes_on}",
        )
    count = section(status_of(old), "checkpoint").get("count")
    if isinstance(count, int) and count > 0:
        raise errors.Conflict(
            f"{what} has checkpoints ({count}), which a restart deletes with it",
            hint="to go on from one, create another job with spec.checkpoint.restore.from set to "
            "its URI; to begin anew, restart with force",
        )


# --- in place ------------------------------------------------------------------------------------


async def _in_place(client: KubeClient, target: JobReference) -> Obj:
    """Suspend it, and resume it when its pods are gone."""
    kind = target.kind
    scope = Scope(kind, target.namespace, target.name)
    await set_field(client, target, kind.suspend_path, True)
    anew = JobReference(kind, target.namespace, target.name)
    try:
        await wait_for(changes(client, scope), scope, "Suspended", timeout=_PATIENCE)
    except errors.WaitTimeout as error:
        await set_field(client, anew, kind.suspend_path, False)
        raise errors.Unavailable(
            f"{target.asked('').what} was not stopped in time; it goes on as it was",
            hint="is the operator running?",
        ) from error
    return await set_field(client, anew, kind.suspend_path, False)


# --- anew ----------------------------------------------------------------------------------------


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


async def _rehearse(client: KubeClient, target: JobReference, fresh: Obj) -> None:
    """Would the API server take it? Under another name, since this one is still taken."""
    metadata = {key: value for key, value in fresh["metadata"].items() if key != "name"}
    metadata["generateName"] = f"{target.name[:40].rstrip('-')}-"
    with translating(ApiRequest.of("create", target.kind, target.namespace)):
        await client.create(
            target.kind.resource,
            {**fresh, "metadata": metadata},
            namespace=target.namespace,
            field_manager=FIELD_MANAGER,
            dry_run=True,
        )


async def _anew(client: KubeClient, target: JobReference, *, old: Obj, fresh: Obj) -> Obj:
    code = await _delete(client, target, old)
    try:
        await _gone(client, target, uid=text(section(old, "metadata").get("uid")))
        made = await _create(client, target, fresh)
    except errors.JobError as error:
        raise errors.RestartIncomplete(
            f"{target.asked('').what} was deleted but not created again: {error.message}",
            hint="apply the manifest of this error once the old job is gone",
            manifest=fresh,
        ) from error
    with translating(target.asked("patch")):
        await give_code(client, target.kind.resource.stamp(made), code)
    return made


async def _delete(client: KubeClient, target: JobReference, old: Obj) -> list[str]:
    """Delete the old job but for its code, which the new one needs; the names of that."""
    stamped = target.kind.resource.stamp(old)
    with translating(target.asked("delete")):
        code = await let_go_of_code(client, stamped)
        try:
            await client.delete(
                target.kind.resource,
                target.name,
                namespace=target.namespace,
                # The new pods have the names of the old ones: those must be gone first.
                propagation="Foreground",
                uid=text(section(old, "metadata").get("uid")),
                resource_version=target.resource_version or "",
            )
        except ApiError:
            await give_code(client, stamped, code)
            raise
    return code


async def _gone(client: KubeClient, target: JobReference, *, uid: str) -> None:
    """Wait until there is no such object, or another one in its place."""
    scope = Scope(target.kind, target.namespace, target.name)

    def is_another(obj: Obj) -> bool:
        return section(obj, "metadata").get("uid") != uid

    try:
        await wait_for(changes(client, scope), scope, is_another, timeout=_PATIENCE)
    except errors.NotFound:
        return


async def _create(client: KubeClient, target: JobReference, fresh: Obj) -> Obj:
    for attempt in range(_ATTEMPTS):
        try:
            with translating(target.asked("create")):
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
            with translating(target.asked("get")):
                return await client.get(
                    target.kind.resource, target.name, namespace=target.namespace
                )
    raise errors.Unavailable("the API server stayed away")
