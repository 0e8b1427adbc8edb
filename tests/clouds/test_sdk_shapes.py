"""What we send, read by the clouds' own libraries, which refuse fields they do not know."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from corral.clouds import Gpu, VmRequest
from corral.clouds.azure import bodies as azure
from corral.clouds.gcp import bodies as gcp

REQUEST = VmRequest(
    name="trainer-0",
    request_id="5f4dcc3b-5aa7-4d1d-8f0c-7d1a2b3c4d5e",
    owner="o",
    zone="us-central1-a",
    machine_type="n1-standard-8",
    image="projects/debian-cloud/global/images/debian",
    gpu=Gpu("nvidia-tesla-t4", 2),
    network_tags=("k8s",),
    service_account="node@p.iam.gserviceaccount.com",
    startup_script="#!/bin/sh\n",
    ssh_user="corral",
    ssh_public_key="ssh-ed25519 AAAA",
    max_run_s=3600,
    notice_s=60,
    max_price=2.0,
)


@pytest.mark.parametrize("spot", [True, False])
def test_sdk_of_gcp_knows_every_field_of_an_instance(spot: bool) -> None:
    from google.cloud import compute_v1 as compute

    body = gcp.insert_body(replace(REQUEST, spot=spot), gcp.Network("n", "s", True))
    read = compute.Instance.from_json(json.dumps(body), ignore_unknown_fields=False)
    assert read.scheduling.provisioning_model == ("SPOT" if spot else "STANDARD")
    assert read.guest_accelerators[0].accelerator_count == 2
    assert read.scheduling.max_run_duration.seconds == 3600


def test_sdk_of_gcp_knows_every_field_of_questions_for_advice() -> None:
    from google.cloud import compute_v1 as compute

    history = json.dumps(gcp.history_body("n1-standard-8", "us-central1-a"))
    read = compute.CapacityHistoryRequest.from_json(history, ignore_unknown_fields=False)
    assert list(read.types) == ["PREEMPTION", "PRICE"]
    capacity = json.dumps(gcp.capacity_body("n1-standard-8", "us-central1-a"))
    advice = compute.CapacityAdviceRequest.from_json(capacity, ignore_unknown_fields=False)
    assert advice.size == 1


@pytest.mark.parametrize("spot", [True, False])
def test_sdk_of_azure_knows_every_field_of_a_vm(spot: bool) -> None:
    from azure.mgmt.compute import models

    request = replace(
        REQUEST, spot=spot, zone="westeurope-1", image="Debian:debian-12:12:latest", gpu=None
    )
    body = azure.create_body(request, azure.Place("/subnet", "/group", True))
    unknown = unknown_fields(models.VirtualMachine(body), body)
    assert unknown == []
    profile = models.VirtualMachine(body).properties.network_profile
    assert profile.network_api_version in set(models.NetworkApiVersion)


def unknown_fields(model: Any, body: Mapping[str, Any], path: str = "") -> list[str]:
    """Fields that the library has no attribute for, at any depth."""
    fields = getattr(type(model), "_attr_to_rest_field", None)
    if fields is None:
        return []
    names = {field._rest_name: attribute for attribute, field in fields.items()}
    found = []
    for key, value in body.items():
        if key not in names:
            found.append(path + key)
            continue
        inner = getattr(model, names[key])
        pairs = [(inner, value)] if isinstance(value, dict) else []
        if isinstance(value, list):
            pairs = list(zip(inner, value, strict=True))
        for each, part in pairs:
            if isinstance(part, dict):
                found += unknown_fields(each, part, f"{path}{key}.")
    return found
