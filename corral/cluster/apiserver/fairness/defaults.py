"""The priority levels and flow schemas that every cluster begins with: upstream's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from corral.kube.types import Obj

__all__ = ["MANDATORY_LEVELS", "MANDATORY_SCHEMAS", "default_objects"]

_VERSION = "flowcontrol.apiserver.k8s.io/v1"
_EVERYBODY = ("Group system:unauthenticated", "Group system:authenticated")
_KUBE_SYSTEM = "ServiceAccount kube-system/*"


def _level(name: str, spec: Obj) -> Obj:
    return _object("PriorityLevelConfiguration", name, spec)


def _object(kind: str, name: str, spec: Obj) -> Obj:
    meta = {"name": name, "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}}
    return {"apiVersion": _VERSION, "kind": kind, "metadata": meta, "spec": spec}


def _queued(name: str, shares: int, lendable: int, queues: int, hand: int) -> Obj:
    queuing = {"queues": queues, "handSize": hand, "queueLengthLimit": 50}
    limited = {
        "nominalConcurrencyShares": shares,
        "limitResponse": {"type": "Queue", "queuing": queuing},
        "lendablePercent": lendable,
    }
    return _level(name, {"type": "Limited", "limited": limited})


def _subject(text: str) -> Obj:
    kind, _, name = text.partition(" ")
    if kind == "ServiceAccount":
        namespace, _, name = name.partition("/")
        return {"kind": kind, "serviceAccount": {"namespace": namespace, "name": name}}
    return {"kind": kind, kind.lower(): {"name": name}}


def _resources(verbs: Sequence[str], group: str, names: Sequence[str], *, cluster: bool) -> Obj:
    rule: Obj = {"verbs": list(verbs), "apiGroups": [group], "resources": list(names)}
    if cluster:
        rule["clusterScope"] = True
    return {**rule, "namespaces": ["*"]}


_ALL: Obj = {
    "resourceRules": [_resources("*", "*", "*", cluster=True)],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
}
_LEASES = "coordination.k8s.io"


def _schema(
    name: str,
    level: str,
    precedence: int,
    subjects: Sequence[str],
    *,
    by: str = "",
    rules: Obj = _ALL,
) -> Obj:
    spec: dict[str, Any] = {
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence,
    }
    if by:
        spec["distinguisherMethod"] = {"type": by}
    spec["rules"] = [{"subjects": [_subject(s) for s in subjects], **rules}]
    return _object("FlowSchema", name, spec)


MANDATORY_LEVELS = {
    "exempt": _level(
        "exempt",
        {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}},
    ),
    "catch-all": _level(
        "catch-all",
        {
            "type": "Limited",
            "limited": {
                "nominalConcurrencyShares": 5,
                "limitResponse": {"type": "Reject"},
                "lendablePercent": 0,
            },
        },
    ),
}
MANDATORY_SCHEMAS = {
    "exempt": _schema("exempt", "exempt", 1, ["Group system:masters"]),
    "catch-all": _schema("catch-all", "catch-all", 10000, _EVERYBODY, by="ByUser"),
}
_SUGGESTED_LEVELS = (
    _queued("system", 30, 33, 64, 6),
    _queued("node-high", 40, 25, 64, 6),
    _queued("leader-election", 10, 0, 16, 4),
    _queued("workload-high", 40, 50, 128, 6),
    _queued("workload-low", 100, 90, 128, 6),
    _queued("global-default", 20, 50, 128, 6),
)
_PROBES = {
    "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}]
}
_ELECTION = {
    "resourceRules": [_resources(("get", "create", "update"), _LEASES, ["leases"], cluster=False)]
}
_NODE_HEALTH = {
    "resourceRules": [
        _resources("*", "", ["nodes", "nodes/status"], cluster=True),
        _resources("*", _LEASES, ["leases"], cluster=False),
    ]
}
_MANAGER, _SCHEDULER = "User system:kube-controller-manager", "User system:kube-scheduler"
_NODES = ["Group system:nodes"]
_SUGGESTED_SCHEMAS = (
    _schema("system-nodes", "system", 500, _NODES, by="ByUser"),
    _schema("system-node-high", "node-high", 400, _NODES, by="ByUser", rules=_NODE_HEALTH),
    _schema("probes", "exempt", 2, _EVERYBODY, rules=_PROBES),
    _schema("system-leader-election", "leader-election", 100, [_MANAGER, _SCHEDULER, _KUBE_SYSTEM],
            by="ByUser", rules=_ELECTION),
    _schema("kube-controller-manager", "workload-high", 800, [_MANAGER], by="ByNamespace"),
    _schema("kube-scheduler", "workload-high", 800, [_SCHEDULER], by="ByNamespace"),
    _schema("kube-system-service-accounts", "workload-high", 900, [_KUBE_SYSTEM],
            by="ByNamespace"),
    _schema("service-accounts", "workload-low", 9000, ["Group system:serviceaccounts"],
            by="ByUser"),
    _schema("global-default", "global-default", 9900, _EVERYBODY, by="ByUser"),
)  # fmt: skip


def default_objects() -> list[Obj]:
    """All of them; not to be changed."""
    return [
        *MANDATORY_LEVELS.values(),
        *_SUGGESTED_LEVELS,
        *MANDATORY_SCHEMAS.values(),
        *_SUGGESTED_SCHEMAS,
    ]
