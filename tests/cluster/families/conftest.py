"""A server with the definitions of all kinds, and one more that only a test knows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from uuid import uuid4

import pytest

from corral.api import all_kinds
from corral.kube import KubeClient
from corral.kube.errors import NotFound
from corral.kube.resources import NAMESPACES, NODES
from tests.backends import Backend
from tests.cluster.families.greetings.kind import Greeting
from tests.cluster.objects import Objects
from tests.cluster.operators import install


@pytest.fixture(scope="session")
def served(embedded: Backend) -> str:
    """The kubeconfig of our own server: nobody else looks after Jobs and pods there."""
    install(Objects(embedded), [kind.crd() for kind in (*all_kinds(), Greeting)])
    return str(embedded.kubeconfig)


@pytest.fixture
async def rooms(served: str) -> AsyncIterator[Rooms]:
    async with KubeClient.from_kubeconfig(served) as client:
        rooms = Rooms(client)
        yield rooms
        for name in rooms.names:
            await client.delete(NAMESPACES, name)
            with suppress(NotFound):
                await client.delete(NODES, name)


class Rooms:
    """Namespaces of one case."""

    def __init__(self, client: KubeClient) -> None:
        self.client = client
        self.names: list[str] = []

    async def new(self) -> str:
        name = f"case-{uuid4().hex[:8]}"
        await self.client.create(NAMESPACES, {"metadata": {"name": name}})
        self.names.append(name)
        return name
