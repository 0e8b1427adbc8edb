"""Deployments, ReplicaSets, StatefulSets, DaemonSets, ReplicationControllers, revisions."""

from __future__ import annotations

from typing import Any

from corral.cluster.apiserver.builtin.validation.fields.errors import (
    IMMUTABLE,
    NEGATIVE,
    Errors,
    int_of,
    non_negative,
    same,
)
from corral.cluster.apiserver.builtin.validation.fields.names import (
    dns_label,
    name_is_label,
    percent,
)
from corral.cluster.apiserver.builtin.validation.fields.rules import Kinds, Rules, again
from corral.cluster.apiserver.builtin.validation.fields.selectors import (
    check_selector,
    is_empty,
    matches,
    well_formed,
)
from corral.cluster.apiserver.builtin.validation.fields.structs import claim
from corral.cluster.apiserver.builtin.validation.pods.pods import (
    check_pod_template,
    reject_unless_always,
)
from corral.cluster.apiserver.builtin.validation.storage.claims import check_claim_spec
from corral.kube.types import Obj

__all__ = ["KINDS", "check_int_or_percent", "check_not_over_100"]

_MISMATCH = "`selector` does not match template `labels`"
_OVER_REPLICAS = "cannot be greater than status.replicas"


def check_int_or_percent(errs: Errors, value: Any, path: str) -> None:
    if isinstance(value, str):
        errs.format(path, value, percent)
    elif value < 0:
        errs.invalid(path, value, NEGATIVE)


def _amount(value: Any) -> int:
    if isinstance(value, str):
        return int(value[:-1]) if not percent(value) else 0
    return int(value or 0)


def check_not_over_100(errs: Errors, value: Any, path: str) -> None:
    if isinstance(value, str) and not percent(value) and int(value[:-1]) > 100:
        errs.invalid(path, value, "must not be greater than 100%")


def _check_template(errs: Errors, spec: Obj, kind: str) -> None:
    """The template of a replicated workload, and its fit with the selector."""
    selector, template = spec.get("selector"), spec.get("template") or {}
    if selector is None or not is_empty(selector):
        labels = (template.get("metadata") or {}).get("labels")
        if not matches(selector, labels):
            errs.invalid("spec.template.metadata.labels", labels, _MISMATCH)
    check_pod_template(errs, template, "spec.template")
    reject_unless_always(errs, template.get("spec") or {}, "spec.template.spec", kind)


def _check_selector(errs: Errors, spec: Obj, kind: str) -> bool:
    selector = spec.get("selector")
    if selector is None:
        errs.required("spec.selector")
        return True
    before = len(errs)
    check_selector(errs, selector, "spec.selector")
    sound = len(errs) == before
    if is_empty(selector):
        errs.invalid("spec.selector", selector, f"empty selector is invalid for {kind}")
    return sound


def validate_deployment(errs: Errors, obj: Obj) -> None:
    spec = obj.get("spec") or {}
    non_negative(errs, spec, "spec", "replicas")
    if _check_selector(errs, spec, "deployment"):
        _check_template(errs, spec, "ReplicaSet")
    else:
        errs.invalid("spec.selector", spec["selector"], "invalid label selector")
    _check_strategy(errs, spec.get("strategy") or {})
    non_negative(
        errs, spec, "spec", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"
    )
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= int_of(spec.get("minReadySeconds")):
        why = "must be greater than minReadySeconds"
        errs.invalid("spec.progressDeadlineSeconds", deadline, why)


