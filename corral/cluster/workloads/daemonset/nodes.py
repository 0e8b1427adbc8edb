"""On which nodes the pods of a daemon set belong, and what such a pod looks like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from corral.cluster.scheduler.placement.affinity import NodeAffinity
from corral.cluster.scheduler.placement.taints import tolerated
from corral.cluster.workloads.pods import controller_reference, pod_body
from corral.kube.types import Obj

__all__ = ["daemon_pod", "node_check", "target_node", "tolerations"]

REVISION_LABEL: Final = "controller-revision-hash"
GENERATION_LABEL: Final = "pod-template-generation"
GENERATION_ANNOTATION: Final = "deprecated.daemonset.template.generation"
_NODE_TAINTS: Final = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)
_NAME_FIELD: Final = "metadata.name"


def tolerations(spec: Obj) -> list[Obj]:
    """The template's tolerations and those every daemon pod has: it stays on a node in trouble."""
    wanted = list(_NODE_TAINTS)
    if spec.get("hostNetwork"):
        wanted.append(("network-unavailable", "NoSchedule"))
    added = [
        {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": effect}
        for name, effect in wanted
    ]
    given = [dict(one) for one in spec.get("tolerations") or ()]
    known = {(one.get("key"), one.get("effect"), one.get("operator")) for one in given}
    return given + [
        one for one in added if (one["key"], one["effect"], one["operator"]) not in known
    ]


def node_check(daemon_set: Obj) -> Callable[[Obj], tuple[bool, bool]]:
    """A function that says of a node: (a pod should run here, one that runs may stay)."""
    spec = daemon_set["spec"]["template"].get("spec") or {}
    accepted, covered = NodeAffinity.parse(spec), tolerations(spec)

    def check(node: Obj) -> tuple[bool, bool]:
        meta = node["metadata"]
        if spec.get("nodeName") not in (None, "", meta["name"]):
            return False, False
        if accepted is not None and not accepted.matches(meta["name"], meta.get("labels") or {}):
            return False, False
        open_taints = {
            taint.get("effect")
            for taint in (node.get("spec") or {}).get("taints") or ()
            if not tolerated(covered, taint)
        }
        return not open_taints & {"NoSchedule", "NoExecute"}, "NoExecute" not in open_taints

    return check


def target_node(pod: Obj) -> str | None:
    """The node a pod runs on or was made for."""
    spec = pod.get("spec") or {}
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field.get("key") == _NAME_FIELD and field.get("operator") == "In":
                values: list[str] = field.get("values") or []
                return str(values[0]) if len(values) == 1 else None
    return None


def template_generation(daemon_set: Obj) -> str | None:
    text = (daemon_set["metadata"].get("annotations") or {}).get(GENERATION_ANNOTATION, "")
    return text if text.isdecimal() else None


def daemon_pod(daemon_set: Obj, node: str, short_hash: str) -> Obj:
    """The body of the pod for one node; the scheduler puts it there through its affinity."""
    template = daemon_set["spec"]["template"]
    reference = controller_reference(daemon_set, "apps/v1", "DaemonSet")
    body = pod_body(template, daemon_set, reference)
    labels = body["metadata"].setdefault("labels", {})
    generation = template_generation(daemon_set)
    if generation is not None:
        labels[GENERATION_LABEL] = generation
    labels[REVISION_LABEL] = short_hash
    spec = body["spec"]
    affinity = spec.get("affinity") or {}
    terms = [{"matchFields": [{"key": _NAME_FIELD, "operator": "In", "values": [node]}]}]
    by_node = {
        **(affinity.get("nodeAffinity") or {}),
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
    }
    body["spec"] = {
        **spec,
        "affinity": {**affinity, "nodeAffinity": by_node},
        "tolerations": tolerations(spec),
    }
    return body
