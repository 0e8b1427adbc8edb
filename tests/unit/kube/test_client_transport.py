from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from kube_fake_api import FakeApi, answer, refuse

from corral.kube import (
    ClientSettings,
    ClusterConfig,
    IdleTimeout,
    KubeClient,
    KubeConnectionError,
    errors,
)
from corral.kube.connection.config import ConfigError, Impersonation
from corral.kube.connection.credentials import Credential
from corral.kube.connection.tls import TlsContexts
from corral.kube.connection.transport import parse_warning
from corral.kube.resources import NAMESPACES, PODS

Serve = Callable[..., Awaitable[FakeApi]]


def script(*answers: Any) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """A handler that gives one answer after the other; a string ``"reset"`` drops the line."""
    left = list(answers)

    async def handle(request: web.Request) -> web.StreamResponse:
        made = left.pop(0)
        if made == "reset":
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        assert isinstance(made, web.StreamResponse)
        return made

    return handle


async def test_request_carries_identity_and_agent(serve: Serve) -> None:
    api = await serve(script(answer({"kind": "Namespace"})))
    who = Impersonation("jane", groups=("a", "b"))
    await api.client(token="secret", impersonation=who).get(NAMESPACES, "x")
    headers = api.seen[0].headers
    assert headers["Authorization"] == "Bearer secret"
    assert headers["Impersonate-User"] == "jane"
    assert headers["User-Agent"].startswith("corral/")
    assert headers["Accept"] == "application/json"


async def test_path_prefix_of_the_server_is_kept(serve: Serve) -> None:
    api = await serve(script(answer({})))
    await api.client(server=f"{api.url}/k8s/c-1/").get(PODS, "a:b", namespace="n")
    assert api.seen[0].path == "/k8s/c-1/api/v1/namespaces/n/pods/a:b"


