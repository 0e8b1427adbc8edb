"""What is sent to make a VM, field by field as each cloud documents it; what comes back."""

from __future__ import annotations

import base64
import email
import math
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from corral.clouds import BadRequest, Gpu, State, VmRequest
from corral.clouds.aws import bodies as aws
from corral.clouds.azure import bodies as azure
from corral.clouds.consoles import host_keys_of
from corral.clouds.gcp import bodies as gcp

ID = "5f4dcc3b-5aa7-4d1d-8f0c-7d1a2b3c4d5e"
KEY = "ssh-ed25519 AAAAC3Nza key"
REQUEST = VmRequest(
    name="trainer-0",
    request_id=ID,
    owner="corral-a",
    zone="us-central1-a",
    machine_type="n1-standard-8",
    image="projects/debian-cloud/global/images/family/debian-12",
    gpu=Gpu("nvidia-tesla-t4", 2),
    disk_gb=200,
    disk_type="pd-ssd",
    labels={"job": "digits"},
    network_tags=("k8s", "ssh"),
    service_account="node@p.iam.gserviceaccount.com",
    startup_script="#!/bin/sh\nmodprobe nvidia\n",
    ssh_user="corral",
    ssh_public_key=KEY,
    max_run_s=86400,
    notice_s=120,
)
LABELS = {"job": "digits", "corral-owner": "corral-a", "corral-request": ID}


# -- GCP -------------------------------------------------------------------------------------------


def test_gcp_spot_vm() -> None:
    network = gcp.Network("global/networks/n", "regions/us-central1/subnetworks/s", True)
    assert gcp.insert_body(REQUEST, network) == {
        "name": "trainer-0",
        "machineType": "zones/us-central1-a/machineTypes/n1-standard-8",
        "scheduling": {
            "provisioningModel": "SPOT",
            "preemptible": True,
            "instanceTerminationAction": "DELETE",
            "automaticRestart": False,
            "onHostMaintenance": "TERMINATE",
            "preemptionNoticeDuration": {"seconds": "120"},
            "maxRunDuration": {"seconds": "86400"},
        },
        "guestAccelerators": [
            {
                "acceleratorType": "zones/us-central1-a/acceleratorTypes/nvidia-tesla-t4",
                "acceleratorCount": 2,
            }
        ],
        "disks": [
            {
                "boot": True,
                "autoDelete": True,
                "initializeParams": {
                    "sourceImage": "projects/debian-cloud/global/images/family/debian-12",
                    "diskSizeGb": "200",
                    "diskType": "zones/us-central1-a/diskTypes/pd-ssd",
                },
            }
        ],
        "networkInterfaces": [
            {
                "network": "global/networks/n",
                "subnetwork": "regions/us-central1/subnetworks/s",
                "accessConfigs": [{"type": "ONE_TO_ONE_NAT", "name": "External NAT"}],
            }
        ],
        "metadata": {
            "items": [
                {"key": "enable-guest-attributes", "value": "TRUE"},
                {"key": "startup-script", "value": "#!/bin/sh\nmodprobe nvidia\n"},
                {"key": "ssh-keys", "value": f"corral:{KEY}"},
                {"key": "block-project-ssh-keys", "value": "TRUE"},
            ]
        },
        "tags": {"items": ["k8s", "ssh"]},
        "serviceAccounts": [
            {
                "email": "node@p.iam.gserviceaccount.com",
                "scopes": ["https://www.googleapis.com/auth/cloud-platform"],
            }
        ],
        "labels": LABELS,
    }


