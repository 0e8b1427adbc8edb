"""What all metrics of an autoscaler call for together. No I/O.

The highest number of all metrics wins. Metrics that fail keep the number from falling: with one of
them, replicas may be added but not removed; if all fail, nothing changes. Metrics of objects, of
custom kinds and from outside need an adapter, which an embedded cluster has none of: they fail in
the words of a cluster without one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from corral.cluster.workloads.autoscaling.behavior import tolerances_of
from corral.cluster.workloads.autoscaling.replicas import (
    Proposal,
    Tolerances,
    by_utilization,
    by_value,
)
from corral.cluster.workloads.autoscaling.samples import MetricsError, read_samples
from corral.cluster.workloads.autoscaling.settings import Settings
from corral.kube.quantity import BINARY_SI, DECIMAL_SI, Quantity
from corral.kube.types import Obj

__all__ = ["Evaluation", "evaluate", "go_selector", "needs_samples", "quantity"]

NO_CUSTOM = (
    "unable to fetch metrics from custom metrics API: "
    "no custom metrics API (custom.metrics.k8s.io) registered"
)
NO_TARGET = (
    "invalid resource metric source: neither an average utilization target nor an average value "
    "(usage) target was set"
)

Items = Callable[[], Sequence[Obj]]
"""The objects of metrics.k8s.io for the pods; raises MetricsError."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What came of it."""

    replicas: int | None
    """None: nothing may be done."""
    metric: str
    """The metric that called for the most."""
    statuses: tuple[Obj, ...]
    active: tuple[bool, str, str]
    """The condition ScalingActive: status, reason, message."""
    error: str = ""
    warnings: tuple[tuple[str, str], ...] = ()
    """Events: reason and message."""


class _Failure(Exception):
    """One metric says nothing."""

    def __init__(self, reason: str, cause: str, told: str) -> None:
        """``cause`` is for the condition and the event, ``told`` for the error as a whole."""
        super().__init__(told)
        self.reason, self.cause, self.told = reason, cause, told


@dataclass(frozen=True, slots=True)
class _Case:
    """Everything that one evaluation looks at."""

    namespace: str
    current: int
    pods: Sequence[Obj]
    items: Items
    tolerances: Tolerances
    settings: Settings
    now: datetime
    failures: list[_Failure] = field(default_factory=list)


def needs_samples(hpa: Obj) -> bool:
    """Whether any metric is about the use of resources."""
    metrics = (hpa.get("spec") or {}).get("metrics") or ()
    return any(metric.get("type") in ("Resource", "ContainerResource") for metric in metrics)


def evaluate(
    hpa: Obj,
    current: int,
    *,
    pods: Sequence[Obj],
    items: Items,
    settings: Settings,
    now: datetime,
) -> Evaluation:
    """The number of replicas for all metrics, given the pods and what they use."""
    spec = hpa.get("spec") or {}
    metrics, behavior = spec.get("metrics") or (), spec.get("behavior")
    tolerances = Tolerances(
        down=tolerances_of(behavior, "scaleDown", settings.tolerance),
        up=tolerances_of(behavior, "scaleUp", settings.tolerance),
    )
    namespace = hpa["metadata"]["namespace"]
    case = _Case(namespace, current, pods, items, tolerances, settings, now)
    replicas, name, statuses = 0, "", []
    for metric in metrics:
        try:
            wanted, described, status = _one(metric, case)
        except _Failure as failure:
            case.failures.append(failure)
            statuses.append({"type": ""})
            continue
        statuses.append(status)
        if not replicas or wanted > replicas:
            replicas, name = wanted, described
    return _conclude(case, len(metrics), replicas, name=name, statuses=tuple(statuses))


def _conclude(
    case: _Case, count: int, replicas: int, *, name: str, statuses: tuple[Obj, ...]
) -> Evaluation:
    failures = case.failures
    warnings = tuple((failure.reason, failure.cause) for failure in failures)
    error = ""
    if failures:
        error = (
            f"invalid metrics ({len(failures)} invalid out of {count}), "
            f"first error is: {failures[0].told}"
        )
    if len(failures) >= count or (failures and replicas < case.current):
        first = (
            failures[0]
            if failures
            else _Failure("InvalidMetricSourceType", "no metrics", "no metrics")
        )
        why = f"the HPA was unable to compute the replica count: {first.cause}"
        active = (False, first.reason, why)
        return Evaluation(None, "", statuses, active, error, warnings)
    message = f"the HPA was able to successfully calculate a replica count from {name}"
    active = (True, "ValidMetricFound", message)
    return Evaluation(replicas, name, statuses, active, error, warnings)


