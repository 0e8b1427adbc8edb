"""``corral notices``: what a cloud announces about the machine that this runs on."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from corral.cli.views.output import fail, say

__all__ = ["notices"]


def notices(
    node: Annotated[
        str, typer.Option(envvar="NODE_NAME", help="Name of the Node that runs on this machine.")
    ],
    cloud: Annotated[
        str,
        typer.Option(
            help="Cloud: gcp, aws, azure, local, or auto (from the providerID of the Node)."
        ),
    ] = "auto",
    endpoint: Annotated[
        str, typer.Option(help="URL of the instance metadata service (default: that of the cloud).")
    ] = "",
    kubeconfig: Annotated[
        Path | None,
        typer.Option(help="Path of the kubeconfig (default: KUBECONFIG, then in-cluster)."),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log at debug level.")] = False,
) -> None:
    """Watch for preemption notices and mark the Node with a taint and a condition."""
    from corral.clouds.errors import CloudError
    from corral.kube import ApiError, ConfigError, KubeConnectionError
    from corral.runtime import configure_logging
    from corral.runtime.serving import eventloop

    configure_logging("text", level=logging.DEBUG if verbose else logging.INFO)
    try:
        eventloop.run(_relay(kubeconfig, node, cloud, endpoint))
    except (ApiError, CloudError, ConfigError, KubeConnectionError) as err:
        raise fail(err) from err


async def _relay(kubeconfig: Path | None, node: str, cloud: str, endpoint: str) -> None:
    from corral.clouds.errors import BadRequest
    from corral.cluster.node.notices import cloud_of, relay
    from corral.kube import KubeClient
    from corral.kube.connection.kubeconfig import load_config
    from corral.kube.resources import NODES

    async with KubeClient(load_config(kubeconfig)) as client:
        if cloud == "auto":
            found = cloud_of(await client.get(NODES, node))
            if not found:
                raise BadRequest(f"the cloud of node {node} is not known: set --cloud")
            cloud = found
        say(f"corral notices is ready: {node} of {cloud}", flush=True)
        await relay(client, node, cloud=cloud, endpoint=endpoint, taint=True)
