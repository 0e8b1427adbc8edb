"""NetworkPolicies of an installation: who reaches our pods, and where they may connect to.

Pods of ours accept connections to the ports that they serve and to no other. They may connect to
anything but the metadata service of a cloud's machines, which would give them the identity of the
node; an operator that is to use it needs ``allow_metadata``. Names are asked for wherever the
cluster answers them: caches on nodes, and some clouds' own, have link-local addresses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from corral.kube.types import Obj

__all__ = ["network_policy"]

_METADATA_V4: Final = ("169.254.0.0/16", "100.100.100.200/32", "168.63.129.16/32")
"""Of most clouds, of Alibaba, and Azure's own host of each machine."""
_METADATA_V6: Final = ("fd00:ec2::254/128", "fd20:ce::254/128", "fe80::/10")


def network_policy(
    name: str,
    namespace: str,
    selector: Obj,
    ports: Sequence[int],
    *,
    labels: Obj,
    allow_metadata: bool = False,
) -> Obj:
    """A policy for the pods that a selector finds."""
    open_ports = [{"protocol": "TCP", "port": port} for port in ports]
    # without ports there is no field: an empty list is not stored, and would be a change each time
    ingress = {"ingress": [{"ports": open_ports}]} if open_ports else {}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": {
            "podSelector": {"matchLabels": dict(selector)},
            "policyTypes": ["Ingress", "Egress"],
            **ingress,
            "egress": [{}] if allow_metadata else [{"to": _anywhere_else()}, {"ports": _dns()}],
        },
    }


def _dns() -> list[Obj]:
    return [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]


def _anywhere_else() -> list[Obj]:
    return [
        {"ipBlock": {"cidr": "0.0.0.0/0", "except": list(_METADATA_V4)}},
        {"ipBlock": {"cidr": "::/0", "except": list(_METADATA_V6)}},
    ]
