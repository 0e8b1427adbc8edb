"""Connections of the client libraries, closed when the case ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import kr8s
import kr8s.asyncio
import kubernetes
import kubernetes.aio.client
import kubernetes.aio.config
import lightkube
import pytest
from kr8s._async_utils import as_sync_func


@pytest.fixture
def official(kubeconfig: str) -> Iterator[Any]:
    """The official client."""
    with kubernetes.config.new_client_from_config(kubeconfig) as client:
        yield client


@pytest.fixture
async def official_async(kubeconfig: str) -> AsyncIterator[Any]:
    """The asynchronous half of the official client."""
    async with await kubernetes.aio.config.new_client_from_config(kubeconfig) as client:
        yield client


@pytest.fixture
def light(kubeconfig: str, namespace: str) -> Iterator[lightkube.Client]:
    config = lightkube.KubeConfig.from_file(kubeconfig)
    with lightkube.Client(config, namespace=namespace, field_manager="light") as client:
        yield client


@pytest.fixture
async def light_async(kubeconfig: str, namespace: str) -> AsyncIterator[lightkube.AsyncClient]:
    config = lightkube.KubeConfig.from_file(kubeconfig)
    client = lightkube.AsyncClient(config, namespace=namespace, field_manager="light")
    async with client:
        yield client


@pytest.fixture
def kr(kubeconfig: str, namespace: str) -> Iterator[Any]:
    api = kr8s.api(kubeconfig=kubeconfig, namespace=namespace)
    yield api
    # The library has no way to close a connection, and leaves it to the garbage collector.
    as_sync_func(close)(api)


@pytest.fixture
async def kr_async(kubeconfig: str, namespace: str) -> AsyncIterator[Any]:
    api = await kr8s.asyncio.api(kubeconfig=kubeconfig, namespace=namespace)
    yield api
    await close(api)


async def close(api: Any) -> None:
    await api._session.aclose()
