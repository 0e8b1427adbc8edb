"""A pod's phase and conditions, from the statuses of its containers, as a kubelet derives them.

Pure functions over dicts. Conditions keep the time of their last change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from corral.cluster.node.container.restarts import is_sidecar, should_restart
from corral.kube.types import Obj

OWNED: Final = (
    "PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled",
)  # fmt: skip
"""The conditions a node writes; all others are somebody else's and stay."""


def phase_of(spec: Obj, statuses: Mapping[str, Obj], *, terminal: bool, initialized: bool) -> str:
    """Pending, Running, Succeeded or Failed.

    ``terminal``: nothing will be started again. ``initialized``: a main container has run.
    """
    counts = dict.fromkeys(("running", "waiting", "stopped", "final", "succeeded"), 0)
    pending = pending_sidecars = 0
    for container in spec.get("initContainers") or ():
        status = statuses[container["name"]]
        if is_sidecar(container, init=True):
            state = status["state"]
            if "running" in state:
                counts["running"] += 1
                pending_sidecars += not status.get("started")
            elif "waiting" in state and not status["lastState"]:
                pending_sidecars += 1
                counts["waiting"] += 1
            continue
        ended = _ended(status)
        if ended is None:
            pending += 1
        elif ended["exitCode"] != 0 and not should_restart(container, spec, ended["exitCode"]):
            return "Failed"
    for container in spec.get("containers") or ():
        status = statuses[container["name"]]
        ended = _ended(status)
        if "running" in status["state"]:
            counts["running"] += 1
        elif ended is None:
            counts["waiting"] += 1
        else:
            counts["stopped"] += 1
            counts["final"] += not should_restart(container, spec, ended["exitCode"])
            if "terminated" in status["state"]:
                counts["succeeded"] += ended["exitCode"] == 0
    if pending or (pending_sidecars and not initialized) or counts["waiting"]:
        return "Pending"
    if counts["running"]:
        return "Running"
    if not counts["stopped"]:
        return "Pending"
    if not terminal and counts["stopped"] != counts["final"]:
        return "Running"
    return "Succeeded" if counts["stopped"] == counts["succeeded"] else "Failed"


def _ended(status: Obj) -> Obj | None:
    """How the container ended last, unless it runs."""
    state = status["state"]
    if "running" in state:
        return None
    found: Obj | None = state.get("terminated") or status["lastState"].get("terminated")
    return found


def conditions_of(
    pod: Obj, statuses: Mapping[str, Obj], *, phase: str, sandbox: bool, now: str
) -> list[Obj]:
    """All conditions of a pod, those of others included."""
    spec, old = pod["spec"], pod.get("status", {}).get("conditions") or []
    others = [condition for condition in old if condition["type"] not in OWNED]
    containers_ready = _containers_ready(spec, statuses, phase)
    made = [
        ("PodReadyToStartContainers", ("True", "", "") if sandbox else ("False", "", "")),
        ("Initialized", _initialized(spec, statuses, phase)),
        ("Ready", _ready(spec, others, containers_ready)),
        ("ContainersReady", containers_ready),
        ("PodScheduled", ("True", "", "")),
    ]
    before = {condition["type"]: condition for condition in old}
    generation = pod["metadata"].get("generation")
    return others + [
        _condition(kind, *value, before.get(kind), generation=generation, now=now)
        for kind, value in made
    ]


def _condition(
    kind: str,
    status: str,
    reason: str,
    message: str,
    before: Obj | None,
    *,
    generation: int | None,
    now: str,
) -> Obj:
    same = before is not None and before["status"] == status
    since = before.get("lastTransitionTime") if before is not None and same else None
    result: Obj = {"type": kind, "status": status, "lastProbeTime": None}
    result["lastTransitionTime"] = since or now
    if generation:
        result["observedGeneration"] = generation
    if reason:
        result["reason"] = reason
    if message:
        result["message"] = message
    return result


Value = tuple[str, str, str]


def _containers_ready(spec: Obj, statuses: Mapping[str, Obj], phase: str) -> Value:
    if phase in ("Succeeded", "Failed"):
        return "False", "PodCompleted" if phase == "Succeeded" else "PodFailed", ""
    sidecars = [c for c in spec.get("initContainers") or () if is_sidecar(c, init=True)]
    names = [container["name"] for container in (*sidecars, *spec.get("containers", ()))]
    unready = [name for name in names if not statuses[name]["ready"]]
    if unready:
        message = f"containers with unready status: {_names(unready)}"
        return "False", "ContainersNotReady", message
    return "True", "", ""


def _ready(spec: Obj, others: Sequence[Obj], containers_ready: Value) -> Value:
    if containers_ready[0] != "True":
        return containers_ready
    problems: list[str] = []
    found = {condition["type"]: condition["status"] for condition in others}
    for gate in spec.get("readinessGates") or ():
        kind = gate["conditionType"]
        if kind not in found:
            problems.append(
                f'corresponding condition of pod readiness gate "{kind}" does not exist.'
            )
        elif found[kind] != "True":
            problems.append(
                f'the status of pod readiness gate "{kind}" is not "True", but {found[kind]}'
            )
    if problems:
        return "False", "ReadinessGatesNotReady", ", ".join(problems)
    return "True", "", ""


def _initialized(spec: Obj, statuses: Mapping[str, Obj], phase: str) -> Value:
    if phase == "Succeeded":
        return "True", "PodCompleted", ""
    if any(_has_run(statuses[container["name"]]) for container in spec.get("containers", ())):
        return "True", "", ""
    incomplete = [
        container["name"]
        for container in spec.get("initContainers") or ()
        if not statuses[container["name"]][
            "started" if is_sidecar(container, init=True) else "ready"
        ]
    ]
    if incomplete:
        message = f"containers with incomplete status: {_names(incomplete)}"
        return "False", "ContainersNotInitialized", message
    return "True", "", ""


def _has_run(status: Obj) -> bool:
    state = status["state"]
    return "running" in state or "terminated" in state or bool(status["lastState"])


def _names(names: Sequence[str]) -> str:
    return f"[{' '.join(names)}]"
