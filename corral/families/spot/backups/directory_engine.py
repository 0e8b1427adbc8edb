"""The Directory engine: what a directory of a container holds becomes an image.

The directory is read by ``tar`` in the container itself, so nothing runs on the node, and nothing
in the pod but the program's own image is needed. The operator has no right to that by itself: a
namespace that wants such backups gives it ``pods/exec`` for its own pods. What comes is not
trusted: names that leave the directory and devices are refused or left out. A file that changes
while it is read is the program's own concern: it writes what must be whole under another name, and
renames it.
"""

from __future__ import annotations

import asyncio
import shutil
import tarfile
from pathlib import Path, PurePosixPath
from typing import IO, Final

from corral.families.spot.backups.engines import (
    BackupError,
    Outcome,
    Run,
    Target,
    Tell,
    targets,
    while_alive,
)
from corral.families.spot.backups.images import Images
from corral.files.archives import ShortInfo, each_member
from corral.files.temporary import temporary
from corral.kube.client import KubeClient, KubeConnectionError
from corral.kube.errors import ApiError, Forbidden
from corral.kube.podstreams.streams import STDOUT
from corral.kube.types import Obj
from corral.podtools.snapshots import DIRECTORY_NOTE
from corral.runtime.keys import format_time

__all__ = ["DirectoryEngine", "repack"]

_MOST_WORDS: Final = 4096
"""Bytes of what tar says that are kept."""


class DirectoryEngine:
    """Reads directories by ``pods/exec``."""

    def __init__(self, client: KubeClient, images: Images, *, most: int = 1 << 40) -> None:
        """``most``: bytes that a directory may have."""
        self._client = client
        self._images = images
        self._most = most

    async def save(self, run: Run, tell: Tell) -> Outcome:
        """Read the directory of each container, pack it, store it."""
        built: list[Obj] = []
        for target in targets(run):
            directory = _directory(run, target)
            if not target.image:
                raise BackupError("spec.imageRepo: the Directory engine must know where to store")
            await self._images.check(target.image, spec=run.spec, namespace=run.namespace)
            with temporary("backup") as folder:
                built.append(await self._saved(run, target, directory, Path(folder), tell))
        return Outcome(images=built, message=f"{len(built)} image(s) stored")

    async def _saved(
        self, run: Run, target: Target, directory: str, folder: Path, tell: Tell
    ) -> Obj:
        raw, layer = folder / "raw.tar", folder / "layer.tar"
        # it is there twice, and half of what is free stays free
        most = min(self._most, shutil.disk_usage(folder).free // 4)
        await while_alive(self._client, run.pod, self._read(run, target, directory, raw, most))
        await tell({"phase": "ImageBuilding"})
        try:
            await asyncio.to_thread(repack, raw, layer, directory.strip("/"), most=most)
        except (tarfile.TarError, OSError, ValueError) as error:
            raise BackupError(f"{directory} could not be packed: {error}") from error
        raw.unlink()
        await tell({"phase": "ImagePushing"})
        pushed = await self._images.push(
            target.image,
            layer,
            spec=run.spec,
            namespace=run.namespace,
            created=run.started,
            notes={
                DIRECTORY_NOTE: directory,
                "dev.corral.pod": run.pod["metadata"]["name"],
                "dev.corral.backup": run.backup["metadata"]["name"],
            },
        )
        return {
            "containerName": target.container,
            "imageName": pushed.reference.image,
            "buildTime": format_time(run.started),
            "pushed": True,
            "digest": pushed.digest,
        }

    async def _read(self, run: Run, target: Target, directory: str, raw: Path, most: int) -> None:
        """What ``tar`` writes; it ends with 1 where files changed meanwhile, which is allowed."""
        command = ["tar", "-C", directory, "-cf", "-", "."]
        metadata = run.pod["metadata"]
        words = b""
        try:
            with raw.open("wb") as file:
                async with self._client.exec(
                    metadata["name"],
                    command,
                    namespace=metadata["namespace"],
                    container=target.container,
                ) as process:
                    async for channel, data in process:
                        if channel == STDOUT:
                            await asyncio.to_thread(_write, file, data, most)
                        else:
                            words = (words + data)[-_MOST_WORDS:]
                    code = process.exit_code
        except Forbidden as error:
            raise BackupError(
                f"the operator may not run commands in pods of namespace {run.namespace}: give it "
                "get and create on pods/exec there, by a Role of that namespace"
            ) from error
        except (ApiError, KubeConnectionError) as error:
            raise BackupError(f"{directory} could not be read: {error}") from error
        if code not in (0, 1):
            said = words.decode(errors="replace").strip() or f"tar has ended with {code}"
            raise BackupError(f"{directory} could not be read: {said}")


def _write(file: IO[bytes], data: bytes, most: int) -> None:
    if file.tell() + len(data) > most:
        raise BackupError(f"the directory has more than the {most} bytes that there is room for")
    file.write(data)


def _directory(run: Run, target: Target) -> str:
    """The one that is named, else the one that the container was told of."""
    if run.spec.directory:
        return run.spec.directory.rstrip("/") or "/"
    for container in run.pod["spec"].get("containers") or ():
        for variable in container.get("env") or ():
            if container["name"] == target.container and variable["name"] == "CORRAL_DIRECTORY":
                return str(variable.get("value") or "").rstrip("/")
    raise BackupError("spec.directory: the Directory engine must know what to save")


def repack(source: Path, target: Path, prefix: str, *, most: int = 1 << 40) -> int:
    """Write an archive again with all of it below a folder; how many members there are.

    Raises:
        tarfile.TarError: it is torn, a name in it leaves the folder, or it has more than ``most``
            bytes in its files, holes included.
        ValueError: a number in it is none.
    """
    count = size = 0
    with (
        tarfile.open(source, "r|", tarinfo=ShortInfo) as read,
        tarfile.open(target, "w") as write,
    ):
        for member in each_member(read, write):
            size += member.size
            if size > most:
                raise tarfile.ReadError(f"its files have more than {most} bytes")
            if member.isdev():
                continue  # devices and pipes hold nothing
            inside = _inside(member.name)
            member.pax_headers = {}
            member.name = f"{prefix}/{inside}" if inside != "." else prefix
            if member.islnk():
                member.linkname = f"{prefix}/{_inside(member.linkname)}"
            content = read.extractfile(member) if member.isreg() else None
            write.addfile(member, content)
            count += 1
    return count


def _inside(name: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise tarfile.TarError(f"{name!r} leads out of the directory")
    return str(path)