def _one(metric: Obj, case: _Case) -> tuple[int, str, Obj]:
    """Replicas, the metric in words, its status. Raises _Failure."""
    kind = metric.get("type", "")
    match kind:
        case "Resource":
            source = metric["resource"]
            told = f"failed to get {source['name']} resource metric value"
            return _resource(source, case, "Resource", told=told)
        case "ContainerResource":
            source = metric["containerResource"]
            told = f"failed to get {source['container']} container metric value"
            return _resource(source, case, "ContainerResource", told=told)
        case "Pods":
            cause = f"unable to get metric {metric['pods']['metric']['name']}: {NO_CUSTOM}"
            told = f"failed to get pods metric value: {cause}"
            raise _Failure("FailedGetPodsMetric", cause, told)
        case "Object":
            raise _object_failure(metric["object"], case.namespace)
        case "External":
            raise _external_failure(metric["external"], case.namespace)
    cause = f'unknown metric source type "{kind}"'
    raise _Failure("InvalidMetricSourceType", cause, cause)


def _resource(source: Obj, case: _Case, kind: str, *, told: str) -> tuple[int, str, Obj]:
    resource, container = source["name"], source.get("container", "")
    target = source.get("target") or {}
    try:
        proposal, described = _proposal(resource, container, target, case)
    except MetricsError as error:
        cause = str(error)
        raise _Failure(f"FailedGet{kind}Metric", cause, f"{told}: {cause}") from error
    value: Obj = {"averageValue": quantity(resource, proposal.average)}
    if proposal.utilization is not None:
        value["averageUtilization"] = proposal.utilization
    status: Obj = {"name": resource, "current": value}
    if container:
        status["container"] = container
    return (
        proposal.replicas,
        described,
        {"type": kind, f"{kind[0].lower()}{kind[1:]}": status},
    )


def _proposal(resource: str, container: str, target: Obj, case: _Case) -> tuple[Proposal, str]:
    average, percent = target.get("averageValue"), target.get("averageUtilization")
    if average is None and percent is None:
        raise MetricsError(NO_TARGET)
    what = "usage" if average is not None else "utilization"
    try:
        try:
            samples = read_samples(case.items(), resource, container)
        except MetricsError as error:
            message = f"unable to get metrics for resource {resource}: {error}"
            raise MetricsError(message) from error
        if average is not None:
            proposal = by_value(
                case.current,
                target=Quantity.parse(str(average)).milli(),
                pods=case.pods,
                samples=samples,
                resource=resource,
                tolerances=case.tolerances,
                settings=case.settings,
                now=case.now,
            )
            return proposal, f"{resource} resource"
        assert percent is not None
        proposal = by_utilization(
            case.current,
            target=int(percent),
            pods=case.pods,
            samples=samples,
            resource=resource,
            container=container,
            tolerances=case.tolerances,
            settings=case.settings,
            now=case.now,
        )
    except MetricsError as error:
        raise MetricsError(f"failed to get {resource} {what}: {error}") from error
    where = "container resource" if container else "resource"
    return proposal, f"{resource} {where} utilization (percentage of request)"


def _object_failure(source: Obj, namespace: str) -> _Failure:
    name, described = source["metric"]["name"], source["describedObject"]
    about = f"{described['kind']} {namespace}/{described['name']}"
    cause = f"unable to get metric {name} on {about}: {NO_CUSTOM}"
    told = cause
    if (source.get("target") or {}).get("type") == "AverageValue":
        told = f"failed to get {name} object metric: {cause}"
    return _Failure("FailedGetObjectMetric", cause, f"failed to get object metric value: {told}")


def _external_failure(source: Obj, namespace: str) -> _Failure:
    name = source["metric"]["name"]
    selector = go_selector(source["metric"].get("selector"))
    cause = (
        f"unable to get external metric {namespace}/{name}/{selector}: "
        "unable to fetch metrics from external metrics API: the server could not find the "
        f"requested resource (get {name}.external.metrics.k8s.io)"
    )
    average = (source.get("target") or {}).get("averageValue") is not None
    which = f"{name} external metric" if average else f"external metric {name}"
    told = f"failed to get {name} external metric value: failed to get {which}: {cause}"
    return _Failure("FailedGetExternalMetric", cause, told)


def go_selector(selector: Obj | None) -> str:
    """A label selector as the messages of clusters print it."""
    if selector is None:
        return "nil"
    labels = "".join(f"{k}: {v}," for k, v in sorted((selector.get("matchLabels") or {}).items()))
    terms = "".join(
        f"LabelSelectorRequirement{{Key:{term.get('key', '')},Operator:{term.get('operator', '')},"
        f"Values:[{' '.join(term.get('values') or ())}],}},"
        for term in selector.get("matchExpressions") or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{terms}}},}}"
    )


def quantity(resource: str, thousandths: int) -> str:
    """An amount as metrics say it: bytes in binary units."""
    return str(Quantity(thousandths, -3, BINARY_SI if resource == "memory" else DECIMAL_SI))
