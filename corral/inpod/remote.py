"""Checkpoints in an object store to which this pod has no key.

The operator hands out requests that are signed already, each for one file or a part of one; the
bytes go to the store directly. Only the operator's commit makes a checkpoint, and it may be
repeated. Downloads are digested on the way and continue where they broke off.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from .client import Client
from .errors import CheckpointError, CorralError, Damaged, Finding, Refused, Unavailable
from .volume import disk, parallel
from .volume.manifest import FileEntry, file_entry
from .volume.names import step_of
from .wire import BLOCK, Slice, Wire

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .environment import Environment
    from .patience import Patience
    from .publishing import Saved

_ROUNDS = 3
"""How often to ask for new requests when the ones at hand are refused: they expire."""
_SILENCE = 60.0
"""Seconds that a store may say nothing."""


class Expired(CorralError):
    """The store refused a signed request."""


class Candidate(NamedTuple):
    """A checkpoint that may be restored."""

    id: str
    step: int
    metrics: dict[str, float | None]
    files: tuple[FileEntry, ...]
    requests: Mapping[str, Mapping[str, Any]]
    """How to get each file, by its path."""


class Connections:
    """A connection for each thread that asks; all of them trust the same authorities."""

    def __init__(self, ca: str) -> None:
        self._ca = ca
        self._lock = threading.Lock()
        self._wires: dict[int, Wire] = {}

    def get(self) -> Wire:
        with self._lock:
            wire = self._wires.get(threading.get_ident())
            if wire is None:
                wire = Wire(ca=self._ca, system_trust=True, timeout=_SILENCE)
                self._wires[threading.get_ident()] = wire
            return wire

    def close(self) -> None:
        """Closes them all; no thread may be using one."""
        with self._lock:
            wires, self._wires = list(self._wires.values()), {}
        for wire in wires:
            wire.close()


class RemoteTarget:
    """The operator's store, as this process writes to it."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def publish(self, saved: Saved, patience: Patience) -> None:
        """Uploads a checkpoint, or this process's part of one, and commits it.

        Raises:
            Fenced: if a newer attempt of the job has begun.
            CorralError, OSError: if there is none in the end.
        """
        # Connections of its own: an earlier work that was given up may still hold its own.
        uploader = _Uploader(self._environment, saved, patience)
        try:
            uploader.run()
        finally:
            uploader.close()


class _Uploader:
    """One checkpoint on its way up."""

    def __init__(self, environment: Environment, saved: Saved, patience: Patience) -> None:
        self._environment = environment
        self._saved = saved
        self._patience = patience
        self._client = Client(environment)
        self._connections = Connections(environment.ca)

    def run(self) -> None:
        entries = disk.measure(str(self._saved.folder.path), durable=False)
        for last in (*[False] * (_ROUNDS - 1), True):
            try:
                self._upload(entries)
                return
            except (Expired, Refused):
                if last:
                    raise

    def close(self) -> None:
        self._client.close()
        self._connections.close()

    def _upload(self, entries: list[FileEntry]) -> None:
        saved, patience, common = self._saved, self._patience, self._common()
        body = {**common, "step": saved.step, "files": [entry.document() for entry in entries]}
        answer = patience.retry(partial(self._client.post, "uploads", body))
        identifier, places = answer.get("id"), answer.get("files")
        if not isinstance(identifier, str) or not isinstance(places, list):
            raise CheckpointError("the operator's answer has no id or no files")
        if len(places) != len(entries):
            raise CheckpointError("the operator's answer has not as many files as were asked for")
        files = [
            self._upload_file(entry, place)
            for entry, place in zip(entries, places)  # noqa: B905 (strict= needs Python 3.10)
        ]
        done = {**common, "files": files, "duration": max(time.time() - saved.began, 0.0)}
        patience.retry(partial(self._client.post, f"uploads/{identifier}/commit", done))

    def _common(self) -> dict[str, Any]:
        environment, saved = self._environment, self._saved
        common: dict[str, Any] = {
            "replica": environment.process if saved.sharded else environment.replica,
            "of": environment.processes if saved.sharded else 1,
            "attempt": environment.attempt,
            "metrics": saved.metrics,
        }
        return common if saved.request is None else {**common, "request": saved.request}

    def _upload_file(self, entry: FileEntry, place: Mapping[str, Any]) -> dict[str, Any]:
        path = str(self._saved.folder.path / entry.path)
        tasks = [
            partial(self._patience.retry, partial(self._put, path, request))
            for request in place["requests"]
        ]
        etags = parallel.run(tasks, workers=4)
        return {**entry.document(), "upload": place.get("upload"), "etags": etags}

    def _put(self, path: str, request: Mapping[str, Any]) -> str:
        part = Slice(path, int(request.get("start", 0)), int(request["size"]))
        answer = self._connections.get().send(
            str(request.get("method", "PUT")), str(request["url"]), _headers(request), part
        )
        _check(answer.status, str(request["url"]), answer.data)
        return answer.headers.get("etag", "")


