"""The pod network of a node: addresses, names and services, in three isolation modes.

``PodNetwork`` is what the agent uses; :mod:`podnetwork` says what it promises and where to read on.
Routes end at the cluster: pods with networks of their own reach pods, services and the API server,
and nothing else.
"""

from __future__ import annotations

from corral.cluster.node.isolation import Capabilities, Mode, Sandbox
from corral.cluster.node.network.errors import NetworkError, NoAddress
from corral.cluster.node.network.podnetwork import PodNetwork

__all__ = ["Capabilities", "Mode", "NetworkError", "NoAddress", "PodNetwork", "Sandbox"]
