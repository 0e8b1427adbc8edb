"""A server that is told that all nodes are on its machine lets endpoints be on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from corral.cluster.apiserver.controllers.own_endpoints import advertised
from corral.cluster.apiserver.server import ApiServer, Config
from corral.kube import KubeClient, errors
from corral.kube.resources import ENDPOINTS, ENDPOINTSLICES, Resource
from corral.kube.types import Obj


@asynccontextmanager
async def serving(folder: Path, **config: Any) -> AsyncIterator[tuple[ApiServer, KubeClient]]:
    server = ApiServer(Config(data_dir=folder, **config))
    await server.start()
    try:
        async with KubeClient.from_kubeconfig(str(server.kubeconfig)) as client:
            yield server, client
    finally:
        await server.stop()


async def until(client: KubeClient, resource: Resource, holds: Callable[[Obj], bool]) -> Obj:
    """The ``kubernetes`` object, once it is as it should be."""
    async for event in client.resuming_watch(
        resource, "default", send_initial_events=True, timeout_seconds=20
    ):
        if event.type in ("ADDED", "MODIFIED") and event.object["metadata"]["name"] == "kubernetes":
            if holds(event.object):
                return event.object
    raise AssertionError("did not happen")


def slice_at(address: str) -> Obj:
    return {
        "metadata": {"name": "web", "namespace": "default"},
        "addressType": "IPv6" if ":" in address else "IPv4",
        "endpoints": [{"addresses": [address]}],
        "ports": [],
    }


def endpoints_at(address: str) -> Obj:
    subset = {"addresses": [{"ip": address}], "ports": [{"port": 80}]}
    return {"metadata": {"name": "web", "namespace": "default"}, "subsets": [subset]}


REFUSED = r"may not be in the loopback range \(127.0.0.0/8, ::1/128\)"


async def test_loopback_is_refused_unless_told(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        with pytest.raises(errors.Invalid, match=REFUSED):
            await client.create(ENDPOINTSLICES, slice_at("127.4.5.6"))
        with pytest.raises(errors.Invalid, match=REFUSED):
            await client.create(ENDPOINTS, endpoints_at("127.4.5.6"))
        with pytest.raises(errors.NotFound):
            await client.get(ENDPOINTS, "kubernetes", namespace="default")


async def test_only_the_ipv4_range_is_accepted(tmp_path: Path) -> None:
    async with serving(tmp_path, loopback_endpoints=True) as (_, client):
        made = await client.create(ENDPOINTSLICES, slice_at("127.4.5.6"))
        made["endpoints"][0]["addresses"] = ["127.4.5.7"]
        await client.replace(ENDPOINTSLICES, made)
        await client.create(ENDPOINTS, endpoints_at("127.4.5.6"))
        with pytest.raises(errors.Invalid, match=REFUSED):
            await client.create(ENDPOINTSLICES, slice_at("::1"))
        with pytest.raises(errors.Invalid, match="link-local"):
            await client.create(ENDPOINTS, endpoints_at("169.254.0.1"))


async def test_the_server_is_behind_its_own_service(tmp_path: Path) -> None:
    async with serving(tmp_path, loopback_endpoints=True) as (server, client):
        port = {"name": "https", "port": server.port, "protocol": "TCP"}

        def right(found: Obj) -> bool:
            return bool(found.get("subsets") == [
                {"addresses": [{"ip": "127.0.0.1"}], "ports": [port]}
            ])  # fmt: skip

        await until(client, ENDPOINTS, right)
        found = await until(client, ENDPOINTSLICES, lambda one: one["ports"] == [port])
        assert found["endpoints"] == [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}]
        labels = found["metadata"]["labels"]
        assert labels["kubernetes.io/service-name"] == "kubernetes"
        await client.delete(ENDPOINTS, "kubernetes", namespace="default")
        await until(client, ENDPOINTS, right)
        wrong = [{"addresses": [{"ip": "192.0.2.1"}], "ports": [port]}]
        patch = {"subsets": wrong}
        await client.patch(ENDPOINTS, "kubernetes", namespace="default", patch=patch)
        await until(client, ENDPOINTS, right)


async def test_a_restart_on_another_port_is_told(tmp_path: Path) -> None:
    async with serving(tmp_path, loopback_endpoints=True) as (server, client):
        first = server.port
        await until(client, ENDPOINTSLICES, lambda one: one["ports"][0]["port"] == first)
    async with serving(tmp_path, loopback_endpoints=True) as (server, client):
        second = server.port
        await until(client, ENDPOINTSLICES, lambda one: one["ports"][0]["port"] == second)


@pytest.mark.parametrize(
    ("listening", "loopback", "expected"),
    [
        ("192.0.2.9", False, "192.0.2.9"),
        ("2001:db8::9", False, "2001:db8::9"),
        ("127.0.0.1", False, None),
        ("127.0.0.1", True, "127.0.0.1"),
        ("::1", True, None),
        ("169.254.1.1", True, None),
    ],
)
def test_which_addresses_are_advertised(
    listening: str, loopback: bool, expected: str | None
) -> None:
    assert advertised(listening, loopback=loopback) == expected


def test_an_address_is_found_for_a_server_that_listens_everywhere() -> None:
    assert advertised("0.0.0.0", loopback=True) != "0.0.0.0"
