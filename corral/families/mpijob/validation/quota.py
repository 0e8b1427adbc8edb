"""Area 8, quota: a job that the namespace's quotas can ever let run, and that fits now.

Quotas with scopes are left out: which pods they count is not known before there are pods.
"""

from __future__ import annotations

from corral.api.mpi.rules import SPECS
from corral.families.mpijob.validation.findings import Findings, Subject, policy
from corral.families.mpijob.validation.formats import amount
from corral.families.mpijob.validation.resources import is_extended
from corral.kube.problems import forbidden_field, required
from corral.kube.quantity import Quantity
from corral.kube.types import Obj

__all__ = ["check", "usage"]

_COUNTED = {
    "services": 1, "configmaps": 1, "secrets": 1, "count/services": 1, "count/configmaps": 1,
    "count/secrets": 1, "count/jobs.batch": 1, "count/mpijobs.kubeflow.org": 1,
}  # fmt: skip
"""What every job makes one of."""
_NO = Quantity(0)
_SHORT = {"cpu": "requests.cpu", "memory": "requests.memory"}


def check(subject: Subject) -> Findings:
    quotas = [quota for quota in subject.context.quotas if not _is_scoped(quota)]
    if not quotas:
        return
    needed = usage(subject)
    for quota in quotas:
        yield from _exceeded(subject, quota, needed)
        yield from _unsaid(subject, quota)


def _is_scoped(quota: Obj) -> bool:
    spec = quota.get("spec") or {}
    return bool(spec.get("scopes") or spec.get("scopeSelector"))


def usage(subject: Subject) -> dict[str, Quantity]:
    """What a job counts for, by the names that quotas have for it."""
    out = {name: Quantity(number) for name, number in _COUNTED.items()}
    for pod, count in subject.counts():
        _add(out, "pods", Quantity(count))
        for place in pod.containers:
            resources = place.container.resources
            limits = (resources.limits if resources is not None else None) or {}
            requests = (resources.requests if resources is not None else None) or {}
            for name, text in limits.items():
                _add(out, f"limits.{name}", _times(text, count))
            # A container that asks for nothing asks for its limits.
            for name, text in {**limits, **requests}.items():
                _add(out, f"requests.{name}", _times(text, count))
    out["count/pods"] = out.get("pods", Quantity(0))
    return out


def _add(totals: dict[str, Quantity], name: str, more: Quantity) -> None:
    totals[name] = totals[name] + more if name in totals else more


def _times(text: int | str, count: int) -> Quantity:
    one = amount(text) or Quantity(0)
    return Quantity(one.mantissa * count, one.exponent, one.format)


def _exceeded(subject: Subject, quota: Obj, needed: dict[str, Quantity]) -> Findings:
    status: Obj = quota.get("status") or {}
    used: Obj = status.get("used") or {}
    name = (quota.get("metadata") or {}).get("name", "")
    for resource, text in _hard(quota).items():
        limit, want = amount(text), needed.get(_SHORT.get(resource, resource))
        if limit is None or not want:
            continue
        path = _field(resource)
        if want > limit:
            why = f"needs {want} {resource}, and quota {name} allows {limit} in all"
            yield policy(forbidden_field(path, why))
        elif subject.old is None and want > (left := limit - (amount(used.get(resource)) or _NO)):
            why = f"needs {want} {resource}, and quota {name} has {left} of {limit} left"
            yield policy(forbidden_field(path, why))


def _hard(quota: Obj) -> Obj:
    status, spec = quota.get("status") or {}, quota.get("spec") or {}
    return status.get("hard") or spec.get("hard") or {}


def _field(resource: str) -> str:
    """Where to look: resources are those of all pods together."""
    return "metadata.name" if resource in _COUNTED else SPECS


def _unsaid(subject: Subject, quota: Obj) -> Findings:
    """Under a quota every container says what it needs of what is counted."""
    name = (quota.get("metadata") or {}).get("name", "")
    for resource in _hard(quota):
        kind, _, wanted = _SHORT.get(resource, resource).partition(".")
        if kind not in ("requests", "limits") or is_extended(wanted):
            continue
        for pod in subject.pods():
            for place in pod.containers:
                resources = place.container.resources
                said = {
                    "limits": (resources.limits if resources is not None else None) or {},
                    "requests": (resources.requests if resources is not None else None) or {},
                }
                if wanted in said[kind] or (kind == "requests" and wanted in said["limits"]):
                    continue
                path = f"{place.path}.resources.{kind}[{wanted}]"
                yield policy(required(path, f"quota {name} counts it"))
