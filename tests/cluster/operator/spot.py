"""What shows the operator's rights to spot jobs, their machines and backups."""

from __future__ import annotations

from typing import Any

from corral.api.spot.kinds import (
    GROUP,
    MIGRATION_GROUP,
    SPOTINSTANCEJOBS,
    SPOTINSTANCEVMS,
)
from corral.kube import KubeClient
from tests.cluster.operator.federated import until_status
from tests.cluster.operator.rights import Right

UNSEEN = {
    **{
        Right("", "nodes", verb): "of machines: tests/cluster/spot_machines"
        for verb in ("patch", "delete")
    },
    **{
        Right(group, resource, verb): "of checkpoints: tests/cluster/spot_checkpoints"
        for group, resource, verb in (
            ("", "nodes", "get"),
            ("", "nodes/checkpoint", "create"),
            ("", "pods", "patch"),
            (GROUP, "spotinstancejobs", "get"),
            (MIGRATION_GROUP, "checkpointbackups", "create"),
            (MIGRATION_GROUP, "checkpointbackups", "delete"),
            (MIGRATION_GROUP, "checkpointbackups", "get"),
            (MIGRATION_GROUP, "checkpointbackups", "patch"),
            (MIGRATION_GROUP, "checkpointbackups/finalizers", "update"),
            (MIGRATION_GROUP, "checkpointbackups/status", "patch"),
        )
    },
    Right(GROUP, "spotinstancejobs/finalizers", "update"): (
        "asked for by the admission plugin that guards blockOwnerDeletion"
    ),
}
"""Rights that these objects need not show, and why they are given."""


async def run_spot(admin: KubeClient, namespace: str) -> None:
    """A job that runs on whatever node there is, and one that waits for machines of a cloud."""

    async def make(resource: Any, name: str, spec: dict[str, Any]) -> None:
        body = {"metadata": {"name": name}, "spec": spec}
        await admin.create(resource, body, namespace=namespace)

    container = {"name": "main", "image": "busybox", "command": ["true"]}
    spec = {
        "replicas": 1,
        "jobTemplate": {"spec": {"template": {"spec": {"containers": [container]}}}},
        "checkpointConfig": {
            "checkpointImageRepo": "registry.example.test/c",
            "checkpointInterval": "30m",
            "checkpointStorage": {"type": "s3", "bucket": "b"},
        },
        "spotInstanceVMRef": {"name": "here"},
    }
    await make(SPOTINSTANCEVMS, "here", {"local": {}})
    await make(SPOTINSTANCEJOBS, "found", {**spec, "placement": {"provisioner": "External"}})
    await make(SPOTINSTANCEJOBS, "waits", spec)
    await until_status(admin, "found", namespace, "phase", "Succeeded", SPOTINSTANCEJOBS)
    await until_status(admin, "waits", namespace, "machines", None, SPOTINSTANCEJOBS)
    for resource, name in ((SPOTINSTANCEJOBS, "waits"), (SPOTINSTANCEVMS, "here")):
        await admin.delete(resource, name, namespace=namespace)
