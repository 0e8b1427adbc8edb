"""Horizontal pod autoscalers for a manager.

Every autoscaler is looked at when it comes, when its spec changes, and every 15 seconds. A pass
reads the scale of the target, asks metrics.k8s.io once, and writes the scale and the status only if
they change. What fails is in the conditions and events, and is tried again with the next pass.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

import orjson

from corral.cluster.workloads.autoscaling.behavior import Bounds, History, normalize
from corral.cluster.workloads.autoscaling.evaluation import Evaluation, evaluate, needs_samples
from corral.cluster.workloads.autoscaling.samples import MetricsError
from corral.cluster.workloads.autoscaling.selectors import Selectors
from corral.cluster.workloads.autoscaling.settings import Settings
from corral.cluster.workloads.autoscaling.target import Target, TargetError, read_target
from corral.kube.client import KubeClient
from corral.kube.errors import ApiError, Conflict, NotFound
from corral.kube.resources import HORIZONTALPODAUTOSCALERS, PODS
from corral.kube.selectors import Selector, SelectorError, parse_labels
from corral.kube.types import Obj
from corral.runtime import (
    ConsistencyStore,
    EventRecorder,
    Informer,
    Manager,
    Result,
    find_condition,
    format_time,
    generation_changed,
    set_condition,
    uid_of,
    version_of,
)

__all__ = ["Settings", "register"]

TRIES: Final = 5
ABLE, ACTIVE, LIMITED, AT_ZERO = "AbleToScale", "ScalingActive", "ScalingLimited", "ScaledToZero"


class _NoDecision(Exception):
    """The number of replicas cannot be worked out; the conditions say why."""


class _Pass:
    """One look at one autoscaler: its status as it is to become."""

    def __init__(self, hpa: Obj, recorder: EventRecorder, now: float) -> None:
        self.hpa = hpa
        self.spec: Obj = hpa["spec"]
        self.status: Obj = copy.deepcopy(hpa.get("status") or {})
        self.status.setdefault("desiredReplicas", 0)
        self._conditions: list[Obj] = self.status.setdefault("conditions", [])
        self._recorder = recorder
        self._now = format_time(now)

    @property
    def bounds(self) -> Bounds:
        given = self.spec.get("minReplicas")
        return Bounds(1 if given is None else int(given), int(self.spec["maxReplicas"]))

    @property
    def was_scaled_to_zero(self) -> bool:
        return (find_condition(self._conditions, AT_ZERO) or {}).get("status") == "True"

    @property
    def knows_metrics_without_pods(self) -> bool:
        return any(m.get("type") in ("Object", "External") for m in self.spec.get("metrics") or ())

    def note(self, kind: str, holds: bool, reason: str, *, message: str) -> None:
        status = "True" if holds else "False"
        set_condition(
            self._conditions, kind, status=status, reason=reason, now=self._now, message=message
        )

    def warn(self, reason: str, message: str) -> None:
        self._recorder.warning(self.hpa, reason, message)

    def tell(self, reason: str, message: str) -> None:
        self._recorder.normal(self.hpa, reason, message)

    def report(self, current: int, desired: int, metrics: Sequence[Obj], *, rescaled: bool) -> None:
        """Fill in what does not depend on conditions."""
        self.status["currentReplicas"] = current
        self.status["desiredReplicas"] = desired
        self.status.pop("currentMetrics", None)
        if metrics:
            self.status["currentMetrics"] = list(metrics)
        if generation := self.hpa["metadata"].get("generation"):
            self.status["observedGeneration"] = generation
        if rescaled:
            self.status["lastScaleTime"] = self._now


class Autoscaler:
    """The reconciler, by key of a HorizontalPodAutoscaler."""

    def __init__(
        self,
        client: KubeClient,
        recorder: EventRecorder,
        *,
        autoscalers: Informer,
        pods: Informer,
        settings: Settings,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._autoscalers, self._pods = autoscalers, pods
        self._settings = settings
        self._clock, self._wall = clock, wall
        self._consistency = ConsistencyStore({HORIZONTALPODAUTOSCALERS: autoscalers})
        self._histories: dict[str, History] = {}
        self._selectors = Selectors()

    async def reconcile(self, key: str) -> Result | None:
        hpa = self._autoscalers.store.get(key)
        if hpa is None:
            self._histories.pop(key, None)
            self._selectors.remove(key)
            self._consistency.clear(key)
            return None
        self._consistency.ensure_ready(key)
        work = _Pass(hpa, self._recorder, self._wall())
        try:
            target = await read_target(self._client, hpa)
        except TargetError as error:
            work.warn("FailedGetScale", str(error))
            why = f"the HPA controller was unable to get the target's current scale: {error}"
            work.note(ABLE, False, "FailedGetScale", message=why)
        else:
            why = "the HPA controller was able to get the target's current scale"
            work.note(ABLE, True, "SucceededGetScale", message=why)
            await self._scale(key, work, target)
        await self._write(key, work)
        return Result(requeue_after=self._settings.period)

    # --- one pass --------------------------------------------------------------------------------

    async def _scale(self, key: str, work: _Pass, target: Target) -> None:
        """Decide, and change the scale of the target if that is called for."""
        current = target.wanted
        history = self._histories.setdefault(key, History())
        history.begin(current, self._clock())
        metrics: tuple[Obj, ...] = ()
        forced = _forced(work, current)
        if forced is None:
            try:
                evaluation = await self._evaluate(key, work, target)
            except _NoDecision as error:
                work.report(current, work.status["desiredReplicas"], (), rescaled=False)
                work.warn("FailedComputeMetricsReplicas", str(error))
                return
            metrics = evaluation.statuses
            if evaluation.replicas is None:
                work.report(current, work.status["desiredReplicas"], metrics, rescaled=False)
                work.warn("FailedComputeMetricsReplicas", evaluation.error)
                return
            forced = self._normalize(work, evaluation, current, history=history)
        desired, reason = forced
        if desired == current:
            work.report(current, current, metrics, rescaled=False)
            return
        await self._rescale(work, target, desired, reason=reason, metrics=metrics, history=history)

    def _normalize(
        self, work: _Pass, evaluation: Evaluation, current: int, *, history: History
    ) -> tuple[int, str]:
        wanted = evaluation.replicas or 0
        outcome = normalize(
            wanted,
            current,
            work.bounds,
            behavior=work.spec.get("behavior"),
            history=history,
            settings=self._settings,
            now=self._clock(),
        )
        reason = f"{evaluation.metric} above target" if wanted > current else ""
        if wanted < current:
            reason = "All metrics below target"
        work.note(ABLE, True, outcome.able[0], message=outcome.able[1])
        work.note(LIMITED, outcome.limited, outcome.limit[0], message=outcome.limit[1])
        desired = outcome.replicas
        if current == 0 and work.was_scaled_to_zero and desired < work.bounds.minimum:
            desired = work.bounds.minimum
            reason = reason or "Current number of replicas below Spec.MinReplicas"
        return desired, reason

    async def _rescale(
        self,
        work: _Pass,
        target: Target,
        desired: int,
        *,
        reason: str,
        metrics: Sequence[Obj],
        history: History,
    ) -> None:
        current = target.wanted
        try:
            await target.write(self._client, desired)
        except ApiError as error:
            told = f"New size: {desired}; reason: {reason}; error: {error.message}"
            work.warn("FailedRescale", told)
            why = f"the HPA controller was unable to update the target scale: {error.message}"
            work.note(ABLE, False, "FailedUpdateScale", message=why)
            work.report(current, work.status["desiredReplicas"], metrics, rescaled=False)
            return
        why = f"the HPA controller was able to update the target scale to {desired}"
        work.note(ABLE, True, "SucceededRescale", message=why)
        work.tell("SuccessfulRescale", f"New size: {desired}; reason: {reason}")
        history.scaled(current, desired, work.spec.get("behavior"), now=self._clock())
        if desired == 0 and work.bounds.minimum == 0 and work.knows_metrics_without_pods:
            why = "the HPA controller scaled the workload to zero"
            work.note(AT_ZERO, True, "ScaledToZero", message=why)
        else:
            why = "the HPA controller did not scale the workload to zero"
            work.note(AT_ZERO, False, "NotScaledToZero", message=why)
        work.report(current, desired, metrics, rescaled=True)

    # --- metrics ---------------------------------------------------------------------------------

    async def _evaluate(self, key: str, work: _Pass, target: Target) -> Evaluation:
        """Work out what the metrics call for. Raises _NoDecision."""
        selector = self._selector(key, work, target.selector)
        namespace = work.hpa["metadata"]["namespace"]
        pods = self._pods.store.objects(namespace, selector=selector)
        if rivals := self._selectors.rivals(key, pods):
            named = " ".join(sorted([key, rivals[0]]))
            message = (
                f"pods by selector {target.selector} are controlled by more than one HPA "
                f"(e.g. [{named}])"
            )
            work.warn("AmbiguousSelector", message)
            work.note(ACTIVE, False, "AmbiguousSelector", message=message)
            raise _NoDecision(message)
        items: Sequence[Obj] | MetricsError = ()
        if needs_samples(work.hpa):
            items = await self._samples(namespace, target.selector)

        def given() -> Sequence[Obj]:
            if isinstance(items, MetricsError):
                raise MetricsError(str(items))
            return items

        evaluation = evaluate(
            work.hpa,
            target.wanted,
            pods=pods,
            items=given,
            settings=self._settings,
            now=datetime.fromtimestamp(self._wall(), UTC),
        )
        for reason, message in evaluation.warnings:
            work.warn(reason, message)
        holds, reason, message = evaluation.active
        work.note(ACTIVE, holds, reason, message=message)
        return evaluation

    def _selector(self, key: str, work: _Pass, text: str) -> Selector:
        if not text:
            work.warn("SelectorRequired", "selector is required")
            why = "the HPA target's scale is missing a selector"
            work.note(ACTIVE, False, "InvalidSelector", message=why)
            raise _NoDecision("selector is required")
        try:
            selector = parse_labels(text)
        except SelectorError as error:
            why = "couldn't convert selector into a corresponding internal selector object: "
            why += str(error)
            work.warn("InvalidSelector", why)
            work.note(ACTIVE, False, "InvalidSelector", message=why)
            raise _NoDecision(why) from error
        self._selectors.put(key, selector)
        return selector

    async def _samples(self, namespace: str, selector: str) -> Sequence[Obj] | MetricsError:
        """What metrics.k8s.io says of the pods, or why it says nothing."""
        path = f"/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods"
        try:
            answer = await self._client.request("GET", path, query=[("labelSelector", selector)])
        except ApiError as error:
            message = error.message
            if isinstance(error, NotFound) and not error.details.get("name"):
                message = (
                    "the server could not find the requested resource (get pods.metrics.k8s.io)"
                )
            return MetricsError(f"unable to fetch metrics from resource metrics API: {message}")
        items: list[Obj] = orjson.loads(answer).get("items") or []
        return items

    # --- writing ---------------------------------------------------------------------------------

    async def _write(self, key: str, work: _Pass) -> None:
        """Write the status if it changed; after others who wrote meanwhile."""
        hpa = work.hpa
        if work.status == (hpa.get("status") or {}):
            return
        try:
            for attempt in range(1, TRIES + 1):
                try:
                    written = await self._client.replace(
                        HORIZONTALPODAUTOSCALERS,
                        {**hpa, "status": work.status},
                        subresource="status",
                        field_manager="horizontal-pod-autoscaler",
                    )
                except Conflict:
                    if attempt == TRIES:
                        raise
                    # Nobody else writes the status, and what was scaled must be told.
                    hpa = await self._fresh(work.hpa)
                else:
                    version = version_of(written)
                    self._consistency.wrote_at(
                        key, uid_of(written), HORIZONTALPODAUTOSCALERS, version
                    )
                    return
        except NotFound:
            return
        except ApiError as error:
            work.warn("FailedUpdateStatus", error.message)
            raise

    async def _fresh(self, hpa: Obj) -> Obj:
        """The autoscaler as it is now. Raises NotFound when it is gone, or another one."""
        meta = hpa["metadata"]
        found = await self._client.get(
            HORIZONTALPODAUTOSCALERS, meta["name"], namespace=meta["namespace"]
        )
        if uid_of(found) != uid_of(hpa):
            raise NotFound("another one has its name")
        return found


def _forced(work: _Pass, current: int) -> tuple[int, str] | None:
    """The number of replicas where no metric is asked, and why; None where they are."""
    bounds = work.bounds
    if current == 0:
        may_start = work.was_scaled_to_zero and (
            bounds.minimum != 0 or work.knows_metrics_without_pods
        )
        if may_start:
            return None
        why = "scaling is disabled since the replica count of the target is zero"
        work.note(ACTIVE, False, "ScalingDisabled", message=why)
        return 0, ""
    if current > bounds.maximum:
        return bounds.maximum, "Current number of replicas above Spec.MaxReplicas"
    if current < bounds.minimum:
        return bounds.minimum, "Current number of replicas below Spec.MinReplicas"
    return None


def register(
    manager: Manager,
    *,
    settings: Settings | None = None,
    clock: Callable[[], float] = time.monotonic,
    wall: Callable[[], float] = time.time,
) -> None:
    """Add the autoscaler to a manager."""
    settings = settings or Settings()
    autoscalers = manager.informer(HORIZONTALPODAUTOSCALERS)
    autoscaler = Autoscaler(
        manager.client,
        manager.recorder("horizontal-pod-autoscaler"),
        autoscalers=autoscalers,
        pods=manager.informer(PODS),
        settings=settings,
        clock=clock,
        wall=wall,
    )
    controller = manager.controller(
        "horizontalpodautoscaler", autoscaler.reconcile, workers=settings.workers
    )
    controller.watch(autoscalers, when=generation_changed)
