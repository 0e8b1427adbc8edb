"""Default classes, protection finalizers, growing claims."""

from __future__ import annotations

import pytest

from corral.cluster.apiserver.admission.storage import (
    ClaimResize,
    DefaultIngressClass,
    DefaultStorageClass,
    InUseProtection,
)
from corral.kube.errors import Forbidden

DEFAULT = "storageclass.kubernetes.io/is-default-class"
INGRESS_DEFAULT = "ingressclass.kubernetes.io/is-default-class"


def storage_class(name, *, default="", created="2026-01-01T00:00:00Z", **more):
    meta = {"name": name, "creationTimestamp": created}
    if default:
        meta["annotations"] = {DEFAULT: default}
    kind = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass"}
    return {**kind, "metadata": meta, "provisioner": "p", **more}


def claim(name="c", size="1Gi", *, meta=None, **spec):
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, **(meta or {})},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
            **spec,
        },
    }


@pytest.mark.parametrize(
    ("classes", "given", "expected"),
    [
        pytest.param([], {}, None, id="no class"),
        pytest.param([storage_class("a")], {}, None, id="none is default"),
        pytest.param([storage_class("a", default="true")], {}, "a", id="default"),
        pytest.param([storage_class("a", default="false")], {}, None, id="not true"),
        pytest.param(
            [storage_class("a", default="true")], {"storageClassName": ""}, "", id="asked for none"
        ),
        pytest.param(
            [
                storage_class("a", default="true"),
                storage_class("c", default="true", created="2026-02-01T00:00:00Z"),
                storage_class("b", default="true", created="2026-02-01T00:00:00Z"),
            ],
            {},
            "b",
            id="newest, then first by name",
        ),
    ],
)
async def test_default_storage_class(world, classes, given, expected):
    world.plugins = [DefaultStorageClass(world.store)]
    for one in classes:
        await world.put(one)
    made = await world.create(claim(**given))
    assert made["spec"].get("storageClassName") == expected


async def test_old_annotation_counts_as_a_class(world):
    world.plugins = [DefaultStorageClass(world.store)]
    await world.put(storage_class("a", default="true"))
    meta = {"annotations": {"volume.beta.kubernetes.io/storage-class": "x"}}
    made = await world.create(claim(meta=meta))
    assert "storageClassName" not in made["spec"]


async def test_protection_finalizers(world):
    world.plugins = [InUseProtection()]
    made = await world.create(claim(meta={"finalizers": ["a/b"]}))
    assert made["metadata"]["finalizers"] == ["a/b", "kubernetes.io/pvc-protection"]
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "v"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/x"},
        },
    }
    made = await world.create(volume)
    assert made["metadata"]["finalizers"] == ["kubernetes.io/pv-protection"]


FIXED = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc "
    "must support resize"
)


@pytest.mark.parametrize(
    ("size", "phase", "expands", "why"),
    [
        pytest.param("1Gi", "Pending", False, "", id="same size"),
        pytest.param(
            "2Gi",
            "Pending",
            True,
            "Only bound persistent volume claims can be expanded",
            id="pending",
        ),
        pytest.param("2Gi", "Bound", False, FIXED, id="fixed class"),
        pytest.param("2Gi", "Bound", None, FIXED, id="no class object"),
        pytest.param("2Gi", "Bound", True, "", id="grows"),
    ],
)
async def test_claim_resize(world, size, phase, expands, why):
    plugin = ClaimResize(world.store)
    if expands is not None:
        await world.put(storage_class("a", allowVolumeExpansion=expands))
    old = {**claim(storageClassName="a"), "status": {"phase": phase}}
    request = world.request("UPDATE", claim(size=size, storageClassName="a"), old)
    if not why:
        await plugin.validate(request)
        return
    with pytest.raises(Forbidden) as refused:
        await plugin.validate(request)
    assert refused.value.message == f'persistentvolumeclaims "c" is forbidden: {why}'


async def test_default_ingress_class(world):
    world.plugins = [DefaultIngressClass(world.store)]
    await world.put(
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "IngressClass",
            "metadata": {"name": "web", "annotations": {INGRESS_DEFAULT: "true"}},
            "spec": {"controller": "x/y"},
        }
    )
    backend = {"service": {"name": "s", "port": {"number": 80}}}
    ingress = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "i"},
        "spec": {"defaultBackend": backend},
    }
    assert (await world.create(ingress))["spec"]["ingressClassName"] == "web"
    old_style = {"name": "j", "annotations": {"kubernetes.io/ingress.class": "q"}}
    made = await world.create({**ingress, "metadata": old_style})
    assert "ingressClassName" not in made["spec"]
