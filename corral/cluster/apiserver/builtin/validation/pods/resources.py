"""Resource names and amounts: which names are known where, and how limits bind requests."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import cached_property
from typing import Any

from corral.cluster.apiserver.builtin.validation.fields.errors import (
    MAX_REPEATED,
    NEGATIVE,
    Errors,
    FieldError,
)
from corral.cluster.apiserver.builtin.validation.fields.names import dns_label, qualified_name
from corral.cluster.apiserver.builtin.validation.fields.quantities import (
    canonical,
    cmp_quantity,
    is_whole,
    nano,
    value_of,
)
from corral.cluster.apiserver.errors import show
from corral.kube.types import Obj

__all__ = [
    "NO_CLAIMS",
    "ClaimNames",
    "check_amount",
    "check_container_resource_name",
    "check_pod_resource_name",
    "check_quota_resource_name",
    "check_requirements",
    "check_resource_name",
    "is_huge_page",
    "is_native",
    "is_standard_quota",
    "overcommits",
]

_COUNTED = frozenset(
    (
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    )
)
_CONTAINER = frozenset(("cpu", "memory", "ephemeral-storage"))
_QUOTA = (
    _COUNTED
    | _CONTAINER
    | {f"{p}.{n}" for p in ("requests", "limits") for n in _CONTAINER}
    | {"requests.storage"}
)
_STANDARD = _QUOTA | {"storage"}
_POD_LEVEL = ("cpu", "hugepages-", "memory")
_MOST_SHOWN = 100
"""Names of claims that one error lists."""


class ClaimNames(frozenset[str]):
    """The names of a pod's claims, and how the errors about other names list them."""

    _left = MAX_REPEATED
    """Characters that may still be used for lists in the errors about this pod."""

    def listed(self) -> str:
        """All of them; the first ones where they are many, or in many errors."""
        if not self:
            return " which is empty"
        whole = len(self._text) <= max(self._left, 64)
        text = self._text if whole else f"{self._text[:64]}..."
        self._left -= len(text)
        return text

    @cached_property
    def _text(self) -> str:
        more = ", ..." if len(self) > _MOST_SHOWN else ""
        return ": " + ", ".join(heapq.nsmallest(_MOST_SHOWN, self)) + more


NO_CLAIMS = ClaimNames()
NameCheck = Callable[[Errors, str, str], None]


def is_huge_page(name: str) -> bool:
    return name.startswith("hugepages-")


def is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def overcommits(name: str) -> bool:
    return is_native(name) and not is_huge_page(name)


def is_standard_quota(name: str) -> bool:
    return name in _QUOTA or name.startswith(("hugepages-", "requests.hugepages-"))


def _is_extended(name: str) -> bool:
    if is_native(name) or name.startswith("requests."):
        return False
    return not qualified_name(f"requests.{name}")


def _is_integer(name: str) -> bool:
    return name in _COUNTED or _is_extended(name)


def check_resource_name(errs: Errors, name: str, path: str) -> None:
    if name in _STANDARD:
        return
    if found := qualified_name(name):
        errs.invalid_each(path, name, found)
    elif "/" not in name and not is_standard_quota(name):
        errs.invalid(path, name, "must be a standard resource type or fully qualified")


def check_container_resource_name(errs: Errors, name: str, path: str) -> None:
    if name in _CONTAINER:
        return
    check_resource_name(errs, name, path)
    if "/" not in name:
        if not is_huge_page(name):
            errs.invalid(path, name, "must be a standard resource for containers")
    elif not is_native(name) and not _is_extended(name):
        errs.invalid(path, name, "doesn't follow extended resource name standard")


def check_pod_resource_name(errs: Errors, name: str, path: str) -> None:
    before = len(errs)
    check_resource_name(errs, name, path)
    if len(errs) == before and name not in ("cpu", "memory") and not is_huge_page(name):
        errs.not_supported(path, name, _POD_LEVEL)


def check_quota_resource_name(errs: Errors, name: str, path: str) -> None:
    check_resource_name(errs, name, path)
    if "/" not in name and not is_standard_quota(name):
        errs.invalid(path, name, "must be a standard resource for quota")


def check_amount(errs: Errors, name: str, amount: Any, path: str) -> None:
    """No amount is negative, and what is counted comes in whole pieces."""
    if nano(amount) < 0:
        errs.invalid(path, canonical(amount), NEGATIVE)
    if name not in _CONTAINER and _is_integer(name) and not is_whole(amount):
        errs.invalid(path, canonical(amount), "must be an integer")


def _check_huge_page(errs: Errors, name: str, amount: Any, path: str) -> None:
    size = value_of(name[len("hugepages-") :])
    if size <= 0 or value_of(amount) % size:
        why = f"{canonical(amount)} is not positive integer multiple of {name}"
        errs.invalid(path, canonical(amount), why)


def _check_against_limit(
    errs: Errors, name: str, amount: Any, limits: dict[str, Any], path: str
) -> None:
    limit = limits.get(name)
    if limit is None:
        if not overcommits(name):
            errs.required(f"{path}.limits", "Limit must be set for non overcommitable resources")
        return
    order = cmp_quantity(amount, limit)
    exact = order != 0 and not overcommits(name)
    if exact or order > 0:
        why = f"must be {'' if exact else 'less than or '}equal to {name} limit of "
        errs.invalid(f"{path}.requests", canonical(amount), why + canonical(limit))


def check_requirements(
    errs: Errors,
    requirements: Obj | None,
    claim_names: ClaimNames,
    path: str,
    *,
    name_check: NameCheck = check_container_resource_name,
) -> None:
    """The ``resources`` of a container or a pod."""
    if not requirements:
        return
    limits: dict[str, Any] = requirements.get("limits") or {}
    requests: dict[str, Any] = requirements.get("requests") or {}
    huge = compute = False
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            where = f"{path}.{kind}[{name}]"
            name_check(errs, name, where)
            check_amount(errs, name, amount, where)
            if kind == "requests":
                _check_against_limit(errs, name, amount, limits, path)
            if is_huge_page(name):
                huge = True
                _check_huge_page(errs, name, amount, where)
            elif name in ("cpu", "memory"):
                compute = True
    if huge and not compute:
        errs.forbidden(path, "HugePages require cpu or memory")
    if claims := requirements.get("claims"):
        _check_claims(errs, claims, claim_names, f"{path}.claims")


def _check_claims(errs: Errors, claims: list[Obj], known: ClaimNames, path: str) -> None:
    seen: set[str] = set()
    named: set[str] = set()
    for i, claim in enumerate(claims):
        where = f"{path}[{i}]"
        name = claim.get("name") or ""
        if not name:
            errs.required(where)
            continue
        _check_claim_unique(errs, claim, seen, named, where)
        if name not in known:
            why = f"must be one of the names in pod.spec.resourceClaims{known.listed()}"
            errs.append(FieldError("FieldValueNotFound", where, f"Not found: {show(name)}: {why}"))


def _check_claim_unique(
    errs: Errors, claim: Obj, seen: set[str], named: set[str], where: str
) -> None:
    """``seen`` has what claims ask for, as ``name/request``, and ``named`` its bare names."""
    name, request = claim["name"], claim.get("request") or ""
    if name in seen:
        errs.duplicate(where, name)
        return
    key = name
    if request:
        errs.format(f"{where}.request", request, dns_label)
        key = f"{name}/{request}"
    if key in seen:
        errs.duplicate(where, key)
    elif not request and name in named:
        errs.duplicate(where, name)
    seen.add(key)
    named.add(key.partition("/")[0])
