"""What a cluster holds before anybody has written to it: default roles, bindings, namespaces.

`bootstrap_objects` are the RBAC objects of kube-apiserver 1.37 with default feature gates,
aggregated roles filled in; `system_objects` is the rest. Objects are fresh dicts without
resourceVersion, uid and creationTimestamp: storing them is the server's part. Where one exists
already, the server leaves it alone unless its autoupdate annotation is "true".
"""

from __future__ import annotations

from functools import cache

from corral.cluster.apiserver.auth import bootstrap_policy as policy
from corral.cluster.apiserver.auth.rbac import GROUP, aggregate
from corral.kube.types import Obj

__all__ = [
    "NAMESPACES",
    "bootstrap_objects",
    "cluster_role_rules",
    "kubernetes_endpoints",
    "root_ca_configmap",
    "system_objects",
]

NAMESPACES = ("kube-system", "kube-public", "kube-node-lease", "default")

_VERSION = f"{GROUP}/v1"
_ALIASES = {
    "read": ("get", "list", "watch"),
    "write": ("create", "delete", "deletecollection", "patch", "update"),
}
_EVENTS = "create,patch,update core,events.k8s.io: events"
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"
_AGGREGATED = (("view", "edit"), ("edit", "admin"), ("admin", ""))
"""Role, and the role that takes it in; each stands before the one that needs it."""

_CLUSTER_BINDINGS = {
    "cluster-admin": "Group system:masters",
    "system:basic-user": "Group system:authenticated",
    "system:cluster-trust-bundle-discovery": "Group system:serviceaccounts",
    "system:discovery": "Group system:authenticated",
    "system:kube-controller-manager": "User system:kube-controller-manager",
    "system:kube-dns": "ServiceAccount kube-system/kube-dns",
    "system:kube-scheduler": "User system:kube-scheduler",
    "system:monitoring": "Group system:monitoring",
    "system:node": "",
    "system:node-proxier": "User system:kube-proxy",
    "system:public-info-viewer": "Group system:authenticated, Group system:unauthenticated",
    "system:service-account-issuer-discovery": "Group system:serviceaccounts",
    "system:volume-scheduler": "User system:kube-scheduler",
}
"""ClusterRole and binding of the same name: who is bound."""

_BINDINGS = (
    (
        "kube-system/system::extension-apiserver-authentication-reader",
        "extension-apiserver-authentication-reader",
        "User system:kube-controller-manager, User system:kube-scheduler",
    ),
    (
        "kube-system/system::leader-locking-kube-controller-manager",
        "",
        "User system:kube-controller-manager, ServiceAccount kube-system/kube-controller-manager, "
        "ServiceAccount kube-system/leader-election-controller",
    ),
    (
        "kube-system/system::leader-locking-kube-scheduler",
        "",
        "User system:kube-scheduler, ServiceAccount kube-system/kube-scheduler",
    ),
    *(
        (f"{namespace}/system:controller:{name}", "", f"ServiceAccount kube-system/{name}")
        for namespace, name in (
            ("kube-public", "bootstrap-signer"),
            ("kube-system", "bootstrap-signer"),
            ("kube-system", "cloud-provider"),
            ("kube-system", "token-cleaner"),
        )
    ),
)
"""Binding, Role (empty: of the same name), who is bound."""


def bootstrap_objects() -> list[Obj]:
    """All default ClusterRoles, ClusterRoleBindings, Roles and RoleBindings."""
    controllers = _parse(policy.CONTROLLER_ROLES)
    roles = _parse(policy.CLUSTER_ROLES) | controllers
    objects = _cluster_roles(roles)
    for name, subjects in _CLUSTER_BINDINGS.items():
        objects.append(_bind("ClusterRoleBinding", name, "ClusterRole", name, subjects))
    for name in controllers:
        account = name.removeprefix("system:controller:")
        subject = f"ServiceAccount kube-system/{account}"
        objects.append(_bind("ClusterRoleBinding", name, "ClusterRole", name, subject))
    for path, rules in _parse(policy.ROLES).items():
        objects.append(_object("Role", path, rules=rules))
    for path, role, subjects in _BINDINGS:
        role = role or path.partition("/")[2]
        objects.append(_bind("RoleBinding", path, "Role", role, subjects))
    return objects


@cache
def _cluster_role_table() -> dict[str, list[Obj]]:
    return _parse(policy.CLUSTER_ROLES)


def cluster_role_rules(name: str) -> list[Obj]:
    """The rules of a default ClusterRole; not to be mutated."""
    return _cluster_role_table()[name]


def _cluster_roles(table: dict[str, list[Obj]]) -> list[Obj]:
    objects = [_object("ClusterRole", name, rules=rules) for name, rules in table.items()]
    by_name = {role["metadata"]["name"]: role for role in objects}
    for name, _ in _AGGREGATED:
        part = by_name[f"system:aggregate-to-{name}"]
        part["metadata"]["labels"][_AGGREGATE + name] = "true"
    for name, into in _AGGREGATED:
        role = _object("ClusterRole", name)
        if into:
            role["metadata"]["labels"][_AGGREGATE + into] = "true"
        selector = {"matchLabels": {_AGGREGATE + name: "true"}}
        role["aggregationRule"] = {"clusterRoleSelectors": [selector]}
        role["rules"] = aggregate(role, objects)
        objects.append(role)
    return objects


