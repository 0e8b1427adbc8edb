"""Clients and signers for each cloud, made from a location and credentials.

All differences between the clouds' settings are here. Keys given explicitly are used for both
the client and our own signatures; without them the client finds the identity of machine or pod.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from obstore.store import AzureStore, GCSStore, S3Store

from corral.checkpoints.errors import InvalidLocation
from corral.checkpoints.location import Location, service_account
from corral.checkpoints.signing.azure import AzureSigner
from corral.checkpoints.signing.base import UrlSigner
from corral.checkpoints.signing.delegated import DelegatedSigner
from corral.checkpoints.signing.http import Sender
from corral.checkpoints.signing.v4 import amazon, google
from corral.checkpoints.signing.xml import IF_ABSENT_GOOGLE, IF_ABSENT_S3, XmlSigner
from corral.egress.policy import EgressPolicy

_GOOGLE = "https://storage.googleapis.com"
_ACCOUNT = (
    "type", "project_id", "private_key_id", "private_key", "client_email", "client_id", "token_uri"
)  # fmt: skip
"""Of the key of a service account, what a client needs."""


def s3_client(
    location: Location, credentials: Mapping[str, str], retry: Mapping[str, Any], proxy: str = ""
) -> S3Store:
    config: dict[str, Any] = {"region": _region(location, credentials)}
    if location.endpoint:
        config["endpoint"] = location.endpoint
        config["virtual_hosted_style_request"] = False
    access = credentials.get("AWS_ACCESS_KEY_ID")
    secret = credentials.get("AWS_SECRET_ACCESS_KEY")
    # As a provider: to keys in the configuration the client adds a session token of its process.
    given: Any = {
        "access_key_id": access,
        "secret_access_key": secret,
        "token": credentials.get("AWS_SESSION_TOKEN") or None,
        "expires_at": None,
    }
    return S3Store(
        location.bucket,
        config=config,  # type: ignore[arg-type]  # a TypedDict that is filled step by step
        client_options=_options(location, proxy),  # type: ignore[arg-type]
        retry_config=retry,  # type: ignore[arg-type]
        credential_provider=(lambda: given) if access and secret else None,
    )


def google_client(
    location: Location, credentials: Mapping[str, str], retry: Mapping[str, Any], proxy: str = ""
) -> GCSStore:
    config: dict[str, Any] = {}
    if location.endpoint:
        config["base_url"] = location.endpoint
    account = service_account(credentials)
    if account is not None:
        # The client would also take the address of a server out of it.
        known = {name: account[name] for name in _ACCOUNT if name in account}
        config["service_account_key"] = json.dumps(known)
    return GCSStore(
        location.bucket,
        config=config,  # type: ignore[arg-type]
        client_options=_options(location, proxy),  # type: ignore[arg-type]
        retry_config=retry,  # type: ignore[arg-type]
    )


def azure_client(
    location: Location, credentials: Mapping[str, str], retry: Mapping[str, Any], proxy: str = ""
) -> AzureStore:
    config: dict[str, Any] = {"account_name": _account(location, credentials)}
    if location.endpoint:
        config["endpoint"] = location.endpoint
    key = credentials.get("AZURE_STORAGE_ACCOUNT_KEY")
    # As a provider: keys in the environment of the process must not win over what is given.
    given: Any = {"access_key": key, "expires_at": None}
    keys = {
        "sas_key": credentials.get("AZURE_STORAGE_SAS_TOKEN"),
        "client_id": credentials.get("AZURE_CLIENT_ID"),
        "client_secret": credentials.get("AZURE_CLIENT_SECRET"),
        "tenant_id": credentials.get("AZURE_TENANT_ID"),
        "federated_token_file": credentials.get("AZURE_FEDERATED_TOKEN_FILE"),
    }
    config.update({name: value for name, value in keys.items() if value})
    return AzureStore(
        location.bucket,
        config=config,  # type: ignore[arg-type]
        client_options=_options(location, proxy),  # type: ignore[arg-type]
        retry_config=retry,  # type: ignore[arg-type]
        credential_provider=(lambda: given) if key else None,
    )


def signer_for(
    location: Location,
    credentials: Mapping[str, str],
    client: S3Store | GCSStore | AzureStore,
    egress: EgressPolicy | None = None,
) -> UrlSigner:
    """Our own signer where there are keys; else what the client can do."""
    signer = {"s3": _s3_signer, "gs": _google_signer, "az": _azure_signer}[location.scheme]
    sender = Sender(egress=egress)
    return signer(location, credentials, sender) or DelegatedSigner(client, prefix=location.prefix)


def _s3_signer(
    location: Location, credentials: Mapping[str, str], sender: Sender
) -> UrlSigner | None:
    access = credentials.get("AWS_ACCESS_KEY_ID")
    secret = credentials.get("AWS_SECRET_ACCESS_KEY")
    if not access or not secret:
        return None
    region = _region(location, credentials)
    token = credentials.get("AWS_SESSION_TOKEN", "")
    scheme = amazon(access, secret, region=region, token=token)
    endpoint = location.endpoint or f"https://s3.{region}.amazonaws.com"
    base = f"{endpoint.rstrip('/')}/{location.bucket}"
    return XmlSigner(
        scheme, base=base, prefix=location.prefix, if_absent=IF_ABSENT_S3, sender=sender
    )


def _google_signer(
    location: Location, credentials: Mapping[str, str], sender: Sender
) -> UrlSigner | None:
    account = service_account(credentials)
    if account is None:
        return None
    scheme = google(account["client_email"], account["private_key"])
    base = f"{(location.endpoint or _GOOGLE).rstrip('/')}/{location.bucket}"
    return XmlSigner(
        scheme, base=base, prefix=location.prefix, if_absent=IF_ABSENT_GOOGLE, sender=sender
    )


def _azure_signer(
    location: Location, credentials: Mapping[str, str], sender: Sender
) -> UrlSigner | None:
    key = credentials.get("AZURE_STORAGE_ACCOUNT_KEY")
    if not key:
        return None
    account = _account(location, credentials)
    return AzureSigner(
        account=account,
        key=key,
        container=location.bucket,
        endpoint=location.endpoint or f"https://{account}.blob.core.windows.net",
        prefix=location.prefix,
        sender=sender,
    )


def _region(location: Location, credentials: Mapping[str, str]) -> str:
    given = location.region or credentials.get("AWS_REGION")
    return given or credentials.get("AWS_DEFAULT_REGION") or "us-east-1"


def _account(location: Location, credentials: Mapping[str, str]) -> str:
    account = location.account or credentials.get("AZURE_STORAGE_ACCOUNT_NAME")
    if not account:
        raise InvalidLocation(f"{location.url}: name the storage account, e.g. ?account=NAME")
    return account


def _options(location: Location, proxy: str) -> dict[str, Any]:
    options = {
        "allow_http": location.endpoint.startswith("http:"),
        "connect_timeout": "10s",
        "timeout": "300s",
    }
    return {**options, "proxy_url": proxy} if proxy else options
