"""NetworkPolicies: whom the pods of a job may talk to.

A job asks for one by an annotation. ``Isolated``: only pods of the job reach pods of the job.
``Restricted``: besides, its pods reach nothing but each other and name servers.
"""

from __future__ import annotations

from typing import Final

from corral.families.mpijob import names
from corral.families.mpijob.view import JobView
from corral.kube.types import Obj

__all__ = ["CHOICES", "ISOLATED", "NONE", "RESTRICTED", "chosen_policy", "network_policy"]

ISOLATED: Final = "Isolated"
RESTRICTED: Final = "Restricted"
NONE: Final = "None"
CHOICES: Final = (ISOLATED, NONE, RESTRICTED)
_DNS_PORTS = [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]


def chosen_policy(annotations: dict[str, str]) -> str:
    """Which policy the annotations of a job ask for."""
    return annotations.get(names.NETWORK_POLICY_ANNOTATION) or NONE


def network_policy(view: JobView) -> Obj | None:
    """The NetworkPolicy; none where the job asks for none."""
    policy = chosen_policy(view.annotations)
    if policy not in (ISOLATED, RESTRICTED):
        return None
    own: Obj = {"podSelector": {"matchLabels": names.selector_labels(view.name)}}
    spec: Obj = {**own, "policyTypes": ["Ingress"], "ingress": [{"from": [own]}]}
    if policy == RESTRICTED:
        # Name servers may be in any namespace, or on the nodes.
        egress = [{"to": [own]}, {"ports": _DNS_PORTS}]
        spec |= {"policyTypes": ["Ingress", "Egress"], "egress": egress}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": view.metadata(view.name),
        "spec": spec,
    }
