"""The volumes of one pod: made, mounted, kept up to date, removed.

Everything of the pod's own lies under one folder (and one in memory, where it asks for that);
claims and host paths are only pointed to and never removed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from typing import Final

from corral.cluster.node.container.cgroups import machine_memory
from corral.cluster.node.container.environment import expand
from corral.cluster.node.container.processes import Mount
from corral.cluster.node.volumes import atomic
from corral.cluster.node.volumes.bounded import bounded_folder, memory_size
from corral.cluster.node.volumes.job_folders import job_root
from corral.cluster.node.volumes.payloads import Room, TokenSource, payload_of
from corral.cluster.node.volumes.sources import ConfigError, PodContext, Sources
from corral.files.beneath import LedOut, make_beneath, open_beneath, opened_beneath
from corral.files.private import make_folders
from corral.files.removal import remove_tree
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
        files: Path | None = None,
        bounds: bool = False,
        mode: int = 0o700,
        jobs: Sequence[Path] = (),
    ) -> None:
        """``memory`` is for emptyDirs of medium Memory, and for ``files``; else all lie together.

        With ``bounds`` each of these emptyDirs holds only so much. ``jobs``: see `job_root`.

        The folders above those of volumes get ``mode``. Volumes themselves are open to whoever
        the pod runs as: what keeps others out is that nobody passes through those above.
        """
        self._root = root
        self._mode = mode
        self._memory = memory or root
        self._files = files or self._memory
        self._bounds = bounds and memory is not None
        self._jobs = jobs
        self._sources = sources
        self._token = token
        self._claim = claim
        self._gid = gid if os.geteuid() == 0 else None
        """fsGroup: only root may give files away."""

    def prepare(self, context: PodContext) -> dict[str, Path]:
        """Make every volume; name → where it lies. Raises VolumeError."""
        made: dict[str, Path] = {}
        room = Room(self._sources)
        for volume in context.pod["spec"].get("volumes") or ():
            try:
                made[volume["name"]] = self._make(volume, context, room)
            except (ConfigError, OSError) as err:
                raise VolumeError(volume["name"], err) from err
        return made

    def refresh(self, context: PodContext) -> list[str]:
        """Bring files up to date; the volumes that changed. Raises ConfigError, OSError.

        Containers see the change, except through a subPath, as everywhere.
        """
        room = Room(self._sources)
        return [
            volume["name"]
            for volume in context.pod["spec"].get("volumes") or ()
            if any(kind in volume for kind in _FILES) and self._write(volume, context, room)
        ]

    def remove(self) -> None:
        """Delete what was the pod's own; claims and host paths stay."""
        for folder in {self._root, self._memory, self._files}:
            remove_tree(folder)

    def _make(self, volume: Obj, context: PodContext, room: Room) -> Path:
        name = volume["name"]
        if any(kind in volume for kind in _FILES):
            self._write(volume, context, room)
            return self._path(volume)
        if "hostPath" in volume:
            return self._host_path(volume["hostPath"], context)
        if "persistentVolumeClaim" in volume:
            return self._claim(volume["persistentVolumeClaim"]["claimName"])
        if "ephemeral" in volume:
            return self._claim(f"{context.pod['metadata']['name']}-{name}")
        if "emptyDir" in volume or volume.keys() == {"name"}:
            in_memory = (volume.get("emptyDir") or {}).get("medium") == "Memory"
            if in_memory and self._bounds:
                make_folders(self._memory, mode=self._mode)
                size = memory_size(volume, context.pod, machine_memory())
                bounded_folder(self._memory / name, size)
            return self._empty((self._memory if in_memory else self._root) / name)
        kind = next(key for key in volume if key != "name")
        raise ConfigError(f"a process node has no volumes of kind {kind}")

    def _host_path(self, source: Obj, context: PodContext) -> Path:
        namespace = context.pod["metadata"].get("namespace", "")
        root = job_root(Path(source["path"]), namespace, self._jobs)
        return host_path(source) if root is None else job_path(source, root)

    def _path(self, volume: Obj) -> Path:
        return self._files / str(volume["name"])

    def _empty(self, path: Path) -> Path:
        make_folders(path.parent, mode=self._mode)
        path.mkdir(exist_ok=True)
        if self._gid is not None:
            os.chown(path, -1, self._gid)
        path.chmod(0o2777 if self._gid is not None else 0o777)
        return path

    def _write(self, volume: Obj, context: PodContext, room: Room) -> bool:
        payload = payload_of(volume, context, room, self._token)
        make_folders(self._files, mode=self._mode)
        return atomic.write(self._path(volume), payload, gid=self._gid)


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
    path, kind = _path_and_kind(source)
    if not kind:
        return path
    if kind == "DirectoryOrCreate":
        make_folders(path, mode=0o755)
    if kind == "FileOrCreate" and not os.path.lexists(path):
        _make_file(path)
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        mode = 0
    return _checked(path, kind, mode)


