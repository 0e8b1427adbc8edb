"""What a node says about its pods: events in the words of a kubelet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from corral.cluster.node.container.restarts import is_sidecar
from corral.kube.types import Obj
from corral.runtime import EventRecorder

__all__ = ["PodEvents"]


class PodEvents:
    """The events of one pod and its containers."""

    def __init__(self, recorder: EventRecorder, pod: Callable[[], Obj]) -> None:
        self._recorder = recorder
        self._pod = pod

    def say(
        self, kind: Literal["Normal", "Warning"], reason: str, message: str, *, container: str = ""
    ) -> None:
        """About the pod, or one of its containers."""
        pod = {"apiVersion": "v1", "kind": "Pod", **self._pod()}
        path = field_path(pod, container) if container else ""
        self._recorder.record(pod, kind, reason=reason, message=message, field_path=path)

    def normal(self, reason: str, message: str, *, container: str = "") -> None:
        self.say("Normal", reason, message, container=container)

    def warning(self, reason: str, message: str, *, container: str = "") -> None:
        self.say("Warning", reason, message, container=container)


def field_path(pod: Obj, name: str) -> str:
    """Where a container stands in its pod."""
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        for container in pod["spec"].get(kind) or ():
            if container["name"] == name:
                return f"spec.{kind}{{{name}}}"
    return ""


def pod_words(pod: Obj) -> str:
    """A pod as kubelets name it in messages."""
    meta = pod["metadata"]
    return f"{meta['name']}_{meta.get('namespace', '')}({meta.get('uid', '')})"


def stop_words(spec: Obj, why: str, *, init: bool) -> str:
    """Why a container is stopped, as the Killing event says it."""
    name = spec["name"]
    if why.endswith("probe failed"):
        text = f"Container {name} failed {why.removesuffix(' failed')}"
        return f"{text}, will be restarted" if not init or is_sidecar(spec, init=True) else text
    if why == "FailedPostStartHook":
        return "FailedPostStartHook"
    return f"Stopping container {name}"
