"""Tenancy: a cluster whose pods are not kept apart has one tenant.

On a node in plain mode every pod runs as the user who started the cluster and can read all that is
theirs, the administrator's credentials included. While there is such a node, nobody else is given
rights: bindings of people are refused; and where somebody else has rights, such a node is. Service
accounts and the system's own identities are the tenant's programs, and may be bound.
"""

from __future__ import annotations

from corral.cluster.apiserver.admission.chain import Plugin
from corral.cluster.apiserver.admission.refusals import refuse
from corral.cluster.apiserver.crud.core import AdmissionRequest
from corral.cluster.apiserver.store import Store
from corral.cluster.marks import ISOLATION_LABEL, PLAIN
from corral.kube.types import Obj

__all__ = ["Tenancy"]

_GROUP = "rbac.authorization.k8s.io"
_OPEN_GROUPS = frozenset({"system:authenticated", "system:unauthenticated"})
_OPEN_USERS = frozenset({"system:anonymous"})
_OURS = ("system:", "corral:")
_BINDINGS = (f"{_GROUP}/rolebindings", f"{_GROUP}/clusterrolebindings")
_NODES = "/nodes"
_DEFAULTS = "kubernetes.io/bootstrapping"
"""On the bindings that every cluster has: what everybody may ask of the API server."""


class Tenancy(Plugin):
    """Refuses bindings of people while a node is in plain mode, and such a node where they are."""

    tables = frozenset({*_BINDINGS, _NODES})

    def __init__(self, store: Store) -> None:
        self._store = store

    async def validate(self, request: AdmissionRequest) -> None:
        if request.object is None or request.operation not in ("CREATE", "UPDATE"):
            return
        if request.kind.info.table == _NODES:
            self._check_node(request, request.object)
            return
        added = _people(request.object) - _people(request.old or {})
        if not added or not (node := self._plain_node()):
            return
        raise refuse(
            request,
            f"{', '.join(sorted(added))} would be a second tenant of a cluster that cannot keep "
            f"pods apart: node {node} is in plain mode, where every pod can read all that is its "
            "owner's. Run the cluster as root or where user namespaces are allowed, or start it "
            "with --share-without-isolation",
        )

    def _check_node(self, request: AdmissionRequest, node: Obj) -> None:
        if (node["metadata"].get("labels") or {}).get(ISOLATION_LABEL) != PLAIN:
            return
        entries = (entry for table in _BINDINGS for entry in self._store.scan(table))
        there = (_people(entry.decode()) for entry in entries if _DEFAULTS not in entry.labels)
        if people := set[str]().union(*there):
            raise refuse(
                request,
                f"its label says that it cannot keep pods apart (plain mode), and "
                f"{', '.join(sorted(people))} have rights in this cluster: pods could read all "
                "that is its owner's. Run it as root or where user namespaces are allowed, take "
                "these bindings away, or start it with --share-without-isolation",
            )

    def _plain_node(self) -> str:
        for entry in self._store.scan(_NODES):
            if entry.labels.get(ISOLATION_LABEL) == PLAIN:
                return entry.name
        return ""


def _people(binding: Obj) -> set[str]:
    """Subjects that are neither service accounts nor the system's own."""
    found: set[str] = set()
    for subject in binding.get("subjects") or ():
        kind, name = subject.get("kind"), subject.get("name", "")
        is_open = name in (_OPEN_USERS if kind == "User" else _OPEN_GROUPS)
        if kind in ("User", "Group") and (is_open or not name.startswith(_OURS)):
            found.add(f"{kind} {name}")
    return found
