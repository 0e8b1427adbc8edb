"""Controllers inside the test's process, and the definitions that they need."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Self

from corral.kube import KubeClient
from corral.kube.types import Obj
from corral.runtime import Manager
from tests.cluster.apps.loops import LoopThread
from tests.cluster.objects import Objects, eventually


class _Life(LoopThread):
    """From a start to a kill."""

    def __init__(self, kubeconfig: str, add: Callable[[Manager], None]) -> None:
        super().__init__("operator")
        self._kubeconfig, self._add = kubeconfig, add

    async def work(self, ready: Callable[[], None]) -> None:
        async with KubeClient.from_kubeconfig(self._kubeconfig) as client:
            manager = Manager(client)
            self._add(manager)
            async with asyncio.TaskGroup() as group:
                group.create_task(manager.run())
                await manager.wait_ready()
                ready()


class OperatorThread:
    """Controllers in a thread with an event loop of its own; it may be started again."""

    def __init__(self, kubeconfig: str, add: Callable[[Manager], None]) -> None:
        """``add`` registers the controllers."""
        self._kubeconfig, self._add = kubeconfig, add
        self._life: _Life | None = None

    def start(self) -> Self:
        """Return when it works."""
        self._life = _Life(self._kubeconfig, self._add)
        self._life.start()
        return self

    def kill(self) -> None:
        """At once, in the middle of whatever it does."""
        if self._life is not None:
            self._life.stop()
            self._life = None


def install(cluster: Objects, definitions: Iterable[Obj]) -> None:
    """These CustomResourceDefinitions, served."""
    for definition in definitions:
        spec, name = definition["spec"], definition["metadata"]["name"]
        if cluster.find("apiextensions.k8s.io/v1", "customresourcedefinitions", name) is None:
            cluster.create("customresourcedefinitions", deepcopy(definition))
        path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
        eventually(lambda path=path: cluster.backend.request("GET", path).code == 200)
