"""What each endpoint never writes, whatever the client sends: nobody becomes its owner there."""

from __future__ import annotations

from functools import cache
from typing import TypeAlias

Path: TypeAlias = tuple[str, ...]

_STATUS_ONLY = frozenset(
    (group, kind)
    for group, kinds in {
        "admissionregistration.k8s.io": ("ValidatingAdmissionPolicy",),
        "apiregistration.k8s.io": ("APIService",),
        "certificates.k8s.io": ("PodCertificateRequest",),
        "flowcontrol.apiserver.k8s.io": ("FlowSchema", "PriorityLevelConfiguration"),
        "internal.apiserver.k8s.io": ("StorageVersion",),
        "networking.k8s.io": ("ServiceCIDR",),
        "resource.k8s.io": ("DeviceTaintRule", "ResourceClaim", "ResourcePoolStatusRequest"),
        "scheduling.k8s.io": ("CompositePodGroup", "PodGroup"),
        "storage.k8s.io": ("CSINode", "VolumeAttachment"),
        "storagemigration.k8s.io": ("StorageVersionMigration",),
    }.items()
    for kind in kinds
)
"""Kinds whose status endpoint leaves metadata alone as well."""

_PARTICULAR: dict[tuple[str, str, str], tuple[Path, ...]] = {
    ("apps", "Deployment", "status"): (("spec",), ("metadata", "labels")),
    ("", "Pod", "status"): (
        ("spec",),
        ("metadata", "deletionTimestamp"),
        ("metadata", "ownerReferences"),
    ),
    ("", "Pod", "ephemeralcontainers"): (("status",), ("metadata",)),
    ("", "Pod", "resize"): (("status",), ("metadata",)),
    ("", "Namespace", "finalize"): (("status",),),
    ("certificates.k8s.io", "CertificateSigningRequest", ""): (("spec",), ("status",)),
    ("certificates.k8s.io", "CertificateSigningRequest", "status"): (
        ("spec",),
        ("status", "conditions"),
    ),
    ("certificates.k8s.io", "CertificateSigningRequest", "approval"): (
        ("spec",),
        ("status", "certificate"),
    ),
}


@cache
def reset_fields(
    group: str, kind: str, subresource: str = "", *, has_status: bool, custom: bool = False
) -> tuple[Path, ...]:
    """The paths a write through this endpoint leaves as they are.

    ``has_status`` says whether the kind has a status endpoint at all; without one its status is a
    field like any other.
    """
    particular = _PARTICULAR.get((group, kind, subresource))
    if particular is not None and not custom:
        return particular
    if subresource == "status":
        bare = custom or (group, kind) in _STATUS_ONLY
        return (("spec",), ("metadata",)) if bare else (("spec",),)
    return (("status",),) if has_status and not subresource else ()
