"""Roles for people: what they may do with MPIJobs, under the names that Kubeflow has.

They are bound to nobody. Kubeflow's own roles take them in by their labels (its profiles then give
them to users), and so do Kubernetes' ``admin``, ``edit`` and ``view``. Whatever carries the label
of the first becomes part of it.
"""

from __future__ import annotations

from typing import Final

from corral.kube.types import Obj
from corral.operator.rbac import Rule

__all__ = ["user_roles"]

_RBAC: Final = "rbac.authorization.k8s.io"
_KUBEFLOW: Final = "rbac.authorization.kubeflow.org"
_JOBS: Final = ("mpijobs", "mpijobs/status")
_READ: Final = ("get", "list", "watch")
_WRITE: Final = ("create", "delete", "deletecollection", "patch", "update")
_PART_OF_ADMIN: Final = f"{_KUBEFLOW}/aggregate-to-kubeflow-mpijobs-admin"


def user_roles() -> list[Obj]:
    """The three ClusterRoles; the first one's rules are the API server's to fill in."""
    admin = _role("admin", {})
    admin["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {_PART_OF_ADMIN: "true"}}]}
    edit = _role("edit", {_PART_OF_ADMIN: "true"})
    edit["rules"] = [Rule("kubeflow.org", _JOBS, (*_READ, *_WRITE)).as_object()]
    view = _role("view", {})
    view["rules"] = [Rule("kubeflow.org", _JOBS, _READ).as_object()]
    return [admin, edit, view]


def _role(who: str, labels: dict[str, str]) -> Obj:
    aggregated = {
        f"{_KUBEFLOW}/aggregate-to-kubeflow-{who}": "true",
        f"{_RBAC}/aggregate-to-{who}": "true",
    }
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": f"kubeflow-mpijobs-{who}", "labels": {**aggregated, **labels}},
    }