class Downloads:
    """Checkpoints of the operator's store, as this process reads them."""

    def __init__(self, environment: Environment) -> None:
        self._client = Client(environment)
        self._connections = Connections(environment.ca)

    def close(self) -> None:
        self._client.close()
        self._connections.close()

    def candidates(self, source: str, patience: Patience) -> list[Candidate]:
        """What may be restored, best first.

        Raises:
            Unavailable: if the operator does not answer.
            Refused: if there is no such checkpoint.
        """
        answer = patience.retry(partial(self._client.post, "restore", {"from": source}))
        found = answer.get("candidates")
        return [_candidate(document) for document in found] if isinstance(found, list) else []

    def fetch(self, candidate: Candidate, into: str, patience: Patience) -> None:
        """Writes all files of a checkpoint below a folder.

        Raises:
            Damaged: if one of them is missing or is not what the manifest says.
            Expired: if the requests are too old.
            Unavailable: if the store does not answer.
        """
        parallel.run(
            [
                partial(self._fetch_file, candidate, entry, into, patience)
                for entry in candidate.files
            ]
        )

    def _fetch_file(
        self, candidate: Candidate, entry: FileEntry, into: str, patience: Patience
    ) -> None:
        path = os.path.join(into, entry.path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        request = candidate.requests[entry.path]
        hasher = hashlib.sha256()
        with open(path, "wb", buffering=0) as file:
            # A download that broke off goes on where it was, which the digest then proves right.
            patience.retry(partial(self._receive, request, file, hasher, entry, candidate.id))
        disk.check_digest(candidate.id, entry, hasher.hexdigest())

    def _receive(
        self, request: Mapping[str, Any], file: Any, hasher: Any, entry: FileEntry, name: str
    ) -> None:
        have = file.tell()
        if have == entry.size and have:
            return
        headers = {**_headers(request), **({"Range": f"bytes={have}-"} if have else {})}
        wire, url = self._connections.get(), str(request["url"])
        response = wire.stream(str(request.get("method", "GET")), url, headers)
        try:
            if response.status in (404, 410):
                missing = Finding(name, Finding.MISSING, f"{entry.path} is missing", entry.path)
                raise Damaged(missing)
            _check(response.status, url, b"")
            skip = have if response.status != 206 else 0
            self._copy(response, file, hasher, entry, name, skip)
        except BaseException:
            wire.close()
            raise

    def _copy(
        self, response: Any, file: Any, hasher: Any, entry: FileEntry, name: str, skip: int
    ) -> None:
        import http.client

        while True:
            try:
                data = response.read(BLOCK)
            except (OSError, http.client.HTTPException) as error:
                raise Unavailable(f"{entry.path} broke off after {file.tell()} bytes") from error
            if not data:
                break
            data, skip = data[skip:], max(skip - len(data), 0)
            _write(file, data)
            hasher.update(data)
            if file.tell() > entry.size:
                raise _truncated(name, entry, file.tell())
        if file.tell() < entry.size:
            if response.length:  # the other side promised more
                raise Unavailable(f"{entry.path} broke off after {file.tell()} bytes")
            raise _truncated(name, entry, file.tell())


def _write(file: Any, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def _truncated(name: str, entry: FileEntry, actual: int) -> Damaged:
    message = f"{entry.path} has {actual} bytes or more instead of {entry.size}"
    if actual < entry.size:
        message = f"{entry.path} has {actual} bytes instead of {entry.size}"
    return Damaged(Finding(name, Finding.TRUNCATED, message, entry.path))


def _candidate(document: Mapping[str, Any]) -> Candidate:
    try:
        identifier = str(document["id"])
        step = document.get("step")
        files = tuple(file_entry(entry) for entry in document["files"])
        requests = {entry["path"]: dict(entry["request"]) for entry in document["files"]}
        metrics = {str(k): _metric(v) for k, v in (document.get("metrics") or {}).items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Unavailable(f"the operator's answer is not understood: {error!r}") from error
    known = step_of(identifier)
    if known is None or any(entry.path not in requests for entry in files):
        raise Unavailable(f"the operator named a checkpoint {identifier[:80]!r}")
    return Candidate(identifier, known if step is None else int(step), metrics, files, requests)


def _metric(value: Any) -> float | None:
    with contextlib.suppress(TypeError, ValueError):
        return float(value)
    return None


def _headers(request: Mapping[str, Any]) -> dict[str, str]:
    return {str(name): str(value) for name, value in (request.get("headers") or {}).items()}


def _check(status: int, url: str, data: bytes) -> None:
    """Raises for an answer of a store that is not a success."""
    if 200 <= status < 300:
        return
    host = urlsplit(url).netloc
    details = f"{host} answered {status} {data[:200].decode(errors='replace')}".rstrip()
    if status in (400, 401, 403):  # stores say one or another of these for a signature too old
        raise Expired(details)
    if status >= 500 or status in (404, 408, 409, 412, 429):
        raise Unavailable(details)
    raise CheckpointError(details)
