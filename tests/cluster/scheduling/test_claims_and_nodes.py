"""Pods with volume claims: the same cases with kube-scheduler and with ours.

No controller that binds claims takes part on our server; the cases play its role on both.
"""

from __future__ import annotations

from typing import Any

from tests.cluster.objects import Obj, eventually
from tests.cluster.scheduling.arena import HOST, Arena

SELECTED = "volume.kubernetes.io/selected-node"


def uses(*claims: str) -> dict[str, Any]:
    return {
        "volumes": [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims],
    }


def storage_class(arena: Arena, name: str, mode: str, provisioner: str = "example.test/x") -> str:
    name = f"{name}-{arena.unique}"
    made = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
    }
    arena.create("storageclasses", made)
    return name


def volume(arena: Arena, name: str, size: str, node: str, **spec: Any) -> str:
    name = f"{name}-{arena.unique}"
    expression = {"key": HOST, "operator": "In", "values": [node]}
    body: Obj = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "local": {"path": "/mnt/disk"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
        **spec,
    }
    kind = {"apiVersion": "v1", "kind": "PersistentVolume"}
    arena.create("persistentvolumes", {**kind, "metadata": {"name": name}, "spec": body})
    available = {"status": {"phase": "Available"}}
    arena.cluster.patch("v1", "persistentvolumes", name, available, subresource="status")
    return name


def bind(arena: Arena, claim: str, name: str) -> None:
    """What the binder does: both sides know each other."""
    made = arena.objects.get("v1", "persistentvolumeclaims", claim)
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": arena.namespace,
        "name": claim,
        "uid": made["metadata"]["uid"],
    }
    arena.cluster.patch("v1", "persistentvolumes", name, {"spec": {"claimRef": reference}})
    bound = {"pv.kubernetes.io/bind-completed": "yes"}
    body = {"metadata": {"annotations": bound}, "spec": {"volumeName": name}}
    arena.objects.patch("v1", "persistentvolumeclaims", claim, body)
    status = {"status": {"phase": "Bound"}}
    arena.objects.patch("v1", "persistentvolumeclaims", claim, status, subresource="status")


def annotation(arena: Arena, claim: str) -> str:
    made = arena.objects.get("v1", "persistentvolumeclaims", claim)
    found: str = (made["metadata"].get("annotations") or {}).get(SELECTED, "")
    return found


def test_a_bound_local_volume_decides(arena: Arena) -> None:
    arena.node("a")
    wanted = arena.node("b")
    arena.claim("data", "")
    bind(arena, "data", volume(arena, "disk", "1Gi", wanted, storageClassName=""))
    arena.pod("p", **uses("data"))
    assert arena.where("p") == wanted


def test_a_local_volume_elsewhere(arena: Arena) -> None:
    arena.node("a")
    arena.claim("data", "")
    bind(arena, "data", volume(arena, "disk", "1Gi", "gone", storageClassName=""))
    arena.pod("p", **uses("data"))
    arena.told(
        "p",
        "0/1 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity. "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
    )


def test_an_immediate_claim_must_be_bound_first(arena: Arena) -> None:
    node = arena.node("a")
    chosen = storage_class(arena, "now", "Immediate")
    arena.claim("data", chosen)
    arena.pod("p", **uses("data"))
    arena.told(
        "p",
        "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
    )
    bind(arena, "data", volume(arena, "disk", "1Gi", node, storageClassName=chosen))
    assert arena.where("p") == node


def test_a_waiting_claim_is_told_the_node(arena: Arena) -> None:
    arena.node("a", cpu="1")
    node = arena.node("b")
    chosen = storage_class(arena, "later", "WaitForFirstConsumer")
    arena.claim("data", chosen)
    arena.pod("p", {"cpu": "2"}, **uses("data"))
    assert eventually(lambda: annotation(arena, "data")) == node
    assert not arena.get("p")["spec"].get("nodeName")
    bind(arena, "data", volume(arena, "made", "1Gi", node, storageClassName=chosen))
    assert arena.where("p") == node


def test_a_claim_gets_the_smallest_local_volume(arena: Arena) -> None:
    node = arena.node("a")
    none = "kubernetes.io/no-provisioner"
    chosen = storage_class(arena, "local", "WaitForFirstConsumer", none)
    for name, size in (("tiny", "1Gi"), ("huge", "100Gi"), ("right", "10Gi")):
        volume(arena, name, size, node, storageClassName=chosen)
    arena.claim("data", chosen, "5Gi")
    arena.pod("p", **uses("data"))
    right = f"right-{arena.unique}"

    def reserved() -> str:
        spec = arena.cluster.get("v1", "persistentvolumes", right)["spec"]
        found: str = (spec.get("claimRef") or {}).get("name", "")
        return found

    assert eventually(reserved) == "data"
    bind(arena, "data", right)
    assert arena.where("p") == node


def test_no_local_volume_left(arena: Arena) -> None:
    arena.node("a")
    none = "kubernetes.io/no-provisioner"
    arena.claim("data", storage_class(arena, "local", "WaitForFirstConsumer", none))
    arena.pod("p", **uses("data"))
    arena.told(
        "p",
        "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind. "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
    )


def test_a_claim_that_appears_sets_the_pod_going(arena: Arena) -> None:
    node = arena.node("a")
    arena.pod("p", **uses("data"))
    arena.told("p", '0/1 nodes are available: persistentvolumeclaim "data" not found. not found')
    arena.claim("data", storage_class(arena, "later", "WaitForFirstConsumer"))
    assert eventually(lambda: annotation(arena, "data")) == node
