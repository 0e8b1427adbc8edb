"""The volumes of one pod: made, mounted, kept up to date, removed.

Everything of the pod's own lies under one folder (and one in memory, where it asks for that);
claims and host paths are only pointed to and never removed.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Container, Mapping
from pathlib import Path
from typing import Final

from corral.cluster.node import atomic
from corral.cluster.node.containers import Mount
from corral.cluster.node.environment import expand
from corral.cluster.node.payloads import TokenSource, payload_of
from corral.cluster.node.sources import ConfigError, PodContext, Sources
from corral.kube.types import Obj

ClaimFolder = Callable[[str], Path]
"""The folder of a claim of the pod's namespace. Raises ConfigError when it is not bound."""

_FILES: Final = ("configMap", "secret", "projected", "downwardAPI")


class VolumeError(ConfigError):
    """A volume that cannot be made, and why."""

    def __init__(self, volume: str, why: Exception) -> None:
        super().__init__(f'volume "{volume}" : {why}')


class PodVolumes:
    """The volumes of a pod, under ``root``."""

    def __init__(
        self,
        root: Path,
        *,
        sources: Sources,
        token: TokenSource,
        claim: ClaimFolder,
        gid: int | None = None,
        memory: Path | None = None,
    ) -> None:
        """``memory`` is for files and for emptyDirs of medium Memory; else all lie together."""
        self._root = root
        self._memory = memory or root
        self._sources = sources
        self._token = token
        self._claim = claim
        self._gid = gid if os.geteuid() == 0 else None
        """fsGroup: only root may give files away."""

    def prepare(self, context: PodContext) -> dict[str, Path]:
        """Make every volume; name → where it lies. Raises VolumeError."""
        made: dict[str, Path] = {}
        for volume in context.pod["spec"].get("volumes") or ():
            try:
                made[volume["name"]] = self._make(volume, context)
            except (ConfigError, OSError) as err:
                raise VolumeError(volume["name"], err) from err
        return made

    def refresh(self, context: PodContext) -> list[str]:
        """Bring files up to date; the volumes that changed. Raises ConfigError, OSError.

        Containers see the change, except through a subPath, as everywhere.
        """
        return [
            volume["name"]
            for volume in context.pod["spec"].get("volumes") or ()
            if any(kind in volume for kind in _FILES) and self._write(volume, context)
        ]

    def remove(self) -> None:
        """Delete what was the pod's own; claims and host paths stay."""
        for folder in {self._root, self._memory}:
            shutil.rmtree(folder, onerror=_force)

    def _make(self, volume: Obj, context: PodContext) -> Path:
        name = volume["name"]
        if any(kind in volume for kind in _FILES):
            self._write(volume, context)
            return self._path(volume)
        if "hostPath" in volume:
            return host_path(volume["hostPath"])
        if "persistentVolumeClaim" in volume:
            return self._claim(volume["persistentVolumeClaim"]["claimName"])
        if "ephemeral" in volume:
            return self._claim(f"{context.pod['metadata']['name']}-{name}")
        if "emptyDir" in volume or volume.keys() == {"name"}:
            in_memory = (volume.get("emptyDir") or {}).get("medium") == "Memory"
            return self._empty((self._memory if in_memory else self._root) / name)
        kind = next(key for key in volume if key != "name")
        raise ConfigError(f"a process node has no volumes of kind {kind}")

    def _path(self, volume: Obj) -> Path:
        return self._memory / str(volume["name"])

    def _empty(self, path: Path) -> Path:
        path.mkdir(parents=True, exist_ok=True)
        if self._gid is not None:
            os.chown(path, -1, self._gid)
        path.chmod(0o2777 if self._gid is not None else 0o777)
        return path

    def _write(self, volume: Obj, context: PodContext) -> bool:
        payload = payload_of(volume, context, self._sources, self._token)
        return atomic.write(self._path(volume), payload, gid=self._gid)


