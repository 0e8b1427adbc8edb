"""Rows of nodes, namespaces, events, configuration, quotas and what else describes a cluster."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from corral.cluster.apiserver.tables.cells import NONE, UNKNOWN, UNSET, Row, age, born, created_at
from corral.kube.quantity import Quantity
from corral.kube.types import Obj

__all__ = ["ROWS"]

_ROLE_PREFIX = "node-role.kubernetes.io/"
_ROLE = "kubernetes.io/role"


def _node(obj: Obj, now: datetime) -> list[Any]:
    meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    info, addresses = status.get("nodeInfo") or {}, status.get("addresses") or []
    kernel, arch = info.get("kernelVersion") or UNKNOWN, info.get("architecture")
    state = _node_state(status.get("conditions") or [])
    return [
        meta.get("name", ""),
        f"{state},SchedulingDisabled" if spec.get("unschedulable") else state,
        _roles(meta.get("labels") or {}),
        born(obj, now),
        info.get("kubeletVersion", ""),
        _address(addresses, "InternalIP"),
        _address(addresses, "ExternalIP"),
        info.get("osImage") or UNKNOWN,
        f"{kernel} ({arch})" if arch else kernel,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _node_state(conditions: list[Obj]) -> str:
    for condition in reversed(conditions):
        if condition["type"] == "Ready":
            return "Ready" if condition.get("status") == "True" else "NotReady"
    return "Unknown"


def _roles(labels: dict[str, str]) -> str:
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles.add(labels.get(_ROLE, ""))
    return ",".join(sorted(roles - {""})) or NONE


def _address(addresses: list[Obj], kind: str) -> str:
    return next((a.get("address", "") for a in addresses if a.get("type") == kind), NONE)


def _event(obj: Obj, now: datetime) -> list[Any]:
    """Both the core and the events.k8s.io spelling, which name the same things differently."""
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    target = obj.get("involvedObject") or obj.get("regarding") or {}
    message = obj.get("message") or obj.get("note") or ""
    first = obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or obj.get("eventTime")
    last = obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp") or first
    count = obj.get("count") or obj.get("deprecatedCount") or 1
    if (series := obj.get("series")) is not None:
        last, count = series.get("lastObservedTime"), series.get("count", 0)
    reporter = obj.get("reportingComponent") or obj.get("reportingController") or ""
    component = source.get("component") or reporter
    host = source.get("host") or obj.get("reportingInstance")
    kind, name = target.get("kind", "").lower(), target.get("name")
    return [
        age(last, now),
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{kind}/{name}" if name else kind,
        target.get("fieldPath", ""),
        f"{component}, {host}" if host else component,
        message.strip(),
        age(first, now),
        count,
        obj["metadata"].get("name", ""),
    ]


def _namespace(obj: Obj, now: datetime) -> list[Any]:
    phase = (obj.get("status") or {}).get("phase", "")
    return [obj["metadata"].get("name", ""), phase, born(obj, now)]


def _secret(obj: Obj, now: datetime) -> list[Any]:
    size = len(obj.get("data") or ())
    return [obj["metadata"].get("name", ""), obj.get("type", ""), size, born(obj, now)]


def _config_map(obj: Obj, now: datetime) -> list[Any]:
    size = len(obj.get("data") or ()) + len(obj.get("binaryData") or ())
    return [obj["metadata"].get("name", ""), size, born(obj, now)]


def _quota(obj: Obj, now: datetime) -> list[Any]:
    status = obj.get("status") or {}
    used = status.get("used") or {}
    requests: list[str] = []
    limits: list[str] = []
    for name, hard in sorted((status.get("hard") or {}).items()):
        shown = limits if name.startswith("limits.") else requests
        shown.append(f"{name}: {used.get(name, '0')}/{hard}")
    return [
        obj["metadata"].get("name", ""),
        ", ".join(requests),
        ", ".join(limits),
        born(obj, now),
    ]


def _component(obj: Obj, now: datetime) -> list[Any]:
    name = obj["metadata"].get("name", "")
    for condition in obj.get("conditions") or ():
        if condition["type"] == "Healthy":
            state = "Healthy" if condition.get("status") == "True" else "Unhealthy"
            return [name, state, condition.get("message", ""), condition.get("error", "")]
    return [name, "Unknown", "", ""]


def _lease(obj: Obj, now: datetime) -> list[Any]:
    holder = (obj.get("spec") or {}).get("holderIdentity", "")
    return [obj["metadata"].get("name", ""), holder, born(obj, now)]


def _priority_class(obj: Obj, now: datetime) -> list[Any]:
    return [
        obj["metadata"].get("name", ""),
        obj.get("value", 0),
        obj.get("globalDefault", False),
        born(obj, now),
        obj.get("preemptionPolicy", ""),
    ]


def _runtime_class(obj: Obj, now: datetime) -> list[Any]:
    return [obj["metadata"].get("name", ""), obj.get("handler", ""), born(obj, now)]


def _webhooks(obj: Obj, now: datetime) -> list[Any]:
    return [obj["metadata"].get("name", ""), len(obj.get("webhooks") or ()), born(obj, now)]


def _policy(obj: Obj, now: datetime) -> list[Any]:
    spec = obj.get("spec") or {}
    kind = spec.get("paramKind")
    taken = UNSET if kind is None else f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}"
    rules = spec.get("validations") or spec.get("mutations") or ()
    return [obj["metadata"].get("name", ""), len(rules), taken, born(obj, now)]


def _policy_binding(obj: Obj, now: datetime) -> list[Any]:
    spec = obj.get("spec") or {}
    ref = spec.get("paramRef") or {}
    given = UNSET
    if ref.get("name"):
        given = f"{ref.get('namespace') or '*'}/{ref['name']}"
    elif ref.get("selector") is not None:
        given = _go_selector(ref["selector"])
    return [obj["metadata"].get("name", ""), spec.get("policyName", ""), given, born(obj, now)]


def _go_selector(selector: Obj) -> str:
    """As the type prints itself in Go."""
    labels = "".join(f"{k}: {v}," for k, v in sorted((selector.get("matchLabels") or {}).items()))
    terms = "".join(
        f"LabelSelectorRequirement{{Key:{t.get('key', '')},Operator:{t.get('operator', '')},"
        f"Values:[{' '.join(t.get('values') or ())}],}},"
        for t in selector.get("matchExpressions") or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{terms}}},}}"
    )


def _definition(obj: Obj, now: datetime) -> list[Any]:
    meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    names = spec.get("names") or {}
    served = [
        f"{version['name']}(storage)" if version.get("storage") else version["name"]
        for version in spec.get("versions") or ()
        if version.get("served")
    ]
    held = {c["type"] for c in status.get("conditions") or () if c.get("status") == "True"}
    return [
        meta.get("name", ""),
        spec.get("scope", ""),
        ",".join(sorted(served)),
        created_at(obj),
        spec.get("group", ""),
        names.get("kind", ""),
        ",".join(names.get("shortNames") or ()),
        "Established" in held,
    ]


def _api_service(obj: Obj, now: datetime) -> list[Any]:
    service, state = (obj.get("spec") or {}).get("service"), "Unknown"
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition["type"] == "Available":
            state, reason = condition["status"], condition.get("reason")
            state = f"{state} ({reason})" if reason and state != "True" else state
            break
    where = f"{service.get('namespace', '')}/{service.get('name', '')}" if service else "Local"
    return [obj["metadata"].get("name", ""), where, state, born(obj, now)]


def _node_metrics(obj: Obj, now: datetime) -> list[Any]:
    return _metrics(obj, [obj.get("usage") or {}])


def _pod_metrics(obj: Obj, now: datetime) -> list[Any]:
    return _metrics(obj, [c.get("usage") or {} for c in obj.get("containers") or ()])


def _metrics(obj: Obj, usages: list[Obj]) -> list[Any]:
    return [
        obj["metadata"].get("name", ""),
        _sum(usages, "cpu"),
        _sum(usages, "memory"),
        obj.get("window", "0s"),
    ]


def _sum(usages: list[Obj], resource: str) -> str:
    found = (Quantity.parse(str(usage[resource])) for usage in usages if resource in usage)
    return str(sum(found, Quantity(0)))


def _flow_schema(obj: Obj, now: datetime) -> list[Any]:
    spec = obj.get("spec") or {}
    conditions = (obj.get("status") or {}).get("conditions") or ()
    dangling = next((c.get("status", "") for c in conditions if c["type"] == "Dangling"), "?")
    return [
        obj["metadata"].get("name", ""),
        (spec.get("priorityLevelConfiguration") or {}).get("name", ""),
        spec.get("matchingPrecedence", 0),
        (spec.get("distinguisherMethod") or {}).get("type") or NONE,
        born(obj, now),
        dangling,
    ]


def _priority_level(obj: Obj, now: datetime) -> list[Any]:
    spec = obj.get("spec") or {}
    limited = spec.get("limited")
    shares: Any = NONE
    queuing: Obj = {}
    if limited is not None:
        shares = limited.get("nominalConcurrencyShares", 0)
        queuing = (limited.get("limitResponse") or {}).get("queuing") or {}
    sizes = [queuing.get(key, NONE) for key in ("queues", "handSize", "queueLengthLimit")]
    name, kind = obj["metadata"].get("name", ""), spec.get("type", "")
    return [name, kind, shares, *sizes, born(obj, now)]


ROWS: dict[tuple[str, str], Row] = {
    ("", "Node"): _node,
    ("", "Event"): _event,
    ("events.k8s.io", "Event"): _event,
    ("", "Namespace"): _namespace,
    ("", "Secret"): _secret,
    ("", "ConfigMap"): _config_map,
    ("", "ResourceQuota"): _quota,
    ("", "ComponentStatus"): _component,
    ("coordination.k8s.io", "Lease"): _lease,
    ("scheduling.k8s.io", "PriorityClass"): _priority_class,
    ("node.k8s.io", "RuntimeClass"): _runtime_class,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _webhooks,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _webhooks,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): _policy,
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"): _policy,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"): _policy_binding,
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"): _policy_binding,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
    ("apiregistration.k8s.io", "APIService"): _api_service,
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"): _flow_schema,
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"): _priority_level,
    ("metrics.k8s.io", "NodeMetrics"): _node_metrics,
    ("metrics.k8s.io", "PodMetrics"): _pod_metrics,
}
