"""`corral registry` alone, with a certificate, for the tokens of a cluster."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from corral.gateway.tls import own_certificate
from corral.oci import Artifacts, Denied, Endpoint, Layer, Reference, Registries, Unavailable
from corral.oci.settings import ClientSettings
from tests.backends import Backend
from tests.backends.base import wait_for
from tests.e2e.clusters import CORRAL

REF = Reference.parse("oci://models.example.com/default/job/models:v1")


@dataclass
class Served:
    url: str
    authority: Path


@pytest.fixture
def served(backend: Backend, tmp_path: Path) -> Iterator[Served]:
    files = own_certificate(tmp_path / "certs", ["127.0.0.1"])
    log = tmp_path / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [
                *CORRAL, "registry", "--kubeconfig", str(backend.kubeconfig), "--port", "0",
                "--data-dir", str(tmp_path / "data"),
                "--cert", str(files.cert), "--key", str(files.key),
            ],
            stdout=out, stderr=out, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    try:
        wait_for(process, log, "corral registry is ready")
        url = log.read_text().split("ready: ")[1].split()[0]
        yield Served(url, tmp_path / "certs" / "ca.crt")
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()


def client(served: Served, token: str, *, trusted: bool = True) -> Artifacts:
    ca_file = str(served.authority) if trusted else None
    endpoint = Endpoint(served.url, token=lambda: token, ca_file=ca_file)
    settings = ClientSettings(tries=2, first_wait=0.01)
    return Artifacts(Registries({REF.registry: endpoint}), settings=settings)


async def test_by_https_for_those_with_a_token(served: Served, backend: Backend) -> None:
    assert served.url.startswith("https://")
    async with client(served, backend.token) as artifacts:
        pushed = await artifacts.push(REF, [Layer("x/y", b"model")], artifact_type="x/z")
        assert (await artifacts.manifest(REF)).digest == pushed.digest
    async with client(served, "nonsense") as artifacts:
        with pytest.raises(Denied):
            await artifacts.manifest(REF)
    async with client(served, backend.token, trusted=False) as artifacts:
        with pytest.raises(Unavailable, match="certificate"):
            await artifacts.manifest(REF)
