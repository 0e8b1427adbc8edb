"""Restoring: the newest checkpoint that proves intact, byte by byte.

Damaged ones are reported, marked and passed over; before one is given up it is read once more,
so that a flaw on the way does not condemn good data. Only damage counts: a volume or an operator
that cannot be reached raises, because training from the beginning would then be a mistake.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote, urlsplit

from .errors import Damaged, Finding, Refused, RestoreError, Unavailable
from .remote import Candidate, Expired
from .volume import copies, disk, manifest, names, parallel
from .volume.volume import Volume

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .environment import Environment
    from .patience import Patience
    from .remote import Downloads
    from .volume.manifest import Manifest

log = logging.getLogger("corral.inpod")

_ROUNDS = 3
T = TypeVar("T")


class Restored:
    """A checkpoint that was verified; usable wherever a path is. Read it, do not write to it."""

    def __init__(
        self,
        *,
        id: str,
        step: int,
        metrics: Mapping[str, float | None],
        folder: Path,
        shards: tuple[Path, ...] = (),
        path: Path | None = None,
    ) -> None:
        self.id = id
        self.step = step
        self.metrics = dict(metrics)
        self.folder = folder
        """The folder with the whole checkpoint."""
        self.shards = shards
        """What each process saved, in their order; empty if it was not sharded."""
        self.path = path or folder
        """What this process saved, if there are as many as then; else `folder`."""

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"Restored(id={self.id!r}, step={self.step}, path={str(self.path)!r})"

    def __truediv__(self, name: str) -> Path:
        return self.path / name


class Restorer:
    """Finds what this process shall start from."""

    def __init__(
        self,
        environment: Environment,
        *,
        downloads: Downloads | None,
        patience: Callable[[], Patience],
    ) -> None:
        self._environment = environment
        self._downloads = downloads
        self._patience = patience
        self.rejected: list[Finding] = []
        """What was passed over because it is damaged."""

    def restore(self) -> Restored | None:
        """The checkpoint to start from, or None to start from the beginning.

        Raises:
            RestoreError: if the one that was named cannot be had, or nobody can tell.
        """
        source = self._environment.restore_from
        if source.lower() == "none" or not self._environment.checkpoint_dir:
            return None
        root, identifier = self._place(source)
        if root is None:
            return self._from_operator(source)
        if self._environment.peers and source.lower() == "latest":
            return self._from_copies()
        found = self._from_volume(Volume(root), identifier)
        if found is None and source.lower() != "latest":
            details = "; ".join(f"{item.checkpoint}: {item.message}" for item in self.rejected)
            raise RestoreError(f"{source} cannot be restored: {details or 'it is not there'}")
        return found

    def _place(self, source: str) -> tuple[str | None, str | None]:
        """The folder to look in and the checkpoint to look for; no folder: ask the operator."""
        own = None if self._environment.remote else self._environment.checkpoint_dir
        if source.lower() == "latest" or names.step_of(source) is not None:
            return own, None if source.lower() == "latest" else source
        parts = urlsplit(source)
        if parts.scheme not in ("", "file"):
            return (None, None) if self._downloads is not None else (own, _last(parts.path))
        path = unquote(parts.path) if parts.scheme else source
        head, last = os.path.split(path.rstrip("/"))
        root, identifier = (head, last) if names.step_of(last) is not None else (path, None)
        if os.path.isdir(root):
            return root, identifier
        # The operator may know the volume under another path than this pod does.
        return own, identifier or last

    def _from_copies(self) -> Restored | None:
        """The newest one of any copy of the job: they do the same work, so the step decides."""
        for _ in range(_ROUNDS):
            going = False
            try:
                for volume, found in copies.newest_first(self._environment, self._reject):
                    restored = self._tried(volume, found)
                    if restored is not None:
                        return restored
                    going = going or volume.is_going(found.id)
            except OSError as error:
                raise RestoreError(f"{self._environment.peers} cannot be read: {error}") from error
            if not going:
                return None  # else a copy has written newer ones than those we looked for
        raise RestoreError("the checkpoints of the other copies go faster than they can be read")

    def _from_volume(self, volume: Volume, identifier: str | None) -> Restored | None:
        try:
            for found in self._listed(volume, identifier):
                restored = self._tried(volume, found)
                if restored is not None:
                    return restored
        except OSError as error:
            raise RestoreError(f"{volume.root} cannot be read: {error}") from error
        return None

    def _listed(self, volume: Volume, identifier: str | None) -> tuple[Manifest, ...]:
        if identifier is None:
            scan = volume.scan()
            self._reject(*(item for item in scan.findings if item.is_news))
            return scan.manifests
        if names.step_of(identifier) is None:
            return ()
        found = volume.get(identifier)
        if isinstance(found, Finding):
            self._reject(found)
            return ()
        return (found,)

    def _tried(self, volume: Volume, found: Manifest) -> Restored | None:
        try:
            _twice(lambda: volume.verify(found))
        except Damaged as damage:
            if volume.is_going(found.id):
                return None  # retention took it meanwhile: no damage
            volume.quarantine(damage.finding)
            self._reject(damage.finding)
            return None
        folder = Path(volume.folder(found.id))
        return self._restored(found.id, found.step, found.metrics, folder, found.shard_folders)

    def _from_operator(self, source: str) -> Restored | None:
        if self._downloads is None:
            raise RestoreError(f"{source}: there is no CORRAL_REPORT_URL to ask for checkpoints")
        condemned: set[str] = set()
        for _ in range(_ROUNDS):
            try:
                return self._downloaded(self._downloads, source, condemned)
            except Expired as error:
                log.info("the requests for the checkpoint have expired: %s", error)
            except (Unavailable, Refused, OSError) as error:
                raise RestoreError(f"{source} cannot be restored: {error}") from error
        raise RestoreError(
            f"{source} cannot be restored: the store refuses the operator's requests"
        )

    def _downloaded(
        self, downloads: Downloads, source: str, condemned: set[str]
    ) -> Restored | None:
        candidates = downloads.candidates(source, self._patience())
        for candidate in candidates:
            if candidate.id in condemned:
                continue
            try:
                folder = _twice(lambda c=candidate: self._fetched(downloads, c))  # type: ignore[misc]
            except Damaged as damage:
                condemned.add(candidate.id)
                self._reject(damage.finding)
                continue
            shards = manifest.shard_folders(candidate.files)
            return self._restored(candidate.id, candidate.step, candidate.metrics, folder, shards)
        if source.lower() != "latest":
            raise RestoreError(f"{source} cannot be restored: it is not there, or damaged")
        return None

    def _fetched(self, downloads: Downloads, candidate: Candidate) -> Path:
        """The folder with the checkpoint; it gets its name when all files are verified."""
        top = os.path.join(self._environment.checkpoint_dir, ".restored")
        target = os.path.join(top, candidate.id)
        if _is_intact(target, candidate):
            return Path(target)
        shutil.rmtree(target, ignore_errors=True)
        partial = os.path.join(top, f".{candidate.id}.{os.urandom(4).hex()}")
        os.makedirs(partial, mode=0o750)
        try:
            downloads.fetch(candidate, partial, self._patience())
            with contextlib.suppress(FileExistsError, OSError):
                # Refused if another process of this pod was faster; its folder is as good.
                os.rename(partial, target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        if not _is_intact(target, candidate):
            shutil.rmtree(target, ignore_errors=True)
            raise RestoreError(f"{target} cannot be written as it should be")
        return Path(target)

    def _restored(
        self,
        identifier: str,
        step: int,
        metrics: Mapping[str, float | None],
        folder: Path,
        shards: tuple[str, ...],
    ) -> Restored:
        paths = tuple(folder / name for name in shards)
        own = (
            paths[self._environment.process] if len(paths) == self._environment.processes else None
        )
        log.info("restored from %s, step %d", identifier, step)
        return Restored(
            id=identifier, step=step, metrics=metrics, folder=folder, shards=paths, path=own
        )

    def _reject(self, *findings: Finding) -> None:
        for finding in findings:
            log.warning("checkpoint %s is passed over: %s", finding.checkpoint, finding.message)
            self.rejected.append(finding)


def _is_intact(folder: str, candidate: Candidate) -> bool:
    """Whether an earlier download is there and still what it should be."""
    if not os.path.isdir(folder):
        return False
    try:
        parallel.run([lambda e=entry: disk.verify(folder, e) for entry in candidate.files])  # type: ignore[misc]
    except Damaged:
        return False
    return True


def _twice(read: Callable[[], T]) -> T:
    try:
        return read()
    except Damaged:
        return read()


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]
