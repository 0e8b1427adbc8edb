"""Devices, trust bundles, migrations. Texts were read from kube-apiserver 1.37.1."""

from __future__ import annotations

from typing import Any

import pytest

from corral.cluster.apiserver.builtin.validation.registry import validate_create, validate_update

RESOURCES, CERTIFICATES = "resource.k8s.io", "certificates.k8s.io"
PEM = "-----BEGIN CERTIFICATE-----\n…"


def obj(spec: dict[str, Any], name: str = "a", *, namespace: str = "") -> dict[str, Any]:
    meta = {"name": name, "uid": "u", "resourceVersion": "1"}
    return {"metadata": meta | ({"namespace": namespace} if namespace else {}), "spec": spec}


def created(group: str, kind: str, made: dict[str, Any]) -> list[str]:
    return [str(e) for e in validate_create(group, "v1", kind, made)]


def updated(group: str, kind: str, new: dict[str, Any], old: dict[str, Any]) -> list[str]:
    return [str(e) for e in validate_update(group, "v1", kind, new, old)]


@pytest.mark.parametrize(
    ("name", "spec", "problems"),
    [
        ("a", {"trustBundle": PEM}, []),
        ("x.y:s:a", {"trustBundle": PEM, "signerName": "x.y/s"}, []),
        ("a:b", {"trustBundle": PEM}, [
            'metadata.name: Invalid value: "a:b": ClusterTrustBundle without signer name must not '
            'have ":" in its name']),
        ("a", {"trustBundle": PEM, "signerName": "a.b/c"}, [
            'metadata.name: Invalid value: "a": ClusterTrustBundle for signerName a.b/c must be '
            "named with prefix a.b:c:"]),
        ("a", {}, [
            'spec.trustBundle: Invalid value: "<value omitted>": at least one trust anchor must '
            "be provided"]),
    ],
)  # fmt: skip
def test_trust_bundles(name: str, spec: dict[str, Any], problems: list[str]) -> None:
    assert created(CERTIFICATES, "ClusterTrustBundle", obj(spec, name)) == problems


@pytest.mark.parametrize(
    ("spec", "problems"),
    [
        ({"resource": {"resource": "pods"}}, []),
        ({}, ["spec.resource.resource: Required value: resource is required to be set"]),
    ],
)
def test_migrations(spec: dict[str, Any], problems: list[str]) -> None:
    assert created("storagemigration.k8s.io", "StorageVersionMigration", obj(spec)) == problems


@pytest.mark.parametrize(
    ("group", "kind", "new", "old", "problems"),
    [
        (RESOURCES, "ResourceClaim", {"devices": {}}, {"devices": {"requests": [{"name": "r"}]}},
         ["spec: Invalid value: null: field is immutable"]),
        (RESOURCES, "ResourceClaim", {"devices": {}}, {"devices": {}}, []),
        (CERTIFICATES, "PodCertificateRequest", {"podName": "b"}, {"podName": "a"},
         ['spec: Invalid value: {"podName":"b"}: field is immutable']),
    ],
)  # fmt: skip
def test_specs_that_may_not_change(
    group: str, kind: str, new: dict[str, Any], old: dict[str, Any], problems: list[str]
) -> None:
    made, before = (obj(spec, namespace="n") for spec in (new, old))
    assert updated(group, kind, made, before) == problems


def test_slices_stay_with_their_pool() -> None:
    old = obj({"driver": "d", "pool": {"name": "p"}, "nodeName": "n"})
    new = obj({"driver": "e", "pool": {"name": "q"}, "nodeName": "n"})
    assert created(RESOURCES, "ResourceSlice", obj({})) == [
        "spec.driver: Required value",
        "spec.pool.name: Required value",
    ]
    assert updated(RESOURCES, "ResourceSlice", old, old) == []
    assert updated(RESOURCES, "ResourceSlice", new, old) == [
        'spec.pool.name: Invalid value: "q": field is immutable',
        'spec.driver: Invalid value: "e": field is immutable',
    ]
