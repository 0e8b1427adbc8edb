"""Observer: everything that a decision about a WasmTask depends on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pydantic import ValidationError

from corral.api.propeller.kinds import WasmTask
from corral.api.propeller.rules import module_bytes
from corral.families.federated import results
from corral.families.federated.groups.choosing import Choice
from corral.families.federated.groups.pools import NotListed, Pools
from corral.families.federated.settings import FederatedSettings
from corral.families.federated.tasks import names, objects
from corral.families.federated.tasks.metrics import TaskMetrics
from corral.families.federated.tasks.placing import Placing, Standing
from corral.families.federated.tasks.state import Progress, attempt_of, observe
from corral.families.federated.tasks.status import is_over
from corral.families.federated.tasks.watching import Watcher, wants_watching
from corral.kube.client import KubeClient
from corral.kube.resources import JOBS, PODS, Resource
from corral.kube.types import Obj
from corral.runtime import key_of
from corral.runtime.family.caches import Caches

__all__ = ["Observer", "TaskObservation"]


@dataclass(frozen=True, slots=True)
class TaskObservation:
    """A task, its place, and what runs it."""

    task: Obj
    now: float
    model: WasmTask | None = None
    """None where the task is over, or cannot run."""
    problem: str = ""
    """Why the task can never run."""
    listed: bool = True
    """Whether the pods of its group are known."""
    choice: Choice | None = None
    """The place for a task that has none."""
    standing: Standing | None = None
    """How it is with the place that the task has."""
    workload: Obj | None = None
    """The Job or Deployment of its name that the task controls, of whatever attempt."""
    all_pods: Sequence[Obj] = ()
    """Of that workload."""
    pods: Sequence[Obj] = ()
    """The same; for a Job that has succeeded before its pod was heard of, as they are listed."""
    progress: Progress | None = None
    """Of the present attempt's workload; None where there is none."""
    partial: Obj | None = None
    measured: Obj | None = None
    watch_after: float = 0.0
    """Seconds until a running task may be asked again; 0: it is not asked."""
    extracted: results.Extracted | None = None
    """What a task that has succeeded gave."""

    @property
    def kind(self) -> Resource:
        assert self.model is not None
        return objects.workload_kind(self.model.spec)

    @property
    def cancelled(self) -> str | None:
        """Why it is to be ended; empty without a reason, None where it goes on."""
        found = (self.task["metadata"].get("annotations") or {}).get(names.CANCEL_ANNOTATION)
        return None if found is None else str(found)

    @property
    def attempt(self) -> int:
        return int((self.task.get("status") or {}).get("reschedules") or 0)

    @property
    def has_ended(self) -> bool:
        """A Job that is over needs its proplet no more."""
        return (
            self.workload is not None
            and self.workload.get("kind") == JOBS.kind
            and observe(self.workload, ()).state in ("succeeded", "failed")
        )


class Observer:
    """Of one operator."""

    def __init__(
        self,
        client: KubeClient,
        settings: FederatedSettings,
        pools: Pools,
        *,
        metrics: TaskMetrics | None,
        wall: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._settings = settings
        self._pools = pools
        self._placing = Placing(pools, settings)
        self._watcher = Watcher(client, settings, clock=clock)
        self._metrics = metrics
        self._wall, self._clock = wall, clock

    def forget(self, key: str) -> None:
        """The task is over or gone."""
        self._watcher.forget(key)

    async def look(self, task: Obj, caches: Caches) -> TaskObservation:
        """One look at a task; a place that is found is reserved for it."""
        observed = TaskObservation(task, self._wall())
        if is_over(task):
            self.forget(key_of(task))
            self._pools.release(task)
            if observed.cancelled is None:
                return observed
        problem = _problem(task)
        if problem:
            return replace(observed, problem=problem)
        observed = replace(observed, model=WasmTask.read(task))
        name = names.job_name(task["metadata"]["name"])
        workload = caches.child(observed.kind, task, name)
        if workload is not None:
            attempt = attempt_of(workload)
            found = caches.labelled(PODS, task)
            own = [pod for pod in found if attempt_of(pod) == attempt]
            observed = replace(observed, workload=workload, all_pods=own, pods=own)
        if observed.cancelled is not None:
            return observed  # whether that is written already or not: what runs it has to go
        try:
            return await self._placed(observed)
        except NotListed:
            return replace(observed, listed=False)

    async def _placed(self, observed: TaskObservation) -> TaskObservation:
        """Raises NotListed."""
        assert observed.model is not None
        if not (observed.task.get("status") or {}).get("propletId"):
            if observed.workload is not None:
                return observed  # of a proplet that is lost: the next one has the same name
            return replace(observed, choice=self._placing.choose(observed.task, observed.model))
        standing = self._placing.standing(observed.task, observed.model)
        observed = replace(observed, standing=standing)
        if standing.lost and not observed.has_ended:
            return observed
        workload = observed.workload
        if workload is None or attempt_of(workload) != str(observed.attempt):
            return observed
        progress = observe(workload, observed.pods, now=observed.now)
        observed = replace(observed, progress=progress)
        if progress.state == "succeeded":
            return await self._result(observed, workload)
        return await self._watched(observed) if progress.state != "failed" else observed

    async def _result(self, observed: TaskObservation, workload: Obj) -> TaskObservation:
        started = self._clock()
        name, pods = str(observed.task["metadata"]["name"]), list(observed.pods)
        if not any((pod.get("status") or {}).get("phase") == "Succeeded" for pod in pods):
            # The Job may be heard of before its pod.
            pods = await self._listed(observed.task, attempt_of(workload))
        found = await results.extract(self._client, name, workload, pods, self._settings)
        if self._metrics is not None:
            self._metrics.extracted(found.source if found else "", self._clock() - started)
        return replace(observed, pods=pods, extracted=found)

    async def _listed(self, task: Obj, attempt: str) -> list[Obj]:
        metadata = task["metadata"]
        selector = f"{names.TASK_LABEL}={metadata['name']},{names.ATTEMPT_LABEL}={attempt}"
        found = await self._client.list_all(PODS, metadata["namespace"], label_selector=selector)
        return list(found["items"])

    async def _watched(self, observed: TaskObservation) -> TaskObservation:
        assert observed.model is not None
        spec = observed.model.spec
        partial, measured = await self._watcher.look(observed.task, spec, observed.pods)
        after = 0.0
        if wants_watching(spec):
            after = max(self._watcher.wait(key_of(observed.task)), 1.0)
        return replace(observed, partial=partial, measured=measured, watch_after=after)


def _problem(task: Obj) -> str:
    """Why the task can never run; empty where it can."""
    found = WasmTask.validate(task)
    if found:
        return "; ".join(dict.fromkeys(str(problem) for problem in found))
    file = (task["spec"] or {}).get("file")
    try:
        if file:
            module_bytes(file)
        WasmTask.read(task)
    except (ValueError, ValidationError) as error:
        return str(error)
    return ""
