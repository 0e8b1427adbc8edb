"""The kinds that are compared: where they live, and what their objects look like."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from tests.cluster.compare import pods
from tests.cluster.compare.values import (
    Value,
    fields,
    flags,
    int_or_percent,
    keyed,
    metadata,
    object_references,
    ports,
    quantities,
    rarely,
    seconds,
    selectors,
    small,
    subset,
    texts,
    words,
)

NAMESPACE = "compare"
BAD = "compare-bad"
"""Where bad input is sent to; what is listed there is the same on both sides."""
READS = "compare-reads"
"""Where lists and watches look."""
LIMITED = "compare-limits"
"""Where LimitRanges and ResourceQuotas live: they must not act on the other objects."""


@dataclass(frozen=True)
class Sample:
    """One kind and the strategy of its content (everything but type and metadata)."""

    api_version: str
    kind: str
    plural: str
    content: Callable[[], Value]
    status: Value | None = None
    """Of the status subresource, where it is compared."""
    scale: bool = False
    strategic: bool = True
    namespace: str = NAMESPACE
    empties: bool = True
    """False: the reference takes an empty list in place of none for a change of an atomic list or
    of the spec, or for a list without the items it needs; such stories have none."""
    alone: bool = False
    """Ours runs the controller of this kind itself, so only creating it can be compared."""
    base: dict[str, Any] = field(default_factory=dict)
    """The content of a valid object."""

    @property
    def collection(self) -> str:
        root = "/api/v1" if self.api_version == "v1" else f"/apis/{self.api_version}"
        return f"{root}/namespaces/{self.namespace}/{self.plural}"

    def minimal(self, name: str) -> dict[str, Any]:
        """A valid object."""
        identity = {"apiVersion": self.api_version, "kind": self.kind, "metadata": {"name": name}}
        return {**identity, **self.base}

    def objects(self, name: str) -> Value:
        """Whole objects of a name."""
        return st.tuples(metadata(name), self.content()).map(
            lambda parts: {
                "apiVersion": self.api_version,
                "kind": self.kind,
                "metadata": parts[0],
                **parts[1],
            }
        )


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


_data_keys = rarely(
    st.sampled_from(["a", "b.txt", "C_d", "e-f"]), st.sampled_from(["a/b", "", ".."])
)
_conditions = keyed(
    "type",
    ["Ready", "Failed"],
    fields(
        {"status": st.sampled_from(["True", "False", "Unknown"])},
        reason=words,
        message=texts,
        lastTransitionTime=st.just("2024-01-01T00:00:00Z"),
    ),
)


# Of immutable objects the reference compares empty maps with missing ones; ours has no such
# difference. What immutable forbids otherwise is in the table of bad inputs.
_mutable = st.just(False)


def config_map() -> Value:
    return fields(
        data=st.dictionaries(_data_keys, rarely(texts, st.sampled_from([1, None, {}, ["x"]]))),
        binaryData=st.dictionaries(
            st.sampled_from(["bin", "raw"]),
            rarely(texts.map(_encoded), st.sampled_from(["%%%", "abc"])),
            max_size=2,
        ),
        immutable=_mutable,
    )


def secret() -> Value:
    return fields(
        data=st.dictionaries(_data_keys, rarely(texts.map(_encoded), st.sampled_from(["%", 1]))),
        stringData=st.dictionaries(_data_keys, texts, max_size=2),
        type=rarely(
            st.sampled_from(["Opaque", "example.com/custom", ""]),
            st.sampled_from(["kubernetes.io/tls", "kubernetes.io/basic-auth"]),
            10,
        ),
        immutable=_mutable,
    )


def service() -> Value:
    listed = st.lists(
        fields(
            {"port": ports},
            targetPort=rarely(st.sampled_from([80, 8080, "web"]), st.sampled_from(["BAD", 0])),
            protocol=rarely(st.sampled_from(["TCP", "UDP"]), st.just("ICMP")),
            appProtocol=st.just("http"),
        ),
        min_size=1,
        max_size=3,
    ).map(lambda ports: [{"name": f"p{i}", **p} for i, p in enumerate(ports)])
    return fields(
        {
            "spec": fields(
                {"ports": listed},
                selector=st.dictionaries(st.sampled_from(["app", "tier"]), words, max_size=2),
                type=rarely(
                    st.sampled_from(["ClusterIP", "ClusterIP", "NodePort", "LoadBalancer"]),
                    st.sampled_from(["ExternalName", "Other"]),
                    10,
                ),
                sessionAffinity=rarely(st.sampled_from(["None", "ClientIP"]), st.just("X")),
                publishNotReadyAddresses=flags,
                externalIPs=rarely(subset(["1.2.3.4", "5.6.7.8"]), st.just(["x"])),
                internalTrafficPolicy=st.sampled_from(["Cluster", "Local"]),
                loadBalancerSourceRanges=rarely(subset(["10.0.0.0/8"]), st.just(["10"]), 10),
            )
        }
    )


def claim() -> Value:
    return fields(
        {
            "spec": fields(
                {
                    "accessModes": rarely(
                        subset(["ReadWriteOnce", "ReadOnlyMany"], low=1), st.just(["Odd"])
                    ),
                    "resources": fields({"requests": fields({"storage": quantities})}),
                },
                storageClassName=words,
                volumeMode=st.sampled_from(["Filesystem", "Block"]),
                selector=selectors,
                volumeName=words,
            )
        }
    )


def role() -> Value:
    rule = fields(
        {
            "verbs": rarely(subset(["get", "list", "*"], low=1), st.just([])),
            "resources": subset(["pods", "pods/log", "*"], low=1),
            "apiGroups": subset(["", "apps"], low=1),
        },
        resourceNames=subset(["a", "b"]),
    )
    return fields(rules=st.lists(rule, max_size=3))


def network_policy() -> Value:
    peers = st.lists(
        st.one_of(
            fields({"podSelector": selectors}, namespaceSelector=selectors),
            fields(
                {
                    "ipBlock": fields(
                        {"cidr": rarely(st.just("10.0.0.0/8"), st.just("10.0.0.0/99"))},
                        **{"except": st.just(["10.1.0.0/16"])},
                    )
                }
            ),
        ),
        max_size=2,
    )
    policy_ports = st.lists(
        fields(port=st.one_of(ports, st.just("web")), protocol=st.sampled_from(["TCP", "UDP"])),
        max_size=2,
    )
    return fields(
        {
            "spec": fields(
                {"podSelector": selectors},
                ingress=st.lists(fields(**{"from": peers, "ports": policy_ports}), max_size=2),
                egress=st.lists(fields(to=peers, ports=policy_ports), max_size=2),
                policyTypes=rarely(subset(["Ingress", "Egress"]), st.just(["Sideways"])),
            )
        }
    )


def ingress() -> Value:
    backend = fields(
        {
            "service": fields(
                {
                    "name": words,
                    "port": st.one_of(fields({"number": ports}), fields({"name": st.just("web")})),
                }
            )
        }
    )
    path = fields(
        {
            "backend": backend,
            "pathType": rarely(st.just("Prefix"), st.sampled_from(["X", "Exact"])),
        },
        path=rarely(st.sampled_from(["/", "/a"]), st.just("a")),
    )
    rule = fields(
        {"http": fields({"paths": st.lists(path, min_size=1, max_size=2)})},
        host=rarely(st.sampled_from(["a.example", "*.example.com"]), st.just("Bad_Host")),
    )
    return fields(
        {
            "spec": fields(
                {"defaultBackend": backend},
                rules=st.lists(rule, max_size=2),
                tls=st.lists(
                    fields(hosts=subset(["a.example", "b.example"]), secretName=words), max_size=2
                ),
                ingressClassName=words,
            )
        }
    )


def autoscaler_v1() -> Value:
    return fields(
        {
            "spec": fields(
                {
                    "scaleTargetRef": object_references,
                    "maxReplicas": rarely(st.integers(3, 9), st.just(0)),
                },
                minReplicas=rarely(st.integers(1, 3), st.just(0)),
                targetCPUUtilizationPercentage=rarely(seconds, st.just(0)),
            )
        }
    )


def autoscaler_v2() -> Value:
    target = st.one_of(
        fields({"type": st.just("Utilization"), "averageUtilization": seconds}),
        fields({"type": st.just("AverageValue"), "averageValue": quantities}),
    )
    metric = st.one_of(
        fields(
            {
                "type": st.just("Resource"),
                "resource": fields({"name": st.sampled_from(["cpu", "memory"]), "target": target}),
            }
        ),
        fields(
            {
                "type": st.just("Pods"),
                "pods": fields(
                    {
                        "metric": fields({"name": words}, selector=selectors),
                        "target": fields(
                            {"type": st.just("AverageValue"), "averageValue": quantities}
                        ),
                    }
                ),
            }
        ),
    )
    rules = fields(
        stabilizationWindowSeconds=small,
        selectPolicy=rarely(st.sampled_from(["Max", "Disabled"]), st.just("Sum")),
        policies=st.lists(
            fields({"type": st.just("Pods"), "value": st.integers(1, 4), "periodSeconds": seconds}),
            min_size=1,
            max_size=2,
        ),
    )
    return fields(
        {
            "spec": fields(
                {"scaleTargetRef": object_references, "maxReplicas": st.integers(3, 9)},
                minReplicas=st.integers(1, 3),
                metrics=st.lists(metric, max_size=2),
                behavior=fields(scaleUp=rules, scaleDown=rules),
            )
        }
    )


def disruption_budget() -> Value:
    return fields(
        {
            "spec": st.one_of(
                fields({"minAvailable": int_or_percent}, selector=selectors),
                fields({"maxUnavailable": int_or_percent}, selector=selectors),
                fields(
                    unhealthyPodEvictionPolicy=rarely(
                        st.sampled_from(["AlwaysAllow", "IfHealthyBudget"]), st.just("No")
                    ),
                    selector=selectors,
                ),
            )
        }
    )


def lease() -> Value:
    moments = rarely(
        st.sampled_from(["2024-01-01T00:00:00.000000Z", "2024-05-06T07:08:09.123456Z"]),
        st.sampled_from(["yesterday", "2024-01-01", 5]),
        15,
    )
    return fields(
        spec=fields(
            holderIdentity=rarely(words, st.just("")),
            leaseDurationSeconds=rarely(seconds, st.sampled_from([0, -1])),
            renewTime=moments,
            acquireTime=moments,
            leaseTransitions=rarely(small, st.just(-2)),
        )
    )


def endpoints() -> Value:
    addresses = keyed(
        "ip",
        ["10.1.0.1", "10.1.0.2", "10.1.0.3"],
        fields(hostname=words, nodeName=words),
        low=1,
    )
    subset_ = fields(
        {
            "addresses": addresses,
            "ports": st.lists(fields({"port": ports}, name=words), min_size=1, max_size=1),
        },
        notReadyAddresses=keyed("ip", ["10.2.0.1"], fields(), high=1),
    )
    return fields(subsets=st.lists(subset_, max_size=2))


def endpoint_slice() -> Value:
    endpoint = fields(
        {"addresses": rarely(subset(["10.1.0.1", "10.1.0.2"], low=1), st.just(["x"]))},
        conditions=fields(ready=flags, serving=flags, terminating=flags),
        hostname=words,
        zone=words,
    )
    return fields(
        {
            "addressType": rarely(st.just("IPv4"), st.sampled_from(["IPv6", "Odd"])),
            "endpoints": st.lists(endpoint, max_size=2),
        },
        ports=keyed("name", ["web", "tls"], fields({"port": ports}), high=2),
    )


def limit_range() -> Value:
    amounts = st.dictionaries(st.sampled_from(["cpu", "memory"]), quantities, max_size=2)
    limit = fields(
        {"type": rarely(st.sampled_from(["Container", "Pod"]), st.just("PersistentVolumeClaim"))},
        max=amounts,
        min=amounts,
        default=amounts,
        defaultRequest=amounts,
    )
    return fields({"spec": fields({"limits": st.lists(limit, max_size=1)})})


def resource_quota() -> Value:
    names = rarely(
        st.sampled_from(["count/widgets.example.com", "requests.storage", "services.nodeports"]),
        st.sampled_from(["what", "a b"]),
    )
    return fields(
        spec=fields(
            hard=st.dictionaries(names, quantities, max_size=2),
            scopes=rarely(st.just(["BestEffort"]), st.just(["Odd"])),
        )
    )


def account() -> Value:
    return fields(
        secrets=keyed("name", ["alpha", "beta"], fields(), high=2),
        imagePullSecrets=keyed("name", ["alpha", "beta"], fields(), high=2),
        automountServiceAccountToken=flags,
    )


def widget_spec() -> Value:
    return fields(
        {"size": rarely(small, st.sampled_from(["big", -1, 1.5, None]))},
        color=rarely(st.sampled_from(["red", "green"]), st.just("mauve")),
        tags=rarely(subset(["x", "y", "z"]), st.just(["x", "x"]), 12),
        parts=rarely(
            keyed(
                "name",
                ["bolt", "nut", "gear"],
                fields(count=small, unit=words, labels=st.dictionaries(words, words, max_size=2)),
            ),
            st.sampled_from([[{"name": "bolt"}, {"name": "bolt"}], [{}], {}]),
            15,
        ),
        pairs=st.lists(
            fields({"host": words, "port": st.integers(1, 3)}, path=words),
            max_size=2,
            unique_by=lambda p: (p["host"], p["port"]),
        ),
        fixed=st.lists(fields(a=small, b=words), max_size=2),
        plain=subset(["p", "q"]),
        whole=fields(one=words, two=small),
        nested=fields(inner=fields(left=words, right=small), level=words),
        limits=st.dictionaries(words, st.one_of(small, words), max_size=2),
        amount=int_or_percent,
        loose=st.dictionaries(
            words,
            st.one_of(small, words, subset(["m", "n"]), st.dictionaries(words, small, max_size=2)),
            max_size=2,
        ),
        unknown=st.just("pruned"),
        maybe=st.one_of(st.none(), words),
        ratio=st.sampled_from([1, 0.5, 1.0, 1e3, -2]),
    )


def widget() -> Value:
    return fields({"spec": widget_spec()})


widget_status = fields(
    phase=words, replicas=small, selector=st.just("app=a"), conditions=_conditions
)

_CONTAINERS = [{"name": "main", "image": "busybox"}]
_TEMPLATE = {"metadata": {"labels": {"app": "alpha"}}, "spec": {"containers": _CONTAINERS}}
_ONCE = {"metadata": {}, "spec": {"restartPolicy": "Never", "containers": _CONTAINERS}}
_WORKLOAD = {"spec": {"selector": {"matchLabels": {"app": "alpha"}}, "template": _TEMPLATE}}
_TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}
_AUTOSCALER = {"spec": {"maxReplicas": 3, "scaleTargetRef": _TARGET}}
_STORAGE = {"requests": {"storage": "1Gi"}}

SAMPLES = [
    Sample("v1", "ConfigMap", "configmaps", config_map),
    Sample("v1", "Secret", "secrets", secret),
    Sample("v1", "Service", "services", service, base={"spec": {"ports": [{"port": 80}]}}),
    Sample(
        "v1",
        "Pod",
        "pods",
        lambda: fields({"spec": pods.pod_spec()}),
        base={"spec": {"containers": _CONTAINERS}},
    ),
    Sample(
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        claim,
        base={"spec": {"accessModes": ["ReadWriteOnce"], "resources": _STORAGE}},
    ),
    Sample("v1", "ServiceAccount", "serviceaccounts", account),
    Sample("v1", "Endpoints", "endpoints", endpoints),
    Sample(
        "v1",
        "LimitRange",
        "limitranges",
        limit_range,
        base={"spec": {"limits": []}},
        namespace=LIMITED,
    ),
    Sample("v1", "ResourceQuota", "resourcequotas", resource_quota, namespace=LIMITED, alone=True),
    Sample(
        "apps/v1",
        "Deployment",
        "deployments",
        lambda: fields({"spec": pods.deployment_spec()}),
        status=fields(
            replicas=small,
            readyReplicas=rarely(st.just(0), small),
            observedGeneration=small,
            conditions=_conditions,
        ),
        scale=True,
        base=_WORKLOAD,
    ),
    Sample(
        "apps/v1",
        "StatefulSet",
        "statefulsets",
        lambda: fields({"spec": pods.stateful_spec()}),
        status=fields({"replicas": small}, currentRevision=words, conditions=_conditions),
        scale=True,
        base=_WORKLOAD,
    ),
    Sample(
        "batch/v1",
        "Job",
        "jobs",
        lambda: fields({"spec": pods.job_spec()}),
        base={"spec": {"template": _ONCE}},
    ),
    Sample(
        "batch/v1",
        "CronJob",
        "cronjobs",
        lambda: fields({"spec": pods.cron_spec()}),
        base={"spec": {"schedule": "@hourly", "jobTemplate": {"spec": {"template": _ONCE}}}},
    ),
    Sample("rbac.authorization.k8s.io/v1", "Role", "roles", role),
    Sample(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        "networkpolicies",
        network_policy,
        empties=False,
        base={"spec": {"podSelector": {}}},
    ),
    Sample(
        "networking.k8s.io/v1",
        "Ingress",
        "ingresses",
        ingress,
        base={"spec": {"defaultBackend": {"service": {"name": "a", "port": {"number": 80}}}}},
    ),
    Sample(
        "autoscaling/v1",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        autoscaler_v1,
        base=_AUTOSCALER,
    ),
    Sample(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        autoscaler_v2,
        empties=False,
        base=_AUTOSCALER,
    ),
    Sample("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", disruption_budget),
    Sample("coordination.k8s.io/v1", "Lease", "leases", lease),
    Sample(
        "discovery.k8s.io/v1",
        "EndpointSlice",
        "endpointslices",
        endpoint_slice,
        base={"addressType": "IPv4", "endpoints": []},
    ),
    Sample(
        "example.com/v1",
        "Widget",
        "widgets",
        widget,
        status=widget_status,
        base={"spec": {"size": 1}},
        scale=True,
        strategic=False,
    ),
]


def widget_definition() -> dict[str, Any]:
    """A CRD with every list and map type."""
    text = {"type": "string"}
    number = {"type": "integer"}
    spec = {
        "type": "object",
        "required": ["size"],
        "properties": {
            "size": {"type": "integer", "minimum": 0, "maximum": 100},
            "color": {"type": "string", "enum": ["red", "green", "blue"], "default": "blue"},
            "tags": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
            "parts": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {
                        "name": text,
                        "count": {"type": "integer", "default": 1},
                        "unit": text,
                        "labels": {"type": "object", "additionalProperties": text},
                    },
                },
            },
            "pairs": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["host", "port"],
                "items": {
                    "type": "object",
                    "required": ["host", "port"],
                    "properties": {"host": text, "port": number, "path": text},
                },
            },
            "fixed": {
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "items": {"type": "object", "properties": {"a": number, "b": text}},
            },
            "plain": {"type": "array", "items": text},
            "whole": {
                "type": "object",
                "x-kubernetes-map-type": "atomic",
                "properties": {"one": text, "two": number},
            },
            "nested": {
                "type": "object",
                "properties": {
                    "level": {"type": "string", "default": "low"},
                    "inner": {
                        "type": "object",
                        "properties": {"left": text, "right": number},
                    },
                },
            },
            "limits": {
                "type": "object",
                "additionalProperties": {"x-kubernetes-int-or-string": True},
            },
            "amount": {"x-kubernetes-int-or-string": True},
            "loose": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "maybe": {"type": "string", "nullable": True},
            "ratio": {"type": "number"},
            "replicas": {"type": "integer"},
        },
        "x-kubernetes-validations": [
            {
                "rule": "!has(self.tags) || self.tags.size() <= self.size + 3",
                "message": "too many tags",
            }
        ],
    }
    status = {
        "type": "object",
        "properties": {
            "phase": text,
            "replicas": number,
            "selector": text,
            "conditions": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
                "items": {
                    "type": "object",
                    "required": ["type", "status"],
                    "properties": {
                        "type": text,
                        "status": text,
                        "reason": text,
                        "message": text,
                        "lastTransitionTime": {"type": "string", "format": "date-time"},
                    },
                },
            },
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {
                "plural": "widgets",
                "singular": "widget",
                "kind": "Widget",
                "listKind": "WidgetList",
                "shortNames": ["wd"],
                "categories": ["all"],
            },
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {"spec": spec, "status": status},
                        }
                    },
                    "subresources": {
                        "status": {},
                        "scale": {
                            "specReplicasPath": ".spec.replicas",
                            "statusReplicasPath": ".status.replicas",
                            "labelSelectorPath": ".status.selector",
                        },
                    },
                    "additionalPrinterColumns": [
                        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                    ],
                    "selectableFields": [{"jsonPath": ".spec.color"}],
                }
            ],
        },
    }
