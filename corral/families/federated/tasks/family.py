"""The family of WasmTasks.

A proplet is written into the status before anything is made for the task, so that a crash after any
step does no harm. What is made is made once for each attempt.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from corral.api.propeller.kinds import PROPLETGROUPS, WasmTask
from corral.api.propeller.status import WasmTaskStatus
from corral.families.federated import results
from corral.families.federated.groups.family import node_matters
from corral.families.federated.groups.pools import Pools
from corral.families.federated.groups.proplets import Proplet
from corral.families.federated.reconciles import counted
from corral.families.federated.settings import FederatedSettings
from corral.families.federated.tasks import names, objects
from corral.families.federated.tasks.metrics import TaskMetrics
from corral.families.federated.tasks.observation import Observer, TaskObservation
from corral.families.federated.tasks.state import PATIENCE
from corral.families.federated.tasks.status import INVALID, Draft, is_over, transitions
from corral.families.federated.tasks.waking import (
    WAITING_INDEX,
    freed,
    gives_way,
    index_by_task,
    of_group,
    of_node,
    of_pod,
    waits_for,
)
from corral.kube.client import KubeClient
from corral.kube.resources import CONFIGMAPS, DEPLOYMENTS, JOBS, NODES, PODS, SECRETS
from corral.kube.types import Obj
from corral.runtime import Change, Manager, key_of, mapped, spec_or_metadata_changed
from corral.runtime.family import wiring
from corral.runtime.family.caches import Caches
from corral.runtime.family.decision import Child, Decision, Deletion, Refusal
from corral.runtime.family.declaration import Family, Owned, Watched
from corral.runtime.family.events import Event

__all__ = ["WasmTasks", "register"]

_SOON: Final = 0.2
_KILL_GRACE: Final = 5
"""Seconds that pods have which are taken away: their task is over, or runs elsewhere."""

Task = Decision[WasmTaskStatus]


class WasmTasks(Family[TaskObservation, WasmTaskStatus]):
    """The family of WasmTasks."""

    kind = WasmTask
    component = "corral-wasmtask"
    owns = (
        Owned(PODS, label=names.TASK_LABEL, keys=index_by_task, when=lambda change: True),
        Owned(JOBS, label=names.TASK_LABEL, keys=index_by_task),
        Owned(DEPLOYMENTS, label=names.TASK_LABEL, keys=index_by_task),
    )
    watches = (
        Watched(PROPLETGROUPS, wakes=lambda caches: lambda c: of_group(c, caches.objects)),
        Watched(NODES),
    )

    def __init__(
        self,
        settings: FederatedSettings,
        client: KubeClient,
        pools: Pools,
        *,
        metrics: TaskMetrics | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """``client`` reads logs, pods and measurements of tasks."""
        self.settings: FederatedSettings = settings
        self._observer = Observer(client, settings, pools, metrics=metrics, wall=wall)
        self._metrics = metrics
        self._wall = wall
        self._ends: dict[str, tuple[str, Obj]] = {}
        """By key: how the workload of a task has ended, until that is written."""

    def concerns(self, change: Change) -> bool:
        """Annotations too: one of them ends a task."""
        return spec_or_metadata_changed(change)

    def forget(self, key: str) -> None:
        self._observer.forget(key)
        self._ends.pop(key, None)

    def written(self, obj: Obj, status: Obj) -> None:
        end = self._ends.pop(key_of(obj), None)
        if self._metrics is None:
            return
        old = obj.get("status") or {}
        self._metrics.changed(obj["metadata"]["namespace"], old, status)
        if status.get("jobRef") and status["jobRef"] != old.get("jobRef"):
            self._metrics.created()
        if end is not None:
            self._metrics.ended(*end, self._wall())

    async def observe(self, obj: Obj, caches: Caches) -> TaskObservation:
        observed = await self._observer.look(obj, caches)
        progress = observed.progress
        if progress is not None and observed.workload is not None:
            if progress.state in ("succeeded", "failed"):
                self._ends[key_of(obj)] = (progress.state, observed.workload)
        return observed

    # --- deciding --------------------------------------------------------------------------------

    def decide(self, observed: TaskObservation) -> Task:
        if is_over(observed.task):
            return Decision(delete=_removed(observed) if observed.cancelled is not None else ())
        draft = Draft(observed.task, observed.now)
        if observed.problem:
            draft.failed(INVALID, observed.problem)
            return _decision(observed, draft)
        if observed.cancelled is not None:
            draft.failed("Cancelled", f"cancelled: {observed.cancelled or 'without a reason'}")
            return replace(_decision(observed, draft), delete=_removed(observed))
        if not observed.listed:
            return Decision(requeue_after=_SOON)
        if not draft.status.get("propletId"):
            return self._place(observed, draft)
        return self._follow(observed, draft)

    def _place(self, observed: TaskObservation, draft: Draft) -> Task:
        choice = observed.choice
        if choice is None:
            return replace(
                _decision(observed, draft), delete=_removed(observed), requeue_after=_SOON
            )
        if choice.proplet is None:
            draft.waits(choice.reason, choice.message)
            decision = _decision(observed, draft)
            return replace(decision, requeue_after=self.settings.waiting_retry)
        draft.scheduled(choice.proplet)
        return self._launched(observed, draft, choice.proplet)

    def _launched(self, observed: TaskObservation, draft: Draft, proplet: Proplet) -> Task:
        """Make what runs the task."""
        assert observed.model is not None
        name = str(observed.task["metadata"]["name"])
        apply = [Child(CONFIGMAPS, objects.config_map(observed.model)["metadata"]["name"])]
        secret = objects.module_secret(observed.model)
        if secret is not None:
            apply.append(Child(SECRETS, secret["metadata"]["name"]))
        workload = Child(observed.kind, names.job_name(name), detail=(proplet, draft.attempt))
        # the next look notes what was made
        return replace(
            _decision(observed, draft), apply=tuple(apply), create=(workload,), requeue_after=_SOON
        )

    def _follow(self, observed: TaskObservation, draft: Draft) -> Task:
        standing, progress = observed.standing, observed.progress
        assert standing is not None
        if standing.lost and not observed.has_ended:
            draft.lost(standing.lost)
            return replace(
                _decision(observed, draft), delete=_removed(observed), requeue_after=_SOON
            )
        if progress is None or observed.workload is None:
            return self._relaunched(observed, draft)
        draft.created(observed.kind, observed.workload)
        if progress.state == "succeeded":
            trouble = results.courier_error(observed.pods)
            if trouble:
                draft.failed("DeliveryFailed", f"the update was not delivered: {trouble}")
            else:
                draft.completed(observed.extracted)
            return _decision(observed, draft)
        if progress.state == "failed":
            draft.failed(progress.reason, progress.message)
            return _decision(observed, draft)
        if progress.state == "running" and not progress.reason:
            draft.runs()
        elif progress.reason:
            draft.troubled(progress.reason, progress.message)
        if standing.trouble:
            draft.troubled("PropletNotAlive", standing.trouble)
        if observed.partial is not None:
            draft.partial(observed.partial)
        if observed.measured is not None:
            draft.monitored(observed.measured)
        return replace(_decision(observed, draft), requeue_after=self._next(observed))

    def _relaunched(self, observed: TaskObservation, draft: Draft) -> Task:
        """There is a proplet and nothing of this attempt yet."""
        standing = observed.standing
        assert standing is not None
        if observed.workload is not None:
            return Decision(delete=_removed(observed), requeue_after=_SOON)
        if standing.proplet is None or not standing.proplet.alive:
            draft.troubled("PropletNotAlive", standing.trouble or "it is gone")
            after = standing.after or self.settings.waiting_retry
            return replace(_decision(observed, draft), requeue_after=after)
        return self._launched(observed, draft, standing.proplet)

    def _next(self, observed: TaskObservation) -> float:
        waits = [PATIENCE if not observed.pods else self.settings.resync, observed.watch_after]
        if observed.standing is not None:
            waits.append(observed.standing.after)
        return min(wait for wait in waits if wait > 0)

    def refused(self, decision: Task, refusal: Refusal, observed: TaskObservation) -> Task:
        assert decision.status is not None
        status = decision.status.model_dump(by_alias=True, exclude_none=True)
        draft = Draft({**observed.task, "status": status}, observed.now)
        if refusal.reason in ("Forbidden", "QuotaExceeded"):
            draft.troubled("Refused", refusal.message)
            return replace(decision, status=draft.model(), events=_events(observed, draft))
        reason = "NameTaken" if refusal.reason == "NameTaken" else INVALID
        draft.failed(reason, refusal.message)
        return _decision(observed, draft)

    def build(self, child: Child, observed: TaskObservation) -> Obj:
        assert observed.model is not None
        if child.resource == CONFIGMAPS:
            return objects.config_map(observed.model)
        if child.resource == SECRETS:
            secret = objects.module_secret(observed.model)
            assert secret is not None
            return secret
        proplet, attempt = child.detail
        return objects.workload(observed.model, proplet, self.settings, attempt=attempt)


def _events(observed: TaskObservation, draft: Draft) -> tuple[Event, ...]:
    return tuple(transitions(observed.task.get("status") or {}, draft.status))


def _decision(observed: TaskObservation, draft: Draft) -> Task:
    return Decision(draft.model(), events=_events(observed, draft))


def _removed(observed: TaskObservation) -> tuple[Deletion, ...]:
    """Takes away what runs the task: its pods soon, whatever their grace period is."""
    if observed.workload is None:
        return ()
    pods = (Deletion(PODS, pod, grace_seconds=_KILL_GRACE) for pod in observed.all_pods)
    return (Deletion(observed.kind, observed.workload), *pods)


def register(manager: Manager, settings: FederatedSettings, pools: Pools) -> None:
    """Add the controller of WasmTasks to a manager."""
    tasks = pools.tasks
    tasks.add_index(WAITING_INDEX, waits_for)
    metrics = TaskMetrics(manager.metrics.registry, tasks) if manager.metrics else None
    family = WasmTasks(settings, manager.client, pools, metrics=metrics)
    controller = wiring.register(manager, family, counted=counted)
    controller.watch(tasks, lambda change: freed(change, tasks), when=gives_way)
    controller.watch(
        pools.nodes, lambda change: list(of_node(change, tasks, pools)), when=node_matters
    )
    controller.watch(pools.labelled, mapped(lambda pod: of_pod(pod, tasks)))