def _object(kind: str, path: str, **fields: object) -> Obj:
    namespace, slash, name = path.partition("/")
    place = {"name": name, "namespace": namespace} if slash else {"name": path}
    return {
        "apiVersion": _VERSION,
        "kind": kind,
        "metadata": {
            **place,
            "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
            "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
        },
        **fields,
    }


def _bind(kind: str, path: str, role_kind: str, role: str, subjects: str) -> Obj:
    ref = {"apiGroup": GROUP, "kind": role_kind, "name": role}
    binding = _object(kind, path, roleRef=ref)
    if subjects:
        binding["subjects"] = [_subject(text) for text in subjects.split(", ")]
    return binding


def _subject(text: str) -> Obj:
    kind, _, name = text.partition(" ")
    if kind != "ServiceAccount":
        return {"apiGroup": GROUP, "kind": kind, "name": name}
    namespace, _, name = name.partition("/")
    return {"kind": kind, "name": name, "namespace": namespace}


def _parse(table: str) -> dict[str, list[Obj]]:
    roles: dict[str, list[Obj]] = {}
    rules: list[Obj] = []
    for line in table.replace("\n      ", " ").splitlines():
        if line.startswith("  "):
            rules.append(_rule(line.strip()))
        else:
            rules = roles[line] = []
    return roles


def _rule(text: str) -> Obj:
    head, _, objects = (_EVENTS if text == "events" else text).partition(": ")
    verbs, _, groups = head.partition(" ")
    words = [word for verb in verbs.split(",") for word in _ALIASES.get(verb, (verb,))]
    if groups == "url":
        return {"nonResourceURLs": objects.split(" "), "verbs": sorted(words)}
    resources, equals, names = objects.partition(" = ")
    rule: Obj = {
        "apiGroups": ["" if group == "core" else group for group in groups.split(",")],
        "resources": resources.split(" "),
        "verbs": sorted(words),
    }
    if equals:
        rule["resourceNames"] = names.split(" ")
    return rule


def system_objects(
    ca_pem: str,
    *,
    target_port: int = 6443,
    service_ip: str = "10.96.0.1",
    service_cidr: str = "10.96.0.0/16",
    advertise_address: str | None = None,
) -> list[Obj]:
    """Namespaces, priority classes, the ``kubernetes`` Service, its range and the CA ConfigMaps.

    With ``advertise_address`` also the endpoints of that Service.
    """
    objects = [_namespace(name) for name in NAMESPACES]
    objects += [
        _priority_class(
            "system-cluster-critical",
            2000000000,
            "Used for system critical pods that must run in the cluster, but can be moved to "
            "another node if necessary.",
        ),
        _priority_class(
            "system-node-critical",
            2000001000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
        kubernetes_service(service_ip, target_port),
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "ServiceCIDR",
            "metadata": {"name": "kubernetes"},
            "spec": {"cidrs": [service_cidr]},
        },
    ]
    if advertise_address is not None:
        objects += kubernetes_endpoints(advertise_address, target_port)
    objects.append(
        _configmap("extension-apiserver-authentication", "kube-system", "client-ca-file", ca_pem)
    )
    objects += [root_ca_configmap(name, ca_pem) for name in NAMESPACES]
    return objects


def root_ca_configmap(namespace: str, ca_pem: str) -> Obj:
    """The ConfigMap every namespace gets, from which pods learn the CA."""
    configmap = _configmap("kube-root-ca.crt", namespace, "ca.crt", ca_pem)
    configmap["metadata"]["annotations"] = {
        "kubernetes.io/description": (
            "Contains a CA bundle that can be used to verify the kube-apiserver when using "
            "internal endpoints such as the internal service IP or kubernetes.default.svc. "
            "No other usage is guaranteed across distributions of Kubernetes clusters."
        )
    }
    return configmap


def _configmap(name: str, namespace: str, key: str, value: str) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {key: value},
    }


def _namespace(name: str) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def _priority_class(name: str, value: int, description: str) -> Obj:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "description": description,
        "preemptionPolicy": "PreemptLowerPriority",
    }


def kubernetes_service(ip: str, target_port: int) -> Obj:
    """The Service that leads to the server."""
    port = {"name": "https", "protocol": "TCP", "port": 443, "targetPort": target_port}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "ports": [port],
            "clusterIP": ip,
            "clusterIPs": [ip],
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "ipFamilies": ["IPv6" if ":" in ip else "IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
        },
        "status": {"loadBalancer": {}},
    }


def kubernetes_endpoints(ip: str, target_port: int) -> list[Obj]:
    """Endpoints and EndpointSlice of the ``kubernetes`` Service: the server itself."""
    port = {"name": "https", "port": target_port, "protocol": "TCP"}
    endpoints: Obj = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
        "subsets": [{"addresses": [{"ip": ip}], "ports": [port]}],
    }
    endpoint_slice: Obj = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"kubernetes.io/service-name": "kubernetes"},
        },
        "addressType": "IPv6" if ":" in ip else "IPv4",
        "endpoints": [{"addresses": [ip], "conditions": {"ready": True}}],
        "ports": [port],
    }
    return [endpoints, endpoint_slice]
