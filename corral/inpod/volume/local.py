"""Publishing what save() wrote on a volume: digests, one rename, the manifest last.

A process that dies at any instant leaves the checkpoints before as they were, and files that no
manifest names. With several writers, whoever finds all records there publishes the manifest.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from typing import TYPE_CHECKING, Any

from ..errors import Finding, InvalidManifest
from . import copies, disk, names
from .manifest import Manifest

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..environment import Environment
    from ..patience import Patience
    from ..publishing import Saved
    from .manifest import FileEntry
    from .volume import Volume

ORPHAN_GRACE = 24 * 3600.0
"""Seconds after which a checkpoint without a manifest counts as abandoned."""


class LocalTarget:
    """A volume that this process writes checkpoints to."""

    def __init__(
        self,
        environment: Environment,
        volume: Volume,
        announce: Callable[[dict[str, Any]], None],
    ) -> None:
        self._environment = environment
        self._volume = volume
        self._announce = announce

    def publish(self, saved: Saved, patience: Patience) -> None:
        """Makes a checkpoint, or this process's part of one.

        Raises:
            Fenced: if a newer attempt of the job has begun.
            CheckpointError, OSError, InvalidManifest: if there is none in the end.
        """
        count = self._environment.processes if saved.sharded else 1
        manifest = (
            self._publish_shard(saved, count) if saved.sharded else self._publish_whole(saved)
        )
        if manifest is not None:
            self._tell(manifest, duration=time.time() - saved.began, request=saved.request)
        if self._environment.is_writer:
            copies.retain(self._environment, self._volume, now=time.time())

    def announce_all(self) -> None:
        """Tells of all checkpoints of this job: the operator may have missed some."""
        for manifest in reversed(self._volume.scan().manifests):
            if manifest.job_uid == self._environment.job_uid:
                self._tell(manifest)

    def complete_sets(self) -> None:
        """Publishes sharded checkpoints of which only the manifest is missing."""
        for finding in self._volume.scan().findings:
            if finding.reason == Finding.INCOMPLETE:
                self._complete(finding.checkpoint)

    def sweep(self) -> None:
        """Removes checkpoints that nobody will finish, and finishes deletions."""
        for finding in self._volume.scan().findings:
            if finding.reason == Finding.DELETED:
                self._volume.delete(finding.checkpoint)
            elif finding.reason == Finding.INCOMPLETE and self._is_orphan(finding.checkpoint):
                shutil.rmtree(self._volume.folder(finding.checkpoint), ignore_errors=True)

    def _publish_whole(self, saved: Saved) -> Manifest:
        identifier = names.checkpoint_id(saved.step, os.urandom(16).hex())
        entries = disk.measure(str(saved.folder.path))
        manifest = self._manifest(saved, identifier, entries)
        folder = self._volume.folder(identifier)
        os.rename(saved.folder.path, folder)
        try:
            disk.sync_folder(self._volume.root)
            self._volume.publish(manifest)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return manifest

    def _publish_shard(self, saved: Saved, count: int) -> Manifest | None:
        environment = self._environment
        nonce = names.shared_nonce(environment.job_uid, environment.attempt, saved.step)
        identifier = names.checkpoint_id(saved.step, nonce)
        below = names.shard_folder(environment.process, os.urandom(4).hex())
        entries = disk.measure(
            str(saved.folder.path), prefix=f"{below}/", shard=environment.process
        )
        manifest = self._manifest(saved, identifier, entries)
        folder = self._volume.folder(identifier)
        os.makedirs(folder, mode=0o750, exist_ok=True)
        os.rename(saved.folder.path, os.path.join(folder, below))
        disk.sync_folder(folder)
        disk.sync_folder(self._volume.root)
        self._volume.record(manifest, environment.process, count)
        return self._volume.merge(identifier, count)

    def _manifest(self, saved: Saved, identifier: str, entries: list[FileEntry]) -> Manifest:
        environment = self._environment
        scan = self._volume.check_fence(environment.attempt)
        return Manifest(
            id=identifier,
            step=saved.step,
            time=saved.began,
            files=tuple(sorted(entries, key=lambda entry: entry.path)),
            attempt=environment.attempt,
            sequence=1 + max((item.sequence or 0 for item in scan.manifests), default=0),
            job_uid=environment.job_uid,
            framework=environment.framework,
            world_size=environment.processes,
            metrics=saved.metrics,
        )

    def _is_orphan(self, identifier: str) -> bool:
        """Of an older attempt, or so old that its writer cannot be alive."""
        folder = self._volume.folder(identifier)
        step, nonce = names.step_of(identifier), identifier.partition(".")[2]
        environment = self._environment
        earlier = range(max(environment.attempt - 1000, 0), environment.attempt)
        shared = (names.shared_nonce(environment.job_uid, a, step or 0) for a in earlier)
        if nonce in shared:
            return True
        with contextlib.suppress(OSError):
            return time.time() - os.stat(folder).st_mtime > ORPHAN_GRACE
        return False

    def _complete(self, identifier: str) -> None:
        with contextlib.suppress(FileNotFoundError, InvalidManifest):
            shards = map(names.shard_of, os.listdir(self._volume.folder(identifier)))
            for count in {shard[1] for shard in shards if shard is not None}:
                if self._volume.merge(identifier, count) is not None:
                    return

    def _tell(self, manifest: Manifest, **details: Any) -> None:
        body = {"id": manifest.id, "manifest": json.loads(manifest.encode())}
        self._announce({**body, **{k: v for k, v in details.items() if v is not None}})
