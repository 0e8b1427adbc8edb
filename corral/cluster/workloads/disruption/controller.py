"""Keeps the status of PodDisruptionBudgets right, so that evictions know what is left.

Guarantees:
- A status is written only over the version it was made from: an eviction that the server has noted
  meanwhile is never lost.
- When the number of wanted pods cannot be found out, nothing may be disrupted.
- Changes of the pods of one budget are batched, half a millisecond a pod, at most a second.
- A pod that was chosen for disruption and is not deleted within two minutes loses the condition.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from corral.cluster.workloads.disruption.budget import failed_status, judge, needs_scale
from corral.cluster.workloads.disruption.scales import Scales, ScaleUnknown
from corral.cluster.workloads.endpoints.selection import LabelledPods
from corral.cluster.workloads.pods import is_deleting, is_ready, is_terminal, pod_condition
from corral.cluster.workloads.times import datetime_or_zero, seconds_between
from corral.kube import errors
from corral.kube.resources import (
    DEPLOYMENTS,
    PODDISRUPTIONBUDGETS,
    PODS,
    REPLICASETS,
    REPLICATIONCONTROLLERS,
    STATEFULSETS,
)
from corral.kube.selectors import Selector, SelectorError
from corral.kube.times import format_datetime
from corral.kube.types import Obj
from corral.runtime import Change, Manager, Result, key_of, version_of, write_status

__all__ = ["DisruptionController", "StaleDisruptions", "register"]

FIELD_MANAGER: Final = "disruption-controller"
STALE_AFTER: Final = timedelta(minutes=2)
TARGET: Final = "DisruptionTarget"
_OWNERS: Final = (REPLICASETS, DEPLOYMENTS, STATEFULSETS, REPLICATIONCONTROLLERS)
_WORKERS: Final = 3
_BATCH_PER_POD: Final = 0.0005
_LONGEST_BATCH: Final = 1.0
_RETRY: Final = 5.0
"""Seconds until a budget whose numbers could not be found out is tried again."""


def _utc() -> datetime:
    return datetime.now(UTC)


def register(
    manager: Manager,
    *,
    now: Callable[[], datetime] = _utc,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Add the controllers of budgets and of stale disruptions to a manager."""
    DisruptionController(manager, now=now, clock=clock)
    StaleDisruptions(manager, now=now)


class DisruptionController:
    """The status of budgets."""

    def __init__(
        self, manager: Manager, *, now: Callable[[], datetime], clock: Callable[[], float]
    ) -> None:
        budgets, pods = manager.informer(PODDISRUPTIONBUDGETS), manager.informer(PODS)
        owners = {(one.group, one.kind): manager.informer(one) for one in _OWNERS}
        self._client = manager.client
        self._now, self._clock = now, clock
        self._budgets, self._pods = budgets.store, pods.store
        self._labelled = LabelledPods(pods)
        self._scales = Scales(manager.client, owners)
        self._recorder = manager.recorder("controllermanager")
        self._batches: dict[str, float] = {}
        """Budget → when changes of its pods may be looked at again."""
        controller = manager.controller("disruption", self.reconcile, workers=_WORKERS)
        self._queue = controller.queue
        controller.watch(budgets)
        controller.informers += [pods, *owners.values()]
        pods.add_handler(self._on_pod)

    def _on_pod(self, change: Change) -> None:
        if change.is_initial or not _health_changed(change):
            return  # at the start the budgets come anyway
        namespace = change.object["metadata"].get("namespace", "")
        now = self._clock()
        for budget in self._budgets.objects(namespace):
            states = (change.old, change.new)
            if any(state is not None and _selects(budget, state) for state in states):
                key = key_of(budget)
                self._queue.add_after(key, self._batches.get(key, 0.0) - now)

    async def reconcile(self, key: str) -> Result | None:
        budget = self._budgets.get(key)
        if budget is None:
            self._batches.pop(key, None)
            return None
        try:
            pods = self._pods_of(budget)
            scale = await self._scale(budget, pods) if needs_scale(budget) else 0
        except (SelectorError, ScaleUnknown, errors.ApiError) as err:
            self._recorder.warning(
                budget,
                "CalculateExpectedPodCountFailed",
                f"Failed to calculate the number of expected pods: {err}",
            )
            await self._write(budget, failed_status(budget, str(err), now=self._now()))
            return Result(requeue_after=_RETRY)
        self._batches[key] = self._clock() + min(_LONGEST_BATCH, _BATCH_PER_POD * len(pods))
        if not pods:
            self._recorder.normal(budget, "NoPods", "No matching pods found")
        verdict = judge(budget, pods, scale, now=self._now())
        for pod in verdict.overdue:
            self._recorder.warning(
                pod, "NotDeleted", f"Pod was expected by PDB {key} to be deleted but it wasn't"
            )
        await self._write(budget, verdict.status)
        if verdict.recheck_after is None:
            return None
        return Result(requeue_after=max(verdict.recheck_after, 0.001))

    def _pods_of(self, budget: Obj) -> list[Obj]:
        namespace = budget["metadata"].get("namespace", "")
        selector = budget["spec"].get("selector")
        wanted = Selector.from_object(selector)
        labels = (selector or {}).get("matchLabels") or {}
        if not labels:
            return self._pods.objects(namespace, selector=wanted)
        return [
            pod
            for pod in self._labelled.candidates(namespace, labels)
            if wanted.matches(pod["metadata"].get("labels") or {})
        ]

    async def _scale(self, budget: Obj, pods: list[Obj]) -> int:
        wanted = await self._scales.wanted(pods)
        if wanted.unmanaged:
            selector = Selector.from_object(budget["spec"].get("selector"))
            self._recorder.warning(
                budget,
                "UnmanagedPods",
                f"Pods selected by this PodDisruptionBudget (selector: {selector}) were found to "
                "be unmanaged. As a result, the status of the PDB cannot be calculated correctly, "
                "which may result in undefined behavior. To account for these pods please set "
                '".spec.minAvailable" field of the PDB to an integer value.',
            )
        return wanted.total

    async def _write(self, budget: Obj, status: Obj) -> None:
        try:
            await write_status(
                self._client, PODDISRUPTIONBUDGETS, budget, status, field_manager=FIELD_MANAGER
            )
        except errors.NotFound:
            return  # gone meanwhile


