"""TaskController: one look at one WasmTask.

The order matters: a proplet is written into the status before anything is made for the task, so
that a crash after any step does no harm. What is made is made once for each attempt.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from pydantic import ValidationError

from corral.api.propeller.kinds import WASMTASKS, WasmTask
from corral.api.propeller.rules import module_bytes
from corral.families.federated import results
from corral.families.federated.groups.pools import NotListed, Pools
from corral.families.federated.groups.proplets import Proplet
from corral.families.federated.settings import FederatedSettings
from corral.families.federated.tasks import names, objects
from corral.families.federated.tasks.caches import Caches
from corral.families.federated.tasks.metrics import TaskMetrics
from corral.families.federated.tasks.placing import Placing, Standing
from corral.families.federated.tasks.state import PATIENCE, attempt_of, observe
from corral.families.federated.tasks.status import INVALID, Draft, transitions
from corral.families.federated.tasks.watching import Watcher, wants_watching
from corral.kube import errors
from corral.kube.client import KubeClient
from corral.kube.resources import CONFIGMAPS, JOBS, PODS, SECRETS
from corral.kube.types import Obj
from corral.runtime import (
    ChildWriter,
    EventRecorder,
    Result,
    is_controlled_by,
    key_of,
)
from corral.runtime.family.events import record
from corral.runtime.family.refusals import is_passing, namespace_is_going
from corral.runtime.family.statuses import StatusController

__all__ = ["TaskController", "Tools"]

_SOON = 0.2
_KILL_GRACE = 5
"""Seconds that pods have which are taken away: their task is over, or runs elsewhere."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What the controller works with."""

    client: KubeClient
    caches: Caches
    pools: Pools
    statuses: StatusController
    writer: ChildWriter
    recorder: EventRecorder
    settings: FederatedSettings
    metrics: TaskMetrics | None = None
    wall: Callable[[], float] = time.time
    clock: Callable[[], float] = time.monotonic


