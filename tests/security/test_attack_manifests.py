"""Manifests that others have written, and servers of stores that never come to an end."""

from __future__ import annotations

import socket
import ssl
import threading
import tracemalloc
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from corral.checkpoints.errors import StoreError
from corral.checkpoints.findings import Reason
from corral.checkpoints.local import LocalStore
from corral.checkpoints.manifest import Manifest, seal
from corral.checkpoints.repository import Repository, Room
from corral.egress.dialing import opener
from corral.egress.policy import EgressPolicy
from corral.runtime.webhooks.certificates import advance

NAMES = [f"step-{step:012d}.x" for step in range(8)]


def put(folder: Path, name: str, data: bytes) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "MANIFEST.json").write_bytes(data)


def sealed(name: str, **more: Any) -> bytes:
    document = Manifest(id=name, step=int(name[5:17]), time=1.7e9, files=()).document()
    return seal({**document, **more})


@pytest.mark.attack(
    "checkpoints",
    "fills the operator's memory by manifests: one of many megabytes, or many of some",
    "few are read of one job, and the message says what to do",
)
def test_manifests_of_many_megabytes(tmp_path: Path) -> None:
    put(tmp_path / "one", NAMES[0], b"[" + b"[]," * (6 << 20) + b"1]")
    for name in NAMES:
        put(tmp_path / "many", name, b"[" + b"[]," * (100 << 10) + b"1]")
    tracemalloc.start()
    try:
        with pytest.raises(StoreError, match=r"MANIFEST.json is larger than 16777216 bytes"):
            Repository(LocalStore(tmp_path / "one"), room=Room()).scan()
        room = Room(together=1 << 20)
        with pytest.raises(StoreError, match="more than 1048576 bytes: delete some of them"):
            Repository(LocalStore(tmp_path / "many"), room=room, workers=1).scan()
        assert tracemalloc.get_traced_memory()[1] < 80 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.attack(
    "checkpoints",
    "has the operator remember large states of generators and loaders that manifests may hold",
    "what only the job's own programs need is not remembered",
)
def test_states_in_manifests(tmp_path: Path) -> None:
    put(tmp_path, NAMES[0], sealed(NAMES[0], rng=[{}] * 1000, position=[1, 2]))
    (found,) = Repository(LocalStore(tmp_path), room=Room()).scan().manifests
    assert (found.rng, found.position) == (None, None)
    (found,) = Repository(LocalStore(tmp_path)).scan().manifests
    assert (len(found.rng), found.position) == (1000, [1, 2])


@pytest.mark.attack(
    "checkpoints",
    "breaks the operator's work by a manifest whose digest is right and whose members are odd",
    "it is damaged, and the others are read",
)
@pytest.mark.parametrize(
    "odd",
    [
        {"metrics": []},
        {"metrics": {"loss": 10**400}},
        {"metrics": dict.fromkeys(map(str, range(20_000)), 1)},
        {"mesh": "x"},
        {"files": {"a": 1}},
        {"files": [[]]},
        {"time": "0001-01-01T00:00:00"},
    ],
    ids=["list", "huge", "many", "text", "mapping", "lists", "year"],
)
def test_odd_members(tmp_path: Path, odd: Mapping[str, Any]) -> None:
    put(tmp_path, NAMES[0], sealed(NAMES[0], **odd))
    put(tmp_path, NAMES[1], sealed(NAMES[1]))
    scan = Repository(LocalStore(tmp_path), room=Room()).scan()
    assert [found.id for found in scan.manifests] == [NAMES[1]]
    assert [(found.checkpoint, found.reason) for found in scan.findings] == [
        (NAMES[0], Reason.TORN)
    ]


# -- servers that send a little again and again ----------------------------------------------------


@contextmanager
def dripping(context: ssl.SSLContext | None) -> Iterator[int]:
    """A server that sends one byte of a header after the other, as long as somebody listens."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        try:
            with client if context is None else context.wrap_socket(client, server_side=True) as to:
                to.recv(65536)
                to.sendall(b"HTTP/1.1 200 OK\r\nX: ")
                while True:
                    to.sendall(b"a")
        except OSError:
            return

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()
        thread.join()


@pytest.mark.attack(
    "endpoints",
    "holds the operator's threads for ever by a store that sends a byte of its answer at a time",
    "a connection ends when its time is over, with and without TLS",
)
@pytest.mark.parametrize("secure", [False, True])
def test_answers_that_drip(tmp_path: Path, secure: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    context = None
    if secure:
        made = advance(None, ["127.0.0.1"], datetime.now(UTC))
        (tmp_path / "ca.crt").write_bytes(made.bundle)
        (tmp_path / "server.pem").write_bytes(made.serving.cert + made.serving.key)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.crt"))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "server.pem")
    with dripping(context) as port:
        calls = opener(EgressPolicy.of([f"127.0.0.1:{port}"]), seconds=0.0)
        request = urllib.request.Request(f"http{'s' * secure}://127.0.0.1:{port}/")
        with pytest.raises(OSError, match="the server takes too long"):
            calls.open(request, timeout=30)