def _selects(budget: Obj, pod: Obj) -> bool:
    try:
        wanted = Selector.from_object(budget["spec"].get("selector"))
    except SelectorError:
        return False
    return wanted.matches(pod["metadata"].get("labels") or {})


def _health_changed(change: Change) -> bool:
    old, new = change.old, change.new
    if old is None or new is None:
        return True
    fields = ("labels", "ownerReferences")
    return (
        is_ready(old) != is_ready(new)
        or is_deleting(old) != is_deleting(new)
        or any(old["metadata"].get(f) != new["metadata"].get(f) for f in fields)
    )


class StaleDisruptions:
    """Takes back the disruption condition of pods that live on."""

    def __init__(self, manager: Manager, *, now: Callable[[], datetime]) -> None:
        pods = manager.informer(PODS)
        self._client = manager.client
        self._pods = pods.store
        self._now = now
        controller = manager.controller("stale-disruption", self.reconcile)
        self._queue = controller.queue
        controller.informers.append(pods)
        pods.add_handler(self._on_pod)

    def _on_pod(self, change: Change) -> None:
        if change.new is not None:
            left = self._left(change.new)
            if left is not None:
                self._queue.add_after(change.key, left)

    def _left(self, pod: Obj) -> float | None:
        """Seconds until the condition is stale; None when there is none to take back."""
        condition = pod_condition(pod, TARGET)
        if condition is None or condition.get("status") != "True":
            return None
        if is_deleting(pod) or is_terminal(pod):
            return None
        if condition.get("reason") == "TerminationByKubelet":
            return None
        since = datetime_or_zero(condition.get("lastTransitionTime"))
        return max(0.0, seconds_between(self._now(), since + STALE_AFTER))

    async def reconcile(self, key: str) -> Result | None:
        pod = self._pods.get(key)
        left = None if pod is None else self._left(pod)
        if pod is None or left is None:
            return None
        if left > 0:
            return Result(requeue_after=left)
        fresh: Obj = {
            "type": TARGET,
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": format_datetime(self._now()),
        }
        if pod["metadata"].get("generation"):
            fresh["observedGeneration"] = pod["metadata"]["generation"]
        known = (pod.get("status") or {}).get("conditions") or ()
        conditions = [fresh if one.get("type") == TARGET else one for one in known]
        try:
            await self._client.patch(
                PODS,
                pod["metadata"]["name"],
                namespace=pod["metadata"]["namespace"],
                patch={
                    "metadata": {"resourceVersion": version_of(pod)},
                    "status": {"conditions": conditions},
                },
                subresource="status",
                field_manager=FIELD_MANAGER,
            )
        except errors.NotFound:
            return None  # gone meanwhile
        return None
