"""What a VM is told by its own metadata service, as one stream for every cloud.

``async for notice in notices("gcp", endpoint=…)`` runs on the VM and gives each `Notice` once, and
again should its deadline come nearer. A metadata service that is silent is asked again for ever.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from corral.clouds.errors import BadRequest

if TYPE_CHECKING:
    from corral.clouds.base import Notice

__all__ = ["notices"]


def notices(
    cloud: str, endpoint: str = "", *, vm: str = "", notice_s: float = 0.0
) -> AsyncIterator[Notice]:
    """The stream of a cloud; an empty endpoint is the cloud's own. Raises BadRequest.

    ``notice_s`` counts for gcp and local: how long a notice was asked for.
    """
    if cloud in ("gcp", "local"):
        from corral.clouds.notices import gcp

        if cloud == "local" and not endpoint:
            raise BadRequest("a local VM's metadata has no address that is always the same")
        return gcp.notices(endpoint or gcp.ENDPOINT, vm=vm, notice_s=notice_s)
    if cloud == "aws":
        from corral.clouds.notices import aws

        return aws.notices(endpoint or aws.ENDPOINT, vm=vm)
    if cloud == "azure":
        from corral.clouds.notices import azure

        return azure.notices(endpoint or azure.ENDPOINT, vm=vm)
    raise BadRequest(f"no cloud is called {cloud!r}: gcp, aws, azure or local")
