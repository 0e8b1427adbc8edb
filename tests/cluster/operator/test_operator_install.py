"""Servers take what an installation consists of, and give it up again."""

from __future__ import annotations

import pytest

from corral.kube import KubeClient
from corral.kube.errors import NotFound
from corral.kube.resources import CUSTOMRESOURCEDEFINITIONS, DEPLOYMENTS, NAMESPACES
from corral.operator import rbac
from corral.operator.install import (
    NotInTime,
    apply_objects,
    remove_objects,
    wait_served,
    wait_serving,
)
from corral.operator.manifests import InstallSettings, install_objects
from corral.operator.settings import NAMESPACE
from tests.backends import Backend
from tests.cluster.operator.conftest import set_up


async def test_every_object_is_taken(kubeconfig: str) -> None:
    """Strictly: no field is unknown, and nothing is warned about."""
    warned: list[str] = []
    async with KubeClient.from_kubeconfig(kubeconfig, on_warning=warned.append) as client:
        await set_up(kubeconfig)
        for obj in install_objects(InstallSettings()):
            resource = await client.resource_for(obj["apiVersion"], obj["kind"])
            await client.apply(
                resource, obj, field_manager="check", field_validation="Strict", dry_run=True
            )
    assert warned == []


async def test_installed_again_nothing_changes(kubeconfig: str) -> None:
    objects = [
        obj
        for obj in install_objects()
        # what is aggregated is filled in by the server, in its own time
        if "Webhook" not in obj["kind"] and "aggregationRule" not in obj
    ]
    async with KubeClient.from_kubeconfig(kubeconfig) as client:
        await apply_objects(client, objects)
        names = [o["metadata"]["name"] for o in objects if o["kind"].startswith("Custom")]
        await wait_served(client, names, within=30)
        versions = [await spec_version(client, obj) for obj in objects]
        await apply_objects(client, objects)
        assert [await spec_version(client, obj) for obj in objects] == versions


async def spec_version(client: KubeClient, obj: dict[str, dict[str, str]]) -> object:
    resource = await client.resource_for(str(obj["apiVersion"]), str(obj["kind"]))
    meta = obj["metadata"]
    found = await client.get(resource, meta["name"], namespace=meta.get("namespace"))
    return found["metadata"].get("generation") or found.get("rules") or found.get("subjects")


async def test_an_operator_that_does_not_come_up_is_told(kubeconfig: str) -> None:
    async with KubeClient.from_kubeconfig(kubeconfig) as client:
        await set_up(kubeconfig)
        await apply_objects(client, [o for o in install_objects() if o["kind"] == "Deployment"])
        with pytest.raises(NotInTime, match=r"deployment corral-system/corral-operator does not"):
            await wait_serving(client, NAMESPACE, within=0.2)
        await client.delete(DEPLOYMENTS, rbac.NAME, namespace=NAMESPACE)


async def test_removed_again(kubeconfig: str, backend: Backend) -> None:
    """Jobs and their definitions stay unless they are asked for."""
    objects = install_objects(InstallSettings("elsewhere"))
    kept = [o for o in objects if o["kind"] == "CustomResourceDefinition"]
    async with KubeClient.from_kubeconfig(kubeconfig) as client:
        await set_up(kubeconfig)
        await apply_objects(client, objects)
        said: list[str] = []
        await remove_objects(
            client, [o for o in objects if o not in kept], within=60, say=said.append
        )
        assert "namespace/elsewhere deleted" in said
        for obj in objects:
            resource = await client.resource_for(obj["apiVersion"], obj["kind"])
            meta = obj["metadata"]
            if obj in kept:
                await client.get(CUSTOMRESOURCEDEFINITIONS, meta["name"])
                continue
            with pytest.raises(NotFound):
                await client.get(resource, meta["name"], namespace=meta.get("namespace"))
        with pytest.raises(NotFound):
            await client.get(NAMESPACES, "elsewhere")
        await set_up(kubeconfig)  # the ClusterRole is the one of every installation
