"""Pre-signed URLs on every store: they work, and nothing but what was signed works."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from corral.checkpoints.clients import signer_for
from corral.checkpoints.errors import (
    AlreadyExists,
    InvalidSignature,
    NotFound,
    SigningUnsupported,
)
from corral.checkpoints.local import LocalStore
from corral.checkpoints.location import Location
from corral.checkpoints.objects import ObjectStore
from corral.checkpoints.signing import LocalSigner, SignedRequest, UrlSigner
from corral.checkpoints.signing.delegated import DelegatedSigner
from corral.checkpoints.store import Store
from tests.stores.servers import Served

MakeSigner = Callable[[float], UrlSigner]


class Folder:
    """The small server that a folder needs: it verifies, then uses the store."""

    def __init__(self, store: LocalStore) -> None:
        self.store = store
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                return

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                status, data = outer.answer(self.command, self.path, body)
                self.send_response(status)
                self.send_header("content-length", str(len(data)))
                self.send_header("etag", "x")
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_PUT = handle_any

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base = f"http://127.0.0.1:{self.http.server_address[1]}/files"
        self.thread = Thread(target=self.http.serve_forever)
        self.thread.start()

    def signer(self, now: float) -> LocalSigner:
        return LocalSigner(self.store, base=self.base, keys={"k": bytes(32)}, clock=lambda: now)

    def answer(self, method: str, url: str, body: bytes) -> tuple[int, bytes]:
        try:
            grant = self.signer(time.time()).verify(method, url)
            if grant.method == "GET":
                return 200, self.store.read(grant.path).data
            if grant.create:
                self.store.create(grant.path, body)
            else:
                self.store.write(grant.path, [body])
        except InvalidSignature:
            return 403, b""
        except AlreadyExists:
            return 412, b""
        return 200, b""


@pytest.fixture
def make_signer(served: Served, location: Location, store: Store) -> Iterator[MakeSigner]:
    """Signers whose clock shows what is asked for."""
    if isinstance(store, LocalStore):
        folder = Folder(store)
        yield folder.signer
        folder.http.shutdown()
        folder.http.server_close()
        folder.thread.join()
        return

    assert isinstance(store, ObjectStore)
    client = store._client

    def make(now: float) -> UrlSigner:
        signer: Any = signer_for(location, served.credentials, client)
        signer._clock = lambda: now
        return signer  # type: ignore[no-any-return]

    yield make


def send(request: SignedRequest, body: bytes | None = None) -> tuple[int, bytes, Mapping[str, str]]:
    prepared = urllib.request.Request(
        request.url,
        data=body,
        method=request.method,
        headers={"Content-Type": "application/octet-stream", **request.headers},
    )
    try:
        with urllib.request.urlopen(prepared) as answer:
            return answer.status, answer.read(), dict(answer.headers.items())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), {}


def changed(request: SignedRequest, old: str, new: str) -> SignedRequest:
    assert old in request.url
    return SignedRequest(request.method, request.url.replace(old, new), 0.0, request.headers)


def test_put_then_get(make_signer: MakeSigner, store: Store) -> None:
    signer = make_signer(time.time())
    status, _, _ = send(signer.put("dir/näme with space", ttl=60), b"weights")
    assert status in (200, 201)
    assert store.read("dir/näme with space").data == b"weights"
    assert send(signer.get("dir/näme with space", ttl=60))[:2] == (200, b"weights")


def test_expired_is_refused(make_signer: MakeSigner, store: Store) -> None:
    store.write("x", [b"secret"])
    signer = make_signer(time.time() - 100)
    for request in (signer.get("x", ttl=50), signer.put("x", ttl=50)):
        status, data, _ = send(request, b"" if request.method == "PUT" else None)
        assert status in (400, 401, 403)
        assert b"secret" not in data
    assert store.read("x").data == b"secret"


def test_tampered_is_refused(make_signer: MakeSigner, store: Store) -> None:
    store.write("mine", [b"mine"])
    store.write("theirs", [b"a secret"])
    request = make_signer(time.time()).get("mine", ttl=60)
    other = changed(request, "mine", "theirs")
    write = SignedRequest("PUT", request.url, 0.0, {"x-ms-blob-type": "BlockBlob"})
    for tampered, body in ((other, None), (write, b"evil")):
        status, data, _ = send(tampered, body)
        assert status in (400, 401, 403)
        assert b"a secret" not in data
    assert store.read("mine").data == b"mine"


def test_a_longer_life_is_refused(make_signer: MakeSigner, store: Store) -> None:
    store.write("x", [b"secret"])
    request = make_signer(time.time() - 100).get("x", ttl=77)
    if "Expires=77" in request.url:
        longer = changed(request, "Expires=77", "Expires=7700")
    elif "expires=" in request.url:
        longer = changed(request, f"expires={int(request.expires)}", "expires=99999999999")
    else:
        longer = changed(request, "se=20", "se=21")
    assert send(longer)[0] in (400, 401, 403)


@pytest.mark.usefixtures("conditional")
def test_create_only(make_signer: MakeSigner, store: Store) -> None:
    request = make_signer(time.time()).put("once", ttl=60, create=True)
    assert send(request, b"1")[0] in (200, 201)
    assert send(request, b"2")[0] in (403, 409, 412)
    bare = {name: value for name, value in request.headers.items() if name == "x-ms-blob-type"}
    assert send(SignedRequest("PUT", request.url, 0.0, bare), b"3")[0] in (400, 403, 409, 412)
    assert store.read("once").data == b"1"


@pytest.mark.usefixtures("ranged")
def test_upload_in_parts(make_signer: MakeSigner, store: Store) -> None:
    signer = make_signer(time.time())
    upload = signer.start("large", parts=3, ttl=60)
    blocks = [bytes([65 + n]) * (5 << 20) for n in range(2)] + [b"tail"]
    etags = []
    for request, block in zip(upload.parts, blocks, strict=True):
        status, _, headers = send(request, block)
        assert status in (200, 201)
        etags.append({k.lower(): v for k, v in headers.items()}.get("etag", ""))
    with pytest.raises(NotFound):
        store.stat("large")
    signer.complete(upload, etags, create=True)
    assert store.stat("large").size == sum(map(len, blocks))
    tail = memoryview(bytearray(6))
    store.read_into("large", tail, start=(10 << 20) - 2)
    assert bytes(tail) == b"BBtail"


@pytest.mark.usefixtures("conditional")
def test_completing_over_an_object(make_signer: MakeSigner, store: Store) -> None:
    store.write("there", [b"first"])
    signer = make_signer(time.time())
    upload = signer.start("there", parts=1, ttl=60)
    _, _, headers = send(upload.parts[0], b"second")
    etag = {k.lower(): v for k, v in headers.items()}.get("etag", "")
    with pytest.raises(AlreadyExists):
        signer.complete(upload, [etag], create=True)
    signer.abort(upload)
    assert store.read("there").data == b"first"


def test_abandoned_uploads_are_swept(
    make_signer: MakeSigner, location: Location, store: Store
) -> None:
    if location.scheme == "az":
        pytest.skip("Azure drops uncommitted blocks by itself")
    signer = make_signer(time.time())
    old = signer.start("job/a", parts=1, ttl=60)
    send(old.parts[0], b"x")
    assert signer.sweep("job", before=time.time() - 3600) == 0
    assert signer.sweep("job", before=time.time() + 3600) == 1
    assert signer.sweep("job", before=time.time() + 3600) == 0
    signer.abort(old)


def test_signing_left_to_the_client(location: Location, store: Store) -> None:
    if not isinstance(store, ObjectStore) or location.scheme == "gs":
        pytest.skip("folders have no client; Google's may ask a service outside to sign")
    signer = DelegatedSigner(store._client, prefix=location.prefix)
    assert send(signer.put("x", ttl=60), b"data")[0] in (200, 201)
    assert send(signer.get("x", ttl=60))[:2] == (200, b"data")
    with pytest.raises(SigningUnsupported, match="access key"):
        signer.put("x", ttl=60, create=True)
    with pytest.raises(SigningUnsupported, match="access key"):
        signer.start("x", parts=2, ttl=60)