def test_gcp_least_vm() -> None:
    least = VmRequest(
        name="v", request_id=ID, owner="o", zone="z-a", machine_type="m", image="i", spot=False
    )
    body = gcp.insert_body(least, gcp.Network())
    assert body["scheduling"] == {
        "provisioningModel": "STANDARD",
        "automaticRestart": True,
        "onHostMaintenance": "MIGRATE",
    }
    assert body["disks"][0]["initializeParams"] == {
        "sourceImage": "i",
        "diskSizeGb": "100",
        "diskType": "zones/z-a/diskTypes/pd-standard",
    }
    assert body["networkInterfaces"] == [{"network": "global/networks/default"}]
    assert not {"guestAccelerators", "tags", "serviceAccounts"} & set(body)
    with_gpu = gcp.insert_body(replace(least, gpu=Gpu("t4")), gcp.Network())
    assert with_gpu["scheduling"]["onHostMaintenance"] == "TERMINATE"


def test_gcp_instances_are_read() -> None:
    vm = gcp.vm_of(
        {
            "name": "trainer-0",
            "id": "123",
            "zone": "https://www.googleapis.com/compute/v1/projects/p/zones/us-central1-a",
            "machineType": "https://www.googleapis.com/compute/v1/x/machineTypes/n1-standard-8",
            "status": "STAGING",
            "creationTimestamp": "2026-11-01T10:00:00.000-07:00",
            "scheduling": {"provisioningModel": "SPOT"},
            "networkInterfaces": [
                {"networkIP": "10.0.0.2", "accessConfigs": [{"natIP": "34.1.2.3"}]}
            ],
            "labels": LABELS,
        }
    )
    assert vm.ref.zone == "us-central1-a"
    assert vm.machine_type == "n1-standard-8"
    assert (vm.state, vm.raw_state, vm.spot) == (State.PENDING, "STAGING", True)
    assert (vm.internal_ip, vm.external_ip) == ("10.0.0.2", "34.1.2.3")
    assert vm.created == datetime(2026, 11, 1, 17, tzinfo=UTC).timestamp()
    assert vm.request_id == ID


def test_gcp_history_gives_price_and_hazard() -> None:
    def interval(day: int) -> dict[str, str]:
        return {
            "startTime": f"2026-11-{day:02}T00:00:00Z",
            "endTime": f"2026-11-{day + 1:02}T00:00:00Z",
        }

    body = {
        "priceHistory": [
            {
                "interval": interval(2),
                "listPrice": {"currencyCode": "USD", "units": "1", "nanos": 250000000},
            },
            {"interval": interval(1), "listPrice": {"units": "9"}},
        ],
        "preemptionHistory": [
            {"interval": interval(1), "preemptionRate": 0.5},
            {"interval": interval(2), "preemptionRate": 0.0},
        ],
    }
    price = gcp.history_price(body, "n1", "z-a")
    assert price is not None
    assert (price.per_hour, price.spot, price.currency) == (1.25, True, "USD")
    hazard = gcp.history_hazard(body, "n1", "z-a")
    assert hazard is not None
    assert hazard.per_hour == pytest.approx(math.log(2) / 24 / 2)
    assert gcp.history_price({}, "n1", "z-a") is None
    assert gcp.history_hazard({}, "n1", "z-a") is None
    told = {"recommendations": [{"scores": {"estimatedUptime": "7200s"}}]}
    expected = gcp.hazard_of_uptime(told, "n1", "z-a")
    assert expected is not None
    assert expected.per_hour == 0.5
    assert gcp.hazard_of_uptime({}, "n1", "z-a") is None


# -- AWS -------------------------------------------------------------------------------------------

AMAZON = replace(
    REQUEST,
    zone="us-east-1a",
    machine_type="p3.2xlarge",
    image="ami-1",
    disk_type="gp3",
    service_account="arn:aws:iam::1:instance-profile/node",
    max_price=1.5,
    ssh_public_key="",
)


