"""The Service by which pods reach the registry of a cluster on this machine."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Final

from corral.cluster.registry.local import NAMESPACE, SERVICE, SERVICE_PORT
from corral.kube.client import KubeClient, KubeConnectionError
from corral.kube.connection.kubeconfig import load_kubeconfig
from corral.kube.errors import AlreadyExists, ApiError
from corral.kube.resources import ENDPOINTSLICES, NAMESPACES, SERVICES
from corral.kube.types import Obj

__all__ = ["look_after", "objects"]

logger = logging.getLogger(__name__)

_FIELD_MANAGER: Final = "corral-registry"
_AGAIN: Final = 1.0
"""Seconds between attempts."""


def objects(address: str, port: int) -> tuple[Obj, Obj]:
    """The Service, and the EndpointSlice that has it lead to one address."""
    service: Obj = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": SERVICE, "namespace": NAMESPACE},
        "spec": {"ports": [{"name": "http", "port": SERVICE_PORT, "protocol": "TCP"}]},
    }
    leads: Obj = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": SERVICE,
            "namespace": NAMESPACE,
            "labels": {
                "kubernetes.io/service-name": SERVICE,
                "endpointslice.kubernetes.io/managed-by": "corral-registry",
            },
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{"name": "http", "port": port, "protocol": "TCP"}],
    }
    return service, leads


async def look_after(kubeconfig: Path, address: str, port: int) -> None:
    """Have the Service lead here; tried again until it does."""
    config = load_kubeconfig([kubeconfig]).resolve()
    async with KubeClient(config, on_warning=logger.debug) as client:
        while True:
            try:
                await _publish(client, address, port)
            except (ApiError, KubeConnectionError) as err:
                logger.warning("pods do not reach the registry yet: %s", err)
                await asyncio.sleep(_AGAIN)
            else:
                return


async def _publish(client: KubeClient, address: str, port: int) -> None:
    service, leads = objects(address, port)
    try:
        await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    except AlreadyExists:
        logger.debug("the namespace is there")
    await client.apply(SERVICES, service, field_manager=_FIELD_MANAGER)
    await client.apply(ENDPOINTSLICES, leads, field_manager=_FIELD_MANAGER)
