"""Deployments, ReplicaSets, StatefulSets, DaemonSets, ReplicationControllers, revisions."""

from __future__ import annotations

from typing import Any

from corral.cluster.apiserver.builtin.validation.fields import check
from corral.cluster.apiserver.builtin.validation.fields.check import Check
from corral.cluster.apiserver.builtin.validation.fields.errors import (
    IMMUTABLE,
    NEGATIVE,
    Errors,
    int_of,
    same,
)
from corral.cluster.apiserver.builtin.validation.fields.names import name_is_label, percent
from corral.cluster.apiserver.builtin.validation.fields.rules import (
    Change,
    Create,
    Kinds,
    Rules,
    again,
    changes,
    fixed,
    whole,
)
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
from corral.cluster.apiserver.builtin.validation.storage.claims import CLAIM_SPEC
from corral.kube.types import Obj

__all__ = ["KINDS", "check_int_or_percent", "check_not_over_100"]

_MISMATCH = "`selector` does not match template `labels`"
_OVER_REPLICAS = "cannot be greater than status.replicas"


def check_int_or_percent(errs: Errors, value: Any, path: str) -> None:
    if isinstance(value, str):
        errs.format(path, value, percent)
    elif value < 0:
        errs.invalid(path, value, NEGATIVE)


def check_not_over_100(errs: Errors, value: Any, path: str) -> None:
    if isinstance(value, str) and not percent(value) and int(value[:-1]) > 100:
        errs.invalid(path, value, "must not be greater than 100%")


def _is_zero(value: Any) -> bool:
    if isinstance(value, str):
        return bool(percent(value)) or int(value[:-1]) == 0
    return not value


# -- selectors and templates -----------------------------------------------------------------------


def _check_labels(errs: Errors, selector: Obj | None, template: Obj) -> None:
    labels = (template.get("metadata") or {}).get("labels")
    if not matches(selector, labels):
        errs.invalid("spec.template.metadata.labels", labels, _MISMATCH)


def _check_template(errs: Errors, selector: Obj | None, template: Obj, kind: str) -> None:
    """The template of a replicated workload, and its fit with the selector."""
    if selector is None or not is_empty(selector):
        _check_labels(errs, selector, template)
    check_pod_template(errs, template, "spec.template")
    if kind:
        reject_unless_always(errs, template.get("spec") or {}, "spec.template.spec", kind)


def _check_selector(errs: Errors, selector: Obj, path: str, kind: str) -> bool:
    before = len(errs)
    check_selector(errs, selector, path)
    sound = len(errs) == before
    if is_empty(selector):
        errs.invalid(path, selector, f"empty selector is invalid for {kind}")
    return sound


def _check_pods(errs: Errors, spec: Obj, path: str) -> None:
    """The selector and the template of a Deployment or a ReplicaSet."""
    selector, where = spec.get("selector"), f"{path}.selector"
    if selector is None:
        errs.required(where)
    elif not _check_selector(errs, selector, where, "deployment"):
        errs.invalid(where, selector, "invalid label selector")
        return
    _check_template(errs, selector, spec.get("template") or {}, "ReplicaSet")


# -- deployments and replica sets ------------------------------------------------------------------


def _check_progress(errs: Errors, spec: Obj, path: str) -> None:
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= int_of(spec.get("minReadySeconds")):
        why = "must be greater than minReadySeconds"
        errs.invalid(f"{path}.progressDeadlineSeconds", deadline, why)


