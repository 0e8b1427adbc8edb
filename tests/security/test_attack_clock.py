"""A clock that is wrong, or put right, locks nobody out and keeps nobody in."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from corral.cli.errors import FORBIDDEN, Trouble
from corral.cli.session import check_certificate
from corral.cluster.apiserver.auth.authentication import Authenticator
from corral.cluster.apiserver.auth.jwt import Signer
from corral.cluster.apiserver.auth.pki import KeyPair, ensure_pki, kubeconfig
from corral.cluster.apiserver.auth.tokens import ServiceAccountTokens, TokenIssuer, TokenRejected
from corral.cluster.apiserver.server import ApiServer, Config
from corral.cluster.node.server.certificates import Certificates
from corral.cluster.node.volumes.tokens import PodTokens
from corral.gateway.tls import ServerTls, own_certificate
from corral.kube import KubeClient, errors
from corral.kube.connection.kubeconfig import load_config
from corral.kube.resources import NAMESPACES
from corral.kube.types import Obj
from corral.runtime.webhooks.certificates import advance
from tests.faults.clock import DAY, Clock

JUMPS = (730, -400, 20 * 365, -20 * 365)
"""Days by which the clock was wrong when certificates were made."""


def at(days: float) -> datetime:
    return datetime.now(UTC) + timedelta(days=days)


def valid_now(cert: x509.Certificate) -> bool:
    return cert.not_valid_before_utc <= datetime.now(UTC) <= cert.not_valid_after_utc


@pytest.mark.attack(
    "clock",
    "starts the cluster while the machine's clock is years off (or brings it about)",
    "at the right time every certificate that is not valid is made anew, the CA with its old key",
)
@pytest.mark.parametrize("days", JUMPS)
def test_certificates_of_a_wrong_clock(days: int, tmp_path: Path) -> None:
    wrong = ensure_pki(tmp_path, now=at(days))
    issued = wrong.issue_client_cert("somebody").cert
    key = wrong.ca.key
    right = ensure_pki(tmp_path)
    authority = x509.load_pem_x509_certificate(right.ca.cert)
    assert valid_now(authority)
    assert right.ca.key == key
    for pair in (right.serving, right.admin, right.kubelet_client):
        found = x509.load_pem_x509_certificate(pair.cert)
        found.verify_directly_issued_by(authority)
        assert valid_now(found)
    # what was handed out before is still of this authority
    x509.load_pem_x509_certificate(issued).verify_directly_issued_by(authority)
    assert handshake(right.ca.cert_file, right.serving)


@pytest.mark.attack(
    "clock",
    "waits until the clock is put right: whoever got the CA while it was ahead cannot verify it",
    "the CA begins long before it was made: the trust of before goes on",
)
def test_trust_of_a_wrong_clock(tmp_path: Path) -> None:
    ahead = tmp_path / "ahead.crt"
    ahead.write_bytes(ensure_pki(tmp_path / "pki", now=at(730)).ca.cert)
    assert handshake(ahead, ensure_pki(tmp_path / "pki").serving)


def handshake(ca: Path, serving: KeyPair) -> bool:
    """Whether a client that trusts an authority reaches a server, by the real clock."""
    client = ssl.create_default_context(cafile=str(ca))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(serving.cert_file, serving.key_file)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    here = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    there = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(10):
        for end in (here, there):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return here.version() is not None and here.getpeercert() is not None


# -- the API server --------------------------------------------------------------------------------


class Moment:
    """A clock of the case's own."""

    def __init__(self, days: float) -> None:
        self.days = days

    def __call__(self) -> float:
        return time.time() + self.days * DAY


@asynccontextmanager
async def served(folder: Path, clock: Moment) -> AsyncIterator[ApiServer]:
    server = ApiServer(Config(folder, clock=clock))
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def reaches(path: Path) -> bool:
    """Whether a client with a kubeconfig is served: TLS in both directions, by the real clock."""
    async with KubeClient(load_config(path)) as client:
        return bool(await client.get(NAMESPACES, "default"))


