"""The EC2 provider against moto, a server that others wrote; runs where that is.

moto neither repeats its answer to a client token nor ever lacks capacity: ours does.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest
from moto import server as moto_server

from corral.clouds import State, VmRef
from corral.clouds.aws import AwsCredentials, AwsProvider, AwsSettings
from tests.clouds import harness
from tests.clouds.harness import OWNER


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
async def provider(endpoint: str) -> AsyncIterator[AwsProvider]:
    settings = AwsSettings(region="us-east-1", endpoint=endpoint)
    made = AwsProvider(settings, AwsCredentials("testing", "testing"))
    yield made
    await made.close()


async def test_aws_life_of_an_instance_on_moto(provider: AwsProvider) -> None:
    images = await provider._call("describe_images", Owners=["amazon"])
    request = replace(
        harness.request("us-east-1a", "p3.2xlarge", images["Images"][0]["ImageId"]),
        startup_script="#!/bin/sh\ntrue\n",
    )
    made = await provider.create(request)
    assert (made.name, made.zone, made.spot) == ("trainer-0", "us-east-1a", True)
    assert made.machine_type == "p3.2xlarge"
    assert made.request_id == request.request_id
    assert made.internal_ip
    assert made.created is not None
    seen = await provider.get(VmRef(made.name, made.zone))
    assert seen is not None
    assert (seen.id, seen.state) == (made.id, State.RUNNING)
    assert [vm.id for vm in await provider.list(OWNER)] == [made.id]
    assert await provider.list("another") == []
    await provider.delete(made.ref)
    gone = await provider.get(made.ref)
    assert gone is not None
    assert (gone.state, gone.preempted) == (State.TERMINATED, False)
    await provider.delete(VmRef("nothing", "us-east-1a", "i-0123456789abcdef0"))


async def test_aws_prices_on_moto(provider: AwsProvider) -> None:
    (price,) = await provider.prices(["m5.large"], ["us-east-1a"])
    assert (price.machine_type, price.zone, price.spot) == ("m5.large", "us-east-1a", True)