def test_aws_spot_instance() -> None:
    place = aws.Place(subnets={"us-east-1a": "subnet-1"}, security_groups=("sg-1",), key_name="ops")
    tags = [
        {"Key": "corral-owner", "Value": "corral-a"},
        {"Key": "corral-request", "Value": ID},
        {"Key": "job", "Value": "digits"},
        {"Key": "Name", "Value": "trainer-0"},
    ]
    assert aws.run_arguments(AMAZON, place) == {
        "ClientToken": ID,
        "MinCount": 1,
        "MaxCount": 1,
        "ImageId": "ami-1",
        "InstanceType": "p3.2xlarge",
        "Placement": {"AvailabilityZone": "us-east-1a"},
        "BlockDeviceMappings": [
            {
                "DeviceName": "/dev/xvda",
                "Ebs": {"DeleteOnTermination": True, "VolumeSize": 200, "VolumeType": "gp3"},
            }
        ],
        "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 2},
        "InstanceInitiatedShutdownBehavior": "terminate",
        "NetworkInterfaces": [
            {
                "DeviceIndex": 0,
                "DeleteOnTermination": True,
                "AssociatePublicIpAddress": False,
                "SubnetId": "subnet-1",
                "Groups": ["sg-1"],
            }
        ],
        "InstanceMarketOptions": {
            "MarketType": "spot",
            "SpotOptions": {
                "SpotInstanceType": "one-time",
                "InstanceInterruptionBehavior": "terminate",
                "MaxPrice": "1.500000",
            },
        },
        "UserData": "#!/bin/sh\nmodprobe nvidia\n",
        "KeyName": "ops",
        "IamInstanceProfile": {"Arn": "arn:aws:iam::1:instance-profile/node"},
        "TagSpecifications": [
            {"ResourceType": "instance", "Tags": tags},
            {"ResourceType": "volume", "Tags": tags},
        ],
    }


def test_aws_on_demand_instance() -> None:
    arguments = aws.run_arguments(replace(AMAZON, spot=False), aws.Place())
    assert "InstanceMarketOptions" not in arguments
    assert "SubnetId" not in arguments["NetworkInterfaces"][0]


def test_aws_user_data_with_a_key_has_two_parts_and_the_same_bytes_each_time() -> None:
    request = replace(AMAZON, ssh_public_key=KEY)
    first, second = (aws.run_arguments(request, aws.Place())["UserData"] for _ in range(2))
    assert first == second
    config, script = email.message_from_string(first).get_payload()
    assert config.get_content_type() == "text/cloud-config"
    assert f"  - {KEY}\n" in config.get_payload(decode=True).decode()
    assert script.get_content_type() == "text/x-shellscript"
    assert script.get_payload(decode=True).decode() == request.startup_script


@pytest.mark.parametrize(
    ("state", "reason", "expected", "preempted"),
    [
        ("pending", "", State.PENDING, None),
        ("running", "", State.RUNNING, None),
        ("shutting-down", "Server.SpotInstanceTermination", State.STOPPING, True),
        ("terminated", "Server.SpotInstanceTermination", State.TERMINATED, True),
        ("terminated", "Client.UserInitiatedShutdown", State.TERMINATED, False),
    ],
)
def test_aws_instances_are_read(
    state: str, reason: str, expected: State, preempted: bool | None
) -> None:
    vm = aws.vm_of(
        {
            "InstanceId": "i-1",
            "InstanceType": "p3.2xlarge",
            "State": {"Name": state},
            "StateReason": {"Code": reason},
            "Placement": {"AvailabilityZone": "us-east-1a"},
            "LaunchTime": datetime(2026, 11, 1, tzinfo=UTC),
            "InstanceLifecycle": "spot",
            "PrivateIpAddress": "10.0.0.2",
            "Tags": [{"Key": "Name", "Value": "trainer-0"}, {"Key": "corral-request", "Value": ID}],
        }
    )
    assert (vm.name, vm.id, vm.state, vm.preempted) == ("trainer-0", "i-1", expected, preempted)
    assert vm.request_id == ID
    assert vm.external_ip == ""


