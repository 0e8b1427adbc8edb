"""The probes of one running container, from its start to its end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

import aiohttp

from corral.cluster.node.container.processes import Container
from corral.cluster.node.isolation import Sandbox
from corral.cluster.node.network import PodNetwork
from corral.cluster.node.probes.probe import Timing, check_of, probe
from corral.cluster.node.probes.reach import Connection, Reach
from corral.kube.types import Obj

__all__ = ["PodReach", "has_probes", "run_probes"]


class PodReach:
    """The pod's ports, through its own network."""

    def __init__(self, network: PodNetwork, sandbox: Sandbox) -> None:
        self._network = network
        self._sandbox = sandbox

    def connector(self) -> aiohttp.BaseConnector:
        return self._network.http_connector(self._sandbox)

    async def dial(self, host: str, port: int) -> Connection:
        return await self._network.dial(self._sandbox, port, host)


def has_probes(spec: Obj) -> bool:
    return any(f"{kind}Probe" in spec for kind in ("startup", "readiness", "liveness"))


async def run_probes(
    spec: Obj,
    container: Container,
    address: str,
    *,
    reach: Reach,
    report: Callable[[str, bool], None],
    problem: Callable[[str, str], None],
    clock: Callable[[], float] = time.time,
) -> None:
    """Probe until cancelled: startup first, the others once it has succeeded."""

    async def one(kind: str) -> bool:
        """Whether the last verdict was good."""
        handler = spec[f"{kind}Probe"]
        last = [True]

        def verdict(ok: bool) -> None:
            last[0] = ok
            report(kind, ok)

        timing = Timing.of(handler)
        since = clock() - container.state.started_at / 1e9
        # a clock that was put back must not make it wait longer than it was asked to
        timing = replace(timing, delay=min(max(timing.delay - since, 0.0), timing.delay))
        try:
            check = check_of(handler, spec, container, address, reach)
        except ValueError as err:
            why = str(err)

            async def check() -> str:
                return why

        await probe(kind, timing, check, report=verdict, problem=lambda text: problem(kind, text))
        return last[0]

    if "startupProbe" in spec and not await one("startup"):
        return
    async with asyncio.TaskGroup() as group:
        for kind in ("readiness", "liveness"):
            if f"{kind}Probe" in spec:
                group.create_task(one(kind))
