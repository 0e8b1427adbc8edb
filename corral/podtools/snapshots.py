"""Directories and files as images: ``python -m corral.podtools.snapshots restore|push``.

``restore`` runs before the program and fills ``CORRAL_DIRECTORY`` with the newest image of
``CORRAL_DIRECTORY_IMAGES`` (JSON, newest first) that proves intact; one that is damaged or gone is
passed over. A registry that does not answer is no reason to begin anew: then it fails.

``push`` stores the tar file ``CORRAL_FILE`` as the image ``CORRAL_IMAGE`` and then removes the
file; what it has stored is its termination message.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tarfile
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final, TypeVar

from corral.podtools import termination
from corral.podtools.registries import PATIENCE, print_line, registries_of, retried

if TYPE_CHECKING:
    from corral.oci import Artifacts, Credentials, Manifest, Reference

__all__ = ["DIRECTORY_NOTE", "Snapshots", "main", "unpack"]

T = TypeVar("T")

DIRECTORY_NOTE: Final = "dev.corral.directory"
"""On the image's manifest: which directory its layer holds."""
_TEMPORARY: Final = ".corral-restore-"


class Snapshots:
    """One errand; ``env`` says which."""

    def __init__(
        self,
        env: Mapping[str, str],
        *,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        patience: float = PATIENCE,
    ) -> None:
        self._env = env
        self._say = say
        self._clock = clock
        self._patience = patience

    async def restore(self) -> str | None:
        """Fill the directory; the image that it was filled from, None if there was no good one.

        Raises:
            RegistryError: the registry does not answer.
            OSError: the directory cannot be written.
        """
        root = Path(self._env["CORRAL_DIRECTORY"])
        # Nodes without mounts rewrite paths in variables: this is what it is called elsewhere.
        directory = f"/{self._env['CORRAL_DIRECTORY_NAME']}"
        await asyncio.to_thread(_prepare, root)
        for image in json.loads(self._env.get("CORRAL_DIRECTORY_IMAGES") or "[]"):
            problem = await self._retried(lambda i=image: self._restored(i, directory, root))  # type: ignore[misc]
            if not problem:
                self._say(f"{directory} is restored from {image}")
                return str(image)
            self._say(f"{image} is passed over: {problem}")
        self._say(f"there is nothing that {directory} could be restored from: it is as it was")
        return None

    async def push(self) -> str:
        """Store the file; the termination message.

        Raises:
            RegistryError: it could not be stored.
            OSError: the file cannot be read.
        """
        from corral.oci import Reference, push_image

        file = Path(self._env["CORRAL_FILE"])
        created = float(self._env.get("CORRAL_CREATED") or time.time())
        notes = json.loads(self._env.get("CORRAL_NOTES") or "{}")
        reference = Reference.parse(self._env["CORRAL_IMAGE"])

        async def store() -> str:
            async with self._artifacts(reference) as artifacts:
                pushed = await push_image(
                    artifacts, reference, file, created=created, annotations=notes
                )
                return json.dumps({"image": pushed.reference.image, "size": pushed.size})

        message = await self._retried(store)
        await asyncio.to_thread(file.unlink)
        return message

    async def _restored(self, image: str, directory: str, root: Path) -> str:
        """What is wrong with the image; empty: it is restored."""
        from corral.oci import Reference, RegistryError, Unavailable

        try:
            reference = Reference.parse(image)
            async with self._artifacts(reference) as artifacts:
                await self._fetched(artifacts, reference, directory, root)
        except Unavailable:
            raise
        except (RegistryError, tarfile.TarError, ValueError) as error:
            return str(error) or type(error).__name__
        return ""

    async def _fetched(
        self, artifacts: Artifacts, reference: Reference, directory: str, root: Path
    ) -> None:
        manifest = await artifacts.manifest(reference)
        _check(manifest, reference, directory)
        work = root / f"{_TEMPORARY}{os.urandom(6).hex()}"
        work.mkdir()
        try:
            layer = work / "layer.tar"
            await artifacts.fetch(reference, manifest.layers[-1], layer)
            files = work / "files"
            await asyncio.to_thread(unpack, layer, files, directory)
            for entry in sorted(files.iterdir()):
                _put(entry, root / entry.name)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    async def _retried(self, work: Callable[[], Awaitable[T]]) -> T:
        return await retried(work, log=self._say, clock=self._clock, patience=self._patience)

    def _artifacts(self, reference: Reference) -> Artifacts:
        from corral.oci import Artifacts, ClientSettings

        settings = ClientSettings(tries=2, connect_timeout=10.0)
        return Artifacts(
            registries_of(self._env, _logins(self._env, reference.registry)), settings=settings
        )


def unpack(layer: Path, target: Path, directory: str) -> None:
    """Put what a layer holds of a directory into an empty folder.

    Raises:
        tarfile.TarError: the layer is torn, or wants to leave the folder.
    """
    target.mkdir()
    prefix = PurePosixPath(directory.strip("/"))
    with tarfile.open(layer, "r:") as archive:
        for member in archive:
            path = PurePosixPath(member.name)
            if path == prefix or not path.is_relative_to(prefix):
                continue
            inside = member.replace(name=str(path.relative_to(prefix)), deep=False)
            if member.islnk():
                link = PurePosixPath(member.linkname)
                if not link.is_relative_to(prefix):
                    raise tarfile.TarError(f"{member.name} is a link out of {directory}")
                inside.linkname = str(link.relative_to(prefix))
            archive.extract(inside, target, filter="tar" if inside.issym() else "data")


def _check(manifest: Manifest, reference: Reference, directory: str) -> None:
    held = manifest.annotations.get(DIRECTORY_NOTE)
    if held != directory:
        raise ValueError(f"{reference} holds {held or 'no directory'}, not {directory}")
    if not manifest.layers:
        raise ValueError(f"{reference} has no layer")


def _put(source: Path, target: Path) -> None:
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    os.replace(source, target)


def _prepare(root: Path) -> None:
    """Remove what an earlier try has left."""
    root.mkdir(parents=True, exist_ok=True)
    for path in root.glob(f"{_TEMPORARY}*"):
        shutil.rmtree(path, ignore_errors=True)


def _logins(env: Mapping[str, str], registry: str) -> Credentials:
    """Those of the Secret that is mounted."""
    from corral.oci import Credentials, secret_logins

    folder = Path(env.get("CORRAL_REGISTRY_LOGIN") or "/nowhere")
    found = {path.name: path.read_bytes() for path in folder.glob("*") if path.is_file()}
    found |= {path.name: path.read_bytes() for path in folder.glob(".docker*") if path.is_file()}
    return secret_logins(found, registry) if found else Credentials()


def main(argv: list[str] | None = None) -> int:
    """Run one errand; the exit code."""
    words = sys.argv[1:] if argv is None else argv
    snapshots = Snapshots(os.environ, say=print_line)
    try:
        if words == ["restore"]:
            asyncio.run(snapshots.restore())
            return 0
        if words == ["push"]:
            message = asyncio.run(snapshots.push())
            termination.write_message(message)
            return 0
    except Exception as error:
        print_line(f"{words[0]} has failed: {error}")
        return 1
    print_line("usage: python -m corral.podtools.snapshots restore|push")
    return 2


if __name__ == "__main__":
    sys.exit(main())
