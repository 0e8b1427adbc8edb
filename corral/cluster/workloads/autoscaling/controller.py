"""Horizontal pod autoscalers for a manager.

Every autoscaler is looked at when it comes, when its spec changes, and every 15 seconds. A pass
reads the scale of the target, asks metrics.k8s.io once, and writes the scale and the status only if
they change. What fails is in the conditions and events, and is tried again with the next pass.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

import orjson

from corral.cluster.workloads.autoscaling.behavior import History, normalize
from corral.cluster.workloads.autoscaling.evaluation import Evaluation, evaluate, needs_samples
from corral.cluster.workloads.autoscaling.passes import (
    ABLE,
    ACTIVE,
    AT_ZERO,
    LIMITED,
    Pass,
    forced_replicas,
)
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
    generation_changed,
    uid_of,
    version_of,
)

__all__ = ["Settings", "register"]

TRIES: Final = 5


class _NoDecision(Exception):
    """The number of replicas cannot be worked out; the conditions say why."""


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
        work = Pass(hpa, self._recorder, self._wall())
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

    async def _scale(self, key: str, work: Pass, target: Target) -> None:
        """Decide, and change the scale of the target if that is called for."""
        current = target.wanted
        history = self._histories.setdefault(key, History())
        history.begin(current, self._clock())
        metrics: tuple[Obj, ...] = ()
        forced = forced_replicas(work, current)
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
        self, work: Pass, evaluation: Evaluation, current: int, *, history: History
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
        work: Pass,
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

    async def _evaluate(self, key: str, work: Pass, target: Target) -> Evaluation:
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

    def _selector(self, key: str, work: Pass, text: str) -> Selector:
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

    async def _write(self, key: str, work: Pass) -> None:
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
