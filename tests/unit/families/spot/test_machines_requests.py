"""What clouds are asked for, from what objects say."""

from __future__ import annotations

from typing import Any

import pytest

from corral.api.spot.vm import SpotInstanceVMSpec
from corral.clouds import BadRequest
from corral.clouds.base import checked
from corral.clouds.opening import open_provider
from corral.families.spot.machines.requests import (
    cloud_zone,
    machine_of,
    options_of,
    ref_of,
    request_for,
)

GCP = {
    "project": "p",
    "zone": "us-central1-a",
    "machineType": "n1-standard-4",
    "networkTags": ["node"],
    "serviceAccount": "a@p.example",
    "subnetwork": "s",
}
AWS = {
    "region": "us-east-1",
    "zone": "us-east-1a",
    "machineType": "g4dn.xlarge",
    "keyName": "k",
    "instanceProfile": "arn:p",
    "image": "ami-1",
}
AZURE = {
    "subscription": "s",
    "resourceGroup": "g",
    "region": "westeurope",
    "zone": "2",
    "machineType": "Standard_NC4as_T4_v3",
    "subnetID": "/subnets/1",
    "identity": "/id/1",
}


def spec(**more: Any) -> SpotInstanceVMSpec:
    body = {"vmImage": "image", "gcp": GCP, "aws": AWS, "azure": AZURE, "local": {}, **more}
    return SpotInstanceVMSpec.model_validate(body)


def entry(cloud: str, zone: str, **more: Any) -> dict[str, Any]:
    return {
        "name": "m-0-1",
        "requestID": "r",
        "cloud": cloud,
        "region": "westeurope",
        "zone": zone,
        "machineType": "t",
        "provisioningModel": "Spot",
        "job": "Digits.by_monday",
        **more,
    }


@pytest.mark.parametrize(
    ("cloud", "expected"),
    [
        ("gcp", {"project": "p", "subnetwork": "s", "externalIP": False}),
        ("aws", {"region": "us-east-1", "keyName": "k", "externalIP": False}),
        (
            "azure",
            {
                "subscription": "s",
                "resourceGroup": "g",
                "subnet": "/subnets/1",
                "externalIP": False,
            },
        ),
        ("local", {}),
    ],
)
def test_accounts_are_opened_with_what_is_said(cloud: str, expected: dict[str, Any]) -> None:
    assert options_of(machine_of(spec(), cloud)) == expected


@pytest.mark.parametrize(
    ("cloud", "zone", "image", "account", "tags"),
    [
        ("gcp", "us-central1-a", "image", "a@p.example", ("node",)),
        ("aws", "us-east-1a", "ami-1", "arn:p", ()),
        ("azure", "westeurope-2", "image", "/id/1", ()),
        ("local", "local-a", "image", "", ()),
    ],
)
def test_requests(cloud: str, zone: str, image: str, account: str, tags: tuple[str, ...]) -> None:
    told = "2" if cloud == "azure" else zone
    wanted = spec(gpu={"type": "nvidia-tesla-t4", "count": 2}, startupScript="true")
    request = request_for(entry(cloud, told), wanted, owner="o", namespace="n")
    assert checked(request) is request
    assert (request.name, request.request_id, request.owner) == ("m-0-1", "r", "o")
    assert (request.zone, request.image, request.service_account) == (zone, image, account)
    assert request.network_tags == tags
    assert request.spot
    assert request.gpu is not None and request.gpu.count == 2
    assert request.startup_script == "true"
    assert request.labels["corral-job"] == "digits-by_monday"


def test_a_machine_on_demand_is_none_that_can_be_taken() -> None:
    wanted = entry("gcp", "us-central1-a", provisioningModel="OnDemand")
    assert not request_for(wanted, spec(), owner="o", namespace="n").spot


def test_a_cloud_that_the_object_does_not_have() -> None:
    with pytest.raises(BadRequest, match="no machines of aws"):
        machine_of(SpotInstanceVMSpec.model_validate({"local": {}}), "aws")


def test_zones_of_azure_are_counted_in_their_region() -> None:
    assert cloud_zone("azure", "westeurope", "1") == "westeurope-1"
    assert cloud_zone("azure", "westeurope", "westeurope") == "westeurope"
    assert cloud_zone("gcp", "r", "z-1") == "z-1"
    ref = ref_of(entry("azure", "1", instanceID="i"))
    assert (ref.name, ref.zone, ref.id) == ("m-0-1", "westeurope-1", "i")


@pytest.mark.parametrize("cloud", ["gcp", "azure"])
def test_accounts_take_the_options(cloud: str) -> None:
    provider = open_provider(cloud, options_of(machine_of(spec(), cloud)), {})
    assert provider.name == cloud
