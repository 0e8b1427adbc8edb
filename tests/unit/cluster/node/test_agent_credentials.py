"""An agent with nothing but a node's own credentials, which the API server trusts with little."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from agent_world import World, state

from corral.cluster.node.agent import Agent, AgentConfig
from corral.kube.client import KubeClient
from corral.kube.resources import CONFIGMAPS, LEASES, NODES, SECRETS
from tests.backends import Backend


@pytest.fixture
async def node_client(embedded: Backend, tmp_path: Path) -> AsyncIterator[KubeClient]:
    config = json.loads(embedded.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": "node-token"}
    path = tmp_path / "node.kubeconfig"
    path.write_text(json.dumps(config))
    async with KubeClient.from_kubeconfig(str(path)) as client:
        yield client


async def test_a_node_may_do_what_it_must(world: World, node_client: KubeClient) -> None:
    world.node = "n1"
    config = AgentConfig(
        name="n1", data_dir=world.folder, isolation="plain", gpus=(), serve=False, heartbeat=0.1
    )
    agent = Agent(config, node_client, network_client=world.client)
    await agent.start()
    world.agent = agent
    node = await world.client.get(NODES, "n1")
    ready = [c["status"] for c in node["status"]["conditions"] if c["type"] == "Ready"]
    assert ready == ["True"]
    settings = {"metadata": {"name": "settings"}, "data": {"key": "value"}}
    await world.client.create(CONFIGMAPS, settings, namespace=world.namespace)
    secret = {"metadata": {"name": "secret"}, "stringData": {"key": "hidden"}}
    await world.client.create(SECRETS, secret, namespace=world.namespace)
    folder = "/var/run/secrets/kubernetes.io/serviceaccount"
    await world.run(
        "sh",
        "-c",
        "cat $0/key; echo; cat $1/key; echo; cat $2/namespace",
        "/config",
        "/secret",
        folder,
        container={
            "volumeMounts": [
                {"name": "config", "mountPath": "/config"},
                {"name": "secret", "mountPath": "/secret"},
            ]
        },
        volumes=[
            {"name": "config", "configMap": {"name": "settings"}},
            {"name": "secret", "secret": {"secretName": "secret"}},
        ],
        automountServiceAccountToken=True,
    )
    done = await world.phase("Succeeded")
    assert world.log(done) == f"value\nhidden\n{world.namespace}"
    assert state(done)["state"]["terminated"]["exitCode"] == 0
    await world.delete()
    await world.gone()
    lease = await world.client.get(LEASES, "n1", namespace="kube-node-lease")
    assert lease["spec"]["leaseDurationSeconds"] == 40
    assert lease["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]
    await world.stop(end_pods=True)
    stopped = await world.client.get(NODES, "n1")
    conditions = {c["type"]: c for c in stopped["status"]["conditions"]}
    assert conditions["Ready"]["status"] == "False"
