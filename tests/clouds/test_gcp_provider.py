"""What is GCP's own: operations that fail, advice, host keys, tokens."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest
from aiohttp import web
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from corral.clouds import AccountRefused, CloudError, QuotaExceeded, StockOut, Transient, VmRef
from corral.clouds.gcp import GcpProvider, GcpSettings, MachineIdentity, ServiceAccount
from corral.egress import EgressPolicy
from tests.clouds import harness
from tests.clouds.faults import Server, instantly
from tests.clouds.gcp_server import TOKEN
from tests.clouds.harness import OWNER, PATIENCE, Cloud


@pytest.fixture
async def cloud() -> AsyncIterator[Cloud]:
    async with harness.gcp() as made:
        yield made


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", StockOut),
        ("UNSUPPORTED_OPERATION", StockOut),
        ("QUOTA_EXCEEDED", QuotaExceeded),
        ("PERMISSIONS_ERROR", AccountRefused),
        ("INTERNAL_ERROR", Transient),
    ],
)
async def test_an_operation_that_fails(cloud: Cloud, code: str, kind: type[CloudError]) -> None:
    cloud.server.failing.append({"code": code, "message": "as planned"})
    with pytest.raises(kind) as raised:
        await cloud.provider.create(cloud.request)
    assert raised.value.code == code
    assert cloud.server.alive() == 0
    with pytest.raises(kind):  # GCP remembers what became of a request
        await cloud.provider.create(cloud.request)
    await cloud.provider.create(cloud.other_request())


async def test_a_vm_that_is_taken_while_it_is_made(cloud: Cloud) -> None:
    made = await cloud.provider.create(cloud.request)
    cloud.take(made)
    with pytest.raises(StockOut, match="taken at once"):
        await cloud.provider.create(cloud.request)
    assert cloud.server.alive() == 0


async def test_the_request_is_sent_as_documented(cloud: Cloud) -> None:
    await cloud.provider.create(cloud.request)
    (body,) = cloud.server.inserted
    assert body["scheduling"]["provisioningModel"] == "SPOT"
    assert body["labels"]["corral-owner"] == OWNER
    assert list(cloud.server.requests) == [cloud.request.request_id]


async def test_a_zone_that_cannot_be_seen_spoils_the_list(cloud: Cloud) -> None:
    cloud.server.unreachable = ["zones/us-east1-b"]
    with pytest.raises(Transient, match="us-east1-b"):
        await cloud.provider.list(OWNER)


async def test_a_drill(cloud: Cloud) -> None:
    made = await cloud.provider.create(cloud.request)
    await cloud.provider.preempt(made.ref)  # type: ignore[attr-defined]
    assert cloud.server.preempted == [made.name]


async def test_prices_and_hazards(cloud: Cloud) -> None:
    day = {"startTime": "2026-11-01T00:00:00Z", "endTime": "2026-11-02T00:00:00Z"}
    cloud.server.advice["capacityHistory"] = {
        "priceHistory": [{"interval": day, "listPrice": {"units": "2", "currencyCode": "USD"}}],
        "preemptionHistory": [{"interval": day, "preemptionRate": 0.5}],
    }
    kinds, zones = ["n1"], ["us-central1-a", "us-central1-b"]
    prices = await cloud.provider.prices(kinds, zones)
    assert [(p.zone, p.per_hour) for p in prices] == [(zones[0], 2.0), (zones[1], 2.0)]
    (first, _) = await cloud.provider.hazards(kinds, zones)  # no advice: from history
    assert first.source == "gcp capacityHistory"
    cloud.server.advice["capacity"] = {
        "recommendations": [{"scores": {"estimatedUptime": "3600s", "obtainability": 0.9}}]
    }
    (first, _) = await cloud.provider.hazards(kinds, zones)
    assert (first.source, first.per_hour) == ("gcp capacity advice", 1.0)
    what, body = cloud.server.advice["asked"][0]
    assert what == "capacityHistory"
    assert body["locationPolicy"] == {"location": "zones/us-central1-a"}


async def test_no_advice_for_a_project_is_no_error(cloud: Cloud) -> None:
    assert await cloud.provider.prices(["n1"], ["us-central1-a"]) == []
    assert await cloud.provider.hazards(["n1"], ["us-central1-a"]) == []


async def test_host_keys(cloud: Cloud) -> None:
    ref = VmRef("trainer-0", "us-central1-a")
    assert await cloud.provider.host_keys(ref) == ()
    cloud.server.guest_attributes = {
        "queryPath": "hostkeys/",
        "queryValue": {
            "items": [{"namespace": "hostkeys", "key": "ssh-ed25519", "value": "AAAAC3"}]
        },
    }
    assert await cloud.provider.host_keys(ref) == ("ssh-ed25519 AAAAC3",)


# -- tokens ----------------------------------------------------------------------------------------


class TokenServer(Server):
    """Gives tokens for assertions that are signed with the right key."""

    def __init__(self, key: rsa.RSAPublicKey) -> None:
        super().__init__()
        self._key = key
        self.claims: list[dict[str, Any]] = []
        self.token = TOKEN

    def application(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/token", self._exchange)
        app.router.add_get(
            "/computeMetadata/v1/instance/service-accounts/default/token", self._machine
        )
        return app

    async def _exchange(self, request: web.Request) -> web.Response:
        form = await request.post()
        assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
        text, _, signature = str(form["assertion"]).rpartition(".")
        self._key.verify(decoded(signature), text.encode(), padding.PKCS1v15(), hashes.SHA256())
        self.claims.append(json.loads(decoded(text.partition(".")[2])))
        return web.json_response({"access_token": self.token, "expires_in": 3600})

    async def _machine(self, request: web.Request) -> web.Response:
        assert request.headers["Metadata-Flavor"] == "Google"
        return web.json_response({"access_token": self.token, "expires_in": 3600})


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@pytest.fixture(scope="module")
def key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture
async def tokens(key: rsa.RSAPrivateKey) -> AsyncIterator[TokenServer]:
    server = TokenServer(key.public_key())
    await server.start()
    yield server
    await server.stop()


def account(key: rsa.RSAPrivateKey, endpoint: str) -> str:
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return json.dumps(
        {
            "type": "service_account",
            "client_email": "node@p.iam.gserviceaccount.com",
            "private_key": pem.decode(),
            "private_key_id": "k",
            "token_uri": f"{endpoint}/token",
        }
    )


async def test_a_service_account_signs_for_its_tokens(
    cloud: Cloud, key: rsa.RSAPrivateKey, tokens: TokenServer
) -> None:
    now = [1_000_000.0]
    source = ServiceAccount(account(key, tokens.endpoint), clock=lambda: now[0])
    settings = GcpSettings(
        project="p",
        endpoint=cloud.server.endpoint,
        patience=PATIENCE,
        egress=EgressPolicy.of([tokens.endpoint]),
    )
    provider = GcpProvider(settings, source, rng=Random(1), pause=instantly)
    try:
        await provider.create(cloud.request)
        (claims,) = tokens.claims  # one token for many requests
        assert claims == {
            "iss": "node@p.iam.gserviceaccount.com",
            "scope": "https://www.googleapis.com/auth/cloud-platform",
            "aud": f"{tokens.endpoint}/token",
            "iat": 1_000_000,
            "exp": 1_003_600,
        }
        now[0] += 3500
        await provider.list(OWNER)
        assert len(tokens.claims) == 2
    finally:
        await provider.close()


async def test_a_refused_token_is_renewed_once(
    cloud: Cloud, key: rsa.RSAPrivateKey, tokens: TokenServer
) -> None:
    tokens.token = "stale"
    source = ServiceAccount(account(key, tokens.endpoint))
    settings = GcpSettings(
        project="p",
        endpoint=cloud.server.endpoint,
        patience=PATIENCE,
        egress=EgressPolicy.of([tokens.endpoint]),
    )

    async def pause(seconds: float) -> None:
        tokens.token = TOKEN

    provider = GcpProvider(settings, source, rng=Random(1), pause=pause)
    try:
        assert await provider.list(OWNER) == []
        tokens.token = "stale"
        source.forget()
        provider._rest.pause = instantly
        with pytest.raises(AccountRefused):
            await provider.list(OWNER)
    finally:
        await provider.close()


async def test_the_machine_has_an_identity(cloud: Cloud, tokens: TokenServer) -> None:
    settings = GcpSettings(
        project="p",
        endpoint=cloud.server.endpoint,
        patience=PATIENCE,
        egress=EgressPolicy.of([tokens.endpoint]),
    )
    provider = GcpProvider(settings, MachineIdentity(tokens.endpoint), pause=instantly)
    try:
        assert await provider.list(OWNER) == []
    finally:
        await provider.close()


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"client_email": "x"}'])
def test_what_is_no_key_is_told(text: str) -> None:
    with pytest.raises(AccountRefused, match="JSON key"):
        ServiceAccount(text)
