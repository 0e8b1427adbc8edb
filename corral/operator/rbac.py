"""The rights of the operator: exactly what it uses, in one place for every kind of installation.

Two ClusterRoles: ``corral-operator`` watches and writes statuses of our kinds, everywhere;
``corral-operator-workloads`` creates pods and reads Secrets, and is bound in the whole cluster or
in chosen namespaces only (`access_objects`). Rights to what the replicas share are a Role in their
own namespace. The local ones come on top where the operator runs beside an embedded API server and
writes its webhook configurations and its endpoint itself. A test runs the operator with these
rights alone, and counts those it does not use. The ServiceAccount ``corral-kubelets`` has what
kubelets are asked with, so that no kubelet is ever shown the operator's own token.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from corral.api import all_kinds
from corral.kube.types import Obj
from corral.operator.settings import LEASE, NAMESPACE, REPORTS_SERVICE, SECRET

__all__ = [
    "AGENT_RULES",
    "CLUSTER_RULES",
    "FEDERATED_RULES",
    "KAFKAML_RULES",
    "KUBELETS",
    "KUBELET_TOKEN_RULES",
    "LOCAL_NAMESPACE_RULES",
    "LOCAL_RULES",
    "MPI_RULES",
    "NAME",
    "SPOT_RULES",
    "TRAINING_RULES",
    "WORKLOADS",
    "Rule",
    "access_objects",
    "kubelet_access",
    "merged",
    "namespace_rules",
    "service_account",
    "split",
    "token_access",
    "user",
]

NAME: Final = "corral-operator"
WORKLOADS: Final = "corral-operator-workloads"
"""The ClusterRole of what is done in the namespaces of jobs."""
KUBELETS: Final = "corral-kubelets"
"""The ServiceAccount whose tokens kubelets are shown, with its ClusterRole and binding."""
CONFIGURATIONS: Final = "corral"
"""The name of our webhook configurations."""
_RBAC: Final = "rbac.authorization.k8s.io"
_READ: Final = ("get", "list", "watch")
_WATCHED: Final = ("list", "watch")
_KEPT: Final = ("create", "patch", "delete")


class Rule(NamedTuple):
    """Verbs on resources of one API group, on some objects only where names are given."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()

    def as_object(self) -> Obj:
        out: Obj = {
            "apiGroups": [self.group],
            "resources": list(self.resources),
            "verbs": list(self.verbs),
        }
        return {**out, "resourceNames": list(self.names)} if self.names else out


_ADMISSION: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")

CLUSTER_RULES: Final = (
    Rule("admissionregistration.k8s.io", _ADMISSION, _WATCHED),
    Rule("admissionregistration.k8s.io", _ADMISSION, ("patch",), (CONFIGURATIONS,)),
    Rule("apiextensions.k8s.io", ("customresourcedefinitions",), _WATCHED),
    Rule("authentication.k8s.io", ("tokenreviews",), ("create",)),
    Rule("", ("events",), ("create", "patch")),
)
"""Whatever the families are: trust for webhooks, who reports, events."""

_CHECKPOINT_RULE: Final = Rule("", ("nodes/checkpoint",), ("create",))

LOCAL_RULES: Final = (
    Rule("admissionregistration.k8s.io", _ADMISSION, ("create",)),
    _CHECKPOINT_RULE,
)
"""The operator writes its webhook configurations itself, since nobody else knows its port, and
kubelets know it by its certificate."""

TRAINING_RULES: Final = (
    Rule("training.corral.dev", ("trainingjobs",), (*_READ, "patch", "delete")),
    Rule("training.corral.dev", ("checkpoints",), (*_READ, "create", "patch", "delete")),
    Rule(
        "training.corral.dev",
        ("trainingjobs/status", "checkpoints/status"),
        ("patch",),
    ),
    Rule("training.corral.dev", ("trainingjobs/finalizers",), ("update",)),
    Rule("", ("pods",), (*_READ, "create", "delete")),
    Rule("", ("pods/log",), ("get",)),
    Rule("", ("services", "serviceaccounts"), (*_READ, *_KEPT)),
    Rule("", ("persistentvolumeclaims",), (*_READ, "create")),
    Rule("networking.k8s.io", ("networkpolicies",), (*_READ, *_KEPT)),
    Rule("scheduling.volcano.sh", ("podgroups",), (*_READ, *_KEPT)),
    Rule("scheduling.x-k8s.io", ("podgroups",), (*_READ, *_KEPT)),
    Rule("", ("namespaces", "nodes"), _WATCHED),
    Rule("", ("secrets",), ("get",)),
)

