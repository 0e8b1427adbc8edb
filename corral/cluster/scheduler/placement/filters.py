"""The rules that look at one node alone, in kube-scheduler's order.

Each function here takes the pod and gives the check to run on every node, or None where the rule
has nothing to say for this pod.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from corral.cluster.scheduler.placement.nodes import NodeInfo
from corral.cluster.scheduler.placement.pods import PodInfo
from corral.cluster.scheduler.placement.rejections import Rejection
from corral.cluster.scheduler.placement.resources import Amounts
from corral.cluster.scheduler.placement.taints import UNSCHEDULABLE, tolerated, untolerated

__all__ = ["Check", "local_checks"]

Check = Callable[[NodeInfo], Rejection | None]

_NAME: Final = Rejection(
    "NodeName", ("node(s) didn't match the requested node name",), resolvable=False
)
_CORDONED: Final = Rejection("NodeUnschedulable", ("node(s) were unschedulable",), resolvable=False)
_TAINTED: Final = Rejection(
    "TaintToleration", ("node(s) had untolerated taint(s)",), resolvable=False
)
_AFFINITY: Final = Rejection(
    "NodeAffinity", ("node(s) didn't match Pod's node affinity/selector",), resolvable=False
)
_PORTS: Final = Rejection(
    "NodePorts", ("node(s) didn't have free ports for the requested pod ports",)
)


def local_checks(pod: PodInfo) -> list[Check]:
    """The checks that this pod needs, in order; the first that fails is the node's answer."""
    found = (
        node_name(pod),
        node_unschedulable(pod),
        taint_toleration(pod),
        node_affinity(pod),
        node_ports(pod),
        node_resources(pod),
    )
    return [check for check in found if check is not None]


def node_name(pod: PodInfo) -> Check | None:
    """A pod that names its node takes no other."""
    wanted = pod.node_name
    return (lambda node: None if node.name == wanted else _NAME) if wanted else None


def node_unschedulable(pod: PodInfo) -> Check | None:
    """A cordoned node takes only pods that tolerate that."""
    if tolerated(pod.tolerations, UNSCHEDULABLE):
        return None
    return lambda node: _CORDONED if node.unschedulable else None


def taint_toleration(pod: PodInfo) -> Check:
    """Taints NoSchedule and NoExecute keep away pods that do not tolerate them."""
    tolerations = pod.tolerations

    def check(node: NodeInfo) -> Rejection | None:
        taints = node.hard_taints
        return _TAINTED if taints and untolerated(tolerations, taints) else None

    return check


def node_affinity(pod: PodInfo) -> Check | None:
    """The pod's node selector and required node affinity."""
    affinity = pod.node_affinity
    if affinity is None:
        return None
    return lambda node: None if affinity.matches(node.name, node.labels) else _AFFINITY


def node_ports(pod: PodInfo) -> Check | None:
    """Host ports must be free."""
    ports = pod.ports
    if not ports:
        return None
    return lambda node: _PORTS if any(map(node.port_taken, ports)) else None


def node_resources(pod: PodInfo) -> Check:
    """The node must have room for one more pod and for all that it requests."""
    wanted = pod.requests
    cpu, memory, ephemeral, scalars = wanted.cpu, wanted.memory, wanted.ephemeral, wanted.scalars

    def check(node: NodeInfo) -> Rejection | None:
        has, used = node.allocatable, node.requested
        if (
            len(node.pods) < has.pods
            and (not cpu or cpu <= has.cpu - used.cpu)
            and (not memory or memory <= has.memory - used.memory)
            and (not ephemeral or ephemeral <= has.ephemeral - used.ephemeral)
            and not (scalars and _short(scalars, node))
        ):
            return None
        return _insufficient(wanted, node)

    return check


def _short(scalars: dict[str, int], node: NodeInfo) -> bool:
    has, used = node.allocatable.scalars, node.requested.scalars
    return any(
        amount > 0 and amount > has.get(name, 0) - used.get(name, 0)
        for name, amount in scalars.items()
    )


def _insufficient(wanted: Amounts, node: NodeInfo) -> Rejection:
    """Every resource that is short; more than the node has at all cannot be resolved."""
    has, used = node.allocatable, node.requested
    rows = [
        ("cpu", wanted.cpu, has.cpu, used.cpu),
        ("memory", wanted.memory, has.memory, used.memory),
        ("ephemeral-storage", wanted.ephemeral, has.ephemeral, used.ephemeral),
    ]
    rows += [
        (name, amount, has.scalars.get(name, 0), used.scalars.get(name, 0))
        for name, amount in wanted.scalars.items()
    ]
    reasons = ["Too many pods"] if len(node.pods) >= has.pods else []
    resolvable = True
    for name, amount, capacity, taken in rows:
        if amount > 0 and amount > capacity - taken:
            reasons.append(f"Insufficient {name}")
            resolvable = resolvable and amount <= capacity
    return Rejection("NodeResourcesFit", tuple(reasons), resolvable)