def _check_rolling(errs: Errors, rolling: Obj, path: str) -> None:
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    check_int_or_percent(errs, unavailable, f"{path}.maxUnavailable")
    check_int_or_percent(errs, surge, f"{path}.maxSurge")
    if _is_zero(unavailable) and _is_zero(surge):
        errs.invalid(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")
    check_not_over_100(errs, unavailable, f"{path}.maxUnavailable")


def _unknown(*allowed: str) -> Check:
    """The error of a strategy of another type than these."""

    def check_type(errs: Errors, strategy: Obj, path: str) -> None:
        shown = {"Type": strategy.get("type") or "", "RollingUpdate": strategy.get("rollingUpdate")}
        errs.not_supported(path, shown, allowed)

    return check_type


_NO_ROLLING = "may not be specified when strategy `type` is 'Recreate'"
_DEFAULTED = "this should be defaulted and never be nil"
_STRATEGIES = {
    "Recreate": check.unset("rollingUpdate", _NO_ROLLING),
    "RollingUpdate": check.given("rollingUpdate", _check_rolling, _DEFAULTED),
}
_DEPLOYMENT = whole(
    check.inside(
        "spec",
        check.counts("replicas"),
        _check_pods,
        check.inside("strategy", check.union("type", _STRATEGIES, _unknown(*_STRATEGIES))),
        check.counts("minReadySeconds revisionHistoryLimit progressDeadlineSeconds"),
        _check_progress,
    )
)
_REPLICA_SET = whole(check.inside("spec", check.counts("replicas minReadySeconds"), _check_pods))

# -- stateful sets ---------------------------------------------------------------------------------


def _check_unavailable(errs: Errors, unavailable: Any, path: str) -> None:
    check_int_or_percent(errs, unavailable, path)
    if _is_zero(unavailable):
        errs.invalid(path, unavailable, "cannot be 0")
    check_not_over_100(errs, unavailable, path)


def _check_on_delete(errs: Errors, rolling: Obj, path: str) -> None:
    shown = {
        "Partition": int_of(rolling.get("partition")),
        "MaxUnavailable": rolling.get("maxUnavailable"),
    }
    errs.invalid(path, shown, "only allowed for updateStrategy 'RollingUpdate'")


def _check_other(errs: Errors, strategy: Obj, path: str) -> None:
    if not strategy.get("type"):
        errs.required(path)
        return
    shown = {"Type": strategy["type"], "RollingUpdate": strategy.get("rollingUpdate")}
    errs.invalid(path, shown, "must be 'RollingUpdate' or 'OnDelete'")


_SET_ROLLING = check.struct(
    check.counts("partition"), check.pointer("maxUnavailable", _check_unavailable)
)
_SET_STRATEGIES = {
    "OnDelete": check.pointer("rollingUpdate", _check_on_delete),
    "RollingUpdate": check.pointer("rollingUpdate", _SET_ROLLING),
}
_MANAGEMENT = check.holds(
    ("OrderedReady", "Parallel").__contains__, "must be 'OrderedReady' or 'Parallel'"
)
_RETENTION = check.always("whenDeleted whenScaled", check.choice("Retain", "Delete"))


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


def _check_set_pods(errs: Errors, spec: Obj, path: str) -> None:
    selector, where = spec.get("selector"), f"{path}.selector"
    if selector is None:
        errs.required(where)
    if selector is None or _check_selector(errs, selector, where, "statefulset"):
        _check_template(errs, selector, _with_claim_volumes(spec), "")
    else:
        errs.invalid(where, selector, "")
    pod = (spec.get("template") or {}).get("spec") or {}
    reject_unless_always(errs, pod, f"{path}.template.spec", "StatefulSet")


def _stateful_set(*of_claims: Check) -> Create:
    return whole(
        check.inside(
            "spec",
            check.needed("podManagementPolicy", _MANAGEMENT),
            check.inside("updateStrategy", check.union("type", _SET_STRATEGIES, _check_other)),
            check.pointer("persistentVolumeClaimRetentionPolicy", _RETENTION),
            *of_claims,
            check.counts("replicas minReadySeconds"),
            check.inside("ordinals", check.counts("start")),
            check.optional("serviceName", check.LABEL),
            _check_set_pods,
        )
    )


_STATEFUL_SET = _stateful_set(check.items("volumeClaimTemplates", check.inside("spec", CLAIM_SPEC)))


def _same_claims(errs: Errors, new: Obj, old: Obj) -> None:
    after, before = ((o.get("spec") or {}).get("volumeClaimTemplates") for o in (new, old))
    if not same(after, before):
        shown = [claim(c) for c in after or ()] or None
        errs.invalid("spec.volumeClaimTemplates", shown, IMMUTABLE)


_STATEFUL_SET_CHANGE = changes(
    again(_stateful_set()),  # claims cannot change and are not looked at again
    fixed("spec", "selector"),
    _same_claims,
    fixed("spec", "serviceName podManagementPolicy", zero=""),
)

# -- daemon sets -----------------------------------------------------------------------------------


def _check_daemon_pods(errs: Errors, spec: Obj, path: str) -> None:
    selector, template = spec.get("selector"), spec.get("template") or {}
    check_selector(errs, selector, f"{path}.selector")
    if well_formed(selector):
        _check_labels(errs, selector, template)
    if selector is not None and is_empty(selector):
        errs.invalid(f"{path}.selector", selector, "empty selector is invalid for daemonset")
    check_pod_template(errs, template, f"{path}.template")
    reject_unless_always(errs, template.get("spec") or {}, f"{path}.template.spec", "DaemonSet")


def _check_daemon_rolling(errs: Errors, rolling: Obj, path: str) -> None:
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    for check_amount in (check_int_or_percent, check_not_over_100):
        check_amount(errs, unavailable, f"{path}.maxUnavailable")
        check_amount(errs, surge, f"{path}.maxSurge")
    if not _is_zero(unavailable) and not _is_zero(surge):
        errs.invalid(f"{path}.maxSurge", surge, "may not be set when maxUnavailable is non-zero")
    elif _is_zero(unavailable) and _is_zero(surge):
        errs.required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")


_DAEMON_STRATEGIES = {
    "RollingUpdate": check.given("rollingUpdate", _check_daemon_rolling),
    "OnDelete": check.struct(),
}
_DAEMON_STRATEGY = check.union("type", _DAEMON_STRATEGIES, _unknown(*_DAEMON_STRATEGIES))
_DAEMON_SET = whole(
    check.inside(
        "spec",
        _check_daemon_pods,
        check.counts("minReadySeconds"),
        check.inside("updateStrategy", _DAEMON_STRATEGY),
        check.counts("revisionHistoryLimit"),
    )
)

# -- controllers and revisions ---------------------------------------------------------------------


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
    check.counts("replicas minReadySeconds")(errs, spec, "spec")


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
    check.always("revision", check.at_least(0, NEGATIVE), 0)(errs, new, "")
    if not same(new.get("data"), old.get("data")):
        errs.invalid("data", new.get("data"), IMMUTABLE)


# -- statuses --------------------------------------------------------------------------------------


def _status(counted: str, capped: str = "", ready: str = "readyReplicas") -> Change:
    """The counts of a status; those in ``capped`` may not be above the number of replicas."""
    counts, capped_names = check.counts(counted), capped.split()
    counts_collisions = "collisionCount" in counted

    def change(errs: Errors, new: Obj, old: Obj) -> None:
        status, before = new.get("status") or {}, old.get("status") or {}
        counts(errs, status, "status")
        replicas, available = (int_of(status.get(n)) for n in ("replicas", "availableReplicas"))
        for name in capped_names:
            value = int_of(status.get(name))
            if value > replicas:
                errs.invalid(f"status.{name}", value, _OVER_REPLICAS)
        if capped and available > int_of(status.get("readyReplicas")):
            why = f"cannot be greater than {ready}"
            errs.invalid("status.availableReplicas", available, why)
        collisions, earlier = (s.get("collisionCount") for s in (status, before))
        if (
            counts_collisions
            and earlier is not None
            and (collisions is None or collisions < earlier)
        ):
            errs.invalid("status.collisionCount", collisions or 0, "cannot be decremented")

    return change


_REPLICA_SET_STATUS = _status(
    "replicas fullyLabeledReplicas readyReplicas availableReplicas observedGeneration "
    "terminatingReplicas",
    "fullyLabeledReplicas readyReplicas availableReplicas",
)
_SAME_SELECTOR = fixed("spec", "selector")

KINDS: Kinds = {
    ("", "ReplicationController"): Rules(
        validate_controller, again(validate_controller), _REPLICA_SET_STATUS),
    ("apps", "Deployment"): Rules(
        _DEPLOYMENT, changes(again(_DEPLOYMENT), _SAME_SELECTOR),
        _status("observedGeneration replicas updatedReplicas readyReplicas availableReplicas "
                "unavailableReplicas terminatingReplicas collisionCount",
                "updatedReplicas readyReplicas availableReplicas")),
    ("apps", "ReplicaSet"): Rules(
        _REPLICA_SET, changes(again(_REPLICA_SET), _SAME_SELECTOR), _REPLICA_SET_STATUS),
    ("apps", "StatefulSet"): Rules(
        _STATEFUL_SET, _STATEFUL_SET_CHANGE,
        _status("replicas readyReplicas currentReplicas updatedReplicas availableReplicas "
                "observedGeneration collisionCount",
                "readyReplicas currentReplicas updatedReplicas availableReplicas",
                "status.readyReplicas"), name_is_label),
    ("apps", "DaemonSet"): Rules(
        _DAEMON_SET, changes(_SAME_SELECTOR, again(_DAEMON_SET)),
        _status("currentNumberScheduled numberMisscheduled desiredNumberScheduled numberReady "
                "observedGeneration updatedNumberScheduled numberAvailable numberUnavailable "
                "collisionCount")),
    ("apps", "ControllerRevision"): Rules(validate_revision, validate_revision_update),
}  # fmt: skip