@pytest.mark.attack(
    "clock",
    "lets a cluster run until its certificates end, or sets the clock while it runs",
    "they are renewed and taken into use without a restart, the kubeconfig too",
)
@pytest.mark.parametrize("days", [730, -400])
async def test_renewed_while_it_runs(days: int, tmp_path: Path) -> None:
    clock = Moment(days)
    async with served(tmp_path, clock) as server:
        told: list[bool] = []
        server.on_renewal = lambda: told.append(True)
        with pytest.raises(Exception, match=r"certificate|SSL|disconnect|reset"):
            await reaches(server.kubeconfig)
        clock.days = 0
        await server.renewal.check()
        assert await reaches(server.kubeconfig)
        assert told == [True]
        await server.renewal.check()
        assert told == [True]


@pytest.mark.attack(
    "clock",
    "has the disk refuse the new certificate",
    "the server goes on with that of before and tries again",
)
async def test_renewal_that_fails(tmp_path: Path) -> None:
    clock = Moment(0)
    async with served(tmp_path, clock) as server:
        clock.days = 400
        folder = tmp_path / "pki"
        folder.rename(tmp_path / "away")
        folder.write_text("in the way")
        await server.renewal.check()
        assert await reaches(server.kubeconfig)
        folder.unlink()
        (tmp_path / "away").rename(folder)


# -- tokens ----------------------------------------------------------------------------------------


@pytest.mark.attack(
    "clock",
    "sets the clock back, so that a token that was verified is believed for years",
    "how long it is believed is counted by a clock that cannot be set",
)
def test_verified_tokens_end(tmp_path: Path) -> None:
    clock, steady = Moment(0), [0.0]
    account: Obj | None = {"metadata": {"name": "a", "uid": "u", "namespace": "n"}}
    pki = ensure_pki(tmp_path)
    issuer = TokenIssuer(Signer.from_pem(pki.service_account_key_file.read_bytes()), clock=clock)
    accounts = ServiceAccountTokens(issuer, lambda *_: account)
    found = Authenticator(service_accounts=accounts, clock=lambda: steady[0])
    token, _ = issuer.issue("n", "a", sa_uid="u")
    assert found.authenticate(f"Bearer {token}").name == "system:serviceaccount:n:a"
    clock.days, account, steady[0] = -730, None, 11.0
    with pytest.raises((errors.Unauthorized, TokenRejected)):
        found.authenticate(f"Bearer {token}")


class Issues:
    """An API server's answers to requests for tokens."""

    def __init__(self, clock: Moment) -> None:
        self._clock, self.count = clock, 0

    async def create_subresource(self, *_: object, **__: object) -> Obj:
        self.count += 1
        end = datetime.fromtimestamp(self._clock() + 3600, UTC)
        return {"status": {"token": str(self.count), "expirationTimestamp": f"{end:%FT%TZ}"}}


@pytest.mark.attack(
    "clock",
    "puts the clock of a node back: the tokens of its pods are of a time to come, and refused",
    "they are asked for again",
)
@pytest.mark.parametrize(("days", "again"), [(-1, True), (1, True), (0, False)])
async def test_tokens_of_pods(days: int, again: bool) -> None:
    clock = Moment(0)
    source = {"serviceAccountToken": {"path": "token"}}
    pod = {"metadata": {"name": "p", "namespace": "n", "uid": "u"},
           "spec": {"volumes": [{"name": "v", "projected": {"sources": [source]}}]}}  # fmt: skip
    issues = Issues(clock)
    tokens = PodTokens(issues, pod, turns=asyncio.Semaphore(1), clock=clock)  # type: ignore[arg-type]
    await tokens.fetch()
    clock.days = days
    await tokens.fetch()
    assert issues.count == (2 if again else 1)


# -- the other servers -----------------------------------------------------------------------------


@pytest.mark.attack(
    "clock",
    "starts a node while its clock is ahead: its certificate is not valid yet when it is put right",
    "whoever connects then gets a new one",
)
async def test_certificate_of_a_node(tmp_path: Path) -> None:
    moments = [at(730)]
    certificates = Certificates(tmp_path, ["localhost"], now=lambda: moments[-1])
    context = certificates.listening()

    async def shown() -> x509.Certificate:
        async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
        async with server:
            unverified = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
            port = server.sockets[0].getsockname()[1]
            _, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=unverified, server_hostname="localhost"
            )
            der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            writer.close()
            return x509.load_der_x509_certificate(der)

    assert not valid_now(await shown())
    moments.append(datetime.now(UTC))
    assert valid_now(await shown())
    again = Certificates(tmp_path, ["localhost"])
    again.listening()
    assert valid_now(x509.load_pem_x509_certificate((tmp_path / "node.crt").read_bytes()))


