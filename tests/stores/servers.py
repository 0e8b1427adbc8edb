"""Store servers on loopback, each a process of its own that ends with the tests.

`make components` gets those that pip cannot; without them their cases are skipped, visibly.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from corral.checkpoints.location import Location
from corral.checkpoints.signing.v4 import amazon
from tests.backends.base import free_port
from tests.stores import azure_server
from tests.stores.gcs_server import Bucket, GcsServer
from tests.support.components import CACHE, COMPONENTS, skip

ACCESS, SECRET = "testaccess", "testsecretkey"
ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = (  # the emulator's well-known key
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
BUCKET = "training"


@dataclass(frozen=True)
class Served:
    """A store that runs."""

    location: Location
    credentials: Mapping[str, str]
    conditional: bool = True
    """Whether the server honours create-if-absent."""
    ranged: bool = True
    """Whether the server gives parts of objects that were uploaded in parts."""
    google: GcsServer | None = None


@contextmanager
def process(command: list[str], port: int, log: Path, **env: str) -> Iterator[None]:
    """Runs a server until the block ends; it must listen on the port."""
    with log.open("wb") as output:
        server = subprocess.Popen(
            command, env={**os.environ, **env}, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            deadline = time.monotonic() + 60
            while not listens(port):
                if server.poll() is not None or time.monotonic() > deadline:
                    pytest.fail(f"{command[0]} does not listen: {log.read_text()[-2000:]}")
            yield
        finally:
            server.terminate()
            server.wait()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def send(method: str, url: str, body: bytes | None = None, **headers: str) -> int:
    """Status of one request."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, data=body, method=method, headers=named)
    try:
        with urllib.request.urlopen(request) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@contextmanager
def versitygw(folder: Path) -> Iterator[Served]:
    binary = shutil.which("versitygw") or str(CACHE / "stores/bin/versitygw")
    if not Path(binary).is_file():
        skip("versitygw")
    (folder / "data").mkdir()
    port = free_port()
    command = [binary, "--port", f"127.0.0.1:{port}", "posix", str(folder / "data")]
    with process(command, port, folder / "log", ROOT_ACCESS_KEY=ACCESS, ROOT_SECRET_KEY=SECRET):
        yield s3(port)


@contextmanager
def rclone(folder: Path) -> Iterator[Served]:
    # beside the Python that runs, which need not be on the way
    binary = shutil.which("rclone", path=os.path.dirname(sys.executable)) or shutil.which("rclone")
    if binary is None:
        skip("rclone")
    (folder / "data").mkdir()
    port = free_port()
    command = [binary, "serve", "s3", "--auth-key", f"{ACCESS},{SECRET}"]
    command += ["--addr", f"127.0.0.1:{port}", str(folder / "data")]
    with process(command, port, folder / "log"):
        yield replace(s3(port), conditional=False, ranged=False)


def s3(port: int) -> Served:
    endpoint = f"http://127.0.0.1:{port}"
    scheme = amazon(ACCESS, SECRET, region="us-east-1")
    bucket = scheme.presign("PUT", f"{endpoint}/{BUCKET}", now=time.time(), ttl=60)
    assert send("PUT", bucket.url, b"") == 200
    credentials = {"AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET}
    location = Location("s3", BUCKET, endpoint=endpoint, region="us-east-1")
    return Served(location, credentials)


@contextmanager
def azurite(folder: Path) -> Iterator[Served]:
    script = CACHE / "stores/azurite/node_modules/azurite/dist/src/blob/main.js"
    if shutil.which("node") is None or not script.is_file():
        skip("azurite")
    port = free_port()
    command = ["node", str(script), "--silent", "--disableTelemetry", "--skipApiVersionCheck"]
    command += ["--location", str(folder), "--blobHost", "127.0.0.1", "--blobPort", str(port)]
    with process(command, port, folder / "log"):
        endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
        create_container(endpoint)
        credentials = {"AZURE_STORAGE_ACCOUNT_KEY": ACCOUNT_KEY}
        location = Location("az", BUCKET, endpoint=endpoint, account=ACCOUNT)
        yield Served(location, credentials)


def create_container(endpoint: str) -> None:
    date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
    lines = [f"x-ms-date:{date}", "x-ms-version:2021-12-02"]
    path = f"/{ACCOUNT}/{ACCOUNT}/{BUCKET}\nrestype:container"
    text = "\n".join(["PUT", *[""] * 11, *lines, path])
    digest = hmac.digest(base64.b64decode(ACCOUNT_KEY), text.encode(), hashlib.sha256)
    authorization = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
    request = urllib.request.Request(
        f"{endpoint}/{BUCKET}?restype=container",
        method="PUT",
        headers={
            "x-ms-date": date,
            "x-ms-version": "2021-12-02",
            "Authorization": authorization,
        },
    )
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 201


@contextmanager
def google(folder: Path) -> Iterator[Served]:
    server = GcsServer()
    server.buckets[BUCKET] = Bucket()
    try:
        location = Location("gs", BUCKET, endpoint=server.endpoint)
        yield Served(location, {"GOOGLE_SERVICE_ACCOUNT_KEY": server.account}, google=server)
    finally:
        server.stop()


@contextmanager
def azure(folder: Path) -> Iterator[Served]:
    server = azure_server.AzureServer()
    server.containers[BUCKET] = azure_server.Container()
    try:
        account = azure_server.ACCOUNT
        location = Location("az", BUCKET, endpoint=server.endpoint, account=account)
        yield Served(location, {"AZURE_STORAGE_ACCOUNT_KEY": azure_server.KEY})
    finally:
        server.stop()


@contextmanager
def local(folder: Path) -> Iterator[Served]:
    yield Served(Location("file", prefix=str(folder / "store")), {})


SERVERS = {
    "local": local,
    "versitygw": versitygw,
    "rclone": rclone,
    "azurite": azurite,
    "azure": azure,
    "gcs": google,
}
_PROTOCOLS = (("versitygw", "rclone"), ("azurite", "azure"), ("gcs",))
"""The servers of each, the one first that `make test` runs where the machine can have it."""


def remote_stores() -> list[Any]:
    """Parameters: one server of each protocol, and the others marked for `make test-full`."""
    found: list[Any] = []
    for servers in _PROTOCOLS:
        first = next(name for name in servers if _can_be_had(name))
        marked = (name for name in servers if name != first)
        found += [first, *(pytest.param(name, marks=pytest.mark.full) for name in marked)]
    return found


def _can_be_had(name: str) -> bool:
    return name not in COMPONENTS or COMPONENTS[name].can_be_fetched()
