"""Tokens of VMs as Secrets that an API server takes."""

from __future__ import annotations

import time

from corral.clouds.joiner import BootstrapToken, TokenStore
from corral.families.spot.machines.join import SecretTokens
from corral.kube import KubeClient
from corral.kube.connection.kubeconfig import load_kubeconfig
from tests.backends import Backend
from tests.cluster.objects import Objects


async def test_a_token_is_there_until_it_is_taken_back(backend: Backend) -> None:
    system = Objects(backend, "kube-system")
    token = BootstrapToken.fresh(now=time.time(), lifetime_s=600)
    name = f"bootstrap-token-{token.id}"
    async with KubeClient(load_kubeconfig([backend.kubeconfig]).resolve()) as client:
        tokens: TokenStore = SecretTokens(client)
        await tokens.put(token, "trainer-0")
        secret = system.get("v1", "secrets", name)
        assert secret["type"] == "bootstrap.kubernetes.io/token"
        assert secret["metadata"]["labels"] == {"corral.dev/vm": "trainer-0"}
        assert set(secret["data"]) == set(token.manifest("trainer-0")["stringData"])
        await tokens.remove(token)
        assert system.find("v1", "secrets", name) is None
        await tokens.remove(token)
