"""``corral notices``: what a cloud announces about the machine that this runs on."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from corral.cli.output import fail

__all__ = ["notices"]


def notices(
    node: Annotated[str, typer.Option(envvar="NODE_NAME", help="The Node that this machine is.")],
    cloud: Annotated[
        str, typer.Option(help="gcp, aws, azure or local; auto: what the Node's providerID says.")
    ] = "auto",
    endpoint: Annotated[
        str, typer.Option(help="Where the machine's metadata is; else where the cloud has it.")
    ] = "",
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Cluster to tell; else KUBECONFIG, else the pod's own.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log more.")] = False,
) -> None:
    """Write onto the Node that its machine will be taken: a taint and a condition."""
    from corral.clouds.errors import CloudError
    from corral.kube import ApiError, ConfigError, KubeConnectionError
    from corral.runtime import configure_logging, eventloop

    configure_logging("text", level=logging.DEBUG if verbose else logging.INFO)
    try:
        eventloop.run(_relay(kubeconfig, node, cloud, endpoint))
    except (ApiError, CloudError, ConfigError, KubeConnectionError) as err:
        raise fail(err) from err


async def _relay(kubeconfig: Path | None, node: str, cloud: str, endpoint: str) -> None:
    from corral.clouds.errors import BadRequest
    from corral.cluster.node.notices import cloud_of, relay
    from corral.kube import KubeClient
    from corral.kube.kubeconfig import load_config
    from corral.kube.resources import NODES

    async with KubeClient(load_config(kubeconfig)) as client:
        if cloud == "auto":
            found = cloud_of(await client.get(NODES, node))
            if not found:
                raise BadRequest(f"which cloud node {node} is of is not known: say --cloud")
            cloud = found
        print(f"corral notices is ready: {node} of {cloud}", flush=True)
        await relay(client, node, cloud=cloud, endpoint=endpoint, taint=True)
