"""Leases, priority classes and runtime classes."""

from __future__ import annotations

from corral.cluster.apiserver.builtin.validation.fields import check, names
from corral.cluster.apiserver.builtin.validation.fields.errors import NEGATIVE, Errors
from corral.cluster.apiserver.builtin.validation.fields.meta import check_labels
from corral.cluster.apiserver.builtin.validation.fields.rules import (
    Kinds,
    Rules,
    again,
    fixed,
    whole,
)
from corral.cluster.apiserver.builtin.validation.pods.resources import NO_CLAIMS, check_requirements
from corral.cluster.apiserver.builtin.validation.pods.scheduling import (
    check_tolerations,
    duplicate_toleration,
)
from corral.kube.types import Obj

__all__ = ["KINDS"]

_HIGHEST = 1_000_000_000
_SYSTEM = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}


def _system_problem(name: str, obj: Obj) -> str:
    if name not in _SYSTEM:
        return f"{name} is not a known system priority class"
    if (obj.get("value") or 0) != _SYSTEM[name]:
        return f"value of {name} PriorityClass must be {_SYSTEM[name]}"
    if obj.get("globalDefault"):
        return f"globalDefault of {name} PriorityClass must be false"
    return ""


def _check_priority(errs: Errors, obj: Obj, path: str) -> None:
    name = (obj.get("metadata") or {}).get("name") or ""
    if name.startswith("system-"):
        if problem := _system_problem(name, obj):
            why = "priority class names with 'system-' prefix are reserved for system use only. "
            errs.forbidden("metadata.name", f"{why}error: {problem}")
    elif (obj.get("value") or 0) > _HIGHEST:
        errs.forbidden("value", f"maximum allowed value of a user defined priority is {_HIGHEST}")


def _same_priority(errs: Errors, new: Obj, old: Obj) -> None:
    if (new.get("value") or 0) != (old.get("value") or 0):
        errs.forbidden("value", "may not be changed in an update.")
    errs.immutable("preemptionPolicy", new.get("preemptionPolicy"), old.get("preemptionPolicy"))


def _check_overhead(errs: Errors, obj: Obj, path: str) -> None:
    overhead = (obj.get("overhead") or {}).get("podFixed")
    check_requirements(errs, {"limits": overhead}, NO_CLAIMS, "overhead")


def _check_repeated(errs: Errors, tolerations: list[Obj], path: str) -> None:
    seen: set[tuple[str, ...]] = set()
    for i, item in enumerate(tolerations):
        key = tuple(item.get(k) or "" for k in ("key", "operator", "value", "effect"))
        if key in seen:
            errs.append(duplicate_toleration(item, f"{path}[{i}]"))
        seen.add(key)


def _handler_problems(handler: str) -> list[str]:
    return [m.replace("63 characters", "63 bytes") for m in names.dns_label(handler)]


_LEASE = whole(
    check.inside(
        "spec",
        check.pointer("leaseDurationSeconds", check.at_least(1, "must be greater than 0")),
        check.pointer("leaseTransitions", check.at_least(0, NEGATIVE)),
    )
)
_PREEMPTION = check.needed("preemptionPolicy", check.choice("PreemptLowerPriority", "Never"))
_PRIORITY_CLASS = whole(
    _check_priority, check.when(lambda obj: obj.get("preemptionPolicy") is not None, _PREEMPTION)
)
_RUNTIME_CLASS = whole(
    _check_overhead,
    check.inside(
        "scheduling",
        check.optional("nodeSelector", check_labels),
        check.optional("tolerations", check.struct(check_tolerations, _check_repeated)),
    ),
    check.needed("handler", check.format_of(_handler_problems)),
)


def _candidate_name(name: str, is_prefix: bool = False) -> list[str]:
    return list(names.config_map_key(name))


KINDS: Kinds = {
    ("coordination.k8s.io", "Lease"): Rules(_LEASE, again(_LEASE), kube_finalizers=False),
    ("coordination.k8s.io", "LeaseCandidate"): Rules(name=_candidate_name, kube_finalizers=False),
    ("scheduling.k8s.io", "PriorityClass"): Rules(
        _PRIORITY_CLASS, _same_priority, namespaced=False),
    ("node.k8s.io", "RuntimeClass"): Rules(
        _RUNTIME_CLASS, fixed("", "handler", beta=True), namespaced=False, kube_finalizers=False),
}  # fmt: skip
