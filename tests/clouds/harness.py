"""Each cloud with a server of ours behind it, under the same names, for the contract's cases."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Protocol

from aiohttp import web

from corral.clouds import CloudProvider, Vm, VmRequest
from corral.clouds.aws import AwsCredentials, AwsProvider, AwsSettings
from corral.clouds.azure import AzureProvider, AzureSettings
from corral.clouds.azure import Place as AzurePlace
from corral.clouds.gcp import GcpProvider, GcpSettings
from corral.clouds.rest import Patience, StaticToken
from tests.clouds import azure_server, ec2_server, gcp_server
from tests.clouds.faults import Faults, instantly

ATTEMPTS = 4
PATIENCE = Patience(attempts=ATTEMPTS, request_s=20, operation_s=20, poll_s=0.0)
HURRIED = replace(PATIENCE, operation_s=0.0)
OWNER = "corral-test"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAITEST somebody"


class Served(Protocol):
    """A server of a cloud's API."""

    faults: Faults
    page: int

    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    def alive(self) -> int: ...


@dataclass
class Cloud:
    """A provider, what it talks to, and the cloud's words for what goes wrong."""

    kind: str
    provider: CloudProvider
    server: Any
    request: VmRequest
    create: str
    """How the server calls the making of a VM."""
    list: str
    refusal: Callable[[int, str, str], web.Response]
    stock_out: tuple[int, str]
    quota: tuple[int, str]
    account: tuple[int, str]
    throttled: tuple[int, str]
    hurried: CloudProvider | None = None
    """Waits for nothing that takes long; where a VM is not made at once."""
    attempts: int = ATTEMPTS

    def refuse(self, words: tuple[int, str], *, times: int = 1, operation: str = "") -> None:
        status, code = words
        self.server.faults.refuse(
            operation or self.create, lambda: self.refusal(status, code, "as planned"), times=times
        )

    def other_request(self, **changes: Any) -> VmRequest:
        return replace(self.request, request_id=new_id(), **changes)

    def take(self, vm: Vm) -> None:
        """Have the cloud take a spot VM."""
        if self.kind == "gcp":
            self.server.take(vm.zone, vm.name)
        elif self.kind == "aws":
            self.server.take(vm.id)
        else:
            del self.server.vms[vm.name]


_IDS = Random(7)


def new_id() -> str:
    return str(uuid.UUID(int=_IDS.getrandbits(128), version=4))


def request(zone: str, machine_type: str, image: str) -> VmRequest:
    return VmRequest(
        name="trainer-0",
        request_id=new_id(),
        owner=OWNER,
        zone=zone,
        machine_type=machine_type,
        image=image,
        labels={"job": "digits"},
        ssh_user="corral",
        ssh_public_key=KEY,
    )


@asynccontextmanager
async def gcp() -> AsyncIterator[Cloud]:
    server = gcp_server.GcpServer()
    await server.start()

    def provider(patience: Patience) -> GcpProvider:
        settings = GcpSettings(project="p", endpoint=server.endpoint, patience=patience, look_s=0.0)
        return GcpProvider(settings, StaticToken(gcp_server.TOKEN), rng=Random(1), pause=instantly)

    normal, hurried = provider(PATIENCE), provider(HURRIED)
    try:
        yield Cloud(
            "gcp",
            normal,
            server,
            request("us-central1-a", "n1-standard-8", "projects/debian-cloud/global/images/debian"),
            create="insert",
            list="list",
            refusal=gcp_server.refusal,
            stock_out=(503, "ZONE_RESOURCE_POOL_EXHAUSTED"),
            quota=(403, "quotaExceeded"),
            account=(403, "forbidden"),
            throttled=(403, "rateLimitExceeded"),
            hurried=hurried,
        )
    finally:
        await normal.close()
        await hurried.close()
        await server.stop()


@asynccontextmanager
async def azure() -> AsyncIterator[Cloud]:
    server = azure_server.AzureServer()
    await server.start()

    def provider(patience: Patience) -> AzureProvider:
        settings = AzureSettings(
            subscription="s",
            resource_group="g",
            place=AzurePlace("/subnet"),
            endpoint=server.endpoint,
            prices_endpoint=server.endpoint,
            patience=patience,
            look_s=0.0,
        )
        tokens = StaticToken(azure_server.TOKEN)
        return AzureProvider(settings, tokens, rng=Random(1), pause=instantly)

    normal, hurried = provider(PATIENCE), provider(HURRIED)
    try:
        yield Cloud(
            "azure",
            normal,
            server,
            request("westeurope-1", "Standard_NC6", "Debian:debian-12:12-gen2:latest"),
            create="create",
            list="list",
            refusal=azure_server.refusal,
            stock_out=(409, "SkuNotAvailable"),
            quota=(409, "OperationNotAllowed"),
            account=(403, "AuthorizationFailed"),
            throttled=(429, "TooManyRequests"),
            hurried=hurried,
        )
    finally:
        await normal.close()
        await hurried.close()
        await server.stop()


@asynccontextmanager
async def aws() -> AsyncIterator[Cloud]:
    server = ec2_server.Ec2Server()
    await server.start()
    settings = AwsSettings(
        region="us-east-1",
        endpoint=server.endpoint,
        advisor=f"{server.endpoint}/advisor.json",
        patience=replace(PATIENCE, attempts=2),  # boto3 has its own idea of pauses
        look_s=0.0,
    )
    keys = AwsCredentials(ec2_server.ACCESS, ec2_server.SECRET)
    provider = AwsProvider(settings, keys, pause=instantly)
    try:
        yield Cloud(
            "aws",
            provider,
            server,
            request("us-east-1a", "p3.2xlarge", "ami-0123456789abcdef0"),
            create="RunInstances",
            list="DescribeInstances",
            refusal=ec2_server.refusal,
            stock_out=(500, "InsufficientInstanceCapacity"),
            quota=(400, "MaxSpotInstanceCountExceeded"),
            account=(403, "UnauthorizedOperation"),
            throttled=(503, "RequestLimitExceeded"),
            attempts=2,
        )
    finally:
        await provider.close()
        await server.stop()


CLOUDS = {"gcp": gcp, "azure": azure, "aws": aws}