MPI_RULES: Final = (
    Rule("kubeflow.org", ("mpijobs",), (*_WATCHED, "patch", "delete")),
    Rule("kubeflow.org", ("mpijobs/status",), ("patch",)),
    Rule("kubeflow.org", ("mpijobs/finalizers",), ("update",)),
    Rule("", ("pods",), (*_READ, "create", "delete")),
    Rule("", ("pods/log",), ("get",)),
    Rule("", ("services", "configmaps"), (*_READ, *_KEPT)),
    Rule("", ("secrets",), ("get", "create", "patch")),
    Rule("batch", ("jobs",), (*_READ, *_KEPT)),
    Rule("batch", ("jobs/status",), ("patch",)),
    Rule("networking.k8s.io", ("networkpolicies",), (*_READ, *_KEPT)),
    Rule("scheduling.volcano.sh", ("podgroups",), (*_READ, *_KEPT)),
    Rule("scheduling.x-k8s.io", ("podgroups",), (*_READ, *_KEPT)),
    Rule("scheduling.k8s.io", ("priorityclasses",), _WATCHED),
    Rule("", ("namespaces",), ("get",)),
    Rule("", ("nodes",), _WATCHED),
    Rule("", ("resourcequotas",), ("list",)),
)

_PROPELLER: Final = "propeller.absmach.io"
FEDERATED_RULES: Final = (
    Rule(_PROPELLER, ("federatedjobs", "propletgroups"), _WATCHED),
    Rule(_PROPELLER, ("trainingrounds", "modelcheckpoints"), (*_READ, "create", "patch")),
    Rule(_PROPELLER, ("wasmtasks",), (*_READ, "create", "delete")),
    Rule(
        _PROPELLER,
        (
            "federatedjobs/status",
            "trainingrounds/status",
            "wasmtasks/status",
            "propletgroups/status",
            "modelcheckpoints/status",
        ),
        ("patch",),
    ),
    Rule(
        _PROPELLER,
        ("federatedjobs/finalizers", "trainingrounds/finalizers", "wasmtasks/finalizers"),
        ("update",),
    ),
    Rule("batch", ("jobs",), (*_READ, "create", "delete")),
    Rule("apps", ("deployments",), (*_READ, "create", "delete")),
    Rule("", ("configmaps",), ("get", "create", "patch")),
    Rule("", ("secrets",), ("get", "create", "patch")),
    Rule("", ("pods",), (*_WATCHED, "delete")),
    Rule("", ("pods/log",), ("get",)),
    Rule("metrics.k8s.io", ("pods",), ("get",)),
    Rule("", ("nodes",), _WATCHED),
    Rule("", ("namespaces",), ("get",)),
)

_KAFKAML: Final = "kafkaml.corral.dev"
_KAFKAML_KINDS: Final = (
    "mlmodels",
    "mlconfigurations",
    "datasources",
    "federateddeployments",
    "inferences",
)
KAFKAML_RULES: Final = (
    Rule(_KAFKAML, _KAFKAML_KINDS, _WATCHED),
    # topics that go with a deployment: its finalizer
    Rule(_KAFKAML, ("federateddeployments",), ("patch",)),
    Rule(_KAFKAML, tuple(f"{kind}/status" for kind in _KAFKAML_KINDS), ("patch",)),
    Rule(
        _KAFKAML,
        ("mlmodels/finalizers", "federateddeployments/finalizers", "inferences/finalizers"),
        ("update",),
    ),
    Rule("batch", ("jobs",), (*_READ, "create", "delete")),
    Rule("apps", ("deployments",), (*_READ, "create", "patch")),
    # Announcements become datasources; a Secret has the login of the broker that has them.
    Rule(_KAFKAML, ("datasources",), ("create", "delete")),
    Rule("", ("configmaps",), ("get", "create", "patch")),
    Rule("", ("secrets",), ("get",)),
    Rule("", ("pods",), _WATCHED),
    Rule("", ("pods/log",), ("get",)),
)

