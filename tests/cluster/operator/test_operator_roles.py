"""People who were given a role may do with MPIJobs what its name says, and no more."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from corral.operator.user_roles import user_roles
from tests.backends import Backend
from tests.cluster.objects import Objects, eventually
from tests.cluster.operator.conftest import set_up

RBAC = "rbac.authorization.k8s.io"
ROLES = {
    "kubeflow-mpijobs-admin": ("create", "get"),
    "kubeflow-mpijobs-edit": ("create", "get"),
    "kubeflow-mpijobs-view": ("get",),
    "admin": ("create", "get"),
    "edit": ("create", "get"),
    "view": ("get",),
}
"""Ours, and those of every cluster, which take ours in."""


@pytest.fixture(scope="module")
def installed(kubeconfig: str) -> None:
    asyncio.run(set_up(kubeconfig))


def may(backend: Backend, user: str, verb: str, namespace: str) -> bool:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": user,
            "resourceAttributes": {
                "group": "kubeflow.org",
                "resource": "mpijobs",
                "verb": verb,
                "namespace": namespace,
            },
        },
    }
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    reply = backend.request("POST", path, review)
    assert reply.code == 201, reply.body
    return bool(reply.json()["status"]["allowed"])


@pytest.mark.parametrize("role", ROLES)
def test_roles_give_what_they_say(
    installed: None, backend: Backend, objects: Objects, role: str
) -> None:
    user, there = f"somebody-{role}", objects.namespace
    objects.create(
        "rolebindings",
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": role},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
        },
    )
    for verb in ROLES[role]:
        eventually(partial(may, backend, user, verb, there))
    assert may(backend, user, "create", there) == ("create" in ROLES[role])
    assert not may(backend, user, "get", "kube-system")


def test_what_carries_the_label_is_taken_in(installed: None, backend: Backend) -> None:
    cluster = Objects(backend)
    name = "mpijobs-of-a-test"
    (selector,) = user_roles()[0]["aggregationRule"]["clusterRoleSelectors"]
    rule = {"apiGroups": ["kubeflow.org"], "resources": ["mpijobs/more"], "verbs": ["get"]}
    part = {"metadata": {"name": name, "labels": selector["matchLabels"]}, "rules": [rule]}
    cluster.create("clusterroles", {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", **part})

    def rules() -> list[dict[str, object]]:
        found = cluster.get(f"{RBAC}/v1", "clusterroles", "kubeflow-mpijobs-admin")
        return list(found.get("rules") or ())

    try:
        eventually(lambda: rule in rules())
    finally:
        cluster.delete(f"{RBAC}/v1", "clusterroles", name)
    eventually(lambda: rule not in rules())
