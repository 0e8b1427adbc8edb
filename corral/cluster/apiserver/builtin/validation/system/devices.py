"""Kinds that are stored for others to act on: devices and claims, trust, migrations.

What identifies the objects and what may not change is checked; the details of device requests,
selectors and certificates are left to those who act on them.
"""

from __future__ import annotations

from corral.cluster.apiserver.builtin.validation.fields.errors import Errors
from corral.cluster.apiserver.builtin.validation.fields.names import (
    dns1035_label,
    dns_subdomain,
    name_any,
)
from corral.cluster.apiserver.builtin.validation.fields.rules import Kinds, Rules
from corral.cluster.apiserver.builtin.validation.fields.signers import check_signer_name
from corral.kube.types import Obj

__all__ = ["KINDS"]


_CERTIFICATE = "-----BEGIN CERTIFICATE-----"


def validate_same_spec(errs: Errors, new: Obj, old: Obj) -> None:
    """Updates of kinds whose whole spec is immutable."""
    errs.immutable("spec", new.get("spec") or {}, old.get("spec") or {})


def validate_claim_update(errs: Errors, new: Obj, old: Obj) -> None:
    """A ResourceClaim, whose spec the API declares immutable."""
    errs.immutable_beta("spec", new.get("spec") or {}, old.get("spec") or {})


def validate_slice(errs: Errors, obj: Obj) -> None:
    """A ResourceSlice."""
    spec = obj.get("spec") or {}
    if not spec.get("driver"):
        errs.required("spec.driver")
    if not (spec.get("pool") or {}).get("name"):
        errs.required("spec.pool.name")


def validate_slice_update(errs: Errors, new: Obj, old: Obj) -> None:
    validate_slice(errs, new)
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    pool, old_pool = spec.get("pool") or {}, before.get("pool") or {}
    errs.immutable("spec.pool.name", pool.get("name"), old_pool.get("name"))
    for name in ("driver", "nodeName"):
        errs.immutable(f"spec.{name}", spec.get(name), before.get(name))


def validate_certificate_request(errs: Errors, obj: Obj) -> None:
    """A PodCertificateRequest."""
    spec = obj.get("spec") or {}
    check_signer_name(errs, spec.get("signerName") or "", "spec.signerName")
    for who in ("pod", "serviceAccount", "node"):
        name, uid = spec.get(f"{who}Name") or "", spec.get(f"{who}UID") or ""
        for message in dns_subdomain(name):
            errs.invalid(f"spec.{who}Name", name, message)
        if not uid:
            errs.invalid(f"spec.{who}UID", uid, "must not be empty")


def validate_trust_bundle(errs: Errors, obj: Obj) -> None:
    """A ClusterTrustBundle."""
    spec, name = obj.get("spec") or {}, (obj.get("metadata") or {}).get("name") or ""
    signer = spec.get("signerName") or ""
    for message in _bundle_name(name, signer):
        errs.invalid("metadata.name", name, message)
    if signer:
        check_signer_name(errs, signer, "spec.signerName")
    if _CERTIFICATE not in (spec.get("trustBundle") or ""):
        why = "at least one trust anchor must be provided"
        errs.invalid("spec.trustBundle", "<value omitted>", why)


def _bundle_name(name: str, signer: str) -> list[str]:
    """A signer's bundles are named after it."""
    if not signer:
        if ":" in name:
            return ['ClusterTrustBundle without signer name must not have ":" in its name']
        return list(dns_subdomain(name))
    prefix = f"{signer.replace('/', ':')}:"
    if not name.startswith(prefix):
        return [f"ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}"]
    return list(dns_subdomain(name.removeprefix(prefix)))


def validate_trust_bundle_update(errs: Errors, new: Obj, old: Obj) -> None:
    validate_trust_bundle(errs, new)
    now, before = ((o.get("spec") or {}).get("signerName") or "" for o in (new, old))
    errs.immutable("spec.signerName", now, before)


def validate_migration(errs: Errors, obj: Obj) -> None:
    """A StorageVersionMigration."""
    resource = (obj.get("spec") or {}).get("resource") or {}
    name, group = resource.get("resource") or "", resource.get("group") or ""
    if not name:
        errs.required("spec.resource.resource", "resource is required to be set")
    elif found := dns1035_label(name):
        errs.invalid("spec.resource.resource", name, ",".join(found))
    if group and (found := dns_subdomain(group)):
        errs.invalid("spec.resource.group", group, ",".join(found))


def validate_migration_update(errs: Errors, new: Obj, old: Obj) -> None:
    validate_migration(errs, new)
    validate_same_spec(errs, new, old)


KINDS: Kinds = {
    ("certificates.k8s.io", "ClusterTrustBundle"): Rules(
        validate_trust_bundle, validate_trust_bundle_update, name=name_any, namespaced=False),
    ("certificates.k8s.io", "PodCertificateRequest"): Rules(
        validate_certificate_request, validate_same_spec),
    ("resource.k8s.io", "DeviceClass"): Rules(namespaced=False),
    ("resource.k8s.io", "DeviceTaintRule"): Rules(namespaced=False),
    ("resource.k8s.io", "ResourceClaim"): Rules(update=validate_claim_update),
    ("resource.k8s.io", "ResourceClaimTemplate"): Rules(update=validate_same_spec),
    ("resource.k8s.io", "ResourceSlice"): Rules(
        validate_slice, validate_slice_update, namespaced=False),
    ("storagemigration.k8s.io", "StorageVersionMigration"): Rules(
        validate_migration, validate_migration_update, namespaced=False),
}  # fmt: skip
