"""From a pod's volume claims to folders of this machine."""

from __future__ import annotations

import asyncio
from pathlib import Path

from corral.cluster.node.volumes.references import claims_of
from corral.cluster.node.volumes.sources import ConfigError
from corral.files.private import make_folders
from corral.kube.client import KubeClient
from corral.kube.connection.transport import KubeConnectionError
from corral.kube.errors import ApiError
from corral.kube.resources import PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES
from corral.kube.types import Obj

__all__ = ["Claims"]


class Claims:
    """Reads claims and volumes; remembers nothing, for pods ask once."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def folders(self, pod: Obj) -> dict[str, Path]:
        """Claim → folder, for all claims of the pod. Raises ConfigError."""
        names = sorted(set(claims_of(pod).values()))
        if not names:
            return {}
        found = await asyncio.gather(*(self._folder(pod, name) for name in names))
        return dict(zip(names, found, strict=True))

    async def _folder(self, pod: Obj, name: str) -> Path:
        namespace = pod["metadata"]["namespace"]
        try:
            volume = await self._volume(pod, name)
        except ConfigError as err:
            raise ConfigError(f"error processing PVC {namespace}/{name}: {err}") from err
        spec = volume["spec"]
        source = spec.get("hostPath") or spec.get("local")
        if source is None:
            called = volume["metadata"]["name"]
            raise ConfigError(
                f"PersistentVolume {called} is no folder of this node: a process node has volumes "
                "of kind hostPath and local only"
            )
        make = "hostPath" in spec and source.get("type") in (None, "", "DirectoryOrCreate")
        return _folder(Path(source["path"]), make=make)

    async def _volume(self, pod: Obj, name: str) -> Obj:
        namespace = pod["metadata"]["namespace"]
        try:
            claim = await self._client.get(PERSISTENTVOLUMECLAIMS, name, namespace=namespace)
            if claim["metadata"].get("deletionTimestamp"):
                raise ConfigError("PVC is being deleted")
            if (claim.get("status") or {}).get("phase") != "Bound":
                raise ConfigError("PVC is not bound")
            volume = claim["spec"].get("volumeName")
            if not volume:
                raise ConfigError("PVC has empty pvc.Spec.VolumeName")
            found = await self._client.get(PERSISTENTVOLUMES, volume)
        except ApiError as err:
            raise ConfigError(f"failed to fetch PVC from API server: {err.message}") from err
        except KubeConnectionError as err:
            raise ConfigError(f"failed to fetch PVC from API server: {err}") from err
        # what a claim says is its author's word: the volume must say the same
        reference = found["spec"].get("claimRef") or {}
        if reference.get("uid") != claim["metadata"]["uid"]:
            raise ConfigError(f"PersistentVolume {volume} is not bound to this claim")
        return found


def _folder(path: Path, *, make: bool) -> Path:
    try:
        if make:
            make_folders(path, mode=0o755)
    except OSError as err:
        raise ConfigError(f"{path}: {err.strerror}") from err
    if not path.is_dir():
        raise ConfigError(f'path "{path}" does not exist')
    return path
