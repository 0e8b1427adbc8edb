"""What an object counts against quotas, and which quota scopes it falls into."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from corral.cluster.apiserver.admission.quotas.amounts import Amounts, amounts, pod_total, quantity
from corral.cluster.apiserver.admission.storage import claim_class
from corral.kube.quantity import Quantity
from corral.kube.selectors import Selector, SelectorError
from corral.kube.types import Obj

__all__ = ["IGNORED", "Counted", "count_name", "counted", "missing_amounts", "tracks"]

PODS, SERVICES, CLAIMS = "/pods", "/services", "/persistentvolumeclaims"
IGNORED = frozenset({"/bindings", "/componentstatuses", "/events", "events.k8s.io/events"})
"""Tables that quotas never count."""

_ONE = Quantity(1)
_ALIASES = {
    "/configmaps": "configmaps",
    "/resourcequotas": "resourcequotas",
    "/replicationcontrollers": "replicationcontrollers",
    "/secrets": "secrets",
}
_SERVICE_NAMES = frozenset(
    {"count/services", "services", "services.nodeports", "services.loadbalancers"}
)
_CLAIM_NAMES = ("persistentvolumeclaims", "requests.storage")
_BY_CLASS = ".storageclass.storage.k8s.io/"
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_POD_NAMES = frozenset(
    {
        "count/pods", "pods", *_COMPUTE,
        *(f"requests.{name}" for name in _COMPUTE), *(f"limits.{name}" for name in _COMPUTE),
    }
)  # fmt: skip
_REQUIRED = frozenset(
    {"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"}
)
_DEVICE_CLASS = "deviceclass.resource.kubernetes.io/"


class Counted(NamedTuple):
    """An object, as quotas see it."""

    usage: Amounts
    scopes: frozenset[str] = frozenset()
    """The scopes that hold as such."""
    classes: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Scopes that select by value: name of the scope, values of the object."""
    until: datetime | None = None
    """When a dying pod stops to count although it is still there."""

    def matches(self, selector: Obj) -> bool:
        """Whether the object is in a scope (an element of a scopeSelector)."""
        scope = selector.get("scopeName", "")
        operator = selector.get("operator", "Exists")
        values = dict(self.classes).get(scope)
        if values is None:
            return scope in self.scopes
        if operator == "Exists":
            return bool(values)
        term = {"key": scope, "operator": operator, "values": selector.get("values") or []}
        try:
            wanted = Selector.from_object({"matchExpressions": [term]})
        except SelectorError:
            return False
        return any(wanted.matches({scope: v}) for v in values) if values else wanted.matches({})


def count_name(table: str) -> str:
    """``count/deployments.apps``, ``count/pods``."""
    group, _, plural = table.rpartition("/")
    return f"count/{plural}.{group}" if group else f"count/{plural}"


def tracks(table: str, names: Collection[str]) -> list[str]:
    """Which of a quota's resource names the objects of a table count against."""
    match table:
        case "/pods":
            return [n for n in names if n in _POD_NAMES or _is_pod_extra(n)]
        case "/services":
            return [n for n in names if n in _SERVICE_NAMES]
        case "/persistentvolumeclaims":
            return [n for n in names if _is_claim_name(n)]
        case _:
            own = (count_name(table), _ALIASES.get(table))
            return [n for n in own if n is not None and n in names]


def _is_pod_extra(name: str) -> bool:
    if name.startswith(("hugepages-", "requests.hugepages-")):
        return True
    if not name.startswith("requests."):
        return False
    native = "/" not in name or "kubernetes.io/" in name
    return not native or name.startswith(f"requests.{_DEVICE_CLASS}")


def _is_claim_name(name: str) -> bool:
    if name == "count/persistentvolumeclaims" or name in _CLAIM_NAMES:
        return True
    return name.endswith(tuple(_BY_CLASS + n for n in _CLAIM_NAMES))


def counted(table: str, obj: Obj) -> Counted:
    """What an object of a table counts."""
    match table:
        case "/pods":
            return _pod(obj)
        case "/services":
            return Counted(_service(obj.get("spec") or {}))
        case "/persistentvolumeclaims":
            return _claim(obj)
    usage = {count_name(table): _ONE}
    alias = _ALIASES.get(table)
    if alias:
        usage[alias] = _ONE
    return Counted(usage)


# -- pods ----------------------------------------------------------------------------------


def _pod(pod: Obj) -> Counted:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    usage: Amounts = {"count/pods": _ONE}
    if status.get("phase") not in ("Succeeded", "Failed"):
        requests = pod_total(spec, "requests", overhead=True)
        limits = pod_total(spec, "limits", overhead=True)
        usage.update(_compute(requests, limits))
    deadline = spec.get("activeDeadlineSeconds")
    terminating = deadline is not None and deadline >= 0
    scopes = {
        "Terminating" if terminating else "NotTerminating",
        "BestEffort" if _best_effort(spec, status) else "NotBestEffort",
    }
    if _crosses_namespaces(spec.get("affinity") or {}):
        scopes.add("CrossNamespacePodAffinity")
    name = spec.get("priorityClassName")
    classes = (("PriorityClass", (name,) if name else ()),)
    return Counted(usage, frozenset(scopes), classes, _end(pod["metadata"]))


