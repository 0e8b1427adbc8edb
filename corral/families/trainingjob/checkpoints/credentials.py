"""Credentials of stores, out of Secrets.

A Secret that ``secretRef`` names has these keys, called as the clouds' own tools call them:

=====  ===========================================================================================
s3     ``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY``; also ``AWS_SESSION_TOKEN``, ``AWS_REGION``
gcs    ``GOOGLE_SERVICE_ACCOUNT_KEY`` or ``credentials.json``: the JSON key of a service account
azure  ``AZURE_STORAGE_ACCOUNT_KEY``; also ``AZURE_STORAGE_ACCOUNT_NAME``
=====  ===========================================================================================

Everything else in the Secret is ignored: names of files would be read on the operator's own disk.
A Secret without complete credentials is refused, because clients would fall back to the identity
of the operator. One Secret is read by name when it is needed; nothing is listed, watched or logged.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

from corral.checkpoints.errors import CheckpointError
from corral.checkpoints.location import service_account
from corral.kube.client import KubeClient
from corral.kube.errors import Forbidden, NotFound
from corral.kube.resources import SECRETS
from corral.kube.types import Obj

__all__ = ["CredentialsMissing", "secret_credentials", "usable"]

_ACCEPTED: Final = {
    "s3": (
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
    ),
    "gs": ("GOOGLE_SERVICE_ACCOUNT_KEY", "credentials.json"),
    "az": (
        "AZURE_STORAGE_ACCOUNT_NAME",
        "AZURE_STORAGE_ACCOUNT_KEY",
    ),
}
_COMPLETE: Final = {
    "s3": (("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),),
    "gs": (("GOOGLE_SERVICE_ACCOUNT_KEY",), ("credentials.json",)),
    "az": (("AZURE_STORAGE_ACCOUNT_KEY",),),
}


class CredentialsMissing(Exception):
    """The Secret is not there or has not what is needed; the message names keys, no values."""


async def secret_credentials(
    client: KubeClient, namespace: str, name: str, scheme: str
) -> dict[str, str]:
    """The credentials in a Secret, for stores of this scheme (s3, gs, az).

    Raises:
        CredentialsMissing: there are none.
    """
    try:
        secret = await client.get(SECRETS, name, namespace=namespace)
    except NotFound as error:
        raise CredentialsMissing(f"there is no Secret {name} in namespace {namespace}") from error
    except Forbidden as error:
        raise CredentialsMissing(f"the operator may not read Secret {namespace}/{name}") from error
    return usable(secret, scheme)


def usable(secret: Obj, scheme: str) -> dict[str, str]:
    """What of a Secret may be used with stores of this scheme.

    Raises:
        CredentialsMissing: it is not complete.
    """
    data = secret.get("data") or {}
    where = f"Secret {secret['metadata'].get('namespace')}/{secret['metadata'].get('name')}"
    try:
        found = {
            key: base64.b64decode(data[key]).decode().strip()
            for key in _ACCEPTED[scheme]
            if data.get(key)
        }
    except (binascii.Error, UnicodeDecodeError):
        # The error would quote what it could not decode.
        raise CredentialsMissing(f"{where} has values that are not text") from None
    if not any(all(found.get(key) for key in keys) for keys in _COMPLETE[scheme]):
        ways = ", or ".join(" and ".join(keys) for keys in _COMPLETE[scheme])
        raise CredentialsMissing(f"{where} needs the keys {ways}")
    if scheme == "gs":
        _check_account(found, where)
    return found


def _check_account(found: dict[str, str], where: str) -> None:
    try:
        account = service_account(found)
    except CheckpointError:
        account = None
    if account is None:
        raise CredentialsMissing(f"{where} holds no JSON key of a service account")
