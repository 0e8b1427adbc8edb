"""Defaults of the workload kinds: apps/v1, batch/v1 and autoscaling."""

from __future__ import annotations

from typing import Any

from corral.kube.types import Obj

from .podspec import default_template
from .volumes import default_claim

__all__ = ["DEFAULTS"]

_MAX_INT32 = 2**31 - 1


def deployment(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    strategy = spec.setdefault("strategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    default_template(spec.setdefault("template", {}))


def daemon_set(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)
    default_template(spec.setdefault("template", {}))


def stateful_set(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    if not spec.get("podManagementPolicy"):
        spec["podManagementPolicy"] = "OrderedReady"
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    rolling = strategy.get("rollingUpdate")
    if strategy["type"] == "RollingUpdate" and rolling is not None:
        rolling.setdefault("partition", 0)
        rolling.setdefault("maxUnavailable", 1)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    for key in ("whenDeleted", "whenScaled"):
        if not retention.get(key):
            retention[key] = "Retain"
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    default_template(spec.setdefault("template", {}))
    for claim in spec.get("volumeClaimTemplates") or ():
        claim["apiVersion"], claim["kind"] = "v1", "PersistentVolumeClaim"
        default_claim(claim)


def replica_set(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    if "template" in spec:
        default_template(spec["template"])


def job(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    if spec.get("parallelism") is None:
        if spec.get("completions") is None:
            spec["completions"] = 1
        spec["parallelism"] = 1
    if spec.get("backoffLimit") is None:
        spec["backoffLimit"] = 6 if spec.get("backoffLimitPerIndex") is None else _MAX_INT32
    spec.setdefault("template", {})
    _adopt_template_labels(obj)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    if spec.get("podReplacementPolicy") is None:
        failing = spec.get("podFailurePolicy") is not None
        spec["podReplacementPolicy"] = "Failed" if failing else "TerminatingOrFailed"
    spec.setdefault("manualSelector", False)
    _job_spec(spec)


def _adopt_template_labels(obj: Obj) -> None:
    """Give a job without labels those of its template: the same dict, not a copy.

    Labels adopted this way also get what the server adds to the template when the job is created.
    """
    labels = (obj["spec"]["template"].get("metadata") or {}).get("labels")
    metadata = obj.setdefault("metadata", {})
    if labels and not metadata.get("labels"):
        metadata["labels"] = labels


def _job_spec(spec: Obj) -> None:
    """What a job's spec gets in a CronJob's template too."""
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            if not pattern.get("status"):
                pattern["status"] = "True"
    default_template(spec.setdefault("template", {}))


def cron_job(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    if not spec.get("concurrencyPolicy"):
        spec["concurrencyPolicy"] = "Allow"
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    _job_spec(spec.setdefault("jobTemplate", {}).setdefault("spec", {}))


def autoscaler_v1(obj: Obj) -> None:
    """The CPU target is no default of this version: the conversion to v2 sets it."""
    obj.setdefault("spec", {}).setdefault("minReplicas", 1)


def autoscaler_v2(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("minReplicas", 1)
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    behavior = spec.get("behavior")
    if behavior is not None:
        behavior["scaleUp"] = _scaling_rules(
            behavior.get("scaleUp"),
            {
                "stabilizationWindowSeconds": 0,
                "selectPolicy": "Max",
                "policies": [
                    {"type": "Pods", "value": 4, "periodSeconds": 15},
                    {"type": "Percent", "value": 100, "periodSeconds": 15},
                ],
            },
        )
        behavior["scaleDown"] = _scaling_rules(
            behavior.get("scaleDown"),
            {
                "selectPolicy": "Max",
                "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
            },
        )


def _scaling_rules(given: Obj | None, defaults: dict[str, Any]) -> Obj:
    return {**defaults, **{key: value for key, value in (given or {}).items() if value is not None}}


DEFAULTS = {
    ("apps", "v1", "Deployment"): deployment,
    ("apps", "v1", "DaemonSet"): daemon_set,
    ("apps", "v1", "StatefulSet"): stateful_set,
    ("apps", "v1", "ReplicaSet"): replica_set,
    ("batch", "v1", "Job"): job,
    ("batch", "v1", "CronJob"): cron_job,
    ("autoscaling", "v1", "HorizontalPodAutoscaler"): autoscaler_v1,
    ("autoscaling", "v2", "HorizontalPodAutoscaler"): autoscaler_v2,
}
