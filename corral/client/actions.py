"""Changes to a job that is there: suspend, resume, scale.

Running a job again is in `corral.client.restarts`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.client import errors
from corral.client.kinds import JobKind
from corral.client.translate import ApiRequest, translating
from corral.kube.client import KubeClient
from corral.kube.types import Obj

__all__ = ["FIELD_MANAGER", "JobReference", "scale", "set_field", "set_suspended"]

FIELD_MANAGER: Final = "corral"


@dataclass(frozen=True, slots=True)
class JobReference:
    """Which job, and which version of it where that matters."""

    kind: JobKind
    namespace: str
    name: str
    resource_version: str | None = None

    def asked(self, verb: str, subresource: str = "") -> ApiRequest:
        kind = self.kind
        return ApiRequest(verb, kind.resource, self.namespace, self.name, subresource)


async def set_suspended(client: KubeClient, target: JobReference, *, suspended: bool) -> Obj:
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
    with translating(target.asked("get")):
        found = await client.get(kind.resource, target.name, namespace=target.namespace)
    if kind.finished(found):
        raise errors.Conflict(
            f"{target.asked('').what} is {kind.phase(found)}: it cannot be {word} any more",
            hint=f"`corral restart {kind.singular} {target.name}` runs it again",
        )
    return await set_field(client, target, kind.suspend_path, suspended)


async def scale(client: KubeClient, target: JobReference, *, replicas: int) -> Obj:
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
    return await set_field(client, target, kind.scale_path, replicas)


async def set_field(
    client: KubeClient, target: JobReference, path: tuple[str, ...], value: bool | int
) -> Obj:
    """Change one field, of the version that was asked for where there is one."""
    patch: Obj = {}
    inner = patch
    for name in path[:-1]:
        inner = inner.setdefault(name, {})
    inner[path[-1]] = value
    if target.resource_version:
        patch["metadata"] = {"resourceVersion": target.resource_version}
    with translating(target.asked("patch")):
        return await client.patch(
            target.kind.resource,
            target.name,
            patch=patch,
            namespace=target.namespace,
            field_manager=FIELD_MANAGER,
        )