class TaskController:
    """All tasks of one operator."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._placing = Placing(tools.pools, tools.settings)
        self._watcher = Watcher(tools.client, tools.settings, clock=tools.clock)

    def forget(self, key: str) -> None:
        """The task is over or gone."""
        self._watcher.forget(key)

    async def sync(self, task: Obj) -> Result | None:
        """Bring the task one step further."""
        draft = Draft(task, self._tools.wall())
        problem = _problem(task)
        if problem:
            draft.failed(INVALID, problem)
            await self._write(task, draft)
            return None
        model = WasmTask.read(task)
        cancelled = (task["metadata"].get("annotations") or {}).get(names.CANCEL_ANNOTATION)
        if cancelled is not None:
            await self._remove(task, model)
            draft.failed("Cancelled", f"cancelled: {cancelled or 'without a reason'}")
            await self._write(task, draft)
            return None
        try:
            if not draft.status.get("propletId"):
                return await self._place(task, model, draft)
            return await self._follow(task, model, draft)
        except NotListed:
            return Result(_SOON)

    # --- before it runs --------------------------------------------------------------------------

    async def _place(self, task: Obj, model: WasmTask, draft: Draft) -> Result | None:
        stale = self._tools.caches.workload(task, objects.workload_kind(model.spec))
        if stale is not None:
            # Of a proplet that is lost; the next one has the same name.
            await self._remove(task, model)
            await self._write(task, draft)
            return Result(_SOON)
        choice = self._placing.choose(task, model)
        if choice.proplet is None:
            draft.waits(choice.reason, choice.message)
            await self._write(task, draft)
            return Result(self._tools.settings.waiting_retry)
        draft.scheduled(choice.proplet)
        try:
            written = await self._write(task, draft)
        except BaseException:
            self._tools.pools.release(task)
            raise
        return await self._launch(written, model, choice.proplet)

    async def _launch(self, task: Obj, model: WasmTask, proplet: Proplet) -> Result | None:
        """Make what runs the task."""
        tools, draft = self._tools, Draft(task, self._tools.wall())
        kind = objects.workload_kind(model.spec)
        try:
            await tools.writer.put(task, CONFIGMAPS, objects.config_map(model))
            secret = objects.module_secret(model)
            if secret is not None:
                await tools.writer.put(task, SECRETS, secret)
            wanted = objects.workload(model, proplet, tools.settings, attempt=draft.attempt)
            made = await tools.writer.create(task, kind, wanted)
        except errors.AlreadyExists:
            return await self._taken(task, model, draft)
        except errors.ApiError as error:
            return await self._refused(task, draft, error)
        if tools.metrics is not None:
            tools.metrics.created()
        draft.created(kind, made)
        await self._write(task, draft)
        return Result(PATIENCE)

    async def _taken(self, task: Obj, model: WasmTask, draft: Draft) -> Result | None:
        """The name is in use: by us, before the cache has heard of it, or by somebody else."""
        kind = objects.workload_kind(model.spec)
        metadata = task["metadata"]
        name = names.job_name(metadata["name"])
        try:
            found = await self._tools.client.get(kind, name, namespace=metadata["namespace"])
        except errors.NotFound:
            return Result(_SOON)
        if is_controlled_by(found, task):
            return Result(_SOON)
        draft.failed("NameTaken", f"{kind.kind} {name} is there already, and not of this task")
        await self._write(task, draft)
        return None

    async def _refused(self, task: Obj, draft: Draft, error: errors.ApiError) -> Result | None:
        if namespace_is_going(error):
            return None
        if is_passing(error):
            raise error
        if isinstance(error, errors.Forbidden):
            draft.troubled("Refused", str(error))
            await self._write(task, draft)
            return Result(self._tools.settings.waiting_retry)
        draft.failed(INVALID, str(error))
        await self._write(task, draft)
        return None

    # --- while it runs ---------------------------------------------------------------------------

    async def _follow(self, task: Obj, model: WasmTask, draft: Draft) -> Result | None:
        tools = self._tools
        standing = self._placing.standing(task, model)
        workload = tools.caches.workload(task, objects.workload_kind(model.spec))
        ended = workload is not None and _has_ended(workload)
        if standing.lost and not ended:
            draft.lost(standing.lost)
            await self._remove(task, model)
            await self._write(task, draft)
            return Result(_SOON)
        if workload is None or attempt_of(workload) != str(draft.attempt):
            return await self._relaunch(task, model, draft, standing, workload)
        draft.created(objects.workload_kind(model.spec), workload)
        pods = tools.caches.pods_of(task, workload)
        progress = observe(workload, pods, now=tools.wall())
        if progress.state == "succeeded":
            return await self._succeed(task, draft, workload, pods)
        if progress.state == "failed":
            draft.failed(progress.reason, progress.message)
            await self._write(task, draft)
            if tools.metrics is not None:
                tools.metrics.ended("failed", workload, tools.wall())
            return None
        if progress.state == "running" and not progress.reason:
            draft.runs()
        elif progress.reason:
            draft.troubled(progress.reason, progress.message)
        if standing.trouble:
            draft.troubled("PropletNotAlive", standing.trouble)
        partial, measured = await self._watcher.look(task, model.spec, pods)
        if partial is not None:
            draft.partial(partial)
        if measured is not None:
            draft.monitored(measured)
        await self._write(task, draft)
        return self._next(task, model, standing, podless=not pods)

    async def _relaunch(
        self, task: Obj, model: WasmTask, draft: Draft, standing: Standing, workload: Obj | None
    ) -> Result | None:
        """There is a proplet and nothing of this attempt yet."""
        if workload is not None:
            await self._remove(task, model)
            return Result(_SOON)
        if standing.proplet is None or not standing.proplet.alive:
            draft.troubled("PropletNotAlive", standing.trouble or "it is gone")
            await self._write(task, draft)
            return Result(standing.after or self._tools.settings.waiting_retry)
        return await self._launch(task, model, standing.proplet)

    def _next(self, task: Obj, model: WasmTask, standing: Standing, *, podless: bool) -> Result:
        waits = [PATIENCE if podless else self._tools.settings.resync]
        if standing.after:
            waits.append(standing.after)
        if wants_watching(model.spec):
            waits.append(max(self._watcher.wait(key_of(task)), 1.0))
        return Result(min(waits))

    async def _succeed(
        self, task: Obj, draft: Draft, workload: Obj, pods: list[Obj]
    ) -> Result | None:
        tools = self._tools
        started = tools.clock()
        name, namespace = task["metadata"]["name"], task["metadata"]["namespace"]
        if not any((pod.get("status") or {}).get("phase") == "Succeeded" for pod in pods):
            # The Job may be heard of before its pod.
            pods = await self._listed(name, namespace, attempt_of(workload))
        found = await results.extract(tools.client, name, workload, pods, tools.settings)
        trouble = results.courier_error(pods)
        if trouble:
            draft.failed("DeliveryFailed", f"the update was not delivered: {trouble}")
        else:
            draft.completed(found)
        await self._write(task, draft)
        if tools.metrics is not None:
            tools.metrics.extracted(found.source if found else "", tools.clock() - started)
            tools.metrics.ended("succeeded", workload, tools.wall())
        return None

    async def _listed(self, task: str, namespace: str, attempt: str) -> list[Obj]:
        selector = f"{names.TASK_LABEL}={task},{names.ATTEMPT_LABEL}={attempt}"
        found = await self._tools.client.list_all(PODS, namespace, label_selector=selector)
        return list(found["items"])

    # --- writing ---------------------------------------------------------------------------------

    async def _remove(self, task: Obj, model: WasmTask) -> None:
        """Take away what runs the task: its pods soon, whatever their grace period is."""
        tools = self._tools
        kind = objects.workload_kind(model.spec)
        workload = tools.caches.workload(task, kind)
        if workload is None:
            return
        await tools.writer.delete(kind, workload)
        for pod in tools.caches.pods_of(task, workload):
            await tools.writer.delete(PODS, pod, grace_seconds=_KILL_GRACE)

    async def _write(self, task: Obj, draft: Draft) -> Obj:
        """Write the status, and say what has changed; the task as it is afterwards."""
        tools, old = self._tools, task.get("status") or {}
        written = await tools.statuses.write(task, draft.status)
        if written is not task:
            record(tools.recorder, task, transitions(old, draft.status))
            if tools.metrics is not None:
                tools.metrics.changed(task["metadata"]["namespace"], old, draft.status)
        return WASMTASKS.stamp(written)


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


def _has_ended(workload: Obj) -> bool:
    """A Job that is over needs its proplet no more."""
    return workload.get("kind") == JOBS.kind and observe(workload, ()).state in (
        "succeeded",
        "failed",
    )
