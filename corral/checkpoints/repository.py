"""All checkpoints of one job: a prefix in a store.

The truth is what lies there: a checkpoint exists if its manifest does and is intact. `LATEST` is
a hint that only adds a candidate where listings lag behind. Manifests never change, so they are
read once and remembered. Nothing here trusts what it reads: names, sizes and digests are checked.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from corral.checkpoints import transfer
from corral.checkpoints.errors import (
    AlreadyExists,
    Conflict,
    Fenced,
    InvalidManifest,
    NotFound,
    StoreError,
)
from corral.checkpoints.findings import Damaged, Finding, Reason
from corral.checkpoints.manifest import MANIFEST_LIMIT, FileEntry, Manifest, decode
from corral.checkpoints.paths import (
    DELETED,
    LATEST,
    MANIFEST,
    QUARANTINED,
    checkpoint_id,
    claim,
    claimed_attempt,
    join,
    shared_nonce,
    step_of,
)
from corral.checkpoints.store import Store
from corral.checkpoints.writer import About, CheckpointWriter, Shard

_LARGE = 1 << 20
_one_large = threading.Lock()
"""A large manifest takes many times its size while it is read: one at a time."""


class Room:
    """How many bytes of manifests are read; for whoever reads what others have written."""

    def __init__(self, *, each: int = 16 << 20, together: int = 64 << 20) -> None:
        self.each = each
        self._together = together
        self._left = together
        self._lock = threading.Lock()

    def take(self, size: int) -> None:
        """Raises StoreError: there is no more."""
        with self._lock:
            self._left -= size
            if self._left < 0:
                raise StoreError(
                    f"the manifests of its checkpoints have more than {self._together} bytes: "
                    "delete some of them"
                )


@dataclass(frozen=True, slots=True)
class Scan:
    """What lies in a repository."""

    manifests: tuple[Manifest, ...]
    """Complete checkpoints, newest first; their data is not checked."""
    findings: tuple[Finding, ...]
    """Why the others are not among them, newest first."""


class Repository:
    """Checkpoints under one prefix of a store."""

    def __init__(
        self,
        store: Store,
        *,
        prefix: str = "",
        workers: int = transfer.WORKERS,
        clock: Callable[[], float] = time.time,
        nonce: Callable[[], str] = lambda: uuid.uuid4().hex,
        room: Room | None = None,
    ) -> None:
        """``room``: for manifests, where others have written them; None: for any."""
        self.store = store
        self.room = room
        self.workers = workers
        self.clock = clock
        self._prefix = prefix.strip("/")
        self._nonce = nonce
        self._known: dict[str, Manifest] = {}

    def folder(self, identifier: str) -> str:
        """Where a checkpoint's objects lie in the store."""
        return join(self._prefix, identifier)

    def begin(
        self, step: int, about: About | None = None, *, shard: Shard | None = None
    ) -> CheckpointWriter:
        """Starts a checkpoint; nothing is visible before its `commit`."""
        about = about or About()
        scan = self.check_fence(about.attempt)
        shared = shard is not None
        nonce = shared_nonce(about.job_uid, about.attempt, step) if shared else self._nonce()
        manifest = Manifest(
            id=checkpoint_id(step, nonce),
            step=step,
            time=self.clock(),
            files=(),
            attempt=about.attempt,
            sequence=1 + max((m.sequence or 0 for m in scan.manifests), default=0),
            job_uid=about.job_uid,
            kind=about.kind,
            framework=about.framework,
            world_size=max(about.world_size, shard.count if shard else 1),
            mesh=about.mesh,
            metrics=about.metrics,
            position=about.position,
            rng=about.rng,
            parent=about.parent,
        )
        return CheckpointWriter(self, manifest, shard=shard, nonce=self._nonce()[:8])

    def claim(self, attempt: int) -> None:
        """Says that this attempt has begun: writers of earlier ones can no longer commit."""
        self.check_fence(attempt)
        with contextlib.suppress(AlreadyExists):
            self.store.create(join(self._prefix, claim(attempt)), b"{}")

    def check_fence(self, attempt: int) -> Scan:
        """Raises `Fenced` if a newer attempt has begun or has written a checkpoint."""
        scan = self.scan()
        _, names = self.store.entries(self._prefix)
        claims = [n for name in names if (n := claimed_attempt(name)) is not None]
        newest = max([attempt, *claims, *(manifest.attempt for manifest in scan.manifests)])
        if newest > attempt:
            raise Fenced(f"attempt {newest} of the job has begun; attempt {attempt} must stop")
        return scan

    def scan(self) -> Scan:
        """Reads what is there: one listing, and each manifest that is not known yet."""
        folders, _ = self.store.entries(self._prefix)
        names = {name for name in folders if step_of(name) is not None}
        if (hint := self._hint()) is not None:
            names.add(hint)
        for gone in set(self._known) - names:
            del self._known[gone]
        results = transfer.in_parallel(
            [partial(self._inspect, name) for name in names],
            workers=self.workers,
        )
        manifests = [result for result in results if isinstance(result, Manifest)]
        findings = [
            result
            for result in results
            if isinstance(result, Finding) and result.checkpoint in folders
        ]
        return Scan(
            tuple(sorted(manifests, key=lambda m: m.rank, reverse=True)),
            tuple(sorted(findings, key=lambda f: step_of(f.checkpoint) or 0, reverse=True)),
        )

    def get(self, identifier: str) -> Manifest:
        """One checkpoint by its name.

        Raises:
            Damaged: if it is not complete.
            NotFound: if there is no such checkpoint.
        """
        if step_of(identifier) is None:
            raise NotFound(f"{identifier!r} is not the name of a checkpoint; see the list")
        found = self._inspect(identifier)
        if isinstance(found, Manifest):
            return found
        folders, objects = self.store.entries(self.folder(identifier))
        if not folders and not objects:
            raise NotFound(f"no checkpoint {identifier}; see the list")
        raise Damaged(found)

    def check_sizes(self, manifest: Manifest) -> Finding | None:
        """Whether all files are there in full length: one listing, no data read."""
        folder = self.folder(manifest.id)
        sizes = {stat.path: stat.size for stat in self.store.walk(folder)}
        for entry in manifest.files:
            actual = sizes.get(join(folder, entry.path))
            if actual is None:
                return Finding(manifest.id, Reason.MISSING, f"{entry.path} is missing", entry.path)
            if actual != entry.size:
                message = f"{entry.path} has {actual} bytes instead of {entry.size}"
                return Finding(manifest.id, Reason.TRUNCATED, message, entry.path)
        return None

    def verify(self, manifest: Manifest) -> list[Finding]:
        """Reads all data and compares the digests; all that is wrong, not only the first."""
        folder = self.folder(manifest.id)

        def check(entry: FileEntry) -> Finding | None:
            try:
                transfer.read_verified(self.store, folder, entry, None)
            except Damaged as damage:
                return damage.finding
            return None

        results = transfer.in_parallel(
            [partial(check, entry) for entry in manifest.files],
            workers=self.workers,
        )
        return [finding for finding in results if finding is not None]

    def quarantine(self, finding: Finding) -> None:
        """Marks a damaged checkpoint so that nobody reads it again; never fails the caller."""
        text = {"reason": finding.reason, "message": finding.message, "path": finding.path}
        self._known.pop(finding.checkpoint, None)
        with contextlib.suppress(StoreError):
            path = join(self.folder(finding.checkpoint), QUARANTINED)
            self.store.create(path, json.dumps(text).encode())

    def note_latest(self, manifest: Manifest) -> None:
        """Moves the hint forward; it is only a hint, so a failure does not matter."""
        self._known[manifest.id] = manifest
        path = join(self._prefix, LATEST)
        with contextlib.suppress(StoreError):
            try:
                etag = self.store.read(path).etag
            except NotFound:
                with contextlib.suppress(AlreadyExists, Conflict):
                    self.store.create(path, manifest.id.encode())
                return
            self.store.replace(path, manifest.id.encode(), etag=etag)

    def _hint(self) -> str | None:
        try:
            hint = self.store.read(join(self._prefix, LATEST), limit=200).data.decode()
        except (StoreError, UnicodeDecodeError):
            return None
        return hint if step_of(hint) is not None else None

    def _decoded(self, data: bytes, identifier: str) -> Manifest:
        """Without what only programs of the job need, where it is remembered for others."""
        found = decode(data, expected_id=identifier)
        return found if self.room is None else replace(found, position=None, rng=None)

    def _inspect(self, identifier: str) -> Manifest | Finding:
        folder = self.folder(identifier)
        _, names = self.store.entries(folder)
        if DELETED in names:
            return Finding(identifier, Reason.DELETED, "its deletion has begun")
        if QUARANTINED in names:
            return Finding(identifier, Reason.QUARANTINED, "it was found corrupt earlier")
        if identifier in self._known and MANIFEST in names:
            return self._known[identifier]
        try:
            limit = MANIFEST_LIMIT if self.room is None else self.room.each
            data = self.store.read(join(folder, MANIFEST), limit=limit).data
            if self.room is not None:
                self.room.take(len(data))
            with _one_large if len(data) > _LARGE else contextlib.nullcontext():
                self._known[identifier] = self._decoded(data, identifier)
        except NotFound:
            return Finding(identifier, Reason.INCOMPLETE, "it has no manifest")
        except InvalidManifest as error:
            return Finding(identifier, Reason.TORN, str(error), MANIFEST)
        return self._known[identifier]
