"""Roles for people: those of Kubeflow, taken in by Kubeflow's and Kubernetes' own."""

from __future__ import annotations

import pytest

from corral.api import all_kinds
from corral.operator.user_roles import user_roles

KUBEFLOW = "rbac.authorization.kubeflow.org/aggregate-to-kubeflow-"
KUBERNETES = "rbac.authorization.k8s.io/aggregate-to-"
READ = ["get", "list", "watch"]
WRITE = ["create", "delete", "deletecollection", "patch", "update"]
ROLES = {role["metadata"]["name"]: role for role in user_roles()}


@pytest.mark.parametrize(
    ("who", "verbs", "more"),
    [("admin", None, []), ("edit", [*READ, *WRITE], ["mpijobs-admin"]), ("view", READ, [])],
)
def test_who_may_do_what(who: str, verbs: list[str] | None, more: list[str]) -> None:
    role = ROLES[f"kubeflow-mpijobs-{who}"]
    wanted = {f"{KUBEFLOW}{who}", f"{KUBERNETES}{who}", *(f"{KUBEFLOW}{name}" for name in more)}
    assert role["metadata"]["labels"] == dict.fromkeys(wanted, "true")
    if verbs is None:
        assert "rules" not in role
        return
    resources = ["mpijobs", "mpijobs/status"]
    assert role["rules"] == [
        {"apiGroups": ["kubeflow.org"], "resources": resources, "verbs": verbs}
    ]


def rights(who: str) -> set[tuple[str, str]]:
    rules = ROLES[f"corral-{who}"]["rules"]
    return {
        (plural, verb) for rule in rules for plural in rule["resources"] for verb in rule["verbs"]
    }


def test_every_kind_can_be_viewed() -> None:
    plurals = {kind.resource().plural for kind in all_kinds()} - {"mpijobs"}
    assert rights("view") == {(plural, verb) for plural in plurals for verb in READ}


def test_editors_write_what_people_author() -> None:
    given = rights("edit")
    assert ("trainingjobs", "create") in given
    assert ("federateddeployments", "patch") in given
    for plural in ("checkpoints", "trainingrounds", "modelcheckpoints"):
        assert {verb for found, verb in given if found == plural} == {"delete", "deletecollection"}


def test_what_costs_money_is_for_administrators() -> None:
    assert not {right for right in rights("edit") if right[0] == "spotinstancevms"}
    assert ("spotinstancevms", "create") in rights("admin")


def test_nobody_writes_statuses_of_our_kinds() -> None:
    for who in ("view", "edit", "admin"):
        assert not {plural for plural, _ in rights(who) if "/" in plural}


def test_administrators_have_what_is_labelled() -> None:
    assert ROLES["kubeflow-mpijobs-admin"]["aggregationRule"] == {
        "clusterRoleSelectors": [{"matchLabels": {f"{KUBEFLOW}mpijobs-admin": "true"}}]
    }


def test_every_call_gives_new_objects() -> None:
    user_roles()[0]["metadata"]["labels"].clear()
    assert user_roles()[0]["metadata"]["labels"]