def _check_strategy(errs: Errors, strategy: Obj) -> None:
    kind, rolling = strategy.get("type") or "", strategy.get("rollingUpdate")
    path = "spec.strategy.rollingUpdate"
    if kind == "Recreate":
        if rolling is not None:
            errs.forbidden(path, "may not be specified when strategy `type` is 'Recreate'")
    elif kind != "RollingUpdate":
        shown = {"Type": kind, "RollingUpdate": rolling}
        errs.not_supported("spec.strategy", shown, ("Recreate", "RollingUpdate"))
    elif rolling is None:
        errs.required(path, "this should be defaulted and never be nil")
    else:
        unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
        check_int_or_percent(errs, unavailable, f"{path}.maxUnavailable")
        check_int_or_percent(errs, surge, f"{path}.maxSurge")
        if _amount(unavailable) == 0 and _amount(surge) == 0:
            errs.invalid(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")
        check_not_over_100(errs, unavailable, f"{path}.maxUnavailable")


def validate_deployment_update(errs: Errors, new: Obj, old: Obj) -> None:
    validate_deployment(errs, new)
    _fixed_selector(errs, new, old)


def _fixed_selector(errs: Errors, new: Obj, old: Obj) -> None:
    after, before = (new.get("spec") or {}).get("selector"), (old.get("spec") or {}).get("selector")
    errs.immutable("spec.selector", after, before)


def validate_replica_set(errs: Errors, obj: Obj) -> None:
    spec = obj.get("spec") or {}
    non_negative(errs, spec, "spec", "replicas", "minReadySeconds")
    if _check_selector(errs, spec, "deployment"):
        _check_template(errs, spec, "ReplicaSet")
    else:
        errs.invalid("spec.selector", spec["selector"], "invalid label selector")


def validate_replica_set_update(errs: Errors, new: Obj, old: Obj) -> None:
    validate_replica_set(errs, new)
    _fixed_selector(errs, new, old)


def _check_set_strategy(errs: Errors, strategy: Obj) -> None:
    kind, rolling = strategy.get("type") or "", strategy.get("rollingUpdate")
    path = "spec.updateStrategy"
    if not kind:
        errs.required(path)
    elif kind == "OnDelete":
        if rolling is not None:
            why = "only allowed for updateStrategy 'RollingUpdate'"
            shown = {
                "Partition": int_of(rolling.get("partition")),
                "MaxUnavailable": rolling.get("maxUnavailable"),
            }
            errs.invalid(f"{path}.rollingUpdate", shown, why)
    elif kind != "RollingUpdate":
        shown = {"Type": kind, "RollingUpdate": rolling}
        errs.invalid(path, shown, "must be 'RollingUpdate' or 'OnDelete'")
    elif rolling is not None:
        non_negative(errs, rolling, f"{path}.rollingUpdate", "partition")
        unavailable, where = rolling.get("maxUnavailable"), f"{path}.rollingUpdate.maxUnavailable"
        if unavailable is not None:
            check_int_or_percent(errs, unavailable, where)
            if _amount(unavailable) == 0:
                errs.invalid(where, unavailable, "cannot be 0")
            check_not_over_100(errs, unavailable, where)


def _with_claim_volumes(spec: Obj) -> Obj:
    """The template as its pods will be: claims are volumes, the host names come later."""
    template = spec.get("template") or {}
    claims = spec.get("volumeClaimTemplates") or ()
    pod = template.get("spec") or {}
    if not claims and not pod.get("subdomain") and not pod.get("hostname"):
        return template
    pod = {k: v for k, v in pod.items() if k not in ("subdomain", "hostname")}
    names = dict.fromkeys((c.get("metadata") or {}).get("name") or "" for c in claims)
    made = [{"name": n, "persistentVolumeClaim": {"claimName": n}} for n in names]
    own = [v for v in pod.get("volumes") or () if v.get("name") not in names]
    if made:
        pod["volumes"] = [*made, *own]
    return {**template, "spec": pod}


def validate_stateful_set(errs: Errors, obj: Obj) -> None:
    _check_stateful_set(errs, obj, fresh=True)


def _check_stateful_set(errs: Errors, obj: Obj, *, fresh: bool) -> None:
    """What is wrong; the claims of one that is not fresh cannot change and are not looked at."""
    spec = obj.get("spec") or {}
    policy = spec.get("podManagementPolicy") or ""
    if not policy:
        errs.required("spec.podManagementPolicy")
    elif policy not in ("OrderedReady", "Parallel"):
        errs.invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'")
    _check_set_strategy(errs, spec.get("updateStrategy") or {})
    retention = spec.get("persistentVolumeClaimRetentionPolicy")
    if retention is not None:
        for name in ("whenDeleted", "whenScaled"):
            value = retention.get(name) or ""
            if value not in ("Retain", "Delete"):
                where = f"spec.persistentVolumeClaimRetentionPolicy.{name}"
                errs.not_supported(where, value, ("Retain", "Delete"))
    for i, template in enumerate(spec.get("volumeClaimTemplates") or () if fresh else ()):
        check_claim_spec(errs, template.get("spec") or {}, f"spec.volumeClaimTemplates[{i}].spec")
    non_negative(errs, spec, "spec", "replicas", "minReadySeconds")
    non_negative(errs, spec.get("ordinals") or {}, "spec.ordinals", "start")
    if service := spec.get("serviceName"):
        errs.format("spec.serviceName", service, dns_label)
    if _check_selector(errs, spec, "statefulset"):
        _check_set_template(errs, spec)
    else:
        errs.invalid("spec.selector", spec["selector"], "")
    pod = (spec.get("template") or {}).get("spec") or {}
    reject_unless_always(errs, pod, "spec.template.spec", "StatefulSet")


def _check_set_template(errs: Errors, spec: Obj) -> None:
    template, selector = _with_claim_volumes(spec), spec.get("selector")
    if selector is None or not is_empty(selector):
        labels = (template.get("metadata") or {}).get("labels")
        if not matches(selector, labels):
            errs.invalid("spec.template.metadata.labels", labels, _MISMATCH)
    check_pod_template(errs, template, "spec.template")


def validate_stateful_set_update(errs: Errors, new: Obj, old: Obj) -> None:
    _check_stateful_set(errs, new, fresh=False)
    after, before = new.get("spec") or {}, old.get("spec") or {}
    _fixed_selector(errs, new, old)
    name = "volumeClaimTemplates"
    if not same(after.get(name), before.get(name)):
        errs.invalid(f"spec.{name}", [claim(c) for c in after.get(name) or ()] or None, IMMUTABLE)
    for name in ("serviceName", "podManagementPolicy"):
        errs.immutable(f"spec.{name}", after.get(name) or "", before.get(name) or "")


def validate_daemon_set(errs: Errors, obj: Obj) -> None:
    spec = obj.get("spec") or {}
    selector, template = spec.get("selector"), spec.get("template") or {}
    check_selector(errs, selector, "spec.selector")
    labels = (template.get("metadata") or {}).get("labels")
    if well_formed(selector) and not matches(selector, labels):
        errs.invalid("spec.template.metadata.labels", labels, _MISMATCH)
    if selector is not None and is_empty(selector):
        errs.invalid("spec.selector", selector, "empty selector is invalid for daemonset")
    check_pod_template(errs, template, "spec.template")
    reject_unless_always(errs, template.get("spec") or {}, "spec.template.spec", "DaemonSet")
    non_negative(errs, spec, "spec", "minReadySeconds")
    _check_daemon_strategy(errs, spec.get("updateStrategy") or {})
    non_negative(errs, spec, "spec", "revisionHistoryLimit")


def _check_daemon_strategy(errs: Errors, strategy: Obj) -> None:
    kind, rolling = strategy.get("type") or "", strategy.get("rollingUpdate")
    path = "spec.updateStrategy"
    if kind == "OnDelete":
        return
    if kind != "RollingUpdate":
        shown = {"Type": kind, "RollingUpdate": rolling}
        errs.not_supported(path, shown, ("RollingUpdate", "OnDelete"))
        return
    path += ".rollingUpdate"
    if rolling is None:
        errs.required(path)
        return
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    for check in (check_int_or_percent, check_not_over_100):
        check(errs, unavailable, f"{path}.maxUnavailable")
        check(errs, surge, f"{path}.maxSurge")
    if _amount(unavailable) and _amount(surge):
        errs.invalid(f"{path}.maxSurge", surge, "may not be set when maxUnavailable is non-zero")
    elif not _amount(unavailable) and not _amount(surge):
        errs.required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")


def validate_daemon_set_update(errs: Errors, new: Obj, old: Obj) -> None:
    _fixed_selector(errs, new, old)
    validate_daemon_set(errs, new)


def validate_controller(errs: Errors, obj: Obj) -> None:
    """A ReplicationController; its numbers are checked by declaration, hence last."""
    spec = obj.get("spec") or {}
    selector, template = spec.get("selector") or {}, spec.get("template")
    if not selector:
        errs.required("spec.selector")
    if template is None:
        errs.required("spec.template")
    else:
        labels = (template.get("metadata") or {}).get("labels") or {}
        if any(labels.get(k) != v for k, v in selector.items()):
            errs.invalid("spec.template.metadata.labels", labels or None, _MISMATCH)
        check_pod_template(errs, template, "spec.template")
        pod = template.get("spec") or {}
        reject_unless_always(errs, pod, "spec.template.spec", "ReplicationController")
    if spec.get("replicas") is None:
        errs.required("spec.replicas")
    non_negative(errs, spec, "spec", "replicas", "minReadySeconds")


def validate_revision(errs: Errors, obj: Obj) -> None:
    revision = obj.get("revision") or 0
    if revision < 0:
        errs.invalid("revision", revision, NEGATIVE)
    data = obj.get("data")
    if data is None:
        errs.required("data", "data is mandatory")
    elif not isinstance(data, dict):
        errs.required("data", "data must be a valid JSON object")


def validate_revision_update(errs: Errors, new: Obj, old: Obj) -> None:
    revision = new.get("revision") or 0
    if revision < 0:
        errs.invalid("revision", revision, NEGATIVE)
    if not same(new.get("data"), old.get("data")):
        errs.invalid("data", new.get("data"), IMMUTABLE)


def _check_counts(
    errs: Errors, status: Obj, capped: tuple[str, ...], ready_name: str = "readyReplicas"
) -> None:
    replicas = int_of(status.get("replicas"))
    for name in capped:
        value = int_of(status.get(name))
        if value > replicas:
            errs.invalid(f"status.{name}", value, _OVER_REPLICAS)
    available = int_of(status.get("availableReplicas"))
    if available > int_of(status.get("readyReplicas")):
        errs.invalid("status.availableReplicas", available, f"cannot be greater than {ready_name}")


def _check_collisions(errs: Errors, new: Obj, old: Obj) -> None:
    after = (new.get("status") or {}).get("collisionCount")
    before = (old.get("status") or {}).get("collisionCount")
    if before is not None and (after is None or after < before):
        errs.invalid("status.collisionCount", after or 0, "cannot be decremented")


def validate_deployment_status(errs: Errors, new: Obj, old: Obj) -> None:
    status = new.get("status") or {}
    names = ("observedGeneration", "replicas", "updatedReplicas", "readyReplicas",
             "availableReplicas", "unavailableReplicas", "terminatingReplicas",
             "collisionCount")  # fmt: skip
    non_negative(errs, status, "status", *names)
    _check_counts(errs, status, ("updatedReplicas", "readyReplicas", "availableReplicas"))
    _check_collisions(errs, new, old)


def validate_replica_set_status(errs: Errors, new: Obj, old: Obj) -> None:
    status = new.get("status") or {}
    names = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas",
             "observedGeneration", "terminatingReplicas")  # fmt: skip
    non_negative(errs, status, "status", *names)
    _check_counts(errs, status, ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"))


validate_controller_status = validate_replica_set_status


def validate_stateful_set_status(errs: Errors, new: Obj, old: Obj) -> None:
    status = new.get("status") or {}
    names = ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas",
             "availableReplicas", "observedGeneration", "collisionCount")  # fmt: skip
    non_negative(errs, status, "status", *names)
    capped = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
    _check_counts(errs, status, capped, "status.readyReplicas")
    _check_collisions(errs, new, old)


def validate_daemon_set_status(errs: Errors, new: Obj, old: Obj) -> None:
    names = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled",
             "numberReady", "observedGeneration", "updatedNumberScheduled", "numberAvailable",
             "numberUnavailable", "collisionCount")  # fmt: skip
    non_negative(errs, new.get("status") or {}, "status", *names)
    _check_collisions(errs, new, old)


KINDS: Kinds = {
    ("", "ReplicationController"): Rules(
        validate_controller, again(validate_controller), validate_controller_status),
    ("apps", "Deployment"): Rules(
        validate_deployment, validate_deployment_update, validate_deployment_status),
    ("apps", "ReplicaSet"): Rules(
        validate_replica_set, validate_replica_set_update, validate_replica_set_status),
    ("apps", "StatefulSet"): Rules(
        validate_stateful_set, validate_stateful_set_update, validate_stateful_set_status,
        name_is_label),
    ("apps", "DaemonSet"): Rules(
        validate_daemon_set, validate_daemon_set_update, validate_daemon_set_status),
    ("apps", "ControllerRevision"): Rules(validate_revision, validate_revision_update),
}  # fmt: skip
