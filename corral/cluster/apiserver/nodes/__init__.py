"""The API server's way into nodes: logs, exec, attach, port-forward, proxies and metrics.

``NodeAccess`` is all that others use. Nothing here runs anything: it finds the node of a pod, talks
to the kubelet API there and carries bytes between it and the client.
"""

from corral.cluster.apiserver.nodes.access import NodeAccess

__all__ = ["NodeAccess"]