REFUSALS: dict[str, tuple[web.Response, type[errors.ApiError], int, str]] = {
    "status": (refuse(409, "AlreadyExists", "there"), errors.AlreadyExists, 409, "there"),
    "text": (web.Response(status=404, text="404 page not found\n"), errors.NotFound, 404,
             "404 page not found"),
    "empty": (web.Response(status=502), errors.ApiError, 502, "Bad Gateway"),
    "other JSON": (answer({"error": "x"}, 403), errors.Forbidden, 403, '{"error": "x"}'),
    "broken JSON": (web.Response(status=500, text="{"), errors.InternalError, 500, "{"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS)
async def test_refusals_are_typed(serve: Serve, case: str) -> None:
    response, kind, code, message = REFUSALS[case]
    api = await serve(script(response))
    with pytest.raises(errors.ApiError) as caught:
        await api.client().get(NAMESPACES, "x")
    assert type(caught.value) is kind
    assert (caught.value.status_code, caught.value.message) == (code, message)


@pytest.mark.parametrize("code", [429, 503])
async def test_retry_after_is_followed_for_any_method(serve: Serve, code: int) -> None:
    busy = [refuse(code, "TooManyRequests", Retry_After="0") for _ in range(2)]
    api = await serve(script(*busy, answer({"metadata": {"name": "x"}}, 201)))
    made = await api.client().create(NAMESPACES, {"metadata": {"name": "x"}})
    assert made["metadata"]["name"] == "x"
    assert [s.method for s in api.seen] == ["POST"] * 3
    assert len({s.body for s in api.seen}) == 1


async def test_retries_are_bounded(serve: Serve) -> None:
    api = await serve(script(*[refuse(429, "TooManyRequests", Retry_After="0") for _ in range(9)]))
    with pytest.raises(errors.TooManyRequests):
        await api.client(settings=ClientSettings(max_retries=3)).get(NAMESPACES, "x")
    assert len(api.seen) == 4


@pytest.mark.parametrize("headers", [{}, {"Retry_After": "3600"}], ids=["not asked", "too long"])
async def test_no_retry_unless_asked_within_reason(serve: Serve, headers: dict[str, str]) -> None:
    api = await serve(script(refuse(503, "ServiceUnavailable", **headers)))
    with pytest.raises(errors.ServiceUnavailable) as caught:
        await api.client().get(NAMESPACES, "x")
    assert caught.value.retry_after == (3600.0 if headers else None)
    assert len(api.seen) == 1


async def test_broken_connection_is_retried_for_get_only(serve: Serve) -> None:
    # aiohttp itself repeats a GET once on a connection that it had open already.
    api = await serve(script("reset", answer({"kind": "Namespace"}), "reset"))
    client = api.client()
    assert (await client.get(NAMESPACES, "x"))["kind"] == "Namespace"
    with pytest.raises(KubeConnectionError):
        await client.patch(NAMESPACES, "x", patch={})
    assert [s.method for s in api.seen] == ["GET", "GET", "PATCH"]


async def test_unreachable_server_is_one_clear_line() -> None:
    async with KubeClient(ClusterConfig(server="http://127.0.0.1:1")) as client:
        with pytest.raises(KubeConnectionError, match=r"cannot talk to http://127\.0\.0\.1:1: "):
            await client.get(NAMESPACES, "x")


async def test_closed_client_stays_closed(serve: Serve) -> None:
    api = await serve(script(answer({})))
    client = api.client()
    await client.get(NAMESPACES, "x")
    await client.close()
    with pytest.raises(KubeConnectionError, match="the client is closed"):
        await client.get(NAMESPACES, "x")


async def test_silent_server_times_out(serve: Serve) -> None:
    async def hang(request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    api = await serve(hang)
    client = api.client(settings=ClientSettings(read_timeout=0.05))
    with pytest.raises(IdleTimeout):
        await client.patch(NAMESPACES, "x", patch={})


async def test_refused_token_is_read_again_and_sent_once_more(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old")

    async def check(request: web.Request) -> web.StreamResponse:
        if request.headers["Authorization"] == "Bearer new":
            return answer({"kind": "Namespace"})
        path.write_text("new")
        return refuse(401, "Unauthorized")

    api = await serve(check)
    await api.client(token_file=str(path)).patch(NAMESPACES, "x", patch={})
    assert [s.headers["Authorization"] for s in api.seen] == ["Bearer old", "Bearer new"]


async def test_refused_fixed_token_is_unauthorized(serve: Serve) -> None:
    api = await serve(script(refuse(401, "Unauthorized")))
    with pytest.raises(errors.Unauthorized):
        await api.client(token="t").get(NAMESPACES, "x")


async def test_warnings_are_handed_over(serve: Serve) -> None:
    response = answer({})
    response.headers.add("Warning", '299 - "one \\"quoted\\""')
    response.headers.add("Warning", '299 agent "two"')
    response.headers.add("Warning", '199 - "other code"')
    api = await serve(script(response))
    await api.client().get(NAMESPACES, "x")
    assert api.warnings == ['one "quoted"', "two"]


def test_warning_with_a_date() -> None:
    assert parse_warning('299 - "text" "Wed, 21 Oct 2026 07:28:00 GMT"') == "text"


async def test_answer_that_is_no_object(serve: Serve) -> None:
    api = await serve(script(web.Response(text="<html>"), answer([1])))
    client = api.client()
    for _ in range(2):
        with pytest.raises(KubeConnectionError, match="the server answered with no"):
            await client.get(NAMESPACES, "x")


# --- TLS -----------------------------------------------------------------------------------------


class Authority:
    """A certificate authority that signs certificates for servers and people."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test ca")])
        self.cert = self._sign(self.name, self.key, ca=True)

    def _sign(self, name: x509.Name, key: Any, *, ca: bool = False, host: str = "") -> Any:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )
        if host:
            names: list[Any] = [x509.DNSName(host)]
            if host[0].isdigit():
                names = [x509.IPAddress(ip_address(host))]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self.key, hashes.SHA256())

    @property
    def pem(self) -> bytes:
        pem: bytes = self.cert.public_bytes(serialization.Encoding.PEM)
        return pem

    def issue(self, common_name: str, host: str = "") -> tuple[bytes, bytes]:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        cert = self._sign(name, key, host=host)
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return cert.public_bytes(serialization.Encoding.PEM), private


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def server_context(authority: Authority, tmp_path: Path, *, host: str) -> ssl.SSLContext:
    cert, key = authority.issue("server", host)
    (tmp_path / "server.pem").write_bytes(cert + key)
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=tmp_path / "ca.pem")
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_cert_chain(tmp_path / "server.pem")
    return context


async def whoami(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    peer = request.transport.get_extra_info("peercert") or {}
    names = [value for rdn in peer.get("subject", ()) for key, value in rdn if key == "commonName"]
    return answer({"names": names})


async def test_tls_with_client_certificate_data(
    serve: Serve, authority: Authority, tmp_path: Path
) -> None:
    api = await serve(whoami, ssl=server_context(authority, tmp_path, host="127.0.0.1"))
    cert, key = authority.issue("jane")
    client = api.client(ca_data=authority.pem, cert_data=cert, key_data=key)
    assert await client.get(NAMESPACES, "x") == {"names": ["jane"]}


async def test_rotated_certificate_files_are_taken_up(
    serve: Serve, authority: Authority, tmp_path: Path
) -> None:
    api = await serve(whoami, ssl=server_context(authority, tmp_path, host="127.0.0.1"))
    cert_file, key_file = tmp_path / "c.pem", tmp_path / "k.pem"
    client = api.client(
        ca_file=str(tmp_path / "ca.pem"), cert_file=str(cert_file), key_file=str(key_file)
    )
    now = [1000.0]
    client.transport._tls = TlsContexts(client.config, clock=lambda: now[0])
    seen = []
    for name in ("jane", "john-the-second"):
        cert, key = authority.issue(name)
        cert_file.write_bytes(cert)
        key_file.write_bytes(key)
        for _ in range(2):
            seen += (await client.get(NAMESPACES, "x"))["names"]
            now[0] += 59
    assert seen == ["jane", "jane", "john-the-second", "john-the-second"]


async def test_unchanged_files_keep_context_and_connections(
    authority: Authority, tmp_path: Path
) -> None:
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    config = ClusterConfig(server="https://a.test", ca_file=str(tmp_path / "ca.pem"))
    now = [1000.0]
    contexts = TlsContexts(config, clock=lambda: now[0])
    first = contexts.context(Credential())
    now[0] += 3600
    assert contexts.context(Credential()) is first
    cert, key = authority.issue("jane")
    assert contexts.context(Credential("", cert, key)) is not first


async def test_unknown_authority_is_refused_unless_insecure(
    serve: Serve, authority: Authority, tmp_path: Path
) -> None:
    api = await serve(whoami, ssl=server_context(authority, tmp_path, host="127.0.0.1"))
    with pytest.raises(KubeConnectionError, match="certificate is not trusted"):
        await api.client(ca_data=Authority().pem).get(NAMESPACES, "x")
    assert await api.client(insecure=True).get(NAMESPACES, "x") == {"names": []}


async def test_tls_server_name_is_what_is_checked(
    serve: Serve, authority: Authority, tmp_path: Path
) -> None:
    api = await serve(whoami, ssl=server_context(authority, tmp_path, host="inner.test"))
    with pytest.raises(KubeConnectionError, match="certificate is not trusted"):
        await api.client(ca_data=authority.pem).get(NAMESPACES, "x")
    client = api.client(ca_data=authority.pem, tls_server_name="inner.test")
    assert await client.get(NAMESPACES, "x") == {"names": []}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"ca_data": b"junk"}, "cannot use certificate authority certificate-authority-data"),
        ({"ca_file": "/none/ca"}, "cannot use certificate authority /none/ca"),
        ({"insecure": True, "cert_data": b"a", "key_data": b"b"}, "do not load"),
        ({"insecure": True, "cert_data": b"a"}, "without a client key"),
        ({"insecure": True, "cert_file": "/none/c"}, "cannot read client certificate /none/c"),
    ],
)
async def test_unusable_certificates(serve: Serve, fields: dict[str, Any], message: str) -> None:
    api = await serve(whoami)
    with pytest.raises(ConfigError, match=message):
        await api.client(server="https://127.0.0.1:1", **fields).get(NAMESPACES, "x")