def job_path(source: Obj, root: Path) -> Path:
    """The same for a job's folder below ``root``: on the way to it there is no link.

    Raises ConfigError, OSError.
    """
    path, kind = _path_and_kind(source)
    relative = str(path.relative_to(root))
    try:
        if kind == "DirectoryOrCreate":
            make_beneath(root, relative, mode=0o755, links=False)
        with opened_beneath(root, relative, links=False) as found:
            mode = os.fstat(found).st_mode
    except LedOut:
        words = f"on the way from {root} to {path} there is a link, which is not followed"
        raise ConfigError(f"hostPath type check failed: {words}") from None
    except FileNotFoundError:
        mode = 0
    return _checked(path, kind, mode) if kind else path


def _path_and_kind(source: Obj) -> tuple[Path, str]:
    path, kind = Path(source["path"]), source.get("type") or ""
    if ".." in path.parts:
        raise ConfigError(f"invalid HostPath `{path}`: must not contain '..'")
    if kind and kind not in _KINDS:
        raise ConfigError(f"{kind} is an invalid volume type")
    return path, kind


def _checked(path: Path, kind: str, mode: int) -> Path:
    is_kind, words = _KINDS[kind]
    if not is_kind(mode):
        raise ConfigError(f"hostPath type check failed: {path} is not a {words}")
    return path


def _make_file(path: Path) -> None:
    """Never through a link that somebody has put there meanwhile."""
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(fd, 0o644)
    finally:
        os.close(fd)


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
    root_of: Callable[[Path], Path | None] = lambda volume: None,
) -> list[Mount]:
    """Where a container sees the volumes, of which it can only read those that are ``fixed``.

    ``root_of`` says of a volume below which folder there is no link on the way to it, if any.

    Raises ConfigError, OSError.
    """
    result: list[Mount] = []
    for mount in container.get("volumeMounts") or ():
        if mount["name"] not in volumes:
            raise ConfigError(f'cannot find volume "{mount["name"]}" to mount into container')
        volume, within = volumes[mount["name"]], ""
        source, root = volume, root_of(volume)
        if sub := _sub_path(mount, environment):
            source, within = _inside(volume, sub, root), str(volume)
        target = mount["mountPath"]
        result.append(
            Mount(
                source=str(source),
                target=target if target.startswith("/") else f"/{target}",
                read_only=bool(mount.get("readOnly")) or mount["name"] in fixed,
                within=within,
                root="" if root is None else str(root),
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


def _inside(volume: Path, sub: str, root: Path | None) -> Path:
    """A place inside a volume, which is made if it is not there. Raises ConfigError, OSError.

    What is found here may be exchanged before it is mounted, so the mount looks for itself: it
    follows the path from the volume and does not leave it either.
    """
    way = str(volume.relative_to(root)) if root is not None else ""
    try:
        with opened_beneath(root or volume, way, links=root is None) as found:
            make_beneath(found, sub, mode=stat.S_IMODE(os.fstat(found).st_mode))
            os.close(open_beneath(found, sub))
    except LedOut:
        raise ConfigError(f'subpath "{sub}" leads out of its volume') from None
    return volume / sub
