"""Owners and dependents, finalizers, namespaces: what controllers do after a write."""

from __future__ import annotations

from typing import Any

import pytest

from tests.backends import Backend
from tests.cluster.objects import Obj, Objects, eventually

HOLD = "example.test/hold"


def config_map(name: str, *owners: Obj, finalizers: list[str] | None = None) -> Obj:
    meta: Obj = {"name": name}
    if owners:
        meta["ownerReferences"] = list(owners)
    if finalizers:
        meta["finalizers"] = finalizers
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}


def owner(obj: Obj, **more: Any) -> Obj:
    """A reference to an object."""
    reference = {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
    }
    return reference | more


class Family:
    """ConfigMaps of one namespace that own one another."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects

    def make(self, name: str, *owners: Obj, **more: Any) -> Obj:
        return self.objects.create("configmaps", config_map(name, *owners, **more))

    def find(self, name: str) -> Obj | None:
        return self.objects.find("v1", "configmaps", name)

    def gone(self, *names: str) -> None:
        for name in names:
            eventually(lambda name=name: self.find(name) is None)

    def delete(self, name: str, policy: str = "", **options: Any) -> Obj:
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        if policy:
            body["propagationPolicy"] = policy
        path = self.objects.path("v1", "configmaps", name)
        reply = self.objects.backend.request("DELETE", path, body)
        assert reply.code == 200, reply.body
        answer: Obj = reply.json()
        return answer

    def release(self, name: str) -> Obj:
        return self.objects.patch("v1", "configmaps", name, {"metadata": {"finalizers": None}})


@pytest.fixture
def family(objects: Objects) -> Family:
    return Family(objects)


# -- background ---------------------------------------------------------------------------------


def test_background_deletion_takes_dependents_of_dependents(family: Family) -> None:
    top = family.make("top")
    middle = family.make("middle", owner(top))
    for n in range(3):
        family.make(f"leaf-{n}", owner(middle))
    answer = family.delete("top", "Background")
    assert answer["kind"] == "Status" and answer["details"]["uid"] == top["metadata"]["uid"]
    assert family.find("top") is None
    family.gone("middle", "leaf-0", "leaf-1", "leaf-2")


def test_object_with_one_owner_left_stays(family: Family) -> None:
    first, second = family.make("first"), family.make("second")
    family.make("shared", owner(first), owner(second))
    family.make("only", owner(first))
    family.delete("first", "Background")
    family.gone("only")

    def left() -> bool:
        shared = family.find("shared")
        assert shared is not None
        return [r["name"] for r in shared["metadata"]["ownerReferences"]] == ["second"]

    eventually(left)
    family.delete("second")
    family.gone("shared")


def test_owner_of_another_uid_is_no_owner(family: Family) -> None:
    same_name = family.make("boss")
    family.make("child", owner(same_name, uid="11111111-2222-3333-4444-555555555555"))
    family.gone("child")
    assert family.find("boss") is not None


def test_owner_that_never_was_takes_its_dependents(family: Family) -> None:
    nobody = {
        "apiVersion": "v1", "kind": "ConfigMap", "name": "nobody",
        "uid": "11111111-2222-3333-4444-555555555555",
    }  # fmt: skip
    family.make("child", nobody)
    family.gone("child")


def test_owner_in_another_namespace_is_no_owner(
    family: Family, cluster: Objects, unique: str
) -> None:
    cluster.create(
        "namespaces",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"other-{unique}"}},
    )
    try:
        other = Family(Objects(cluster.backend, f"other-{unique}"))
        boss = other.make("boss")
        family.make("child", owner(boss))
        family.gone("child")
        assert other.find("boss") is not None
    finally:
        cluster.delete("v1", "namespaces", f"other-{unique}")


def test_cluster_scoped_owner(family: Family, cluster: Objects, unique: str) -> None:
    role = cluster.create(
        "clusterroles",
        {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": f"owner-{unique}"}, "rules": [],
        },
    )  # fmt: skip
    family.make("child", owner(role))
    family.make("bystander")
    cluster.delete("rbac.authorization.k8s.io/v1", "clusterroles", f"owner-{unique}")
    family.gone("child")
    assert family.find("bystander") is not None


def test_dependent_with_a_finalizer_waits_for_it(family: Family) -> None:
    top = family.make("top")
    family.make("held", owner(top), finalizers=[HOLD])
    family.delete("top", "Background")
    held = eventually(lambda: _deleting(family.find("held")))
    assert held["metadata"]["finalizers"] == [HOLD]
    assert held["metadata"]["deletionGracePeriodSeconds"] == 0
    family.release("held")
    family.gone("held")


def _deleting(obj: Obj | None) -> Obj | None:
    return obj if obj and "deletionTimestamp" in obj["metadata"] else None


# -- foreground ---------------------------------------------------------------------------------


def test_foreground_deletion_goes_from_the_leaves_up(family: Family) -> None:
    top = family.make("top")
    middle = family.make("middle", owner(top, blockOwnerDeletion=True))
    family.make("leaf", owner(middle, blockOwnerDeletion=True), finalizers=[HOLD])
    answer = family.delete("top", "Foreground")
    assert answer["kind"] == "ConfigMap"
    assert answer["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert "deletionTimestamp" in answer["metadata"]
    waiting = eventually(lambda: _deleting(family.find("middle")))
    assert waiting["metadata"]["finalizers"] == ["foregroundDeletion"]
    leaf = eventually(lambda: _deleting(family.find("leaf")))
    assert leaf["metadata"]["finalizers"] == [HOLD]
    assert family.find("top") is not None
    family.release("leaf")
    family.gone("leaf", "middle", "top")


def test_foreground_deletion_waits_only_for_those_that_block(family: Family) -> None:
    top = family.make("top")
    family.make("blocks-not", owner(top), finalizers=[HOLD])
    family.delete("top", "Foreground")
    family.gone("top")
    eventually(lambda: _deleting(family.find("blocks-not")))
    family.release("blocks-not")
    family.gone("blocks-not")


def test_foreground_deletion_without_dependents(family: Family) -> None:
    family.make("alone")
    family.delete("alone", "Foreground")
    family.gone("alone")


def test_foreground_with_a_second_owner_keeps_the_dependent(family: Family) -> None:
    first, second = family.make("first"), family.make("second")
    blocking = {"blockOwnerDeletion": True}
    family.make("shared", owner(first, **blocking), owner(second, **blocking))
    family.delete("first", "Foreground")
    family.gone("first")
    shared = family.find("shared")
    assert shared is not None
    assert [r["name"] for r in shared["metadata"]["ownerReferences"]] == ["second"]


def test_foreground_deletion_of_a_circle(family: Family) -> None:
    first = family.make("first")
    second = family.make("second", owner(first, blockOwnerDeletion=True))
    third = family.make("third", owner(second, blockOwnerDeletion=True))
    circle = {"metadata": {"ownerReferences": [owner(third, blockOwnerDeletion=True)]}}
    family.objects.patch("v1", "configmaps", "first", circle)
    family.delete("first", "Foreground")
    family.gone("first", "second", "third")


# -- orphan ---------------------------------------------------------------------------------------


def test_orphan_deletion_leaves_dependents_without_the_reference(family: Family) -> None:
    top, other = family.make("top"), family.make("other")
    family.make("child", owner(top))
    family.make("shared", owner(top), owner(other))
    answer = family.delete("top", "Orphan")
    assert answer["metadata"]["finalizers"] == ["orphan"]
    family.gone("top")
    child, shared = family.find("child"), family.find("shared")
    assert child is not None and shared is not None
    assert "ownerReferences" not in child["metadata"]
    assert [r["name"] for r in shared["metadata"]["ownerReferences"]] == ["other"]


def test_old_orphan_option(family: Family) -> None:
    top = family.make("top")
    family.make("child", owner(top))
    family.delete("top", orphanDependents=True)
    family.gone("top")
    child = family.find("child")
    assert child is not None and "ownerReferences" not in child["metadata"]


# -- finalizers and preconditions ---------------------------------------------------------------


def test_finalizer_keeps_an_object_that_can_still_be_changed(family: Family) -> None:
    family.make("held", finalizers=[HOLD, "example.test/second"])
    answer = family.delete("held")
    assert answer["metadata"]["deletionGracePeriodSeconds"] == 0
    stamp = answer["metadata"]["deletionTimestamp"]
    again = family.delete("held")
    assert again["metadata"]["deletionTimestamp"] == stamp
    changed = family.objects.patch("v1", "configmaps", "held", {"data": {"still": "here"}})
    assert changed["data"] == {"still": "here"}
    path = family.objects.path("v1", "configmaps", "held")
    patch = {"metadata": {"finalizers": [HOLD, "example.test/second", "example.test/third"]}}
    refused = family.objects.backend.request(
        "PATCH", path, patch, content_type="application/merge-patch+json"
    )
    assert refused.code == 422
    assert (
        "no new finalizers can be added if the object is being deleted" in refused.json()["message"]
    )
    patch = {"metadata": {"finalizers": ["example.test/second"]}}
    family.objects.patch("v1", "configmaps", "held", patch)
    assert family.find("held") is not None
    last = family.release("held")
    assert last["metadata"]["name"] == "held"
    assert family.find("held") is None


@pytest.mark.parametrize("which", ["uid", "resourceVersion"])
def test_delete_preconditions(family: Family, which: str) -> None:
    made = family.make("precious")
    wrong = {"uid": "11111111-2222-3333-4444-555555555555", "resourceVersion": "1"}[which]
    path = family.objects.path("v1", "configmaps", "precious")
    reply = family.objects.backend.request("DELETE", path, {"preconditions": {which: wrong}})
    assert reply.code == 409 and reply.json()["reason"] == "Conflict"
    assert f"({wrong}) does not match" in reply.json()["message"]
    family.delete("precious", preconditions={which: made["metadata"][which]})
    assert family.find("precious") is None


def test_dry_run_deletes_nothing(family: Family) -> None:
    top = family.make("top")
    family.make("child", owner(top))
    family.delete("top", "Background", dryRun=["All"])
    family.delete("top", "Foreground", dryRun=["All"])
    kept = family.find("top")
    assert kept == top


def test_collection_deletion_selects(family: Family, objects: Objects) -> None:
    for name, colour in (("a", "red"), ("b", "red"), ("c", "blue")):
        obj = config_map(name)
        obj["metadata"]["labels"] = {"colour": colour}
        objects.create("configmaps", obj)
    path = objects.path("v1", "configmaps") + "?labelSelector=colour%3Dred"
    reply = objects.backend.request("DELETE", path)
    assert reply.code == 200
    assert {o["metadata"]["name"] for o in reply.json()["items"]} == {"a", "b"}
    assert objects.names("v1", "configmaps", "?labelSelector=colour") == {"c"}


# -- namespaces -----------------------------------------------------------------------------------


def conditions(namespace: Obj) -> dict[str, Obj]:
    return {c["type"]: c for c in namespace["status"].get("conditions") or ()}


def test_namespace_empties_itself_and_tells_why_it_waits(cluster: Objects, unique: str) -> None:
    name = f"going-{unique}"
    made = cluster.create(
        "namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    )
    assert made["spec"]["finalizers"] == ["kubernetes"]
    assert made["status"]["phase"] == "Active"
    assert made["metadata"]["labels"]["kubernetes.io/metadata.name"] == name
    inside = Family(Objects(cluster.backend, name))
    eventually(lambda: inside.objects.find("v1", "serviceaccounts", "default"))
    inside.make("free")
    inside.make("held", finalizers=[HOLD])
    reply = cluster.backend.request("DELETE", f"/api/v1/namespaces/{name}")
    assert reply.code == 200 and reply.json()["status"]["phase"] == "Terminating"
    inside.gone("free")

    def told() -> Obj | None:
        found = conditions(cluster.get("v1", "namespaces", name))
        remaining = found.get("NamespaceFinalizersRemaining", {})
        return found if remaining.get("status") == "True" else None

    found = eventually(told)
    finalizers, content = found["NamespaceFinalizersRemaining"], found["NamespaceContentRemaining"]
    assert finalizers["reason"] == "SomeFinalizersRemain"
    assert finalizers["message"] == (
        f"Some content in the namespace has finalizers remaining: {HOLD} in 1 resource instances"
    )
    assert content["reason"] == "SomeResourcesRemain"
    assert content["message"] == (
        "Some resources are remaining: configmaps. has 1 resource instances"
    )
    assert found["NamespaceDeletionContentFailure"]["status"] == "False"
    assert found["NamespaceDeletionDiscoveryFailure"]["reason"] == "ResourcesDiscovered"
    path = inside.objects.path("v1", "configmaps")
    refused = cluster.backend.request("POST", path, config_map("late"))
    assert refused.code == 403 and refused.json()["reason"] == "Forbidden"
    assert "because it is being terminated" in refused.json()["message"]
    assert refused.json()["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    inside.release("held")
    eventually(lambda: cluster.find("v1", "namespaces", name) is None)
    assert inside.objects.names("v1", "configmaps") == set()


def test_namespace_takes_custom_and_owned_objects_along(cluster: Objects, unique: str) -> None:
    name = f"full-{unique}"
    cluster.create(
        "namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    )
    inside = Objects(cluster.backend, name)
    top = inside.create("configmaps", config_map("top"))
    inside.create("configmaps", config_map("child", owner(top, blockOwnerDeletion=True)))
    inside.create(
        "leases",
        {
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"},
            "spec": {},
        },
    )  # fmt: skip
    inside.create(
        "roles",
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"}},
    )
    cluster.delete("v1", "namespaces", name)
    eventually(lambda: cluster.find("v1", "namespaces", name) is None)
    assert inside.names("v1", "configmaps") == set()
    assert inside.names("coordination.k8s.io/v1", "leases") == set()
    assert inside.names("rbac.authorization.k8s.io/v1", "roles") == set()


def test_finalizer_of_a_namespace_itself(cluster: Objects, unique: str) -> None:
    name = f"kept-{unique}"
    cluster.create(
        "namespaces",
        {
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "finalizers": [HOLD]},
        },
    )  # fmt: skip
    cluster.delete("v1", "namespaces", name)

    def emptied() -> bool:
        return cluster.get("v1", "namespaces", name)["spec"].get("finalizers") is None

    eventually(emptied)
    cluster.patch("v1", "namespaces", name, {"metadata": {"finalizers": None}})
    eventually(lambda: cluster.find("v1", "namespaces", name) is None)


@pytest.mark.parametrize("name", ["default", "kube-system"])
def test_system_namespaces_cannot_be_deleted(backend: Backend, name: str) -> None:
    reply = backend.request("DELETE", f"/api/v1/namespaces/{name}")
    assert reply.code == 403
    assert reply.json()["message"] == (
        f'namespaces "{name}" is forbidden: this namespace may not be deleted'
    )


def test_default_account_and_root_ca_come_back(objects: Objects) -> None:
    account = objects.get("v1", "serviceaccounts", "default")
    objects.delete("v1", "serviceaccounts", "default")

    def anew() -> bool:
        found = objects.find("v1", "serviceaccounts", "default")
        return found is not None and found["metadata"]["uid"] != account["metadata"]["uid"]

    eventually(anew)
    bundle = objects.get("v1", "configmaps", "kube-root-ca.crt")
    assert bundle["data"]["ca.crt"].startswith("-----BEGIN CERTIFICATE-----")
    objects.delete("v1", "configmaps", "kube-root-ca.crt")
    eventually(lambda: objects.find("v1", "configmaps", "kube-root-ca.crt"))
    objects.patch("v1", "configmaps", "kube-root-ca.crt", {"data": {"ca.crt": "broken"}})
    eventually(
        lambda: objects.get("v1", "configmaps", "kube-root-ca.crt")["data"] == bundle["data"]
    )


# -- aggregated roles -----------------------------------------------------------------------------


def cluster_role(name: str, **more: Any) -> Obj:
    meta: Obj = {"name": name}
    if "labels" in more:
        meta["labels"] = more.pop("labels")
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": meta, **more,
    }  # fmt: skip


def test_aggregated_role_follows_its_parts(cluster: Objects, unique: str) -> None:
    rbac, label = "rbac.authorization.k8s.io/v1", {f"part-of-{unique}": "true"}
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    other = {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list"]}
    selector = {"clusterRoleSelectors": [{"matchLabels": label}]}
    try:
        cluster.create("clusterroles", cluster_role(f"a-{unique}", labels=label, rules=[rule]))
        cluster.create(
            "clusterroles", cluster_role(f"sum-{unique}", aggregationRule=selector, rules=[])
        )

        def rules() -> list[Obj]:
            found = cluster.get(rbac, "clusterroles", f"sum-{unique}").get("rules") or []
            return list(found)

        eventually(lambda: rules() == [rule])
        cluster.create("clusterroles", cluster_role(f"b-{unique}", labels=label, rules=[other]))
        eventually(lambda: rules() == [rule, other])
        cluster.patch(rbac, "clusterroles", f"sum-{unique}", {"rules": [other]})
        eventually(lambda: rules() == [rule, other])
        cluster.delete(rbac, "clusterroles", f"a-{unique}")
        eventually(lambda: rules() == [other])
    finally:
        for name in ("a", "b", "sum"):
            cluster.delete(rbac, "clusterroles", f"{name}-{unique}")


def test_admin_role_takes_in_labelled_roles(cluster: Objects, unique: str) -> None:
    rbac, name = "rbac.authorization.k8s.io/v1", f"things-{unique}"
    rule = {"apiGroups": [f"{unique}.example.test"], "resources": ["things"], "verbs": ["create"]}
    label = {"rbac.authorization.k8s.io/aggregate-to-edit": "true"}
    cluster.create("clusterroles", cluster_role(name, labels=label, rules=[rule]))
    try:
        for role in ("edit", "admin"):
            eventually(lambda r=role: rule in cluster.get(rbac, "clusterroles", r)["rules"])
        assert rule not in cluster.get(rbac, "clusterroles", "view")["rules"]
    finally:
        cluster.delete(rbac, "clusterroles", name)
    eventually(lambda: rule not in cluster.get(rbac, "clusterroles", "admin")["rules"])
