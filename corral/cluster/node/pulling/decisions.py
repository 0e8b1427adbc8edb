"""Whether a container's module comes from its image, and what its pull policy asks for. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from typing import Final

from corral.cluster.node.wasm import is_module
from corral.kube.types import Obj
from corral.oci import InvalidReference, Reference

__all__ = ["image_module", "policy_of", "pull_secrets"]

ALWAYS: Final = "Always"
NEVER: Final = "Never"
IF_NOT_PRESENT: Final = "IfNotPresent"


def image_module(container: Obj, pod: Obj, *, mapped: Callable[[str], bool]) -> Reference | None:
    """Where the module of a container is to be pulled from; None where it is in a volume.

    An image that names no registry has no place to be pulled from: such a container must name a
    module in a volume, which is found out when it is started.
    """
    if not is_module(container, pod, mapped=mapped) or _in_volume(container):
        return None
    try:
        return Reference.parse(container.get("image") or "")
    except InvalidReference:
        return None


def _in_volume(container: Obj) -> bool:
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    if not words or not str(words[0]).endswith(".wasm"):
        return False
    path = posixpath.normpath(posixpath.join(container.get("workingDir") or "", str(words[0])))
    for mount in container.get("volumeMounts") or ():
        place = posixpath.normpath(str(mount.get("mountPath") or "")).rstrip("/")
        if path == place or path.startswith(f"{place}/"):
            return True
    return False


def policy_of(container: Obj, reference: Reference) -> str:
    """As the API defaults it: what may change is looked at every time."""
    written = container.get("imagePullPolicy")
    if written in (ALWAYS, NEVER, IF_NOT_PRESENT):
        return str(written)
    fixed = reference.digest or (reference.tag and reference.tag != "latest")
    return IF_NOT_PRESENT if fixed else ALWAYS


def pull_secrets(pod: Obj) -> list[str]:
    """Names of the Secrets with credentials for registries."""
    return [
        str(one["name"]) for one in pod["spec"].get("imagePullSecrets") or () if one.get("name")
    ]
