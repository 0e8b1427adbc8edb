"""Where pods may run: near each other, and on the GPUs that the job asks for. No I/O.

What the template says about affinity stays and is added to. A model of GPU such as ``H100`` is
looked for in the labels that nodes carry: of NVIDIA's feature discovery and of our node agent
(``nvidia.com/gpu.product``), of GKE and of Karpenter. Labels have longer names for it
(``NVIDIA-H100-80GB-HBM3``), and affinities compare whole values, so the values that nodes have now
and that contain the model's words are named; where no node has one (a cluster that grows on
demand), the model itself is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from corral.families.trainingjob.names import JOB_LABEL
from corral.kube.types import Obj

__all__ = [
    "MODEL_LABELS",
    "add_topology",
    "demand_model",
    "leave_dead_nodes",
    "one_of_each_model",
    "use_mig",
    "wants_gpu_model",
]

MODEL_LABELS: Final = (
    "nvidia.com/gpu.product",
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
)
SILENT_SECONDS: Final = 30
"""How long a replica waits for a node that does not answer."""
_SILENCE: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_GPU: Final = "nvidia.com/gpu"
_WORDS: Final = re.compile(r"[^a-z0-9.]+")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def wants_gpu_model(spec: Obj) -> bool:
    return bool(_gpu(spec).get("model"))


def one_of_each_model(nodes: Iterable[Obj]) -> list[Obj]:
    """A node for every combination of labels about GPUs: enough for `demand_model`, and few."""
    found: dict[tuple[str | None, ...], Obj] = {}
    for node in nodes:
        labels = node["metadata"].get("labels") or {}
        models = tuple(labels.get(label) for label in MODEL_LABELS)
        if any(models):
            found.setdefault(models, node)
    return list(found.values())


def leave_dead_nodes(pod: Obj) -> None:
    """Have pods given up soon when their node falls silent, in place.

    The API server's own five minutes suit services with other replicas; here all others wait.
    """
    tolerations = pod.get("tolerations") or []
    for key in _SILENCE:
        if not any(item.get("key") in (key, None, "") for item in tolerations):
            tolerations = [
                *tolerations,
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": SILENT_SECONDS,
                },
            ]
    pod["tolerations"] = tolerations


def add_topology(pod: Obj, spec: Obj, job: str) -> None:
    """Have the replicas of a job share a topology domain, in place."""
    topology = (spec.get("scheduling") or {}).get("topology")
    if not topology:
        return
    term: Obj = {
        "topologyKey": topology["key"],
        "labelSelector": {"matchLabels": {JOB_LABEL: job}},
    }
    near = pod.setdefault("affinity", {}).setdefault("podAffinity", {})
    if topology.get("mode") == "Required":
        near[_REQUIRED] = [*(near.get(_REQUIRED) or ()), term]
    else:
        preferred = {"weight": 100, "podAffinityTerm": term}
        near[_PREFERRED] = [*(near.get(_PREFERRED) or ()), preferred]


def use_mig(pod: Obj, spec: Obj) -> None:
    """Ask for parts of GPUs of the job's MIG profile instead of whole ones, in place."""
    profile = _gpu(spec).get("mig")
    if not profile:
        return
    part = f"nvidia.com/mig-{profile}"
    limits = [_limits(container) for container in pod.get("containers") or ()]
    for container in pod.get("containers") or ():
        for amounts in (container.get("resources") or {}).values():
            if isinstance(amounts, dict) and _GPU in amounts:
                amounts.setdefault(part, amounts.pop(_GPU))
    if limits and not any(part in each or _GPU in each for each in limits):
        first = pod["containers"][0].setdefault("resources", {})
        first.setdefault("limits", {})[part] = "1"


def demand_model(pod: Obj, spec: Obj, nodes: Iterable[Obj]) -> None:
    """Let the pod run only on nodes with the job's model of GPU, in place."""
    model = _gpu(spec).get("model")
    if not model:
        return
    ours = _model_terms(model, nodes)
    affinity = pod.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    required = affinity.setdefault(_REQUIRED, {})
    # Terms are alternatives: each of the template's must hold together with one of ours.
    theirs = required.get("nodeSelectorTerms") or [{}]
    required["nodeSelectorTerms"] = [_both(one, other) for one in theirs for other in ours]


def _model_terms(model: str, nodes: Iterable[Obj]) -> list[Obj]:
    found: dict[str, set[str]] = {label: set() for label in MODEL_LABELS}
    words = _split(model)
    for node in nodes:
        labels = node["metadata"].get("labels") or {}
        for label, values in found.items():
            if label in labels and words <= _split(labels[label]):
                values.add(labels[label])
    known = {label: values for label, values in found.items() if values}
    if not known:
        known = {label: {_unseen(model, label)} for label in MODEL_LABELS}
    return [
        {"matchExpressions": [{"key": label, "operator": "In", "values": sorted(values)}]}
        for label, values in known.items()
    ]


def _unseen(model: str, label: str) -> str:
    return model if label == MODEL_LABELS[0] else model.lower()


def _split(name: str) -> set[str]:
    return set(filter(None, _WORDS.split(name.lower())))


def _both(one: Obj, other: Obj) -> Obj:
    expressions = [*(one.get("matchExpressions") or ()), *other["matchExpressions"]]
    return {**one, "matchExpressions": expressions}


def _gpu(spec: Obj) -> Obj:
    found: Obj = (spec.get("scheduling") or {}).get("gpu") or {}
    return found


def _limits(container: Obj) -> Obj:
    found: Obj = dict((container.get("resources") or {}).get("limits") or {})
    return found
