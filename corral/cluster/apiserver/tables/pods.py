"""The row of a pod: one word that says how its containers are doing, and how often they restarted.

The word is found in steps, each overruling the one before: the phase, the scheduling gates, the
first init container that is not done, the containers from last to first, and the deletion.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from corral.cluster.apiserver.tables.cells import NONE, age, born
from corral.kube.types import Obj

__all__ = ["conditions", "row"]

_NEVER = ""
"""A moment before all others; timestamps in UTC compare as text."""

_SUCCEEDED: Obj = {
    "type": "Completed",
    "status": "True",
    "reason": "Succeeded",
    "message": "The pod has completed successfully.",
}
_FAILED: Obj = {
    "type": "Completed",
    "status": "True",
    "reason": "Failed",
    "message": "The pod failed.",
}


def conditions(obj: Obj) -> list[Obj]:
    """The conditions of the row: a pod that ended says so."""
    phase = (obj.get("status") or {}).get("phase")
    if phase == "Succeeded":
        return [_SUCCEEDED]
    return [_FAILED] if phase == "Failed" else []


class _Tally:
    """What is counted over the containers of one pod."""

    __slots__ = ("last_restart", "ready", "reason", "restarts")

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.ready = 0
        self.restarts = 0
        self.last_restart = _NEVER

    def restarted(self, status: Obj) -> None:
        self.restarts += status.get("restartCount", 0)
        ended = (status.get("lastState") or {}).get("terminated")
        if ended:
            at = ended.get("finishedAt") or _NEVER
            if at > self.last_restart:
                self.last_restart = at


def row(pod: Obj, now: datetime) -> list[Any]:
    """Name, ready, status, restarts, age; wide: IP, node, nominated node, readiness gates."""
    meta = pod["metadata"]
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    found = status.get("conditions") or ()
    total = len(spec.get("containers") or ())
    tally = _Tally(status.get("reason") or status.get("phase", ""))
    for condition in found:
        if condition.get("reason") == "SchedulingGated" and condition["type"] == "PodScheduled":
            tally.reason = "SchedulingGated"
    initial = spec.get("initContainers")
    if initial or status.get("initContainerStatuses"):
        sidecars = {c["name"] for c in initial or () if c.get("restartPolicy") == "Always"}
        total += len(sidecars)
        _count_with_init(tally, status, found, sidecars=sidecars, init=len(initial or ()))
    else:
        _count_containers(tally, status, found)
    if "deletionTimestamp" in meta:
        _deleted(tally, status)
    restarts = str(tally.restarts)
    if tally.restarts and tally.last_restart:
        restarts = f"{restarts} ({age(tally.last_restart, now)} ago)"
    ips = status.get("podIPs")
    return [
        meta.get("name", ""),
        f"{tally.ready}/{total}",
        tally.reason,
        restarts,
        born(pod, now),
        (ips[0].get("ip") if ips else "") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _gates(spec.get("readinessGates"), found),
    ]


def _deleted(tally: _Tally, status: Obj) -> None:
    if status.get("reason") == "NodeLost":
        tally.reason = "Unknown"
    elif status.get("phase") not in ("Succeeded", "Failed"):
        tally.reason = "Terminating"


def _count_with_init(
    tally: _Tally, status: Obj, found: Any, *, sidecars: set[str], init: int
) -> None:
    """Count init containers; their restarts count only until the pod is initialized.

    Restarts of sidecars count for good.
    """
    lasting = _Tally("")
    initializing = False
    for place, container in enumerate(status.get("initContainerStatuses") or ()):
        sidecar = container["name"] in sidecars
        tally.restarted(container)
        if sidecar:
            lasting.restarted(container)
        ended = (container.get("state") or {}).get("terminated")
        if ended is not None and not ended.get("exitCode"):
            continue
        if sidecar and container.get("started"):
            tally.ready += bool(container.get("ready"))
            continue
        tally.reason = _init_reason(container, place, init)
        initializing = True
        break
    if not initializing or _is_true(found, "Initialized"):
        tally.restarts, tally.last_restart = lasting.restarts, lasting.last_restart
        _count_containers(tally, status, found)


def _init_reason(container: Obj, place: int, total: int) -> str:
    state = container.get("state") or {}
    if (ended := state.get("terminated")) is not None:
        return "Init:" + _ended(ended)
    waiting = (state.get("waiting") or {}).get("reason")
    if waiting and waiting != "PodInitializing":
        return f"Init:{waiting}"
    return f"Init:{place}/{total}"


def _ended(state: Obj) -> str:
    if reason := state.get("reason"):
        return str(reason)
    if signal := state.get("signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{state.get('exitCode', 0)}"


def _count_containers(tally: _Tally, status: Obj, found: Any) -> None:
    running, error = False, ""
    for container in reversed(status.get("containerStatuses") or ()):
        tally.restarted(container)
        state = container.get("state") or {}
        waiting = state.get("waiting")
        if waiting and waiting.get("reason"):
            tally.reason = waiting["reason"]
        elif (ended := state.get("terminated")) is not None:
            tally.reason = _ended(ended)
            if ended.get("exitCode"):
                error = tally.reason
        elif container.get("ready") and state.get("running") is not None:
            running = True
            tally.ready += 1
    if tally.reason == "Completed":
        if running and _is_true(found, "Ready"):
            tally.reason = "Running"
        elif error or running:
            tally.reason = error or "NotReady"


def _is_true(found: Any, kind: str) -> bool:
    return any(c["type"] == kind and c.get("status") == "True" for c in found)


def _gates(gates: list[Obj] | None, found: Any) -> str:
    if not gates:
        return NONE
    passed = sum(_is_true(found, gate["conditionType"]) for gate in gates)
    return f"{passed}/{len(gates)}"
