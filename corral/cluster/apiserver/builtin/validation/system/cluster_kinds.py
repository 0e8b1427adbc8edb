"""Small kinds of their own groups: leases, priority and runtime classes, certificate requests."""

from __future__ import annotations

import base64
import binascii
import re

from corral.cluster.apiserver.builtin.validation.fields.differences import difference
from corral.cluster.apiserver.builtin.validation.fields.errors import Errors
from corral.cluster.apiserver.builtin.validation.fields.meta import check_labels
from corral.cluster.apiserver.builtin.validation.fields.names import (
    config_map_key,
    dns_label,
    name_any,
)
from corral.cluster.apiserver.builtin.validation.fields.rules import Kinds, Rules
from corral.cluster.apiserver.builtin.validation.fields.signers import check_signer_name
from corral.cluster.apiserver.builtin.validation.pods.resources import NO_CLAIMS, check_requirements
from corral.cluster.apiserver.builtin.validation.pods.scheduling import (
    check_tolerations,
    duplicate_toleration,
)
from corral.kube.types import Obj

__all__ = ["KINDS"]

_HIGHEST = 1_000_000_000
_SYSTEM = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
_USAGES = (
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign",
    "data encipherment", "decipher only", "digital signature", "email protection",
    "encipher only", "ipsec end system", "ipsec tunnel", "ipsec user", "key agreement",
    "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime",
    "server auth", "signing", "timestamping",
)  # fmt: skip
_PEM_REQUEST = re.compile(
    rb"-----BEGIN (NEW )?CERTIFICATE REQUEST-----\s.*?-----END (NEW )?CERTIFICATE REQUEST-----",
    re.DOTALL,
).search


def validate_lease(errs: Errors, obj: Obj) -> None:
    spec = obj.get("spec") or {}
    duration, changes = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        errs.invalid("spec.leaseDurationSeconds", duration, "must be greater than 0")
    if changes is not None and changes < 0:
        errs.invalid("spec.leaseTransitions", changes, "must be greater than or equal to 0")


def validate_lease_update(errs: Errors, new: Obj, old: Obj) -> None:
    validate_lease(errs, new)


def _system_problem(name: str, obj: Obj) -> str:
    if name not in _SYSTEM:
        return f"{name} is not a known system priority class"
    if (obj.get("value") or 0) != _SYSTEM[name]:
        return f"value of {name} PriorityClass must be {_SYSTEM[name]}"
    if obj.get("globalDefault"):
        return f"globalDefault of {name} PriorityClass must be false"
    return ""


def validate_priority_class(errs: Errors, obj: Obj) -> None:
    name = (obj.get("metadata") or {}).get("name") or ""
    if name.startswith("system-"):
        if problem := _system_problem(name, obj):
            why = (
                "priority class names with 'system-' prefix are reserved for system use only. "
                f"error: {problem}"
            )
            errs.forbidden("metadata.name", why)
    elif (obj.get("value") or 0) > _HIGHEST:
        errs.forbidden("value", f"maximum allowed value of a user defined priority is {_HIGHEST}")
    policy = obj.get("preemptionPolicy")
    if policy is not None:
        errs.one_of("preemptionPolicy", policy, ("PreemptLowerPriority", "Never"))


def validate_priority_class_update(errs: Errors, new: Obj, old: Obj) -> None:
    if (new.get("value") or 0) != (old.get("value") or 0):
        errs.forbidden("value", "may not be changed in an update.")
    name = "preemptionPolicy"
    errs.immutable(name, new.get(name), old.get(name))


def validate_runtime_class(errs: Errors, obj: Obj) -> None:
    overhead = (obj.get("overhead") or {}).get("podFixed")
    check_requirements(errs, {"limits": overhead}, NO_CLAIMS, "overhead")
    scheduling = obj.get("scheduling") or {}
    check_labels(errs, scheduling.get("nodeSelector"), "scheduling.nodeSelector")
    tolerations = scheduling.get("tolerations") or []
    check_tolerations(errs, tolerations, "scheduling.tolerations")
    seen: set[tuple[str, ...]] = set()
    for i, item in enumerate(tolerations):
        key = tuple(item.get(k) or "" for k in ("key", "operator", "value", "effect"))
        if key in seen:
            errs.append(duplicate_toleration(item, f"scheduling.tolerations[{i}]"))
        seen.add(key)
    handler = obj.get("handler") or ""
    if not handler:
        errs.required("handler")
    else:
        found = [m.replace("63 characters", "63 bytes") for m in dns_label(handler)]
        errs.invalid_each("handler", handler, found)


def validate_runtime_class_update(errs: Errors, new: Obj, old: Obj) -> None:
    errs.immutable_beta("handler", new.get("handler"), old.get("handler"))


def _request_problem(encoded: str) -> str:
    try:
        text = base64.b64decode(encoded or "")
    except binascii.Error:
        text = b""
    if not _PEM_REQUEST(text):
        return "PEM block type must be CERTIFICATE REQUEST"
    # Parsing needs a library that is slow to load: only requests for certificates pay for it.
    from cryptography import x509

    try:
        if not x509.load_pem_x509_csr(text).is_signature_valid:
            return "x509: signature check failed"
    except ValueError as bad:
        return str(bad)
    return ""


