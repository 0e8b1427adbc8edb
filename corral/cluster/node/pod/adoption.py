"""What earlier agents left: containers by pod, and the story of each as its machine is told it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from corral.cluster.node.container.messages import termination_message
from corral.cluster.node.container.processes import Container
from corral.cluster.node.layout import Layout
from corral.cluster.node.pod.lifecycle import Record
from corral.cluster.node.pod.transitions import Exited, Started, StartFailed
from corral.cluster.node.timestamps import parse_time
from corral.cluster.node.wasm import exit_reason
from corral.kube.types import Obj

__all__ = ["attempts_by_pod", "exit_of", "reported", "story_of"]

INTERRUPTED_CODE: Final = 143
"""Of a container that ended well, but only because it was told to by an agent that stopped."""


def attempts_by_pod(containers: Iterable[Container]) -> dict[str, list[Container]]:
    """Pod uid → its containers, attempts in order; sandboxes are left out."""
    found: dict[str, list[Container]] = {}
    for container in containers:
        if "container" in container.labels:
            found.setdefault(container.labels["uid"], []).append(container)
    for attempts in found.values():
        attempts.sort(key=lambda c: int(c.labels["attempt"]))
    return found


def exit_of(
    container: Container, spec: Obj, layout: Layout, *, interrupted: bool = False
) -> Exited:
    """How a container ended."""
    state, labels = container.state, container.labels
    code = INTERRUPTED_CODE if interrupted and state.exit_code == 0 else state.exit_code
    message = termination_message(
        layout.message(labels["uid"], labels["container"], int(labels["attempt"])),
        policy=spec.get("terminationMessagePolicy") or "File",
        failed=code != 0,
        log=layout.log(
            {"metadata": {**labels, "name": labels["pod"]}},
            labels["container"],
            int(labels["attempt"]),
        ),
    )
    return Exited(
        name=labels["container"],
        id=container.id,
        at=state.finished_at / 1e9,
        exit_code=code,
        signal=state.signal,
        oom_killed=state.oom_killed,
        message=message,
        reason=exit_reason(code) if labels.get("runtime") == "wasm" else "",
        lost=state.lost,
    )


def story_of(
    pod: Obj, attempts: Sequence[Container], layout: Layout, *, interrupted: bool
) -> dict[str, list[Record]]:
    """What the pod's machine has to know of the containers that are there."""
    specs = {
        container["name"]: container
        for kind in ("initContainers", "containers")
        for container in pod["spec"].get(kind) or ()
    }
    story: dict[str, list[Record]] = {}
    newest = {container.labels["container"]: container for container in attempts}
    for container in attempts:
        name, state = container.labels["container"], container.state
        if name not in specs or state.unmade:
            continue
        records = story.setdefault(name, [])
        if state.error:
            records.append(
                StartFailed(
                    name=name, reason="RunContainerError", message=state.error, terminated=True
                )
            )
            continue
        records.append(
            Started(
                name=name,
                id=container.id,
                at=state.started_at / 1e9,
                image_id=container.labels.get("image", ""),
                attempt=int(container.labels["attempt"]),
            )
        )
        if not state.running:
            last = interrupted and newest[name] is container
            records.append(exit_of(container, specs[name], layout, interrupted=last))
    return story


def reported(pod: Obj, story: Mapping[str, list[Record]]) -> dict[str, list[Record]]:
    """The same with containers that the API knows to have run, and this machine does not.

    They are lost: nothing is known of how they ended, and they count as failed.
    """
    result = dict(story)
    status = pod.get("status") or {}
    kinds = ("initContainerStatuses", "containerStatuses")
    for one in (one for kind in kinds for one in status.get(kind) or ()):
        state = one.get("state") or {}
        running = state.get("running")
        said = running or state.get("terminated") or (one.get("lastState") or {}).get("terminated")
        if said and one["name"] not in story:
            result[one["name"]] = list(_lost(one, said, running=bool(running)))
    return result


def _lost(status: Obj, state: Obj, *, running: bool) -> Iterable[Record]:
    name, attempt = status["name"], int(status.get("restartCount") or 0)
    identity = str(status.get("containerID") or "").removeprefix("corral://")
    began = parse_time(state["startedAt"]) if state.get("startedAt") else 0.0
    yield Started(
        name=name, id=identity, at=began, image_id=status.get("imageID", ""), attempt=attempt
    )
    if running:
        yield Exited(name=name, id=identity, at=began, exit_code=137, lost=True)
        return
    ended = parse_time(state["finishedAt"]) if state.get("finishedAt") else began
    code = int(state.get("exitCode", 137))
    yield Exited(
        name=name,
        id=identity,
        at=ended,
        exit_code=code,
        oom_killed=state.get("reason") == "OOMKilled",
        message=state.get("message", ""),
    )
