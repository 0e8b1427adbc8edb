"""How the Service of reports leads to an operator that is no pod: it is told the address.

In an installation the Service selects the operator's pods. Beside an embedded API server it has no
selector, and the operator writes its EndpointSlice: pods know the same name in both cases.
"""

from __future__ import annotations

import logging
from ipaddress import ip_address

from corral.kube.client import KubeClient
from corral.kube.errors import Invalid
from corral.kube.resources import ENDPOINTSLICES
from corral.kube.types import Obj
from corral.operator.settings import REPORTS_SERVICE

__all__ = ["PORT_NAME", "publish", "slice_of"]

logger = logging.getLogger(__name__)

PORT_NAME = "https"
_FIELD_MANAGER = "corral-operator"


def slice_of(namespace: str, address: str, port: int) -> Obj:
    """The EndpointSlice that leads to one address."""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": REPORTS_SERVICE,
            "namespace": namespace,
            "labels": {
                "kubernetes.io/service-name": REPORTS_SERVICE,
                "endpointslice.kubernetes.io/managed-by": "corral-operator",
            },
        },
        "addressType": f"IPv{ip_address(address).version}",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{"name": PORT_NAME, "port": port, "protocol": "TCP"}],
    }


async def publish(client: KubeClient, namespace: str, address: str, port: int) -> None:
    """Have the Service lead here.

    Where the API server takes no such address (a loopback one, on most), pods have to be told
    another URL; that is logged and no failure.

    Raises:
        ApiError: it may not be written.
    """
    wanted = slice_of(namespace, address, port)
    try:
        await client.apply(ENDPOINTSLICES, wanted, field_manager=_FIELD_MANAGER)
    except Invalid as error:
        logger.warning(
            "the Service %s does not lead here; name a --report-url that pods reach: %s",
            REPORTS_SERVICE,
            error,
        )