def _force(function: Callable[..., object], path: str, why: object) -> None:
    """Remove what a container has made read-only; what is gone is gone."""
    parent = os.path.dirname(path)
    if not os.path.lexists(path):
        return
    os.chmod(parent, 0o700)
    if os.path.isdir(path) and not os.path.islink(path):
        os.chmod(path, 0o700)
        shutil.rmtree(path)
    else:
        os.unlink(path)


# -- paths of the machine --------------------------------------------------------------------------

_KINDS: Final[Mapping[str, tuple[Callable[[int], bool], str]]] = {
    "Directory": (stat.S_ISDIR, "directory"),
    "DirectoryOrCreate": (stat.S_ISDIR, "directory"),
    "File": (stat.S_ISREG, "file"),
    "FileOrCreate": (stat.S_ISREG, "file"),
    "Socket": (stat.S_ISSOCK, "socket file"),
    "CharDevice": (stat.S_ISCHR, "character device"),
    "BlockDevice": (stat.S_ISBLK, "block device"),
}


def host_path(source: Obj) -> Path:
    """A path of the machine, checked against its type. Raises ConfigError, OSError."""
    path, kind = Path(source["path"]), source.get("type") or ""
    if ".." in path.parts:
        raise ConfigError(f"invalid HostPath `{path}`: must not contain '..'")
    if not kind:
        return path
    if kind not in _KINDS:
        raise ConfigError(f"{kind} is an invalid volume type")
    if kind == "DirectoryOrCreate" and not path.exists():
        path.mkdir(parents=True, mode=0o755)
    if kind == "FileOrCreate" and not path.exists():
        path.touch(mode=0o644)
    is_kind, words = _KINDS[kind]
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise ConfigError(f"hostPath type check failed: {path} is not a {words}") from None
    if not is_kind(mode):
        raise ConfigError(f"hostPath type check failed: {path} is not a {words}")
    return path


# -- mounts ----------------------------------------------------------------------------------------


def fixed_volumes(pod: Obj) -> frozenset[str]:
    """Volumes whose files come from the API: no container may change them."""
    volumes = pod["spec"].get("volumes") or ()
    return frozenset(v["name"] for v in volumes if any(kind in v for kind in _FILES))


def mounts_of(
    container: Obj,
    volumes: Mapping[str, Path],
    environment: Mapping[str, str],
    *,
    fixed: Container[str] = (),
) -> list[Mount]:
    """Where a container sees the volumes, of which it can only read those that are ``fixed``.

    Raises ConfigError, OSError.
    """
    result: list[Mount] = []
    for mount in container.get("volumeMounts") or ():
        if mount["name"] not in volumes:
            raise ConfigError(f'cannot find volume "{mount["name"]}" to mount into container')
        source = volumes[mount["name"]]
        if sub := _sub_path(mount, environment):
            source = _inside(source, sub)
        target = mount["mountPath"]
        result.append(
            Mount(
                source=str(source),
                target=target if target.startswith("/") else f"/{target}",
                read_only=bool(mount.get("readOnly")) or mount["name"] in fixed,
            )
        )
    return result


def _sub_path(mount: Obj, environment: Mapping[str, str]) -> str:
    if template := mount.get("subPathExpr"):
        text = expand(template, environment)
        if "$(" in text:
            raise ConfigError(f"failed to expand subPath environment variable: {template}")
    else:
        text = mount.get("subPath") or ""
    if text.startswith("/"):
        raise ConfigError(f"error SubPath `{text}` must not be an absolute path")
    if ".." in text.split("/"):
        raise ConfigError(f"unable to provision SubPath `{text}`: must not contain '..'")
    return text


def _inside(volume: Path, sub: str) -> Path:
    """A place inside a volume; links must not lead out of it. Raises ConfigError."""
    root = volume.resolve()
    path = (root / sub).resolve()
    if path != root and root not in path.parents:
        raise ConfigError(f'subpath "{sub}" leads out of its volume')
    if not path.exists():
        path.mkdir(parents=True, mode=0o750)
    return path