def test_aws_prices_and_advice() -> None:
    def point(hour: int, price: str) -> dict[str, Any]:
        return {
            "InstanceType": "p3.2xlarge",
            "AvailabilityZone": "us-east-1a",
            "SpotPrice": price,
            "Timestamp": datetime(2026, 11, 1, hour, tzinfo=UTC),
        }

    prices = aws.prices_of([point(3, "0.9"), point(5, "1.1"), point(4, "1.0")])
    assert [price.per_hour for price in prices] == [1.1]
    advisor = {"spot_advisor": {"us-east-1": {"Linux": {"a": {"r": 0}, "b": {"r": 4}}}}}
    low, high = aws.advisor_hazards(advisor, ["a", "b", "c"], ["us-east-1", "us-west-2"])
    assert low.per_hour == pytest.approx(-math.log(0.975) / 720)
    assert high.per_hour == pytest.approx(-math.log(0.75) / 720)
    assert aws.region_of("us-east-1a") == "us-east-1"


# -- Azure -----------------------------------------------------------------------------------------

MICROSOFT = replace(
    REQUEST,
    zone="westeurope-2",
    machine_type="Standard_NC6s_v3",
    image="Debian:debian-12:12-gen2:latest",
    disk_type="Premium_LRS",
    service_account="/subscriptions/s/identity",
    gpu=None,
)


def test_azure_spot_vm() -> None:
    place = azure.Place("/subnet", "/group", True)
    assert azure.create_body(MICROSOFT, place) == {
        "location": "westeurope",
        "zones": ["2"],
        "tags": LABELS,
        "identity": {
            "type": "UserAssigned",
            "userAssignedIdentities": {"/subscriptions/s/identity": {}},
        },
        "properties": {
            "priority": "Spot",
            "evictionPolicy": "Delete",
            "billingProfile": {"maxPrice": -1},
            "hardwareProfile": {"vmSize": "Standard_NC6s_v3"},
            "storageProfile": {
                "imageReference": {
                    "publisher": "Debian",
                    "offer": "debian-12",
                    "sku": "12-gen2",
                    "version": "latest",
                },
                "osDisk": {
                    "createOption": "FromImage",
                    "deleteOption": "Delete",
                    "diskSizeGB": 200,
                    "managedDisk": {"storageAccountType": "Premium_LRS"},
                },
            },
            "osProfile": {
                "computerName": "trainer-0",
                "adminUsername": "corral",
                "customData": base64.b64encode(MICROSOFT.startup_script.encode()).decode(),
                "linuxConfiguration": {
                    "disablePasswordAuthentication": True,
                    "ssh": {
                        "publicKeys": [
                            {"path": "/home/corral/.ssh/authorized_keys", "keyData": KEY}
                        ]
                    },
                },
            },
            "networkProfile": {
                "networkApiVersion": "2022-11-01",
                "networkInterfaceConfigurations": [
                    {
                        "name": "trainer-0-nic",
                        "properties": {
                            "primary": True,
                            "deleteOption": "Delete",
                            "networkSecurityGroup": {"id": "/group"},
                            "ipConfigurations": [
                                {
                                    "name": "main",
                                    "properties": {
                                        "primary": True,
                                        "subnet": {"id": "/subnet"},
                                        "publicIPAddressConfiguration": {
                                            "name": "trainer-0-ip",
                                            "sku": {"name": "Standard"},
                                            "properties": {"deleteOption": "Delete"},
                                        },
                                    },
                                }
                            ],
                        },
                    }
                ],
            },
            "diagnosticsProfile": {"bootDiagnostics": {"enabled": True}},
        },
    }