_SPOT: Final = "training.training.dcnlab.com"
_SPOT_JOB_RULES: Final = (
    Rule(_SPOT, ("spotinstancejobs",), (*_WATCHED, "patch")),
    Rule(_SPOT, ("spotinstancejobs/status",), ("patch",)),
    Rule(_SPOT, ("spotinstancejobs/finalizers",), ("update",)),
    Rule(_SPOT, ("spotinstancevms",), _WATCHED),
    Rule("migration.dcnlab.com", ("checkpointbackups",), _WATCHED),
    Rule("batch", ("jobs",), (*_WATCHED, "create", "delete")),
    # a note on a pod asks its program for a checkpoint
    Rule("", ("pods",), (*_WATCHED, "patch", "delete")),
    Rule("", ("nodes",), _WATCHED),
    Rule("", ("configmaps",), ("get", "create", "patch")),
)
"""Copies of jobs, placement, and what was learnt about machines."""
_SPOT_MACHINE_RULES: Final = (
    Rule(_SPOT, ("spotinstancevms",), (*_WATCHED, "patch")),
    Rule(_SPOT, ("spotinstancevms/status",), ("patch",)),
    Rule(_SPOT, ("spotinstancejobs",), _WATCHED),
    # machines of ours: their marks, and their end
    Rule("", ("nodes",), (*_READ, "patch", "delete")),
    Rule("", ("secrets", "configmaps", "namespaces"), ("get",)),
)
"""Machines, the nodes that they are, and what clouds want to see."""
_MIGRATION: Final = "migration.dcnlab.com"
_SPOT_BACKUP_RULES: Final = (
    Rule(_SPOT, ("spotinstancejobs",), _READ),
    Rule(_MIGRATION, ("checkpointbackups",), (*_READ, *_KEPT)),
    Rule(_MIGRATION, ("checkpointbackups/status",), ("patch",)),
    Rule(_MIGRATION, ("checkpointbackups/finalizers",), ("update",)),
    Rule("batch", ("jobs",), ("get",)),
    # what copies report is noted on their pods; what a kubelet wrote is stored by a pod
    Rule("", ("pods",), (*_READ, "create", "patch", "delete")),
    Rule("", ("nodes",), ("get",)),
    Rule("", ("secrets",), ("get",)),
)
"""Checkpoints of copies, and backups of pods; for what kubelets do see `kubelet_access`."""
SPOT_RULES: Final = (*_SPOT_JOB_RULES, *_SPOT_MACHINE_RULES, *_SPOT_BACKUP_RULES)

AGENT_RULES: Final = (
    # Launchers are given the right to start commands, and nobody can give what he has not.
    Rule("", ("pods/exec",), ("get", "create")),
    Rule(_RBAC, ("roles", "rolebindings"), (*_READ, *_KEPT)),
)
"""For MPIJobs on process nodes, which have no sshd: beside an embedded API server only."""


