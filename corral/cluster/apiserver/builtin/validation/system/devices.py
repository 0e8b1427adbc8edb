"""Devices, claims to them and migrations: stored for others to act on.

What identifies the objects and what may not change is checked; the details of device requests
and selectors are left to those who act on them.
"""

from __future__ import annotations

from corral.cluster.apiserver.builtin.validation.fields import check, names
from corral.cluster.apiserver.builtin.validation.fields.errors import Errors
from corral.cluster.apiserver.builtin.validation.fields.rules import (
    Kinds,
    Rules,
    again,
    changes,
    fixed,
    whole,
)
from corral.kube.types import Obj

__all__ = ["KINDS"]

_SLICE = whole(
    check.inside("spec", check.needed("driver"), check.inside("pool", check.needed("name")))
)


def _same_pool(errs: Errors, new: Obj, old: Obj) -> None:
    after, before = (((o.get("spec") or {}).get("pool") or {}).get("name") for o in (new, old))
    errs.immutable("spec.pool.name", after, before)


_RESOURCE = check.struct(
    check.needed("resource", why="resource is required to be set"),
    check.optional("resource", check.joined(names.dns1035_label)),
    check.optional("group", check.joined(names.dns_subdomain)),
)
_MIGRATION = whole(check.inside("spec", check.inside("resource", _RESOURCE)))
_SAME_SPEC = fixed("", "spec", zero={})

KINDS: Kinds = {
    ("resource.k8s.io", "DeviceClass"): Rules(namespaced=False),
    ("resource.k8s.io", "DeviceTaintRule"): Rules(namespaced=False),
    ("resource.k8s.io", "ResourceClaim"): Rules(update=fixed("", "spec", zero={}, beta=True)),
    ("resource.k8s.io", "ResourceClaimTemplate"): Rules(update=_SAME_SPEC),
    ("resource.k8s.io", "ResourceSlice"): Rules(
        _SLICE, changes(again(_SLICE), _same_pool, fixed("spec", "driver nodeName")),
        namespaced=False),
    ("storagemigration.k8s.io", "StorageVersionMigration"): Rules(
        _MIGRATION, changes(again(_MIGRATION), _SAME_SPEC), namespaced=False),
}  # fmt: skip
