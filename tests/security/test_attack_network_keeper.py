"""The process that holds the networks of pods is killed or stopped: pods keep their address."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from corral.cluster.node.isolation import Capabilities
from corral.cluster.node.network.errors import NetworkError
from corral.cluster.node.network.holding import Keeper
from tests.backends import Backend
from tests.unit.cluster.node.network_rig import Agent, Pod, agent_on, make_namespace, until
from tests.unit.cluster.node.test_network_pods import CLIENT, SERVER


@pytest.fixture
async def agent(backend: Backend, tmp_path: Path) -> AsyncIterator[Agent]:
    if Capabilities.detect("corral-test").mode != "root":
        pytest.skip("pods have networks of their own only in mode root")
    async with agent_on(str(backend.kubeconfig), tmp_path / "one", "root") as agent:
        yield agent


def keeper_of(agent: Agent) -> int:
    gateway = agent.network._gateway
    assert gateway is not None
    return gateway._keeper.pid


async def kill_keeper(agent: Agent) -> None:
    before = keeper_of(agent)
    os.kill(before, signal.SIGKILL)
    await until(lambda: keeper_of(agent) not in (0, before))


async def served(agent: Agent) -> tuple[Pod, Pod]:
    """A server and a client."""
    space = await make_namespace(agent.client)
    web, client = await agent.pod("web", space), await agent.pod("client", space)
    await web.serve(SERVER, "8000")
    return web, client


@pytest.mark.attack(
    "network",
    "kills the process that holds the networks of pods: the node is ready and starts nothing",
    "a new one holds them; pods that run go on, new containers and new pods start",
)
@pytest.mark.parametrize("times", [1, 3])
async def test_killed_keeper(agent: Agent, times: int) -> None:
    web, client = await served(agent)
    for _ in range(times):
        await kill_keeper(agent)
        assert await client.result(CLIENT, web.address, "8000") == "web"
    new = await agent.pod("new", web.namespace)
    assert new.address not in (web.address, client.address)
    assert await new.result(CLIENT, web.address, "8000") == "web"
    reader, writer = await agent.network.dial(web.sandbox, 8000, web.address)
    assert await reader.read(100) == b"web"
    writer.close()


@pytest.mark.attack(
    "network",
    "kills that process and the agent: the next agent gives running pods another address",
    "the network is taken from the pod's own process and cabled again, with the same address",
)
async def test_killed_keeper_and_agent(agent: Agent) -> None:
    web, _ = await served(agent)
    process = next(c.state.pid for c in await agent.engine.adopt() if c.state.running)
    await agent.stop(remove=False)
    os.kill(keeper_of(agent), signal.SIGKILL)
    again = Agent(agent.client, agent.folder, agent.mode)
    await again.start()
    try:
        found = again.network.restore(web.obj, process)
        assert found is not None and found.address == web.address
        other = await again.pod("other", web.namespace)
        assert other.address not in (web.address,)
        assert await other.result(CLIENT, web.address, "8000") == "web"
    finally:
        await again.stop(remove=True)


@pytest.mark.attack(
    "network",
    "stops that process for a while, so that answers come too late and to the wrong question",
    "the connection is given up; every answer belongs to its question",
)
def test_stopped_keeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corral.cluster.node.network.holding._TIMEOUT", 0.3)
    keeper = Keeper(tmp_path / "keeper")
    keeper.open()
    try:
        with open("/proc/self/ns/net") as file:
            held = keeper.hold("a", file.fileno())
        os.kill(keeper.pid, signal.SIGSTOP)
        with pytest.raises(NetworkError):
            keeper.find("nobody")
        with pytest.raises(NetworkError):
            keeper.find("nobody else")
        os.kill(keeper.pid, signal.SIGCONT)
        assert keeper.find("a") == held
        assert keeper.names() == ["a"]
    finally:
        os.kill(keeper.pid, signal.SIGCONT)
        keeper.end()
