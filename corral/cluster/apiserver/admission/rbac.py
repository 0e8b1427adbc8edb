"""Privilege escalation: nobody grants more than they hold. The rules are in auth.escalation."""

from __future__ import annotations

from corral.cluster.apiserver.admission.chain import Plugin
from corral.cluster.apiserver.auth.authorization import Authorizer
from corral.cluster.apiserver.auth.escalation import check_binding_write, check_role_write
from corral.cluster.apiserver.crud.core import AdmissionRequest

__all__ = ["Escalation"]

_GROUP = "rbac.authorization.k8s.io"
_ROLES = frozenset({f"{_GROUP}/roles", f"{_GROUP}/clusterroles"})
_BINDINGS = frozenset({f"{_GROUP}/rolebindings", f"{_GROUP}/clusterrolebindings"})


class Escalation(Plugin):
    """Checks writes of roles and bindings, dry runs as well.

    The check comes before validation, as it does in Kubernetes, so it belongs at the end of the
    mutating plugins; it changes nothing.
    """

    tables = _ROLES | _BINDINGS

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    async def mutate(self, request: AdmissionRequest) -> bool:
        if request.object is None or request.operation not in ("CREATE", "UPDATE"):
            return False
        user = request.context.user
        if request.kind.info.table in _ROLES:
            created = request.operation == "CREATE"
            check_role_write(
                self._authorizer,
                user,
                request.object,
                old=request.old,
                namespace=request.namespace,
                request_name="" if created else request.name,
            )
        else:
            check_binding_write(
                self._authorizer,
                user,
                request.object,
                old=request.old,
                namespace=request.namespace,
            )
        return False
