"""Validation of API services."""

from __future__ import annotations

import base64

from corral.cluster.apiserver.builtin.validation.fields.errors import Errors, int_of
from corral.cluster.apiserver.builtin.validation.fields.names import (
    dns1035_label,
    dns_subdomain,
    path_segment,
    port_number,
)
from corral.kube.types import Obj

__all__ = ["validate_api_service", "validate_api_service_status"]

_STATES = ("True", "False", "Unknown")


def validate_api_service(errs: Errors, obj: Obj) -> None:
    spec = obj.get("spec") or {}
    group, served = spec.get("group", ""), spec.get("version", "")
    _check_name(errs, obj, f"{served}.{group}")
    if not group and served != "v1":
        errs.required("spec.group", "only v1 may have an empty group and it better be legacy kube")
    if group:
        errs.format("spec.group", group, dns_subdomain)
    errs.format("spec.version", served, dns1035_label)
    for field, highest in (("groupPriorityMinimum", 20000), ("versionPriority", 1000)):
        value = int_of(spec.get(field))
        if not 0 < value <= highest:
            errs.invalid(f"spec.{field}", value, f"must be positive and less than {highest}")
    if spec.get("service") is None:
        _check_local(errs, spec)
    else:
        _check_service(errs, spec, spec["service"])


def _check_name(errs: Errors, obj: Obj, wanted: str) -> None:
    name = (obj.get("metadata") or {}).get("name", "")
    if name and name != wanted and not path_segment(name):
        errs.invalid("metadata.name", name, f'must be `spec.version+"."+spec.group`: "{wanted}"')


def _check_local(errs: Errors, spec: Obj) -> None:
    bundle = spec.get("caBundle")
    if bundle:
        size = f"{len(base64.b64decode(bundle))} bytes"
        errs.invalid("spec.caBundle", size, "local APIServices may not have a caBundle")
    if spec.get("insecureSkipTLSVerify"):
        errs.invalid(
            "spec.insecureSkipTLSVerify",
            True,
            "local APIServices may not have insecureSkipTLSVerify",
        )


def _check_service(errs: Errors, spec: Obj, service: Obj) -> None:
    for field in ("namespace", "name"):
        if not service.get(field):
            errs.required(f"spec.service.{field}", "")
    port = int_of(service.get("port"))
    problems = port_number(port)
    if problems:
        detail = f"port is not valid: {', '.join(problems)}"
        errs.invalid("spec.service.port", port, detail)
    if spec.get("insecureSkipTLSVerify") and spec.get("caBundle"):
        errs.invalid("spec.insecureSkipTLSVerify", True, "may not be true if caBundle is present")


def validate_api_service_status(errs: Errors, new: Obj, old: Obj) -> None:
    for i, condition in enumerate((new.get("status") or {}).get("conditions") or ()):
        state = condition.get("status", "")
        if state not in _STATES:
            errs.not_supported(f"status.conditions[{i}].status", state, _STATES)
