"""What a node may read because of its pods."""

from __future__ import annotations

import pytest

from corral.cluster.apiserver.auth.references import pod_refers

POD = {
    "metadata": {"name": "p"},
    "spec": {
        "serviceAccountName": "sa",
        "imagePullSecrets": [{"name": "pull"}],
        "containers": [
            {
                "name": "main",
                "env": [
                    {
                        "name": "A",
                        "valueFrom": {"secretKeyRef": {"name": "env-secret", "key": "k"}},
                    },
                    {
                        "name": "B",
                        "valueFrom": {"configMapKeyRef": {"name": "env-map", "key": "k"}},
                    },
                ],
                "envFrom": [
                    {"secretRef": {"name": "all-secret"}},
                    {"configMapRef": {"name": "all"}},
                ],
            }
        ],
        "volumes": [
            {"name": "v1", "secret": {"secretName": "mounted"}},
            {"name": "v2", "configMap": {"name": "mapped"}},
            {"name": "v3", "projected": {"sources": [{"secret": {"name": "part"}}]}},
            {"name": "v4", "persistentVolumeClaim": {"claimName": "claim"}},
            {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
            {"name": "v5", "csi": {"nodePublishSecretRef": {"name": "publish"}}},
        ],
    },
}


@pytest.mark.parametrize(
    ("resource", "names"),
    [
        ("pods", ["p"]),
        ("serviceaccounts", ["sa"]),
        ("secrets", ["pull", "env-secret", "all-secret", "mounted", "part", "publish"]),
        ("configmaps", ["env-map", "all", "mapped"]),
        ("persistentvolumeclaims", ["claim", "p-scratch"]),
    ],
)
def test_what_a_pod_uses(resource: str, names: list[str]) -> None:
    assert all(pod_refers(POD, resource, name) for name in names)


@pytest.mark.parametrize("name", ["main", "v1", "A", "claim"])
def test_a_name_that_stands_elsewhere_is_no_reference(name: str) -> None:
    assert not pod_refers(POD, "configmaps", name)
    assert not pod_refers(POD, "nodes", name)
