"""What a pod refers to: a node may read just that."""

from __future__ import annotations

from collections.abc import Iterator

from corral.kube.types import Obj

__all__ = ["pod_refers"]

_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


def pod_refers(pod: Obj, resource: str, name: str) -> bool:
    """Whether a pod is, or uses, the object of this resource (in its namespace) and name."""
    match resource:
        case "pods":
            return bool(pod["metadata"]["name"] == name)
        case "serviceaccounts":
            return bool(pod["spec"].get("serviceAccountName") == name)
        case "secrets":
            return name in set(_secrets(pod["spec"]))
        case "configmaps":
            return name in set(_config_maps(pod["spec"]))
        case "persistentvolumeclaims":
            return name in set(_claims(pod))
        case _:
            return False


def _volumes(spec: Obj) -> Iterator[Obj]:
    """Volumes, those inside projected ones included."""
    for volume in spec.get("volumes") or ():
        yield volume
        yield from (volume.get("projected") or {}).get("sources") or ()


def _environment(spec: Obj) -> Iterator[Obj]:
    """Where variables come from."""
    for field in _CONTAINERS:
        for container in spec.get(field) or ():
            yield from container.get("envFrom") or ()
            for variable in container.get("env") or ():
                yield variable.get("valueFrom") or {}


def _secrets(spec: Obj) -> Iterator[str]:
    for reference in spec.get("imagePullSecrets") or ():
        yield reference.get("name", "")
    for volume in _volumes(spec):
        secret = volume.get("secret") or {}
        yield secret.get("secretName") or secret.get("name", "")
        for source in volume.values():
            if isinstance(source, dict):
                for key in ("secretRef", "nodePublishSecretRef"):
                    yield (source.get(key) or {}).get("name", "")
    for source in _environment(spec):
        yield (source.get("secretKeyRef") or source.get("secretRef") or {}).get("name", "")


def _config_maps(spec: Obj) -> Iterator[str]:
    for volume in _volumes(spec):
        yield (volume.get("configMap") or {}).get("name", "")
    for source in _environment(spec):
        yield (source.get("configMapKeyRef") or source.get("configMapRef") or {}).get("name", "")


def _claims(pod: Obj) -> Iterator[str]:
    for volume in pod["spec"].get("volumes") or ():
        yield (volume.get("persistentVolumeClaim") or {}).get("claimName", "")
        if volume.get("ephemeral"):
            yield f"{pod['metadata']['name']}-{volume['name']}"
