"""Objects that parts of the cluster own and a tenant may delete: they come back by themselves."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from corral.kube import KubeClient, errors
from corral.kube.resources import SERVICES
from corral.kube.types import Obj
from tests.cluster.services.test_loopback_endpoints import serving


async def again(client: KubeClient, before: Obj) -> Obj:
    """The API server's Service, made anew."""
    async with asyncio.timeout(60):
        while True:
            try:
                found = await client.get(SERVICES, "kubernetes", namespace="default")
            except errors.NotFound:
                found = before
            if found["metadata"]["uid"] != before["metadata"]["uid"]:
                return found
            await asyncio.sleep(0.01)


@pytest.mark.attack(
    "faults",
    "deletes the Service kubernetes, by which all pods find the API server (`edit` in default)",
    "it is made again at once, with its address",
)
async def test_the_service_of_the_api_server(tmp_path: Path) -> None:
    async with serving(tmp_path, loopback_endpoints=True) as (_, client):
        before = await client.get(SERVICES, "kubernetes", namespace="default")
        await client.delete(SERVICES, "kubernetes", namespace="default")
        found = await again(client, before)
        assert found["spec"]["clusterIP"] == before["spec"]["clusterIP"]
        assert found["spec"]["ports"] == before["spec"]["ports"]
