"""What is EC2's own, through boto3; runs where that is (see conftest.py)."""

from __future__ import annotations

import base64
import math
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from corral.clouds import AccountRefused, BadRequest, StockOut, VmRef
from corral.clouds.aws import AwsCredentials, AwsProvider, AwsSettings
from tests.clouds import harness
from tests.clouds.harness import OWNER, Cloud


@pytest.fixture
async def cloud() -> AsyncIterator[Cloud]:
    async with harness.aws() as made:
        yield made


async def test_aws_request_as_it_goes_over_the_wire(cloud: Cloud) -> None:
    request = replace(cloud.request, ssh_public_key="", startup_script="#!/bin/sh\ntrue\n")
    await cloud.provider.create(request)
    (sent,) = cloud.server.run
    user_data = base64.b64decode(sent["UserData"]).decode()
    assert user_data == "#!/bin/sh\ntrue\n"
    expected = {
        "ClientToken": request.request_id,
        "MinCount": "1",
        "MaxCount": "1",
        "ImageId": request.image,
        "InstanceType": "p3.2xlarge",
        "Placement.AvailabilityZone": "us-east-1a",
        "InstanceMarketOptions.MarketType": "spot",
        "InstanceMarketOptions.SpotOptions.SpotInstanceType": "one-time",
        "InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior": "terminate",
        "MetadataOptions.HttpTokens": "required",
        "MetadataOptions.HttpPutResponseHopLimit": "2",
        "BlockDeviceMapping.1.Ebs.DeleteOnTermination": "true",
        "TagSpecification.1.ResourceType": "instance",
        "TagSpecification.2.ResourceType": "volume",
    }
    assert {key: sent.get(key) for key in expected} == expected


async def test_aws_token_that_was_used_for_something_else(cloud: Cloud) -> None:
    await cloud.provider.create(cloud.request)
    with pytest.raises(BadRequest, match="take a new one"):
        await cloud.provider.create(replace(cloud.request, machine_type="p3.8xlarge"))
    assert cloud.server.alive() == 1


async def test_aws_instance_that_was_taken_does_not_come_back(cloud: Cloud) -> None:
    made = await cloud.provider.create(cloud.request)
    cloud.take(made)
    with pytest.raises(StockOut):
        await cloud.provider.create(cloud.request)
    seen = await cloud.provider.get(made.ref)
    assert seen is not None
    assert seen.preempted is True


async def test_aws_found_by_name_where_the_id_is_not_known(cloud: Cloud) -> None:
    made = await cloud.provider.create(cloud.request)
    nameless = VmRef(made.name, made.zone)
    assert await cloud.provider.get(nameless) == await cloud.provider.get(made.ref)
    await cloud.provider.delete(nameless)
    assert cloud.server.alive() == 0


async def test_aws_wrong_keys_block_the_cloud(cloud: Cloud) -> None:
    settings = AwsSettings(region="us-east-1", endpoint=cloud.server.endpoint)
    provider = AwsProvider(settings, AwsCredentials("AKIAWRONG", "secret"))
    with pytest.raises(AccountRefused):
        await provider.list(OWNER)
    await provider.close()


async def test_aws_prices_hazards_and_host_keys(cloud: Cloud) -> None:
    cloud.server.prices = [
        {
            "instanceType": "p3.2xlarge",
            "productDescription": "Linux/UNIX",
            "spotPrice": price,
            "timestamp": stamp,
            "availabilityZone": "us-east-1a",
        }
        for price, stamp in (("0.918", "2026-11-01T00:00:00Z"), ("0.95", "2026-11-02T00:00:00Z"))
    ]
    (price,) = await cloud.provider.prices(["p3.2xlarge"], ["us-east-1a", "us-east-1b"])
    assert (price.zone, price.per_hour, price.spot) == ("us-east-1a", 0.95, True)
    cloud.server.advisor = {
        "spot_advisor": {"us-east-1": {"Linux": {"p3.2xlarge": {"r": 2, "s": 70}}}}
    }
    (hazard,) = await cloud.provider.hazards(["p3.2xlarge"], ["us-east-1a"])
    assert hazard.per_hour == pytest.approx(-math.log(0.875) / 720)
    made = await cloud.provider.create(cloud.request)
    assert await cloud.provider.host_keys(made.ref) == ()
    cloud.server.console = (
        "-----BEGIN SSH HOST KEY KEYS-----\nssh-ed25519 AAAAC3 root@v\n"
        "-----END SSH HOST KEY KEYS-----\n"
    )
    assert await cloud.provider.host_keys(made.ref) == ("ssh-ed25519 AAAAC3",)
