"""The default policy is that of kube-apiserver 1.37.

The digests were taken from a real kube-apiserver 1.37.1 with default feature gates (and a
controller manager, for the aggregated roles), from name, namespace, labels, annotations and all
fields outside metadata of its RBAC objects.
"""

from __future__ import annotations

import hashlib
import json

import pytest

from corral.cluster.apiserver.auth.bootstrap import (
    bootstrap_objects,
    cluster_role_rules,
    root_ca_configmap,
    system_objects,
)
from corral.kube.types import Obj

REAL = {
    "ClusterRole": (73, "11c246107a5e99934306460a9dba1147af03a499a0310d004380ceb566481c0f"),
    "ClusterRoleBinding": (54, "280268eb1d8f38662b9777842c85d2178cc7b47dac3edb3f8891e9838e128ba1"),
    "Role": (7, "958b2b6d9ab654d7799fae54d80a99053ad66163be23aa99df68cdfad0567611"),
    "RoleBinding": (7, "e9c69c8af10141ee2e001f9bf713080c530cc963a76e11287face79ae1f6cdd1"),
}


def find(objects: list[Obj], kind: str, name: str) -> Obj:
    return next(o for o in objects if o["kind"] == kind and o["metadata"]["name"] == name)


@pytest.mark.parametrize("kind", sorted(REAL))
def test_policy_equals_the_real_one(kind: str) -> None:
    lines = sorted(
        json.dumps(obj, sort_keys=True, separators=(",", ":"))
        for obj in bootstrap_objects()
        if obj["kind"] == kind
    )
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    assert (len(lines), digest) == REAL[kind]


def test_objects_are_fresh_each_time() -> None:
    find(bootstrap_objects(), "ClusterRole", "view")["rules"].clear()
    assert find(bootstrap_objects(), "ClusterRole", "view")["rules"]


def test_marks_of_bootstrapped_objects() -> None:
    meta = find(bootstrap_objects(), "ClusterRole", "edit")["metadata"]
    assert meta["annotations"] == {"rbac.authorization.kubernetes.io/autoupdate": "true"}
    assert meta["labels"] == {
        "kubernetes.io/bootstrapping": "rbac-defaults",
        "rbac.authorization.k8s.io/aggregate-to-admin": "true",
    }


def test_admin_may_do_what_view_and_edit_may() -> None:
    objects = bootstrap_objects()
    view, edit, admin = (
        find(objects, "ClusterRole", name)["rules"] for name in ("view", "edit", "admin")
    )
    assert all(rule in edit for rule in view)
    assert all(rule in admin for rule in edit)


def test_rules_of_one_role() -> None:
    assert cluster_role_rules("cluster-admin") == [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["*"]},
    ]
    assert {
        "apiGroups": ["", "events.k8s.io"],
        "resources": ["events"],
        "verbs": ["create", "patch", "update"],
    } in cluster_role_rules("system:node")


def test_system_objects() -> None:
    objects = system_objects("PEM", target_port=6444, advertise_address="192.0.2.1")
    spaces = [o["metadata"]["name"] for o in objects if o["kind"] == "Namespace"]
    assert sorted(spaces) == ["default", "kube-node-lease", "kube-public", "kube-system"]
    assert find(objects, "PriorityClass", "system-node-critical")["value"] == 2000001000
    assert find(objects, "PriorityClass", "system-cluster-critical")["value"] == 2000000000
    service = find(objects, "Service", "kubernetes")
    assert service["spec"]["clusterIP"] == "10.96.0.1"
    assert service["spec"]["ports"][0]["targetPort"] == 6444
    authentication = find(objects, "ConfigMap", "extension-apiserver-authentication")
    assert authentication["data"] == {"client-ca-file": "PEM"}
    endpoints = find(objects, "EndpointSlice", "kubernetes")
    assert endpoints["endpoints"][0]["addresses"] == ["192.0.2.1"]
    assert len([o for o in objects if o["metadata"]["name"] == "kube-root-ca.crt"]) == 4


def test_no_endpoints_without_an_address_to_advertise() -> None:
    assert not {"Endpoints", "EndpointSlice"} & {o["kind"] for o in system_objects("PEM")}


def test_root_ca_configmap() -> None:
    made = root_ca_configmap("team", "PEM")
    assert made["data"] == {"ca.crt": "PEM"}
    assert made["metadata"]["namespace"] == "team"