def _check_conditions(errs: Errors, conditions: list[Obj]) -> None:
    seen: set[str] = set()
    path = "status.conditions"
    for i, condition in enumerate(conditions):
        kind, status = condition.get("type") or "", condition.get("status") or ""
        if not kind:
            errs.required(f"{path}[{i}].type")
        allowed: tuple[str, ...] = ("False", "True", "Unknown")
        if kind in ("Approved", "Denied", "Failed"):
            allowed = ("True",)
        if not status:
            errs.required(f"{path}[{i}].status")
        elif status not in allowed:
            errs.not_supported(f"{path}[{i}].status", status, allowed)
        if kind in seen:
            errs.duplicate(f"{path}[{i}].type", kind)
        seen.add(kind)
    if {"Approved", "Denied"} <= seen:
        shown = '{item[type="Approved"], item[type="Denied"]}'
        why = 'must specify at most one of: `item[type="Approved"]`, `item[type="Denied"]`'
        errs.invalid(path, shown, why)


def validate_signing_request(errs: Errors, obj: Obj) -> None:
    spec = obj.get("spec") or {}
    if why := _request_problem(spec.get("request") or ""):
        errs.invalid("spec.request", spec.get("request"), why)
    usages = spec.get("usages") or []
    if not usages:
        errs.required("spec.usages")
    for i, usage in enumerate(usages):
        if usage not in _USAGES:
            errs.not_supported(f"spec.usages[{i}]", usage, _USAGES)
    seen: set[str] = set()
    for i, usage in enumerate(usages):
        if usage in seen:
            errs.duplicate(f"spec.usages[{i}]", usage)
        seen.add(usage)
    signer = spec.get("signerName") or ""
    if signer == "kubernetes.io/legacy-unknown":
        why = "the legacy signerName is not allowed via this API version"
        errs.invalid("spec.signerName", signer, why)
    else:
        check_signer_name(errs, signer, "spec.signerName")
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < 600:
        why = "may not specify a duration less than 600 seconds (10 minutes)"
        errs.invalid("spec.expirationSeconds", seconds, why)
    _check_conditions(errs, (obj.get("status") or {}).get("conditions") or [])


def _of_type(obj: Obj, kind: str) -> list[Obj]:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return [c for c in conditions if c.get("type") == kind]


def _check_removed(errs: Errors, new: Obj, old: Obj) -> None:
    for kind in ("Approved", "Denied", "Failed"):
        if len(_of_type(new, kind)) < len(_of_type(old, kind)):
            why = f'updates may not remove a condition of type "{kind}"'
            errs.forbidden("status.conditions", why)


def _check_approval(errs: Errors, new: Obj, old: Obj) -> None:
    for kind in ("Approved", "Denied"):
        after, before = _of_type(new, kind), _of_type(old, kind)
        if len(after) > len(before):
            errs.forbidden("status.conditions", f'updates may not add a condition of type "{kind}"')
        elif len(after) == len(before) and after != before:
            why = f'updates may not modify a condition of type "{kind}"\n'
            errs.forbidden("status.conditions", why + difference("", before, after))


def validate_signing_request_update(errs: Errors, new: Obj, old: Obj) -> None:
    validate_signing_request(errs, new)
    _check_removed(errs, new, old)
    _check_approval(errs, new, old)
    after, before = ((o.get("status") or {}).get("certificate") for o in (new, old))
    if (after or "") != (before or ""):
        errs.forbidden("status.certificate", "updates may not set certificate content")


def validate_signing_request_status(errs: Errors, new: Obj, old: Obj) -> None:
    validate_signing_request(errs, new)
    _check_removed(errs, new, old)
    _check_approval(errs, new, old)
    after, before = ((o.get("status") or {}).get("certificate") for o in (new, old))
    if before and after != before:
        errs.forbidden("status.certificate", "updates may not modify existing certificate content")


def _candidate_name(name: str, is_prefix: bool = False) -> list[str]:
    return list(config_map_key(name))


KINDS: Kinds = {
    ("coordination.k8s.io", "LeaseCandidate"): Rules(name=_candidate_name, kube_finalizers=False),
    ("scheduling.k8s.io", "PriorityClass"): Rules(
        validate_priority_class, validate_priority_class_update, namespaced=False),
    ("coordination.k8s.io", "Lease"): Rules(
        validate_lease, validate_lease_update, kube_finalizers=False),
    ("certificates.k8s.io", "CertificateSigningRequest"): Rules(
        validate_signing_request, validate_signing_request_update,
        validate_signing_request_status, name=name_any, namespaced=False),
    ("node.k8s.io", "RuntimeClass"): Rules(
        validate_runtime_class, validate_runtime_class_update,
        namespaced=False, kube_finalizers=False),
}  # fmt: skip
