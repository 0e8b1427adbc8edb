"""LimitRanger: defaults for containers, bounds for containers, pods and claims."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from corral.cluster.apiserver.admission.chain import Plugin
from corral.cluster.apiserver.admission.lookup import Parsed
from corral.cluster.apiserver.admission.quotas.amounts import ZERO, Amounts, amounts, pod_total
from corral.cluster.apiserver.admission.refusals import join, refuse
from corral.cluster.apiserver.crud.core import AdmissionRequest
from corral.cluster.apiserver.store import Store
from corral.kube.quantity import Quantity
from corral.kube.types import Obj

__all__ = ["ANNOTATION", "LimitRanger"]

ANNOTATION = "kubernetes.io/limit-ranger"
PODS, CLAIMS, LIMIT_RANGES = "/pods", "/persistentvolumeclaims", "/limitranges"
_MAX_MILLI = (2**63 - 1) // 1000


class _Limit(NamedTuple):
    type: str
    min: Amounts
    max: Amounts
    ratio: Amounts
    default: dict[str, str]
    default_request: dict[str, str]


def _limits(limit_range: Obj) -> list[_Limit]:
    listed = (limit_range.get("spec") or {}).get("limits") or ()
    return [
        _Limit(
            limit.get("type", ""),
            amounts(limit.get("min")),
            amounts(limit.get("max")),
            amounts(limit.get("maxLimitRequestRatio")),
            limit.get("default") or {},
            limit.get("defaultRequest") or {},
        )
        for limit in listed
    ]


class LimitRanger(Plugin):
    """Applies every LimitRange of the namespace."""

    tables = frozenset({PODS, CLAIMS})

    def __init__(self, store: Store) -> None:
        self._ranges = Parsed(store, LIMIT_RANGES, _limits)

    def _of(self, request: AdmissionRequest) -> list[list[_Limit]]:
        if not self._ranges.any() or request.object is None:
            return []
        resize = request.subresource == "resize" and request.operation == "UPDATE"
        if request.subresource and not resize:
            return []
        pod_update = request.operation == "UPDATE" and request.kind.info.table == PODS
        if pod_update and not resize:
            return []
        if request.old and "deletionTimestamp" in request.old["metadata"]:
            return []
        return self._ranges.scan(f"{request.namespace}/")

    async def mutate(self, request: AdmissionRequest) -> bool:
        if request.kind.info.table != PODS:
            return False
        changed = False
        for limits in self._of(request):
            changed |= _set_defaults(request.object or {}, limits)
        return changed

    async def validate(self, request: AdmissionRequest) -> None:
        for limits in self._of(request):
            check = _check_pod if request.kind.info.table == PODS else _check_claim
            problems = check((request.object or {}).get("spec") or {}, limits)
            if problems:
                raise refuse(request, join(problems))


def _set_defaults(pod: Obj, limits: list[_Limit]) -> bool:
    default: dict[str, str] = {}
    default_request: dict[str, str] = {}
    for limit in limits:
        if limit.type == "Container":
            default.update(limit.default)
            default_request.update(limit.default_request)
    if not default and not default_request:
        return False
    said: list[str] = []
    spec = pod["spec"]
    for field, words in (("containers", "container"), ("initContainers", "init container")):
        for container in spec.get(field) or ():
            resources = container.setdefault("resources", {})
            who = f"{words} {container.get('name', '')}"
            limited = _fill(resources, "limits", default)
            requested = _fill(resources, "requests", default_request)
            said += [f"{', '.join(sorted(requested))} request for {who}"] if requested else []
            said += [f"{', '.join(sorted(limited))} limit for {who}"] if limited else []
    if said:
        meta = pod["metadata"]
        text = "LimitRanger plugin set: " + "; ".join(said)
        meta["annotations"] = {**(meta.get("annotations") or {}), ANNOTATION: text}
    return bool(said)


def _fill(resources: Obj, field: str, defaults: dict[str, str]) -> list[str]:
    present = resources.get(field) or {}
    missing = [name for name in defaults if name not in present]
    if missing:
        resources[field] = {**present, **{name: defaults[name] for name in missing}}
    return missing


# -- bounds --------------------------------------------------------------------------------


def _check_pod(spec: Obj, limits: list[_Limit]) -> list[str]:
    problems: list[str] = []
    for limit in limits:
        if limit.type == "Container":
            for field in ("containers", "initContainers"):
                for container in spec.get(field) or ():
                    resources = container.get("resources") or {}
                    requests = amounts(resources.get("requests"))
                    problems += _check(limit, requests, amounts(resources.get("limits")))
        elif limit.type == "Pod":
            problems += _check(limit, pod_total(spec, "requests"), pod_total(spec, "limits"))
    return problems


def _check_claim(spec: Obj, limits: list[_Limit]) -> list[str]:
    problems: list[str] = []
    requests = amounts((spec.get("resources") or {}).get("requests"))
    for limit in limits:
        if limit.type == "PersistentVolumeClaim":
            problems += _each(limit.type, limit.min, requests, {}, _below)
            problems += _each(limit.type, limit.max, requests, {}, _request_above)
    return problems


def _check(limit: _Limit, requests: Amounts, limits: Amounts) -> list[str]:
    return [
        *_each(limit.type, limit.min, requests, limits, _below),
        *_each(limit.type, limit.max, requests, limits, _above),
        *_each(limit.type, limit.ratio, requests, limits, _ratio),
    ]


_Rule = Callable[[str, Quantity, Quantity | None, Quantity | None], str]


def _each(
    type_: str, bounds: Amounts, requests: Amounts, limits: Amounts, rule: _Rule
) -> list[str]:
    found = (
        rule(f"{name} {{}} per {type_} is {bound}", bound, requests.get(name), limits.get(name))
        for name, bound in bounds.items()
    )
    return [text for text in found if text]


def _values(request: Quantity | None, limit: Quantity | None, bound: Quantity) -> tuple[int, ...]:
    three = (request or ZERO, limit or ZERO, bound)
    whole = tuple(q.to_int() for q in three)
    return tuple(q.milli() for q in three) if max(whole) <= _MAX_MILLI else whole


def _below(what: str, bound: Quantity, request: Quantity | None, limit: Quantity | None) -> str:
    what = "minimum " + what.format("usage")
    requested, limited, least = _values(request, limit, bound)
    if request is None:
        return f"{what}.  No request is specified"
    if requested < least:
        return f"{what}, but request is {request}"
    if limit is not None and limited < least:
        return f"{what}, but limit is {limit}"
    return ""


def _above(what: str, bound: Quantity, request: Quantity | None, limit: Quantity | None) -> str:
    what = "maximum " + what.format("usage")
    requested, limited, most = _values(request, limit, bound)
    if limit is None:
        return f"{what}.  No limit is specified"
    if limited > most:
        return f"{what}, but limit is {limit}"
    if request is not None and requested > most:
        return f"{what}, but request is {request}"
    return ""


def _request_above(
    what: str, bound: Quantity, request: Quantity | None, limit: Quantity | None
) -> str:
    what = "maximum " + what.format("usage")
    requested, _, most = _values(request, None, bound)
    if request is None:
        return f"{what}.  No request is specified"
    return f"{what}, but request is {request}" if requested > most else ""


def _ratio(what: str, bound: Quantity, request: Quantity | None, limit: Quantity | None) -> str:
    what = what.format("max limit to request ratio")
    requested, limited, _ = _values(request, limit, bound)
    if not requested:
        return f"{what}, but no request is specified or request is 0"
    if not limited:
        return f"{what}, but no limit is specified or limit is 0"
    ratio = limited / requested
    if ratio * 1000 > bound.milli():
        return f"{what}, but provided ratio is {ratio:f}"
    return ""
