"""Finding the pods of a node."""

from __future__ import annotations

from typing import Final

from corral.kube.types import Obj

__all__ = ["POD_NODE_INDEX", "index_by_node"]

POD_NODE_INDEX: Final = "nodehealth.node"


def index_by_node(pod: Obj) -> tuple[str, ...]:
    """For ``Store.add_index``: the node a pod is bound to."""
    name = (pod.get("spec") or {}).get("nodeName")
    return (str(name),) if name else ()
