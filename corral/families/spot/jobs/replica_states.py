"""What has become of the copies of a job, by their Jobs and pods. No I/O.

An entry of ``status.jobStatuses`` is the newest start of a copy. It is written before its Job is
made, and before its pod is told to stop: whoever finds it does the rest.
"""

from __future__ import annotations

from typing import Final

from corral.families.spot.jobs.view import World, is_complete, is_failed
from corral.kube.types import Obj
from corral.runtime.pods.failures import failed_container, pod_failure
from corral.runtime.pods.states import PodState, is_terminal, pod_state

__all__ = [
    "ENDED",
    "FAILED",
    "LIVE",
    "LOST",
    "PENDING",
    "RUNNING",
    "STARTING",
    "STOPPED",
    "STOPPING",
    "SUCCEEDED",
    "is_live",
    "machine_of",
    "phase_now",
    "words_of",
]

STARTING: Final = "Starting"
"""Its Job is to be made."""
PENDING: Final = "Pending"
RUNNING: Final = "Running"
STOPPING: Final = "Stopping"
"""Its pod is told to save and to leave."""
STOPPED: Final = "Stopped"
LOST: Final = "Lost"
"""With its machine, or deleted by somebody."""
FAILED: Final = "Failed"
"""By itself."""
SUCCEEDED: Final = "Succeeded"
LIVE: Final = (STARTING, PENDING, RUNNING, STOPPING)
ENDED: Final = (STOPPED, LOST, FAILED, SUCCEEDED)
_SIGNALLED: Final = (137, 143)
"""How a program ends that was killed, or told to stop."""


def is_live(entry: Obj | None) -> bool:
    """Whether a start is under way, or will be."""
    return entry is not None and entry.get("phase") in LIVE


def machine_of(entry: Obj, placements: list[Obj]) -> Obj | None:
    """The placement, not ended, that a copy runs on."""
    for placement in placements:
        same = placement.get("replica") == entry.get("replica")
        here = placement.get("nodeName") and placement["nodeName"] == entry.get("nodeName")
        if same and here and not placement.get("endTime"):
            return placement
    return None


def phase_now(entry: Obj, world: World, placements: list[Obj]) -> str:
    """The phase of a copy that had not ended."""
    before = str(entry.get("phase") or STARTING)
    job = world.jobs.get(str(entry.get("name")))
    if job is None:
        if before == STARTING:
            return STARTING
        return STOPPED if before == STOPPING else LOST
    if is_complete(job):
        return SUCCEEDED
    if is_failed(job):
        return _why_failed(entry, before, world, placements)
    pods = world.live_pods(job["metadata"]["name"])
    if before == STOPPING:
        return STOPPING if pods or not _has_pods(job, world) else STOPPED
    running = any((pod.get("status") or {}).get("phase") == "Running" for pod in pods)
    return RUNNING if running else PENDING


def _has_pods(job: Obj, world: World) -> bool:
    """Whether its pod was made already: one that is told to stop before that is never made."""
    status = job.get("status") or {}
    return bool(world.pods.get(job["metadata"]["name"]) or status.get("active"))


def _why_failed(entry: Obj, before: str, world: World, placements: list[Obj]) -> str:
    if before == STOPPING:
        return STOPPED
    pods = [pod for pod in world.pods.get(str(entry["name"]), ()) if is_terminal(pod)]
    if not pods or pod_state(pods[-1]) is not PodState.FAILED:
        return LOST
    node = str(entry.get("nodeName") or "")
    if node and not world.node_alive(node):
        return LOST
    placement = machine_of(entry, placements)
    machine = world.machines.get(str((placement or {}).get("instance")))
    noticed = (machine is not None and (machine.gone or machine.deadline is not None)) or (
        world.node_deadline(node) is not None
    )
    _, ended = failed_container(pods[-1])
    return LOST if noticed and ended.get("exitCode") in _SIGNALLED else FAILED


def words_of(entry: Obj, world: World) -> str:
    """Why a copy failed, in one line."""
    for pod in reversed(world.pods.get(str(entry.get("name"))) or ()):
        failure = pod_failure(pod)
        if "exitCode" in failure:
            said = " ".join(str(failure.get("message") or "").split())[:300]
            how = f"{failure['reason']}, exit code {failure['exitCode']}"
            return f"{how}: {said}" if said else how
    return "its Job has failed"
