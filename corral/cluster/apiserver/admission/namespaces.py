"""Namespace lifecycle: nothing is created in a namespace that is missing or going away."""

from __future__ import annotations

from corral.cluster.apiserver import errors as say
from corral.cluster.apiserver.admission.chain import Plugin
from corral.cluster.apiserver.crud.core import AdmissionRequest
from corral.cluster.apiserver.store import Store

IMMORTAL = frozenset({"default", "kube-system", "kube-public"})
NAMESPACES = "/namespaces"


class NamespaceLifecycle(Plugin):
    """Checks the namespace of every write."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def looks(self, request: AdmissionRequest) -> bool:
        return False

    async def mutate(self, request: AdmissionRequest) -> bool:
        self._check(request)
        return False

    async def validate(self, request: AdmissionRequest) -> None:
        info = request.kind.info
        if request.operation == "DELETE" and info.table == NAMESPACES and request.name in IMMORTAL:
            raise say.forbidden("", "namespaces", request.name, "this namespace may not be deleted")

    def _check(self, request: AdmissionRequest) -> None:
        info = request.kind.info
        if request.operation != "CREATE" or not info.namespaced or request.subresource:
            return
        entry = self._store.head(NAMESPACES, request.namespace)
        if entry is None:
            raise say.not_found("", "namespaces", request.namespace)
        if entry.deleting:
            why = (
                f"unable to create new content in namespace {request.namespace} because it is "
                "being terminated"
            )
            refusal = say.forbidden(info.group, info.plural, request.name, why)
            refusal.details["causes"] = [
                {
                    "reason": "NamespaceTerminating",
                    "message": f"namespace {request.namespace} is being terminated",
                    "field": "metadata.namespace",
                }
            ]
            raise refusal