def _compute(requests: Amounts, limits: Amounts) -> Amounts:
    usage: Amounts = {"pods": _ONE}
    for name in _COMPUTE:
        if name in requests:
            usage[name] = usage[f"requests.{name}"] = requests[name]
        if name in limits:
            usage[f"limits.{name}"] = limits[name]
    for name, amount in requests.items():
        if name.startswith("hugepages-"):
            usage[name] = amount
            usage[f"requests.{name}"] = amount
        elif "/" in name and ("kubernetes.io/" not in name or name.startswith(_DEVICE_CLASS)):
            usage[f"requests.{name}"] = amount
    return usage


def _end(meta: Obj) -> datetime | None:
    if "deletionTimestamp" not in meta or meta.get("deletionGracePeriodSeconds") is None:
        return None
    grace = timedelta(seconds=meta["deletionGracePeriodSeconds"])
    return datetime.fromisoformat(meta["deletionTimestamp"]).astimezone(UTC) + grace


def _best_effort(spec: Obj, status: Obj) -> bool:
    if status.get("qosClass"):
        return bool(status["qosClass"] == "BestEffort")
    if _pod_level(spec):
        return not _asks(spec.get("resources") or {})
    every = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    return not any(_asks(c.get("resources") or {}) for c in every)


def _pod_level(spec: Obj) -> bool:
    resources = spec.get("resources") or {}
    names = [*(resources.get("requests") or ()), *(resources.get("limits") or ())]
    return any(n in ("cpu", "memory") or n.startswith("hugepages-") for n in names)


def _asks(resources: Obj) -> bool:
    return any(
        quantity(str((resources.get(field) or {}).get(name, "0")))
        for field in ("requests", "limits")
        for name in ("cpu", "memory")
    )


def _crosses_namespaces(affinity: Obj) -> bool:
    for field in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(field) or {}
        weighted = rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms = [
            *(rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ()),
            *(term.get("podAffinityTerm") or {} for term in weighted),
        ]
        if any(t.get("namespaces") or t.get("namespaceSelector") is not None for t in terms):
            return True
    return False


def missing_amounts(pod: Obj, names: Iterable[str]) -> str:
    """Which containers leave out what a quota limits; empty when none does."""
    spec = pod.get("spec") or {}
    if _pod_level(spec):
        return ""
    required = _REQUIRED.intersection(names)
    missing: dict[str, set[str]] = {}
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        resources = container.get("resources") or {}
        present = _compute(amounts(resources.get("requests")), amounts(resources.get("limits")))
        for name in required - present.keys():
            missing.setdefault(name, set()).add(container.get("name", ""))
    if not missing:
        return ""
    texts = (f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing))
    return f"must specify {'; '.join(texts)}"


# -- services and claims -------------------------------------------------------------------


def _service(spec: Obj) -> Amounts:
    ports = spec.get("ports") or ()
    kind = spec.get("type")
    balancers = nodeports = 0
    if kind == "NodePort":
        nodeports = len(ports)
    elif kind == "LoadBalancer":
        balancers = 1
        if spec.get("allocateLoadBalancerNodePorts") is False:
            nodeports = sum(1 for port in ports if port.get("nodePort"))
        else:
            nodeports = len(ports)
    return {
        "count/services": _ONE,
        "services": _ONE,
        "services.loadbalancers": Quantity(balancers),
        "services.nodeports": Quantity(nodeports),
    }


def _claim(claim: Obj) -> Counted:
    spec, status = claim.get("spec") or {}, claim.get("status") or {}
    usage: Amounts = {"persistentvolumeclaims": _ONE, "count/persistentvolumeclaims": _ONE}
    class_ = claim_class(claim)
    if class_:
        usage[f"{class_}{_BY_CLASS}persistentvolumeclaims"] = _ONE
    text = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if text is not None:
        size = _whole(quantity(str(text)))
        allocated = (status.get("allocatedResources") or {}).get("storage")
        if allocated is not None:
            size = max(size, _whole(quantity(str(allocated))))
        usage["requests.storage"] = size
        if class_:
            usage[f"{class_}{_BY_CLASS}requests.storage"] = size
    names = (
        spec.get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    )
    values = tuple(dict.fromkeys(n for n in names if n))
    return Counted(usage, classes=(("VolumeAttributesClass", values),))


def _whole(amount: Quantity) -> Quantity:
    return amount if amount.exponent >= 0 else Quantity(amount.to_int(), 0, amount.format)
