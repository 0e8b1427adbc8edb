"""Roles for people: what they may do with our kinds.

They are bound to nobody. Kubernetes' ``admin``, ``edit`` and ``view`` take them in by their labels:

* ``corral-view``: read every kind of ours.
* ``corral-edit``: write what people author. What the operator writes (Checkpoints, rounds, models,
  tasks) can be read and deleted, not made or changed; statuses can be written by nobody.
  SpotInstanceVMs spend money: ``corral-admin`` alone has them.
* ``kubeflow-mpijobs-*``: the same for MPIJobs under the names that Kubeflow has; Kubeflow's own
  roles (and so its profiles) take them in too, with statuses, as theirs do.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from corral.api import all_kinds
from corral.api.propeller import kinds as propeller
from corral.api.spot import kinds as spot
from corral.api.training import kinds as training
from corral.kube.resources import Resource
from corral.kube.types import Obj
from corral.operator.rbac import Rule

__all__ = ["user_roles"]

_RBAC: Final = "rbac.authorization.k8s.io"
_KUBEFLOW: Final = "rbac.authorization.kubeflow.org"
_JOBS: Final = ("mpijobs", "mpijobs/status")
_READ: Final = ("get", "list", "watch")
_WRITE: Final = ("create", "delete", "deletecollection", "patch", "update")
_REMOVE: Final = ("delete", "deletecollection")
_PART_OF_ADMIN: Final = f"{_KUBEFLOW}/aggregate-to-kubeflow-mpijobs-admin"
_MADE: Final = (
    training.CHECKPOINTS,
    propeller.TRAININGROUNDS,
    propeller.MODELCHECKPOINTS,
)
"""What the operator writes; people may remove it."""
_COSTLY: Final = (spot.SPOTINSTANCEVMS,)


def user_roles() -> list[Obj]:
    """The ClusterRoles; the rules of Kubeflow's first are the API server's to fill in."""
    return [*_mpi_roles(), *_own_roles()]


def _own_roles() -> list[Obj]:
    kinds = [kind.resource() for kind in all_kinds() if kind.names.group != "kubeflow.org"]
    authored = [kind for kind in kinds if kind not in (*_MADE, *_COSTLY)]
    return [
        _own("view", _rules(kinds, _READ)),
        _own("edit", [*_rules(authored, _WRITE), *_rules(_MADE, _REMOVE)]),
        _own("admin", _rules(_COSTLY, _WRITE)),
    ]


def _rules(kinds: Iterable[Resource], verbs: tuple[str, ...]) -> list[Obj]:
    groups: dict[str, list[str]] = {}
    for kind in kinds:
        groups.setdefault(kind.group, []).append(kind.plural)
    return [Rule(group, tuple(plurals), verbs).as_object() for group, plurals in groups.items()]


def _own(who: str, rules: list[Obj]) -> Obj:
    labels = {f"{_RBAC}/aggregate-to-{who}": "true"}
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": f"corral-{who}", "labels": labels},
        "rules": rules,
    }


def _mpi_roles() -> list[Obj]:
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
