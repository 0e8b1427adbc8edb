"""What a pod does, or why it does not: one value per pod, read from its status alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from corral.client.answers import Answer, named
from corral.client.kinds import JobKind
from corral.client.phases import condition, section, sections, status_of, text
from corral.client.roles import Role
from corral.kube.types import Obj

__all__ = ["PodSummary", "pod_summary"]


class PodSummary(Answer):
    """One pod: who it is, how far it is, and why not further."""

    required = ("name", "role", "phase")

    name: str = ""
    role_name: str = named("role", "pod")
    index: int | None = None
    """Among the pods of its role."""
    phase: str = "Unknown"
    """The pod's own: Pending, Running, Succeeded, Failed, Unknown."""
    reason: str = ""
    """``Unschedulable``, ``ImagePullBackOff``, ``OOMKilled``, …; empty if all is well."""
    message: str = ""
    container: str = ""
    """The one that the reason is about."""
    node: str = ""
    ready: bool = False
    restarts: int = 0
    exit_code: int | None = None
    signal: int | None = None
    deleting: bool | None = None
    """True or absent."""

    @property
    def role(self) -> Role:
        return Role(self.role_name, self.index)

    @property
    def order(self) -> tuple[tuple[int, str, int], str]:
        return self.role.order, self.name


@dataclass(frozen=True, slots=True)
class _Trouble:
    reason: str
    message: str = ""
    container: str = ""
    exit_code: int | None = None
    signal: int | None = None


def pod_summary(kind: JobKind, pod: Obj) -> PodSummary:
    """Read a pod; whatever is missing is unknown."""
    metadata, status = section(pod, "metadata"), status_of(pod)
    trouble, role = _trouble(pod) or _Trouble(""), kind.role(pod)
    return PodSummary(
        name=text(metadata.get("name")),
        role_name=role.name,
        index=role.index,
        phase=text(status.get("phase")) or "Unknown",
        reason=trouble.reason,
        message=trouble.message,
        container=trouble.container,
        node=text(section(pod, "spec").get("nodeName")),
        ready=(condition(pod, "Ready") or {}).get("status") == "True",
        restarts=sum(_number(c.get("restartCount")) for c in _containers(pod)),
        exit_code=trouble.exit_code,
        signal=trouble.signal,
        deleting="deletionTimestamp" in metadata or None,
    )


def _trouble(pod: Obj) -> _Trouble | None:
    status = status_of(pod)
    if status.get("phase") == "Succeeded":
        return None
    return _died(pod) or _waiting(pod) or _whole_pod(status) or _unscheduled(pod)


def _died(pod: Obj) -> _Trouble | None:
    """A container that ended badly and is not to be started again, or has not been yet."""
    for container in _containers(pod):
        ended = section(section(container, "state"), "terminated")
        code = ended.get("exitCode")
        if isinstance(code, int) and code != 0:
            return _ended(container, ended)
    return None


def _ended(container: Obj, ended: Obj) -> _Trouble:
    code, signal = ended.get("exitCode"), ended.get("signal")
    if not isinstance(signal, int) and isinstance(code, int) and 128 < code < 160:
        signal = code - 128
    return _Trouble(
        text(ended.get("reason")) or "Error",
        text(ended.get("message")).strip(),
        text(container.get("name")),
        code if isinstance(code, int) else None,
        signal if isinstance(signal, int) else None,
    )


_STARTING = ("ContainerCreating", "PodInitializing")


def _waiting(pod: Obj) -> _Trouble | None:
    """A container that does not start; the last end says why it is started again."""
    for container in _containers(pod):
        waiting = section(section(container, "state"), "waiting")
        reason = text(waiting.get("reason"))
        if not reason or reason in _STARTING:
            continue
        last = section(section(container, "lastState"), "terminated")
        before = _ended(container, last) if last else _Trouble("")
        message = text(waiting.get("message")) or before.message
        return _Trouble(
            reason, message, text(container.get("name")), before.exit_code, before.signal
        )
    return None


def _whole_pod(status: Obj) -> _Trouble | None:
    reason = text(status.get("reason"))
    return _Trouble(reason, text(status.get("message"))) if reason else None


def _unscheduled(pod: Obj) -> _Trouble | None:
    scheduled = condition(pod, "PodScheduled")
    if scheduled is None or scheduled.get("status") != "False":
        return None
    reason = text(scheduled.get("reason")) or "Unschedulable"
    return _Trouble(reason, text(scheduled.get("message")))


def _containers(pod: Obj) -> Iterator[Obj]:
    for name in ("initContainerStatuses", "containerStatuses"):
        yield from sections(status_of(pod), name)


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
