"""What the operator may not do although its role lets it: a ValidatingAdmissionPolicy.

RBAC knows no labels and no owners. The policy lets the operator's own identity create pods, and
what makes pods (Jobs, Deployments), and write Secrets only for an object of our kinds that owns
them; pods that are there get notes and no other spec; and nothing is written or deleted in
namespaces of the system. Whoever gets hold of the operator's token gets no further than that.

What is there is judged by the owners that it had before the request, and the operator changes
none of them: nobody's objects, and those of other owners, cannot be made its own. Of what is
created, ownership is claimed only: nobody looks whether the owner is there and wanted the object.
Beside an embedded API server the policy is left out: there the operator is a process of the
cluster's owner.
"""

from __future__ import annotations

from typing import Final

from corral.api import all_kinds
from corral.kube.types import Obj
from corral.operator import rbac

__all__ = ["guard_objects"]

_API: Final = "admissionregistration.k8s.io/v1"
_SYSTEM: Final = ("kube-system", "kube-public", "kube-node-lease")


def guard_objects(namespace: str) -> list[Obj]:
    """The policy and its binding, for an operator in a namespace."""
    who = f"system:serviceaccount:{namespace}:{rbac.NAME}"
    metadata = {"name": rbac.NAME}
    return [
        {
            "apiVersion": _API,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": dict(metadata),
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": _matched()},
                "matchConditions": [
                    {
                        "name": "is-the-operator",
                        "expression": f"request.userInfo.username == {_text(who)}",
                    }
                ],
                "variables": [
                    {
                        "name": "meant",
                        "expression": "request.operation == 'DELETE' ? oldObject : object",
                    },
                    {
                        # owners that the request itself writes into what is there do not count
                        "name": "known",
                        "expression": "request.operation == 'CREATE' ? object : oldObject",
                    },
                    {"name": "owned", "expression": _owned()},
                ],
                "validations": _validations(namespace),
            },
        },
        {
            "apiVersion": _API,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": dict(metadata),
            "spec": {"policyName": rbac.NAME, "validationActions": ["Deny"]},
        },
    ]


def _matched() -> list[Obj]:
    written, gone = ["CREATE", "UPDATE"], ["CREATE", "UPDATE", "DELETE"]
    return [
        _rule("", gone, ["pods", "configmaps", "secrets", "services", "serviceaccounts"]),
        _rule("", written, ["persistentvolumeclaims"]),
        _rule("batch", gone, ["jobs"]),
        _rule("apps", gone, ["deployments"]),
        _rule("networking.k8s.io", gone, ["networkpolicies"]),
    ]


def _rule(group: str, operations: list[str], resources: list[str]) -> Obj:
    return {
        "apiGroups": [group],
        "apiVersions": ["v1"],
        "operations": operations,
        "resources": resources,
        "scope": "Namespaced",
    }


def _owned() -> str:
    groups = sorted({kind.resource().group for kind in all_kinds()})
    listed = ", ".join(_text(f"{group}/") for group in groups)
    return (
        "has(variables.known.metadata.ownerReferences) && "
        "variables.known.metadata.ownerReferences.exists(owner, "
        f"[{listed}].exists(group, owner.apiVersion.startsWith(group)))"
    )


def _owners(of: str) -> str:
    return f"(has({of}.metadata.ownerReferences) ? {of}.metadata.ownerReferences : [])"


def _validations(namespace: str) -> list[Obj]:
    system = ", ".join(_text(name) for name in _SYSTEM)
    owned = ", ".join(_text(name) for name in ("pods", "secrets", "jobs", "deployments"))
    own = f"request.namespace == {_text(namespace)}"
    token = (
        "request.resource.resource == 'secrets' && request.namespace == 'kube-system' && "
        "has(variables.meant.type) && variables.meant.type == 'bootstrap.kubernetes.io/token'"
    )
    is_old_pod = "request.resource.resource == 'pods' && request.operation == 'UPDATE'"
    return [
        {
            "expression": "request.operation != 'UPDATE' || "
            f"!(request.resource.resource in [{owned}]) || "
            f"{_owners('object')} == {_owners('oldObject')}",
            "message": "the operator changes no owners of pods, Jobs, Deployments and Secrets",
            "reason": "Forbidden",
        },
        {
            "expression": "request.operation == 'DELETE' || "
            f"!(request.resource.resource in [{owned}]) || ({is_old_pod}) || variables.owned || "
            f"(request.resource.resource == 'secrets' && {own}) || ({token})",
            "message": "the operator creates and changes pods, Jobs, Deployments and Secrets only "
            "for objects of its own kinds",
            "reason": "Forbidden",
        },
        {
            "expression": f"!({is_old_pod}) || object.spec == oldObject.spec",
            "message": "the operator changes no pod's spec",
            "reason": "Forbidden",
        },
        {
            "expression": f"({token}) || !(request.namespace in [{system}])",
            "message": "the operator creates, changes and deletes nothing in namespaces of the "
            "system",
            "reason": "Forbidden",
        },
    ]


def _text(value: str) -> str:
    return f"'{value}'"
