"""Which cluster an agent belongs to, and where its API server is."""

from __future__ import annotations

import hashlib
from urllib.parse import urlsplit

from corral.cluster.node.network.services.targets import Target
from corral.kube.client import KubeClient
from corral.kube.connection.config import ClusterConfig
from corral.kube.errors import ApiError
from corral.kube.resources import NAMESPACES


async def cluster_id(client: KubeClient) -> str:
    """The same for all agents of a cluster, different for every cluster; fit for a file name.

    Raises:
        KubeConnectionError: the API server cannot be reached.
    """
    try:
        system = await client.get(NAMESPACES, "kube-system")
        identity = str(system["metadata"]["uid"])
    except ApiError:
        # agents that may read no namespaces still find each other by the server they talk to
        config = client.config
        identity = f"{config.server} {config.ca_file} {config.ca_data!r}"
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


def api_server(config: ClusterConfig) -> Target:
    """Where the machine reaches the API server."""
    url = urlsplit(config.server)
    default = 443 if url.scheme == "https" else 80
    return Target(url.hostname or "127.0.0.1", url.port or default)