def test_azure_regular_vm_anywhere_in_a_region() -> None:
    request = replace(
        MICROSOFT, spot=False, zone="westeurope", image="/subscriptions/s/images/i", max_price=2.0
    )
    body = azure.create_body(request, azure.Place("/subnet"))
    assert "zones" not in body
    assert not {"priority", "evictionPolicy", "billingProfile"} & set(body["properties"])
    assert body["properties"]["storageProfile"]["imageReference"] == {
        "id": "/subscriptions/s/images/i"
    }
    capped = azure.create_body(replace(request, spot=True), azure.Place("/subnet"))
    assert capped["properties"]["billingProfile"] == {"maxPrice": 2.0}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"zone": "west europe"}, "no zone of Azure"),
        ({"image": "debian"}, "no image of Azure"),
        ({"image": "a:b::d"}, "no image of Azure"),
        ({"ssh_public_key": ""}, "SSH key"),
    ],
)
def test_azure_refuses_what_it_cannot_say(change: dict[str, str], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        azure.create_body(replace(MICROSOFT, **change), azure.Place("/s"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("provisioning", "power", "expected"),
    [
        ("Creating", "", State.PENDING),
        ("Succeeded", "", State.RUNNING),
        ("Succeeded", "PowerState/running", State.RUNNING),
        ("Succeeded", "PowerState/deallocated", State.TERMINATED),
        ("Succeeded", "PowerState/stopping", State.STOPPING),
        ("Deleting", "PowerState/running", State.STOPPING),
        ("Failed", "", State.TERMINATED),
    ],
)
def test_azure_states(provisioning: str, power: str, expected: State) -> None:
    properties: dict[str, Any] = {"provisioningState": provisioning, "priority": "Spot"}
    if power:
        properties["instanceView"] = {"statuses": [{"code": "other"}, {"code": power}]}
    body = {"name": "v", "location": "westeurope", "zones": ["2"], "properties": properties}
    vm = azure.vm_of(body)
    assert vm.state is expected
    assert vm.zone == "westeurope-2"
    assert vm.spot


def test_azure_prices() -> None:
    def item(sku: str, price: float, product: str = "NCsv3 Series") -> dict[str, Any]:
        return {
            "armSkuName": "Standard_NC6s_v3",
            "armRegionName": "westeurope",
            "skuName": sku,
            "productName": product,
            "retailPrice": price,
            "unitOfMeasure": "1 Hour",
            "currencyCode": "USD",
        }

    prices = azure.prices_of(
        [
            item("NC6s v3 Spot", 0.4),
            item("NC6s v3 Low Priority", 0.1),
            item("NC6s v3", 3.1),
            item("NC6s v3 Spot", 0.2, "NCsv3 Series Windows"),
            {**item("NC6s v3", 9.0), "unitOfMeasure": "1 Month"},
        ]
    )
    assert {(price.spot, price.per_hour) for price in prices} == {(True, 0.4), (False, 3.1)}
    assert azure.price_filter(["A", "B"], "westeurope").endswith(
        "and armRegionName eq 'westeurope' and (armSkuName eq 'A' or armSkuName eq 'B')"
    )


def test_azure_evictions() -> None:
    rows = [
        {"skuName": "standard_nc6s_v3", "location": "westeurope", "evictionRate": "5-10"},
        {"skuName": "standard_nc6s_v3", "location": "northeurope", "evictionRate": "20+"},
        {"skuName": "standard_nc6s_v3", "location": "eastus", "evictionRate": None},
    ]
    west, north = azure.eviction_hazards(rows, ["Standard_NC6s_v3"])
    assert west.machine_type == "Standard_NC6s_v3"
    assert west.per_hour == pytest.approx(-math.log(0.925))
    assert north.per_hour == pytest.approx(-math.log(0.8))


def test_host_keys_are_those_of_the_last_boot() -> None:
    console = (
        "-----BEGIN SSH HOST KEY KEYS-----\r\n"
        "ssh-ed25519 OLDOLD root@vm\r\n-----END SSH HOST KEY KEYS-----\r\n"
        "noise\r\n[   12.3] -----BEGIN SSH HOST KEY KEYS-----\r\n"
        "ecdsa-sha2-nistp256 AAAAE2Vj== root@vm\r\n"
        "ssh-ed25519 AAAAC3Nz root@vm\r\n-----END SSH HOST KEY KEYS-----\r\n"
    )
    assert host_keys_of(console) == ("ecdsa-sha2-nistp256 AAAAE2Vj==", "ssh-ed25519 AAAAC3Nz")
    assert host_keys_of("booting") == ()
