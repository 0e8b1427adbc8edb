"""Which rules apply to which kind, and the three questions the server asks.

A kind that is not in the table only has its metadata checked. Updates check the metadata twice
upstream (once for all kinds, once per kind); repeated findings are reported once.
"""

from __future__ import annotations

from corral.cluster.apiserver.builtin.validation.core import config, events, nodes, quotas
from corral.cluster.apiserver.builtin.validation.fields.errors import Errors, FieldError
from corral.cluster.apiserver.builtin.validation.fields.meta import (
    check_kube_finalizers,
    check_meta_changes,
    check_object_meta,
)
from corral.cluster.apiserver.builtin.validation.fields.names import name_is_path_segment
from corral.cluster.apiserver.builtin.validation.fields.rules import Change, Kinds, Rules
from corral.cluster.apiserver.builtin.validation.network import (
    address_blocks,
    endpoints,
    ingresses,
    network_policies,
    services,
)
from corral.cluster.apiserver.builtin.validation.pods import updates
from corral.cluster.apiserver.builtin.validation.storage import claims, classes
from corral.cluster.apiserver.builtin.validation.system import (
    admission_policies,
    api_services,
    certificates,
    devices,
    flowcontrol,
    leases,
    rbac,
    webhooks,
)
from corral.cluster.apiserver.builtin.validation.workloads import autoscaling, jobs, replicated
from corral.kube.types import Obj

__all__ = ["validate_create", "validate_status_update", "validate_update"]

_RULES: Kinds = {
    **config.KINDS,
    **events.KINDS,
    **nodes.KINDS,
    **quotas.KINDS,
    **address_blocks.KINDS,
    **endpoints.KINDS,
    **ingresses.KINDS,
    **network_policies.KINDS,
    **services.KINDS,
    **updates.KINDS,
    **claims.KINDS,
    **classes.KINDS,
    **admission_policies.KINDS,
    **api_services.KINDS,
    **certificates.KINDS,
    **devices.KINDS,
    **flowcontrol.KINDS,
    **leases.KINDS,
    **rbac.KINDS,
    **webhooks.KINDS,
    **autoscaling.KINDS,
    **jobs.KINDS,
    **replicated.KINDS,
}
_ANY = Rules(kube_finalizers=False)


def _looks_namespaced(obj: Obj) -> bool:
    """An unknown kind is taken for what it looks like: nothing here knows its scope."""
    return bool((obj.get("metadata") or {}).get("namespace"))


def _unique(errs: Errors) -> list[FieldError]:
    return errs if len(errs) < 2 else list(dict.fromkeys(errs))


def validate_create(group: str, version: str, kind: str, obj: Obj) -> list[FieldError]:
    """Everything wrong with an object that is to be created."""
    found = _RULES.get((group, kind))
    rules, errs = found or _ANY, Errors()
    if rules.meta_last and rules.create is not None:
        rules.create(errs, obj)
        if errs:
            return errs
    namespaced = rules.namespaced if found else _looks_namespaced(obj)
    check_object_meta(errs, obj, namespaced=namespaced, name_rule=rules.name)
    if rules.kube_finalizers:
        check_kube_finalizers(errs, obj)
    if rules.meta_last:
        return errs
    if rules.create is not None:
        rules.create(errs, obj)
    return _unique(errs)


def _validate_change(
    new: Obj, old: Obj, rules: Rules | None, check: Change | None
) -> list[FieldError]:
    errs, namespaced = Errors(), rules.namespaced if rules else _looks_namespaced(old)
    check_object_meta(errs, new, namespaced=namespaced, name_rule=name_is_path_segment)
    check_meta_changes(errs, new, old)
    if rules is not None and rules.kube_finalizers:
        check_kube_finalizers(errs, new)
    if check is not None:
        check(errs, new, old)
    return _unique(errs)


def validate_update(group: str, version: str, kind: str, new: Obj, old: Obj) -> list[FieldError]:
    """Everything wrong with an update: what may not change, and the new object itself."""
    found = _RULES.get((group, kind))
    return _validate_change(new, old, found, found.update if found else None)


def validate_status_update(
    group: str, version: str, kind: str, new: Obj, old: Obj
) -> list[FieldError]:
    """Everything wrong with an update through the ``status`` subresource."""
    found = _RULES.get((group, kind))
    return _validate_change(new, old, found, found.status if found else None)
