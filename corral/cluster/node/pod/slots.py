"""One container of a pod's spec, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from corral.cluster.node.container.backoff import Backoff
from corral.cluster.node.timestamps import format_time
from corral.kube.types import Obj

__all__ = ["LOST_MESSAGE", "Slot", "container_id", "container_status", "settle"]

LOST_MESSAGE: Final = "The container could not be located when the pod was terminated"


@dataclass(slots=True)
class Slot:
    """See :mod:`lifecycle`, which alone changes it."""

    spec: Obj
    kind: str
    """init, sidecar or main."""
    phase: str = "waiting"
    """waiting, starting, running or ended."""
    id: str = ""
    image_id: str = ""
    attempt: int = 0
    """How often it was started; the number of the next attempt."""
    restarts: int = 0
    started_at: float = 0.0
    ended_at: float = 0.0
    started: bool = False
    ready: bool = False
    hooked: bool = True
    """No postStart hook is running."""
    stopping: bool = False
    waiting: Obj | None = None
    terminated: Obj | None = None
    last: Obj | None = None
    backoff: Backoff = field(default_factory=Backoff)
    not_before: float = 0.0

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    @property
    def alive(self) -> bool:
        return self.phase in ("starting", "running")

    @property
    def code(self) -> int:
        return int(self.terminated["exitCode"]) if self.terminated else 0


def container_id(name: str) -> str:
    return f"corral://{name}"


def container_status(slot: Slot, *, initializing: bool) -> Obj:
    """As a kubelet reports it. ``initializing``: the pod has init containers at all."""
    ready = slot.ready
    if slot.kind == "init":
        ready = slot.phase == "ended" and slot.code == 0
    result: Obj = {
        "name": slot.name,
        "state": _state(slot, initializing=initializing),
        "lastState": {"terminated": slot.last} if slot.last else {},
        "ready": ready,
        "restartCount": slot.restarts,
        "image": slot.spec.get("image", ""),
        "imageID": slot.image_id,
        "started": slot.started,
    }
    if slot.id:
        result["containerID"] = container_id(slot.id)
    if resources := slot.spec.get("resources"):
        result["resources"] = resources
        if "requests" in resources:
            result["allocatedResources"] = resources["requests"]
    if mounts := slot.spec.get("volumeMounts"):
        result["volumeMounts"] = [_mount_status(mount) for mount in mounts]
    return result


def _state(slot: Slot, *, initializing: bool) -> Obj:
    if slot.phase == "running":
        return {"running": {"startedAt": format_time(slot.started_at)}}
    if slot.terminated is not None:
        return {"terminated": slot.terminated}
    if slot.waiting is not None:
        return {"waiting": slot.waiting}
    return {"waiting": {"reason": "PodInitializing" if initializing else "ContainerCreating"}}


def settle(slot: Slot, status: Obj) -> None:
    """In the last status of a pod no main container is waiting any more."""
    if "waiting" in status["state"] and slot.kind == "main":
        status["state"] = {
            "terminated": {
                "exitCode": 137,
                "reason": "ContainerStatusUnknown",
                "message": LOST_MESSAGE,
                "startedAt": None,
                "finishedAt": None,
            }
        }


def _mount_status(mount: Obj) -> Obj:
    result: Obj = {"name": mount["name"], "mountPath": mount["mountPath"]}
    if mount.get("readOnly"):
        result |= {"readOnly": True, "recursiveReadOnly": "Disabled"}
    return result
