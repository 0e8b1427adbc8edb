"""How pods get along with service meshes. No I/O.

Without a mesh (the default), Istio, Linkerd and Kuma are told to leave the pods alone: replicas
talk to each other by name and port, and a sidecar that outlives training keeps a job from ending.
With one, sidecars are asked to run as native ones, which start first and end when training does.
Whether there are any is for the namespace to say. What the template says itself stays.
"""

from __future__ import annotations

from typing import Final

from corral.kube.types import Obj

__all__ = ["apply_mesh"]

_OFF_LABELS: Final = {
    "sidecar.istio.io/inject": "false",
    "kuma.io/sidecar-injection": "disabled",
}
_OFF_ANNOTATIONS: Final = {
    "sidecar.istio.io/inject": "false",
    "linkerd.io/inject": "disabled",
}
_ON_ANNOTATIONS: Final = {
    "proxy.istio.io/config": '{"holdApplicationUntilProxyStarts": true}',
    "sidecar.istio.io/nativeSidecar": "true",
    "config.alpha.linkerd.io/proxy-enable-native-sidecar": "true",
    "config.beta.linkerd.io/proxy-enable-native-sidecar": "true",
}
"""Linkerd has two names for it; its older versions know the first alone."""


def apply_mesh(metadata: Obj, spec: Obj) -> None:
    """Complete the metadata of a pod, in place, by ``spec.network.mesh``."""
    enabled = (spec.get("network") or {}).get("mesh", "Disabled") == "Enabled"
    labels = {} if enabled else _OFF_LABELS
    annotations = _ON_ANNOTATIONS if enabled else _OFF_ANNOTATIONS
    metadata["labels"] = {**labels, **(metadata.get("labels") or {})}
    metadata["annotations"] = {**annotations, **(metadata.get("annotations") or {})}
