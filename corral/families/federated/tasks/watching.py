"""Watcher: what a running task has given so far, and what it uses.

Partial results come by an annotation of the pod, or as the last JSON object in a log: the courier's
for participants, the task's own for tasks with a monitoringProfile. Readings come from the
cluster's metrics, where it has any.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from corral.api.propeller.tasks import WasmTaskSpec
from corral.families.federated.results import partial_annotation
from corral.families.federated.settings import FederatedSettings
from corral.families.federated.tasks import names
from corral.families.federated.tasks.objects import is_learning
from corral.kube.client import KubeClient
from corral.kube.errors import ApiError
from corral.kube.types import Obj
from corral.runtime import key_of
from corral.runtime.pods.failures import log_lines
from corral.runtime.pods.jsonresults import as_object, last_object
from corral.runtime.pods.states import PodState, pod_state

__all__ = ["Watcher", "readings", "wants_watching"]

_METRICS: Final = "/apis/metrics.k8s.io/v1beta1"


def wants_watching(spec: WasmTaskSpec) -> bool:
    """Whether it is asked from time to time."""
    profile = spec.monitoring_profile
    return is_learning(spec) or bool(profile is not None and profile.enabled)


def readings(measured: Obj, pod: Obj, wanted: Sequence[str] | None) -> Obj:
    """What the task's container uses, as far as it is wanted; with the time of the reading."""
    usage: dict[str, Any] = {}
    for container in measured.get("containers") or ():
        if container.get("name") == names.CONTAINER:
            usage = dict(container.get("usage") or {})
    for found in (pod.get("status") or {}).get("containerStatuses") or ():
        if found.get("name") == names.CONTAINER:
            usage["restarts"] = int(found.get("restartCount") or 0)
    chosen = {key: value for key, value in usage.items() if not wanted or key in wanted}
    stamp = measured.get("timestamp")
    return {**chosen, **({"time": stamp} if stamp and chosen else {})}


class Watcher:
    """Of one operator; asks each task no more often than it should."""

    def __init__(
        self,
        client: KubeClient,
        settings: FederatedSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock
        self._due: dict[str, float] = {}

    def forget(self, key: str) -> None:
        self._due.pop(key, None)

    def wait(self, key: str) -> float:
        """Seconds until the task of this key may be asked again."""
        return max(self._due.get(key, 0.0) - self._clock(), 0.0)

    async def look(
        self, task: Obj, spec: WasmTaskSpec, pods: Sequence[Obj]
    ) -> tuple[Obj | None, Obj | None]:
        """Partial results and readings; none where there is nothing new to ask for."""
        annotated = partial_annotation(pods)
        running = [pod for pod in pods if pod_state(pod) is PodState.RUNNING]
        key = key_of(task)
        if not running or not wants_watching(spec) or self.wait(key) > 0:
            return annotated, None
        profile = spec.monitoring_profile
        monitored = profile is not None and bool(profile.enabled)
        interval = float(profile.interval or 0) if profile is not None else 0.0
        self._due[key] = self._clock() + (interval or self._settings.poll)
        partial = annotated or await self._logged(running[0], learning=is_learning(spec))
        if not monitored or profile is None:
            return partial, None
        return partial, await self._measured(running[0], profile.metrics)

    async def _logged(self, pod: Obj, *, learning: bool) -> Obj | None:
        if learning:
            lines = await log_lines(self._client, pod, names.COURIER, self._settings)
            said = last_object(lines) or {}
            progress = said.get("progress")
            return progress if isinstance(progress, dict) else None
        return last_object(await log_lines(self._client, pod, names.CONTAINER, self._settings))

    async def _measured(self, pod: Obj, wanted: Sequence[str] | None) -> Obj | None:
        metadata = pod["metadata"]
        path = f"{_METRICS}/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        try:
            measured = as_object(await self._client.request("GET", path))
        except ApiError:
            # Most clusters measure a pod only after some time, and some never do.
            measured = None
        return readings(measured or {}, pod, wanted) or None
