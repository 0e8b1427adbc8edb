"""The controllers of backups work with the operator's rights, and have none to run commands."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from corral.kube.client import KubeClient
from corral.kube.resources import (
    CLUSTERROLEBINDINGS,
    CLUSTERROLES,
    ROLEBINDINGS,
    ROLES,
    SERVICEACCOUNTS,
)
from corral.operator import rbac
from corral.operator.manifests import cluster_rules
from tests.backends import Node
from tests.cluster.spot_checkpoints.spot_stage import SpotStage, staged
from tests.cluster.spot_checkpoints.test_spot_copies import COMMAND, began
from tests.registries import RunningRegistry

NAME = "corral-checkpoints-case"


@pytest.fixture
async def stage(
    client: KubeClient, namespace: str, registry: RunningRegistry, node: Node
) -> AsyncIterator[SpotStage]:
    """The case's own client is an admin's; the operator's has the operator's rights."""
    account = {"kind": "ServiceAccount", "name": "operator", "namespace": namespace}
    await client.create(SERVICEACCOUNTS, {"metadata": {"name": "operator"}}, namespace=namespace)
    rules = cluster_rules()
    role = {"metadata": {"name": NAME}, "rules": [rule.as_object() for rule in rules]}
    await client.create(CLUSTERROLES, role)
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME}
    binding = {"metadata": {"name": NAME}, "roleRef": reference, "subjects": [account]}
    await client.create(CLUSTERROLEBINDINGS, binding)
    answer = await client.create_subresource(
        SERVICEACCOUNTS,
        "operator",
        namespace=namespace,
        subresource="token",
        body={"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
    )
    config = replace(client.config, token=answer["status"]["token"])
    try:
        async with (
            KubeClient(config) as own,
            staged(own, namespace, registry) as inside,
        ):
            yield SpotStage(client, namespace, registry, inside.report_url)
    finally:
        await client.delete(CLUSTERROLEBINDINGS, NAME)
        await client.delete(CLUSTERROLES, NAME)


async def test_a_namespace_lets_the_operator_read_directories(stage: SpotStage) -> None:
    volume = {"volumes": [{"name": "state", "emptyDir": {}}]}
    mounts = {"volumeMounts": [{"name": "state", "mountPath": "/state"}]}
    await stage.pod("one", ["sleep", "600"], container=mounts, **volume)
    asked = {
        "podName": "one",
        "engine": "Directory",
        "directory": "/state",
        "imageRepo": stage.repository,
    }
    await stage.backup("before", **asked)
    status = await stage.ended("before")
    assert status["phase"] == "Failed" and "pods/exec" in status["message"]
    rule = rbac.Rule("", ("pods/exec",), ("get", "create")).as_object()
    role = {"metadata": {"name": "backups"}, "rules": [rule]}
    await stage.client.create(ROLES, role, namespace=stage.namespace)
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "backups"}
    account = {"kind": "ServiceAccount", "name": "operator", "namespace": stage.namespace}
    binding = {"metadata": {"name": "backups"}, "roleRef": reference, "subjects": [account]}
    await stage.client.create(ROLEBINDINGS, binding, namespace=stage.namespace)
    numbers = iter(range(100))

    async def works() -> bool:
        # rights that were given count when the server has heard of them
        name = f"after-{next(numbers)}"
        await stage.backup(name, **asked)
        return bool((await stage.ended(name))["phase"] == "Completed")

    await stage.until(works)


async def test_nothing_else_is_missing(stage: SpotStage, tmp_path: Path) -> None:
    job = await stage.job(command=COMMAND, checkpointInterval="1h")
    pod = await stage.copy(job, 0, 1, local_root=tmp_path)
    await began(stage, pod)
    await stage.backup("now", podName=pod["metadata"]["name"], engine="Application", stopPod=True)
    status = await stage.ended("now")
    assert status["phase"] == "CompletedPodDeleted", status
