"""Definitions that a server begins with: served from the first request on, and kept up to date."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from corral.api import all_crds
from corral.cluster.apiserver.server import ApiServer, Config
from corral.kube import KubeClient
from corral.kube.errors import Invalid
from corral.kube.resources import CUSTOMRESOURCEDEFINITIONS, Resource

Obj = dict[str, Any]
GEARS = Resource("example.com", "v1", "gears", True, "Gear")
GEAR: Obj = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gears.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "gears", "kind": "Gear"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"teeth": {"type": "integer", "default": 8}},
                    }
                },
            }
        ],
    },
}


def gear(**field: Obj) -> Obj:
    out = deepcopy(GEAR)
    schema = out["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"].update(field)
    return out


class Served:
    """A server on a folder, and a client of it."""

    def __init__(self, folder: Path, *definitions: Obj) -> None:
        self.server = ApiServer(Config(folder, definitions=definitions))

    async def __aenter__(self) -> KubeClient:
        await self.server.start()
        self.client = KubeClient.from_kubeconfig(str(self.server.kubeconfig))
        return await self.client.__aenter__()

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()
        await self.server.stop()


async def generation(client: KubeClient) -> int:
    found = await client.get(CUSTOMRESOURCEDEFINITIONS, GEAR["metadata"]["name"])
    return int(found["metadata"]["generation"])


def made(name: str, **fields: object) -> Obj:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Gear",
        "metadata": {"name": name, "namespace": "default"},
        **fields,
    }


async def test_kinds_are_served_from_the_first_request_on(tmp_path: Path) -> None:
    async with Served(tmp_path, gear()) as client:
        found = await client.create(GEARS, made("one"))
        assert found["teeth"] == 8


async def test_the_same_again_changes_nothing_and_another_is_taken(tmp_path: Path) -> None:
    async with Served(tmp_path, gear()) as client:
        await client.create(GEARS, made("one"))
        assert await generation(client) == 1
    async with Served(tmp_path, gear()) as client:
        assert await generation(client) == 1
    async with Served(tmp_path, gear(colour={"type": "string"})) as client:
        assert await generation(client) == 2
        assert (await client.get(GEARS, "one", namespace="default"))["teeth"] == 8
        found = await client.create(GEARS, made("two", colour="red"))
        assert found["colour"] == "red"


async def test_one_that_is_wrong_is_refused(tmp_path: Path) -> None:
    server = ApiServer(Config(tmp_path, definitions=[gear(colour={"type": "shade"})]))
    with pytest.raises(Invalid, match="colour"):
        await server.start()
    await server.stop()


async def test_all_of_ours_are_taken_and_stay_as_they_are(tmp_path: Path) -> None:
    names = [definition["metadata"]["name"] for definition in all_crds()]
    for _ in range(2):
        async with Served(tmp_path, *all_crds()) as client:
            for name in names:
                found = await client.get(CUSTOMRESOURCEDEFINITIONS, name)
                assert found["metadata"]["generation"] == 1
                conditions = {c["type"]: c["status"] for c in found["status"]["conditions"]}
                assert conditions == {"NamesAccepted": "True", "Established": "True"}
