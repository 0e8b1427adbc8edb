"""Namespaces, Nodes and service accounts."""

from __future__ import annotations

from typing import Any

from corral.cluster.apiserver.builtin.validation.fields.addresses import check_cidr, dual_stack
from corral.cluster.apiserver.builtin.validation.fields.errors import Errors
from corral.cluster.apiserver.builtin.validation.fields.meta import check_finalizers
from corral.cluster.apiserver.builtin.validation.fields.names import name_is_label
from corral.cluster.apiserver.builtin.validation.fields.rules import Kinds, Rules, again
from corral.cluster.apiserver.builtin.validation.pods.resources import check_amount
from corral.cluster.apiserver.builtin.validation.pods.scheduling import check_taints
from corral.kube.types import Obj

__all__ = ["KINDS"]


def validate_namespace(errs: Errors, obj: Obj) -> None:
    finalizers = (obj.get("spec") or {}).get("finalizers") or []
    for name in finalizers:
        check_finalizers(errs, [name], "spec.finalizers")
        if "/" not in name and name not in ("kubernetes", "orphan", "foregroundDeletion"):
            why = "name is neither a standard finalizer name nor is it fully qualified"
            errs.invalid("spec.finalizers", name, why)


def validate_namespace_status(errs: Errors, new: Obj, old: Obj) -> None:
    phase = (new.get("status") or {}).get("phase") or ""
    if (new.get("metadata") or {}).get("deletionTimestamp") is None:
        if phase != "Active":
            why = "may only be 'Active' if `deletionTimestamp` is empty"
            errs.invalid("status.Phase", phase, why)
    elif phase != "Terminating":
        why = "may only be 'Terminating' if `deletionTimestamp` is not empty"
        errs.invalid("status.Phase", phase, why)


def _check_node_resources(errs: Errors, status: Obj) -> None:
    for kind in ("capacity", "allocatable"):
        for name, amount in (status.get(kind) or {}).items():
            check_amount(errs, name, amount, f"status.{kind}.{name}")


def validate_node(errs: Errors, obj: Obj) -> None:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if taints := spec.get("taints"):
        check_taints(errs, taints, "metadata.taints")
    _check_node_resources(errs, status)
    cidrs = spec.get("podCIDRs") or []
    for i, cidr in enumerate(cidrs):
        check_cidr(errs, cidr, f"spec.podCIDRs[{i}]")
    if len(cidrs) > 1 and (not dual_stack(cidrs) or len(cidrs) > 2):
        errs.invalid("spec.podCIDRs", cidrs, "may specify no more than one CIDR for each IP family")


def validate_node_update(errs: Errors, new: Obj, old: Obj) -> None:
    after, before = new.get("spec") or {}, old.get("spec") or {}
    status = new.get("status") or {}
    _check_node_resources(errs, status)
    seen: set[frozenset[tuple[str, Any]]] = set()
    for i, address in enumerate(status.get("addresses") or ()):
        key = frozenset(address.items())
        if key in seen:
            shown = {"Type": address.get("type"), "Address": address.get("address")}
            errs.duplicate(f"status.addresses[{i}]", shown)
        seen.add(key)
    cidrs, old_cidrs = after.get("podCIDRs") or [], before.get("podCIDRs") or []
    if old_cidrs and cidrs != old_cidrs:
        why = 'node updates may not change podCIDR except from "" to valid'
        errs.forbidden("spec.podCIDRs", why)
    provider, old_provider = after.get("providerID") or "", before.get("providerID") or ""
    if old_provider and provider != old_provider:
        why = (
            "field cannot be modified once set" if provider else "field cannot be cleared once set"
        )
        errs.invalid("spec.providerID", None, why)
    if taints := after.get("taints"):
        check_taints(errs, taints, "metadata.taints")


KINDS: Kinds = {
    ("", "Namespace"): Rules(
        validate_namespace, again(validate_namespace), validate_namespace_status, name_is_label,
        namespaced=False),
    ("", "Node"): Rules(
        validate_node, validate_node_update, validate_node_update, namespaced=False),
    ("", "ServiceAccount"): Rules(),
}  # fmt: skip
