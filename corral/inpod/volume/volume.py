"""All checkpoints in one folder: a mounted volume or a disk of this machine.

The truth is what lies there: a checkpoint exists if its manifest does and is intact. Two
processes, this package and `corral.checkpoints` may work in one folder at the same time; nothing
that one of them publishes is ever overwritten by another.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import threading
from functools import partial
from typing import NamedTuple

from ..errors import Damaged, Fenced, Finding, InvalidManifest
from . import disk, manifest, names, parallel
from .manifest import Manifest


class Scan(NamedTuple):
    """What lies in a volume."""

    manifests: tuple[Manifest, ...]
    """Complete checkpoints, newest first; their data is not checked."""
    findings: tuple[Finding, ...]
    """Why the others are not among them, newest first."""
    claims: tuple[int, ...]
    """The attempts of the job that have begun, as their marks say."""


class Volume:
    """Checkpoints below one folder; may be used from several threads."""

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)
        # Manifests never change, so each is read once. Guarded by the lock.
        self._known: dict[str, Manifest] = {}
        self._lock = threading.Lock()

    def folder(self, identifier: str) -> str:
        """The path of the folder of a checkpoint."""
        return os.path.join(self.root, identifier)

    def scan(self) -> Scan:
        """Reads what is there: one listing, and each manifest that is not known yet."""
        folders, files = self._entries("")
        found = [self._inspect(name) for name in folders if names.step_of(name) is not None]
        hint = self.latest()
        if hint is not None and hint not in folders:
            found.append(self._inspect(hint))
        manifests = [item for item in found if isinstance(item, Manifest)]
        findings = [
            item for item in found if isinstance(item, Finding) and item.checkpoint in folders
        ]
        claims = [names.claimed_attempt(name) for name in files]
        return Scan(
            tuple(sorted(manifests, key=lambda item: item.rank, reverse=True)),
            tuple(sorted(findings, key=lambda item: _step(item.checkpoint), reverse=True)),
            tuple(attempt for attempt in claims if attempt is not None),
        )

    def get(self, identifier: str) -> Manifest | Finding:
        """One checkpoint by its name, or what is wrong with it."""
        return self._inspect(identifier)

    def claim(self, attempt: int) -> None:
        """Says that an attempt has begun: from now on older ones cannot commit.

        Raises:
            Fenced: if a newer one has begun.
        """
        self.check_fence(attempt)
        os.makedirs(self.root, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            disk.create_new(self.folder(names.claim(attempt)), b"{}")

    def check_fence(self, attempt: int) -> Scan:
        """Raises `Fenced` if a newer attempt has begun or has written a checkpoint."""
        scan = self.scan()
        newest = max([attempt, *scan.claims, *(item.attempt for item in scan.manifests)])
        if newest > attempt:
            raise Fenced(f"attempt {newest} of the job has begun; attempt {attempt} must stop")
        return scan

    def publish(self, found: Manifest) -> None:
        """Makes a checkpoint visible, all of it at once.

        Raises:
            FileExistsError: if another manifest is there.
        """
        path = os.path.join(self.folder(found.id), names.MANIFEST)
        data = found.encode()
        try:
            disk.create_new(path, data)
        except FileExistsError:
            # A second try, or another writer of the same shards: both wrote this.
            if disk.read(path, manifest.LIMIT) != data:
                raise
        with contextlib.suppress(OSError):  # only a hint
            disk.replace(self.folder(names.LATEST), found.id.encode())

    def record(self, found: Manifest, index: int, count: int) -> None:
        """Stores the record of one shard; the one that was there first counts."""
        path = os.path.join(self.folder(found.id), names.shard_record(index, count))
        document = {**found.document(), "shard": index}
        with contextlib.suppress(FileExistsError):
            disk.create_new(path, manifest.seal(document))

    def merge(self, identifier: str, count: int) -> Manifest | None:
        """Publishes a sharded checkpoint if all records are there.

        The manifest depends on the records alone, so it does not matter who does this.

        Raises:
            InvalidManifest: if a record is torn or they do not fit each other.
        """
        folder = self.folder(identifier)
        _, files = self._entries(identifier)
        records = [name for name in files if (names.shard_of(name) or (0, 0))[1] == count]
        if len(records) < count:
            return None
        documents = [
            manifest.unseal(disk.read(os.path.join(folder, name), manifest.LIMIT))
            for name in records
        ]
        whole = dict(documents[0])
        whole.pop("shard", None)
        whole["files"] = [entry for document in documents for entry in document["files"]]
        found = manifest.decode(manifest.seal(whole), expected_id=identifier)
        if any(document["step"] != found.step for document in documents):
            raise InvalidManifest(f"the shards of {identifier} are of different steps")
        self.publish(found)
        return found

    def verify(self, found: Manifest) -> None:
        """Reads all data and compares the digests.

        Raises:
            Damaged: if anything is wrong.
        """
        folder = self.folder(found.id)
        parallel.run([partial(disk.verify, folder, entry) for entry in found.files])
        # Deletion begins with a mark: what was read after it may be gone in a moment.
        if os.path.lexists(os.path.join(folder, names.DELETED)):
            raise Damaged(Finding(found.id, Finding.DELETED, "its deletion has begun"))

    def quarantine(self, finding: Finding) -> None:
        """Marks a damaged checkpoint so that nobody reads it again; never fails the caller."""
        text = {"reason": finding.reason, "message": finding.message, "path": finding.path}
        with contextlib.suppress(OSError):
            path = os.path.join(self.folder(finding.checkpoint), names.QUARANTINED)
            disk.create_new(path, json.dumps(text).encode())

    def delete(self, identifier: str) -> None:
        """Deletes one checkpoint in an order that may be interrupted anywhere, and repeated.

        First a tombstone, then the manifest (nobody starts to read it from here on), then the
        data, the tombstone last.
        """
        if names.step_of(identifier) is None:
            raise ValueError(f"{identifier!r} is not the name of a checkpoint")
        folder = self.folder(identifier)
        while os.path.isdir(folder):
            # Another process may be deleting the same: whatever it took is one thing less to do.
            try:
                _delete_folder(folder)
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ENOTEMPTY):
                    raise
        disk.sync_folder(self.root)
        if self.latest() == identifier:
            _unlink(self.folder(names.LATEST))

    def is_going(self, identifier: str) -> bool:
        """Whether a checkpoint is gone, or its deletion has begun."""
        folder = self.folder(identifier)
        return not os.path.isdir(folder) or os.path.lexists(os.path.join(folder, names.DELETED))

    def latest(self) -> str | None:
        """The checkpoint that was published last, as far as the hint knows."""
        try:
            hint = disk.read(self.folder(names.LATEST), 200).decode()
        except (OSError, UnicodeDecodeError):
            return None
        return hint if names.step_of(hint) is not None else None

    def _entries(self, below: str) -> tuple[list[str], list[str]]:
        folders, files = [], []
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            for entry in disk.entries(os.path.join(self.root, below)):
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                elif not entry.name.startswith(names.TEMPORARY):
                    files.append(entry.name)
        return sorted(folders), sorted(files)

    def _inspect(self, identifier: str) -> Manifest | Finding:
        _, files = self._entries(identifier)
        if names.DELETED in files:
            return Finding(identifier, Finding.DELETED, "its deletion has begun")
        if names.QUARANTINED in files:
            return Finding(identifier, Finding.QUARANTINED, "it was found corrupt earlier")
        if names.MANIFEST not in files:
            return Finding(identifier, Finding.INCOMPLETE, "it has no manifest")
        with self._lock:
            known = self._known.get(identifier)
        if known is not None:
            return known
        path = os.path.join(self.folder(identifier), names.MANIFEST)
        try:
            known = manifest.decode(disk.read(path, manifest.LIMIT), expected_id=identifier)
        except FileNotFoundError:
            return Finding(identifier, Finding.INCOMPLETE, "it has no manifest")
        except InvalidManifest as error:
            return Finding(identifier, Finding.TORN, str(error), names.MANIFEST)
        with self._lock:
            self._known[identifier] = known
        return known


def _step(identifier: str) -> int:
    return names.step_of(identifier) or 0


def _delete_folder(folder: str) -> None:
    with contextlib.suppress(FileExistsError):
        disk.create_new(os.path.join(folder, names.DELETED), b"{}")
    _unlink(os.path.join(folder, names.MANIFEST))
    disk.sync_folder(folder)
    for entry in disk.entries(folder):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        elif entry.name != names.DELETED:
            _unlink(entry.path)
    disk.sync_folder(folder)
    _unlink(os.path.join(folder, names.DELETED))
    os.rmdir(folder)


def _unlink(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
