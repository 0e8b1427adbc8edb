"""Which other objects a pod takes values from. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from corral.cluster.node.wasm import is_wasm
from corral.kube.types import Obj

__all__ = ["Reference", "claims_of", "references_of", "tokens_of"]


class Reference(NamedTuple):
    """An object of the pod's namespace."""

    kind: str
    """ConfigMap or Secret."""
    name: str


def references_of(pod: Obj) -> frozenset[Reference]:
    """The ConfigMaps and Secrets that a pod's volumes, variables and images need."""
    spec = pod["spec"]
    found = {reference for volume in spec.get("volumes") or () for reference in _of_volume(volume)}
    if is_wasm(pod):
        secrets = spec.get("imagePullSecrets") or ()
        found.update(Reference("Secret", secret.get("name", "")) for secret in secrets)
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        found.update(_of_environment(container))
    return frozenset(reference for reference in found if reference.name)


def tokens_of(pod: Obj) -> list[Obj]:
    """The ``serviceAccountToken`` projections of a pod."""
    return [
        part["serviceAccountToken"]
        for volume in pod["spec"].get("volumes") or ()
        for part in (volume.get("projected") or {}).get("sources") or ()
        if part.get("serviceAccountToken")
    ]


def claims_of(pod: Obj) -> dict[str, str]:
    """Volume → name of its claim."""
    found: dict[str, str] = {}
    for volume in pod["spec"].get("volumes") or ():
        if source := volume.get("persistentVolumeClaim"):
            found[volume["name"]] = source["claimName"]
        elif "ephemeral" in volume:
            found[volume["name"]] = f"{pod['metadata']['name']}-{volume['name']}"
    return found


def _of_volume(volume: Obj) -> Iterator[Reference]:
    if source := volume.get("configMap"):
        yield Reference("ConfigMap", source.get("name", ""))
    if source := volume.get("secret"):
        yield Reference("Secret", source.get("secretName", ""))
    for part in (volume.get("projected") or {}).get("sources") or ():
        if source := part.get("configMap"):
            yield Reference("ConfigMap", source.get("name", ""))
        if source := part.get("secret"):
            yield Reference("Secret", source.get("name", ""))


def _of_environment(container: Obj) -> Iterator[Reference]:
    for source in container.get("envFrom") or ():
        if reference := source.get("configMapRef"):
            yield Reference("ConfigMap", reference.get("name", ""))
        if reference := source.get("secretRef"):
            yield Reference("Secret", reference.get("name", ""))
    for entry in container.get("env") or ():
        value = entry.get("valueFrom") or {}
        if reference := value.get("configMapKeyRef"):
            yield Reference("ConfigMap", reference.get("name", ""))
        if reference := value.get("secretKeyRef"):
            yield Reference("Secret", reference.get("name", ""))
