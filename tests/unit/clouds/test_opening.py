"""Providers from what an object and a Secret say."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from corral.clouds import AccountRefused, BadRequest, CloudProvider
from corral.clouds.opening import open_provider

AZURE = {"subscription": "s", "resourceGroup": "g", "subnet": "/subnet"}
SECRET = {"AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "AZURE_CLIENT_SECRET": "s"}


@pytest.mark.parametrize(
    ("cloud", "options", "credentials"),
    [
        ("gcp", {"project": "p"}, {}),
        ("gcp", {"project": "p", "externalIP": True, "subnetwork": "s", "region": None}, {}),
        ("azure", AZURE, {}),
        ("azure", AZURE | {"securityGroup": "/g", "metadata": "http://127.0.0.1:9"}, SECRET),
    ],
)
async def test_opening(cloud: str, options: dict[str, Any], credentials: dict[str, str]) -> None:
    provider = open_provider(cloud, options, credentials)
    assert isinstance(provider, CloudProvider)
    assert provider.name == cloud
    await provider.close()


@pytest.mark.parametrize(
    ("cloud", "options", "credentials", "error", "words"),
    [
        ("moon", {}, {}, BadRequest, "no cloud is called 'moon'"),
        ("gcp", {}, {}, BadRequest, "gcp needs project"),
        ("gcp", {"project": 7}, {}, BadRequest, "gcp needs project"),
        ("gcp", {"project": "p", "colour": "red"}, {}, BadRequest, "gcp knows no colour"),
        ("gcp", {"project": "p"}, {"credentials.json": "{}"}, AccountRefused, "JSON key"),
        ("azure", {"subscription": "s"}, {}, BadRequest, "azure needs resourceGroup"),
        ("azure", AZURE, {"AZURE_CLIENT_ID": "c"}, AccountRefused, "AZURE_TENANT_ID"),
        (
            "aws",
            {"region": "r"},
            {"AWS_ACCESS_KEY_ID": "a"},
            AccountRefused,
            "lack AWS_SECRET_ACCESS_KEY",
        ),
    ],
)
def test_what_cannot_be_opened(
    cloud: str,
    options: dict[str, Any],
    credentials: dict[str, str],
    error: type[Exception],
    words: str,
) -> None:
    with pytest.raises(error, match=words):
        open_provider(cloud, options, credentials)


def test_nothing_heavy_is_loaded_before_it_is_needed() -> None:
    program = (
        "import sys, corral.clouds, corral.clouds.opening, corral.clouds.notices\n"
        "heavy = {'aiohttp', 'boto3', 'botocore', 'cryptography', 'numpy'} & set(sys.modules)\n"
        "print(*sorted(heavy))"
    )
    told = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert told.split() == []
