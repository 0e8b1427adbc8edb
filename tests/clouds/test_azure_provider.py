"""What is Azure's own: remnants of failed VMs, links, prices, evictions, tokens."""

from __future__ import annotations

from collections.abc import AsyncIterator
from random import Random

import pytest
from aiohttp import web

from corral.clouds import (
    AccountRefused,
    BadRequest,
    CloudError,
    QuotaExceeded,
    StockOut,
    Transient,
    VmRef,
)
from corral.clouds.azure import (
    AzureProvider,
    AzureSettings,
    ClientSecret,
    ManagedIdentity,
    Place,
)
from corral.clouds.rest import TokenSource
from tests.clouds import harness
from tests.clouds.azure_server import TOKEN
from tests.clouds.faults import Server, instantly
from tests.clouds.harness import OWNER, PATIENCE, Cloud


@pytest.fixture
async def cloud() -> AsyncIterator[Cloud]:
    async with harness.azure() as made:
        yield made


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("AllocationFailed", StockOut),
        ("ZonalAllocationFailed", StockOut),
        ("QuotaExceeded", QuotaExceeded),
    ],
)
async def test_a_vm_whose_making_failed_is_removed(
    cloud: Cloud, code: str, kind: type[CloudError]
) -> None:
    cloud.server.failing.append({"code": code, "message": "as planned"})
    with pytest.raises(kind) as raised:
        await cloud.provider.create(cloud.request)
    assert raised.value.code == code
    assert cloud.server.vms == {}


async def test_a_failure_whose_announcement_was_lost_is_found_and_removed(cloud: Cloud) -> None:
    cloud.server.failing.append({"code": "AllocationFailed", "message": "as planned"})
    cloud.server.faults.lose("create")
    with pytest.raises(StockOut):
        await cloud.provider.create(cloud.request)
    assert cloud.server.vms == {}


async def test_a_token_goes_to_nobody_else(cloud: Cloud) -> None:
    def elsewhere() -> web.Response:
        link = "http://127.0.0.1:9/operations/1"
        return web.json_response({}, status=201, headers={"Azure-AsyncOperation": link})

    cloud.server.faults.refuse("create", elsewhere)
    with pytest.raises(BadRequest, match=r"127\.0\.0\.1:9"):
        await cloud.provider.create(cloud.request)


async def test_a_drill(cloud: Cloud) -> None:
    made = await cloud.provider.create(cloud.request)
    await cloud.provider.preempt(made.ref)  # type: ignore[attr-defined]
    assert cloud.server.alive() == 0


async def test_prices_come_page_by_page_and_without_a_token(cloud: Cloud) -> None:
    for sku, price in (("NC6 Spot", 0.3), ("NC6", 1.2), ("NC6 Low Priority", 0.1), ("NC6", 1.1)):
        cloud.server.retail.append(
            {
                "armSkuName": "Standard_NC6",
                "armRegionName": "westeurope",
                "skuName": sku,
                "productName": "NC",
                "retailPrice": price,
                "unitOfMeasure": "1 Hour",
            }
        )
    prices = await cloud.provider.prices(["Standard_NC6"], ["westeurope-1", "westeurope-2"])
    assert {(p.zone, p.spot, p.per_hour) for p in prices} == {
        ("westeurope", True, 0.3),
        ("westeurope", False, 1.1),
    }
    assert len(cloud.server.asked) == 2


async def test_evictions(cloud: Cloud) -> None:
    row = {"skuName": "standard_nc6", "location": "westeurope", "evictionRate": "0-5"}
    cloud.server.rows.append(row)
    (hazard,) = await cloud.provider.hazards(["Standard_NC6"], ["westeurope-1"])
    assert hazard.machine_type == "Standard_NC6"
    (query,) = cloud.server.asked
    assert query["subscriptions"] == ["s"]
    assert "'standard_nc6'" in query["query"]


async def test_host_keys_come_from_the_console(cloud: Cloud) -> None:
    ref = VmRef("trainer-0", "westeurope-1")
    assert await cloud.provider.host_keys(ref) == ()
    cloud.server.console = (
        "-----BEGIN SSH HOST KEY KEYS-----\nssh-ed25519 AAAAC3 root@v\n"
        "-----END SSH HOST KEY KEYS-----\n"
    )
    assert await cloud.provider.host_keys(ref) == ("ssh-ed25519 AAAAC3",)


class Authority(Server):
    """Gives tokens to one application, and to the machine."""

    def application(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/tenant/oauth2/v2.0/token", self._secret)
        app.router.add_get("/metadata/identity/oauth2/token", self._machine)
        return app

    async def _secret(self, request: web.Request) -> web.Response:
        return await self.faults.around("token", request, lambda: self._exchange(request))

    async def _exchange(self, request: web.Request) -> web.Response:
        form = await request.post()
        assert form["grant_type"] == "client_credentials"
        assert form["scope"] == "https://management.azure.com/.default"
        if (form["client_id"], form["client_secret"]) != ("app", "right"):
            return web.json_response({"error_description": "AADSTS7000215"}, status=401)
        return web.json_response({"access_token": TOKEN, "expires_in": 3600})

    async def _machine(self, request: web.Request) -> web.Response:
        assert request.headers["Metadata"] == "true"
        assert request.query["resource"] == "https://management.azure.com/"
        return web.json_response({"access_token": TOKEN, "expires_in": "3600"})


@pytest.fixture
async def authority() -> AsyncIterator[Authority]:
    server = Authority()
    await server.start()
    yield server
    await server.stop()


def provider(cloud: Cloud, tokens: TokenSource) -> AzureProvider:
    settings = AzureSettings(
        subscription="s",
        resource_group="g",
        place=Place("/subnet"),
        endpoint=cloud.server.endpoint,
        patience=PATIENCE,
    )
    return AzureProvider(settings, tokens, rng=Random(1), pause=instantly)


@pytest.mark.parametrize("secret", ["right", "wrong"])
async def test_an_application_s_secret(cloud: Cloud, authority: Authority, secret: str) -> None:
    tokens = ClientSecret(
        tenant="tenant", client_id="app", secret=secret, authority=authority.endpoint
    )
    made = provider(cloud, tokens)
    try:
        if secret == "right":
            assert await made.list(OWNER) == []
        else:
            with pytest.raises(AccountRefused, match="AADSTS7000215"):
                await made.list(OWNER)
    finally:
        await made.close()


async def test_an_authority_that_drops_us_is_asked_again(
    cloud: Cloud, authority: Authority
) -> None:
    authority.faults.lose("token", times=2)
    tokens = ClientSecret(
        tenant="tenant", client_id="app", secret="right", authority=authority.endpoint
    )
    made = provider(cloud, tokens)
    try:
        assert await made.list(OWNER) == []
        assert authority.faults.requests["token"] == 3
        tokens.forget()
        authority.faults.lose("token", times=100)
        with pytest.raises(Transient):
            await made.list(OWNER)
    finally:
        await made.close()


async def test_the_machine_has_an_identity(cloud: Cloud, authority: Authority) -> None:
    made = provider(cloud, ManagedIdentity(authority.endpoint))
    try:
        assert await made.list(OWNER) == []
    finally:
        await made.close()