@pytest.mark.attack(
    "clock",
    "has the gateway or a webhook make its certificate at a wrong time",
    "a new one is made at the right time, and taken into use without a restart",
)
@pytest.mark.parametrize("days", JUMPS)
def test_certificates_of_gateway_and_webhooks(days: int, tmp_path: Path) -> None:
    wrong = advance(None, ["localhost"], at(days))
    right = advance(wrong, ["localhost"], datetime.now(UTC))
    assert valid_now(right.serving.x509) and valid_now(right.authority.x509)
    own_certificate(tmp_path, ["localhost"], now=lambda: at(days))
    tls = ServerTls(
        own_certificate(tmp_path, ["localhost"], now=lambda: at(days)),
        renew=lambda: own_certificate(tmp_path, ["localhost"]),
    )
    tls._renew()
    tls.refresh()
    assert handshake(tmp_path / "ca.crt", KeyPair(tls.files.cert, tls.files.key))


@pytest.mark.attack(
    "clock",
    "fills the disk, or kills the gateway, between two files of a certificate that is renewed",
    "what was not written is written the next time: no old certificate serves until it ends",
)
@pytest.mark.parametrize("left", ["tls.crt", "tls.key", "ca.crt", "tls.crt tls.key ca.crt"])
def test_renewal_of_the_gateway_that_was_cut_off(left: str, tmp_path: Path) -> None:
    own_certificate(tmp_path, ["localhost"], now=lambda: at(-400))
    before = {name: (tmp_path / name).read_bytes() for name in left.split()}
    own_certificate(tmp_path, ["localhost"])
    for name, content in before.items():
        (tmp_path / name).write_bytes(content)
    files = own_certificate(tmp_path, ["localhost"])
    assert handshake(tmp_path / "ca.crt", KeyPair(files.cert, files.key))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "ca.crt", "certificates.json", "tls.crt", "tls.key",
    ]  # fmt: skip


@pytest.mark.attack(
    "clock",
    "leaves people with a certificate that is not valid and an error that names no cause",
    "the command line says which end it is, and what to do",
)
@pytest.mark.parametrize(("days", "words"), [(730, "not valid before"), (-400, "expired on")])
def test_words_of_the_command_line(days: int, words: str, tmp_path: Path) -> None:
    made = ensure_pki(tmp_path / "pki", now=at(days))
    path = tmp_path / "kubeconfig"
    config = kubeconfig(
        "https://127.0.0.1:1", ca=made.ca.cert, cert=made.admin.cert, key=made.admin.key
    )
    path.write_text(json.dumps(config))
    with pytest.raises(Trouble, match=words) as told:
        check_certificate(load_config(path))
    assert told.value.code == FORBIDDEN


# -- all of it, by the system's clock --------------------------------------------------------------


@pytest.mark.attack(
    "clock",
    "has `corral apiserver` started two years ahead, and then at the right time",
    "it serves at both times",
)
def test_a_server_started_two_years_ahead(tmp_path: Path) -> None:
    clock = Clock(tmp_path)
    data = tmp_path / "data"
    command = [sys.executable, "-m", "corral.cli.main", "apiserver", "--data-dir", str(data),
               "--port", "0"]  # fmt: skip
    for days in (730, 0):
        clock.set(days * DAY)
        process = subprocess.Popen(
            command, env={**_environment(), **clock.environment}, stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            assert "is ready" in process.stdout.readline()
            told = subprocess.run(
                [sys.executable, "-c", _ASK, str(data / "kubeconfig")],
                env={**_environment(), **clock.environment},
                capture_output=True, text=True, timeout=60, check=False,
            )  # fmt: skip
            assert told.stdout.strip() == "default", told.stderr
        finally:
            process.terminate()
            process.communicate(timeout=30)


_ASK = """
import asyncio, sys
from corral.kube import KubeClient
from corral.kube.resources import NAMESPACES
async def main():
    async with KubeClient.from_kubeconfig(sys.argv[1]) as client:
        print((await client.get(NAMESPACES, "default"))["metadata"]["name"])
asyncio.run(main())
"""


def _environment() -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).parents[2])}
