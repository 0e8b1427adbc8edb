"""Which PodGroup a pod belongs to.

* ``scheduling.volcano.sh/v1beta1``: pods name it in the annotation
  ``scheduling.k8s.io/group-name`` (or ``scheduling.volcano.sh/group-name``).
* ``scheduling.x-k8s.io/v1alpha1``: pods name it in the label ``scheduling.x-k8s.io/pod-group``.
"""

from __future__ import annotations

from typing import Final

from corral.kube.types import Obj

__all__ = ["COSCHEDULING", "VOLCANO", "GroupKey", "group_of"]

VOLCANO: Final = "scheduling.volcano.sh"
COSCHEDULING: Final = "scheduling.x-k8s.io"
_LABEL: Final = "scheduling.x-k8s.io/pod-group"
_ANNOTATIONS: Final = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")

GroupKey = tuple[str, str, str]
"""API group, namespace and name of a PodGroup."""


def group_of(pod: Obj) -> GroupKey | None:
    """The PodGroup that a pod belongs to, if it names one; the label goes first."""
    meta = pod.get("metadata") or {}
    labels, annotations = meta.get("labels"), meta.get("annotations")
    if labels and (name := labels.get(_LABEL)):
        return (COSCHEDULING, meta.get("namespace") or "", name)
    if annotations:
        for annotation in _ANNOTATIONS:
            if name := annotations.get(annotation):
                return (VOLCANO, meta.get("namespace") or "", name)
    return None
