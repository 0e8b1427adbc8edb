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
from corral.families.federated.tasks.observation import Observer, TaskSeen
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


class WasmTasks(Family[TaskSeen, WasmTaskStatus]):
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

    async def observe(self, obj: Obj, caches: Caches) -> TaskSeen:
        seen = await self._observer.look(obj, caches)
        progress = seen.progress
        if progress is not None and seen.workload is not None:
            if progress.state in ("succeeded", "failed"):
                self._ends[key_of(obj)] = (progress.state, seen.workload)
        return seen

    # --- deciding --------------------------------------------------------------------------------

    def decide(self, seen: TaskSeen) -> Task:
        if is_over(seen.task):
            return Decision(delete=_removed(seen) if seen.cancelled is not None else ())
        draft = Draft(seen.task, seen.now)
        if seen.problem:
            draft.failed(INVALID, seen.problem)
            return _decision(seen, draft)
        if seen.cancelled is not None:
            draft.failed("Cancelled", f"cancelled: {seen.cancelled or 'without a reason'}")
            return replace(_decision(seen, draft), delete=_removed(seen))
        if not seen.listed:
            return Decision(requeue_after=_SOON)
        if not draft.status.get("propletId"):
            return self._place(seen, draft)
        return self._follow(seen, draft)

    def _place(self, seen: TaskSeen, draft: Draft) -> Task:
        choice = seen.choice
        if choice is None:
            return replace(_decision(seen, draft), delete=_removed(seen), requeue_after=_SOON)
        if choice.proplet is None:
            draft.waits(choice.reason, choice.message)
            decision = _decision(seen, draft)
            return replace(decision, requeue_after=self.settings.waiting_retry)
        draft.scheduled(choice.proplet)
        return self._launched(seen, draft, choice.proplet)

    def _launched(self, seen: TaskSeen, draft: Draft, proplet: Proplet) -> Task:
        """Make what runs the task."""
        assert seen.model is not None
        name = str(seen.task["metadata"]["name"])
        apply = [Child(CONFIGMAPS, objects.config_map(seen.model)["metadata"]["name"])]
        secret = objects.module_secret(seen.model)
        if secret is not None:
            apply.append(Child(SECRETS, secret["metadata"]["name"]))
        workload = Child(seen.kind, names.job_name(name), detail=(proplet, draft.attempt))
        # the next look notes what was made
        return replace(
            _decision(seen, draft), apply=tuple(apply), create=(workload,), requeue_after=_SOON
        )

    def _follow(self, seen: TaskSeen, draft: Draft) -> Task:
        standing, progress = seen.standing, seen.progress
        assert standing is not None
        if standing.lost and not seen.has_ended:
            draft.lost(standing.lost)
            return replace(_decision(seen, draft), delete=_removed(seen), requeue_after=_SOON)
        if progress is None or seen.workload is None:
            return self._relaunched(seen, draft)
        draft.created(seen.kind, seen.workload)
        if progress.state == "succeeded":
            trouble = results.courier_error(seen.pods)
            if trouble:
                draft.failed("DeliveryFailed", f"the update was not delivered: {trouble}")
            else:
                draft.completed(seen.extracted)
            return _decision(seen, draft)
        if progress.state == "failed":
            draft.failed(progress.reason, progress.message)
            return _decision(seen, draft)
        if progress.state == "running" and not progress.reason:
            draft.runs()
        elif progress.reason:
            draft.troubled(progress.reason, progress.message)
        if standing.trouble:
            draft.troubled("PropletNotAlive", standing.trouble)
        if seen.partial is not None:
            draft.partial(seen.partial)
        if seen.measured is not None:
            draft.monitored(seen.measured)
        return replace(_decision(seen, draft), requeue_after=self._next(seen))

    def _relaunched(self, seen: TaskSeen, draft: Draft) -> Task:
        """There is a proplet and nothing of this attempt yet."""
        standing = seen.standing
        assert standing is not None
        if seen.workload is not None:
            return Decision(delete=_removed(seen), requeue_after=_SOON)
        if standing.proplet is None or not standing.proplet.alive:
            draft.troubled("PropletNotAlive", standing.trouble or "it is gone")
            after = standing.after or self.settings.waiting_retry
            return replace(_decision(seen, draft), requeue_after=after)
        return self._launched(seen, draft, standing.proplet)

    def _next(self, seen: TaskSeen) -> float:
        waits = [PATIENCE if not seen.pods else self.settings.resync, seen.watch_after]
        if seen.standing is not None:
            waits.append(seen.standing.after)
        return min(wait for wait in waits if wait > 0)

    def refused(self, decision: Task, refusal: Refusal, seen: TaskSeen) -> Task:
        assert decision.status is not None
        status = decision.status.model_dump(by_alias=True, exclude_none=True)
        draft = Draft({**seen.task, "status": status}, seen.now)
        if refusal.reason in ("Forbidden", "QuotaExceeded"):
            draft.troubled("Refused", refusal.message)
            return replace(decision, status=draft.model(), events=_events(seen, draft))
        reason = "NameTaken" if refusal.reason == "NameTaken" else INVALID
        draft.failed(reason, refusal.message)
        return _decision(seen, draft)

    def build(self, child: Child, seen: TaskSeen) -> Obj:
        assert seen.model is not None
        if child.resource == CONFIGMAPS:
            return objects.config_map(seen.model)
        if child.resource == SECRETS:
            secret = objects.module_secret(seen.model)
            assert secret is not None
            return secret
        proplet, attempt = child.detail
        return objects.workload(seen.model, proplet, self.settings, attempt=attempt)


def _events(seen: TaskSeen, draft: Draft) -> tuple[Event, ...]:
    return tuple(transitions(seen.task.get("status") or {}, draft.status))


def _decision(seen: TaskSeen, draft: Draft) -> Task:
    return Decision(draft.model(), events=_events(seen, draft))


def _removed(seen: TaskSeen) -> tuple[Deletion, ...]:
    """Takes away what runs the task: its pods soon, whatever their grace period is."""
    if seen.workload is None:
        return ()
    pods = (Deletion(PODS, pod, grace_seconds=_KILL_GRACE) for pod in seen.all_pods)
    return (Deletion(seen.kind, seen.workload), *pods)


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