def merged(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The same rights, each of them once: families need many of the same."""
    seen: set[tuple[str, str, str, tuple[str, ...]]] = set()
    out: list[Rule] = []
    for rule in rules:
        by_verbs: dict[tuple[str, ...], list[str]] = {}
        for resource in rule.resources:
            rights = {verb: (rule.group, resource, verb, rule.names) for verb in rule.verbs}
            new = tuple(verb for verb, right in rights.items() if right not in seen)
            seen.update(rights.values())
            if new:
                by_verbs.setdefault(new, []).append(resource)
        for verbs, resources in by_verbs.items():
            out.append(Rule(rule.group, tuple(resources), verbs, rule.names))
    return tuple(out)


_EVERYWHERE: Final = frozenset(
    {
        ("", "events"),
        ("", "namespaces"),
        ("", "nodes"),
        ("", "nodes/checkpoint"),
        ("authentication.k8s.io", "tokenreviews"),
    }
)
"""Beside kinds of ours and what is only listed and watched: cluster-scoped, or harmless."""
_CLUSTER_GROUPS: Final = frozenset({"admissionregistration.k8s.io", "apiextensions.k8s.io"})


def split(rules: Iterable[Rule]) -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
    """The rights that are needed everywhere, and those that are needed where jobs run."""
    everywhere: list[Rule] = []
    workloads: list[Rule] = []
    groups = _CLUSTER_GROUPS | {kind.names.group for kind in all_kinds()}
    for rule in rules:
        for resource in rule.resources:
            wide = rule.group in groups or (rule.group, resource) in _EVERYWHERE
            watched = tuple(verb for verb in rule.verbs if wide or verb in _WATCHED)
            others = tuple(verb for verb in rule.verbs if verb not in watched)
            if watched:
                everywhere.append(Rule(rule.group, (resource,), watched, rule.names))
            if others:
                workloads.append(Rule(rule.group, (resource,), others, rule.names))
    return _joined(everywhere), _joined(workloads)


def _joined(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The same rights in fewer rules: resources with equal verbs together."""
    found: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for rule in merged(rules):
        found.setdefault((rule.group, rule.verbs, rule.names), []).extend(rule.resources)
    return tuple(
        Rule(group, tuple(resources), verbs, names)
        for (group, verbs, names), resources in found.items()
    )


def namespace_rules() -> tuple[Rule, ...]:
    """Rights in the operator's own namespace; names cannot be asked for before there are any."""
    return (
        Rule("coordination.k8s.io", ("leases",), ("create",)),
        Rule("coordination.k8s.io", ("leases",), ("get", "update"), (LEASE,)),
        Rule("", ("secrets",), ("create",)),
        Rule("", ("secrets",), ("get", "update"), (SECRET,)),
    )


KUBELET_TOKEN_RULES: Final = (Rule("", ("serviceaccounts/token",), ("create",), (KUBELETS,)),)
"""In the own namespace of an operator that has no certificate."""

LOCAL_NAMESPACE_RULES: Final = (
    Rule("discovery.k8s.io", ("endpointslices",), ("create",)),
    Rule("discovery.k8s.io", ("endpointslices",), ("patch",), (REPORTS_SERVICE,)),
)
"""The operator is no pod that a Service could select: it writes the endpoint itself."""


def service_account(namespace: str = NAMESPACE) -> Obj:
    """The subject of bindings where the operator runs in a pod."""
    return {"kind": "ServiceAccount", "name": NAME, "namespace": namespace}


def user(name: str) -> Obj:
    """The subject of bindings where the operator has a certificate."""
    return {"kind": "User", "name": name, "apiGroup": _RBAC}


def access_objects(
    rules: Iterable[Rule],
    subject: Obj,
    *,
    shared: Iterable[Rule] | None = None,
    namespace: str = NAMESPACE,
    tenants: Sequence[str] = (),
) -> list[Obj]:
    """Roles and bindings; ``rules`` in the whole cluster, ``shared`` in the own namespace.

    With ``tenants``, pods are created and Secrets read in these namespaces alone.
    """
    own = namespace_rules() if shared is None else shared
    everywhere, workloads = split(rules)
    bindings = [
        _binding("RoleBinding", {"name": NAME, "namespace": tenant}, WORKLOADS, subject)
        for tenant in tenants
    ] or [_binding("ClusterRoleBinding", {"name": WORKLOADS}, WORKLOADS, subject)]
    return [
        _role("ClusterRole", {"name": NAME}, everywhere),
        _binding("ClusterRoleBinding", {"name": NAME}, NAME, subject),
        _role("ClusterRole", {"name": WORKLOADS}, workloads),
        *bindings,
        _role("Role", {"name": NAME, "namespace": namespace}, own),
        _binding("RoleBinding", {"name": NAME, "namespace": namespace}, NAME, subject, of="Role"),
    ]


def token_access(subject: Obj) -> list[Obj]:
    """Role and binding for the tokens by which machines of clouds join.

    They are made and taken back; read only by the API server's own authenticator.
    """
    metadata: Obj = {"name": f"{NAME}-tokens", "namespace": "kube-system"}
    rules = (Rule("", ("secrets",), ("create", "delete")),)
    return [
        _role("Role", metadata, rules),
        _binding("RoleBinding", metadata, f"{NAME}-tokens", subject, of="Role"),
    ]


def kubelet_access(namespace: str = NAMESPACE) -> list[Obj]:
    """The ServiceAccount whose short-lived tokens kubelets are shown, and its only right.

    The owner of a machine has all that its kubelet is sent. With such a token it may ask other
    kubelets for checkpoints while the token lasts, and read none of them.
    """
    subject: Obj = {"kind": "ServiceAccount", "name": KUBELETS, "namespace": namespace}
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": KUBELETS, "namespace": namespace},
            "automountServiceAccountToken": False,
        },
        _role("ClusterRole", {"name": KUBELETS}, (_CHECKPOINT_RULE,)),
        _binding("ClusterRoleBinding", {"name": KUBELETS}, KUBELETS, subject),
    ]


def _role(kind: str, metadata: Obj, rules: Iterable[Rule]) -> Obj:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": kind,
        "metadata": metadata,
        "rules": [rule.as_object() for rule in rules],
    }


def _binding(kind: str, metadata: Obj, role: str, subject: Obj, *, of: str = "ClusterRole") -> Obj:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": kind,
        "metadata": metadata,
        "roleRef": {"apiGroup": _RBAC, "kind": of, "name": role},
        "subjects": [subject],
    }
