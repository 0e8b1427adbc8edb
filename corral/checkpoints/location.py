"""Addresses of stores: one syntax for all, and the stores and signers they open.

=====================================================  =========================================
``/checkpoints`` or ``file:///checkpoints``            a folder, e.g. a mounted volume
``s3://bucket/prefix?region=eu-west-1``                Amazon S3
``s3://bucket/prefix?endpoint=https://host:9000``      anything that speaks S3
``gs://bucket/prefix``                                 Google Cloud Storage
``az://container/prefix?account=name``                 Azure Blob Storage
=====================================================  =========================================

Credentials come from a mapping with the names that the clouds' own tools read from the
environment (which is also the default mapping), so a Secret with those keys fits as it is.
Without any, the store's client looks for the machine's or the pod's own identity.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from corral.checkpoints.errors import InvalidLocation
from corral.checkpoints.local import LocalStore
from corral.checkpoints.store import Store
from corral.egress.reading import load_json

_SCHEMES = {"s3": "s3", "gs": "gs", "gcs": "gs", "az": "az", "azure": "az"}
_PARAMETERS = {
    "s3": {"endpoint", "region"},
    "gs": {"endpoint"},
    "az": {"endpoint", "account"},
}


@dataclass(frozen=True, slots=True)
class Location:
    """The parsed address of a store, or of a folder in one."""

    scheme: str
    """file, s3, gs or az."""
    bucket: str = ""
    """The bucket, or the container of Azure."""
    prefix: str = ""
    """Below the bucket; for a folder, its path."""
    endpoint: str = ""
    region: str = ""
    account: str = ""

    @property
    def url(self) -> str:
        """The address in its usual form."""
        if self.scheme == "file":
            return Path(self.prefix).as_uri()
        parameters = {"endpoint": self.endpoint, "region": self.region, "account": self.account}
        query = urlencode({name: value for name, value in parameters.items() if value})
        path = f"/{self.prefix}" if self.prefix else ""
        return f"{self.scheme}://{self.bucket}{path}" + (f"?{query}" if query else "")

    def below(self, *parts: str) -> Location:
        """The address of a folder further down."""
        tail = "/".join(part.strip("/") for part in parts if part.strip("/"))
        prefix = f"{self.prefix.rstrip('/')}/{tail}" if self.prefix else tail
        return Location(self.scheme, self.bucket, prefix, self.endpoint, self.region, self.account)


def parse(url: str) -> Location:
    """The location that an address names.

    Raises:
        InvalidLocation: with what is wrong and how it should look.
    """
    if url.startswith("/"):
        return Location("file", prefix=url)
    parts = urlsplit(url)
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise InvalidLocation(f"{url}: write file:///absolute/path")
        return Location("file", prefix=unquote(parts.path))
    scheme = _SCHEMES.get(parts.scheme)
    if scheme is None:
        raise InvalidLocation(f"{url}: use /path, file://, s3://, gs:// or az://")
    if not parts.netloc or "@" in parts.netloc:
        raise InvalidLocation(f"{url}: write {scheme}://BUCKET/PREFIX, without credentials")
    given = dict(parse_qsl(parts.query))
    unknown = set(given) - _PARAMETERS[scheme]
    if unknown:
        known = ", ".join(sorted(_PARAMETERS[scheme]))
        raise InvalidLocation(f"{url}: unknown {', '.join(sorted(unknown))}; known are {known}")
    return _checked(Location(scheme, parts.netloc, parts.path.strip("/"), **given))


def from_storage(storage: Mapping[str, Any], *, mount: str = "/checkpoints") -> Location:
    """The location of a TrainingJob's `checkpoint.storage`; volumes are where they are mounted.

    Raises:
        InvalidLocation: if not exactly one kind of storage is given.
    """
    if len(storage) != 1:
        raise InvalidLocation("storage: give exactly one of pvc, s3, gcs, azure and local")
    kind, settings = next(iter(storage.items()))
    settings = settings or {}
    if kind in ("pvc", "local"):
        return Location("file", prefix=settings.get("path", mount))
    if kind not in ("s3", "gcs", "azure"):
        raise InvalidLocation(f"storage.{kind}: use one of pvc, s3, gcs, azure and local")
    bucket = settings.get("bucket") or settings.get("container")
    if not bucket:
        raise InvalidLocation(f"storage.{kind}: name the bucket")
    return _checked(
        Location(
            _SCHEMES[kind],
            bucket,
            settings.get("prefix", "").strip("/"),
            settings.get("endpoint", ""),
            settings.get("region", ""),
            settings.get("account", ""),
        )
    )


def open_store(
    where: Location | str,
    credentials: Mapping[str, str] | None = None,
    *,
    durable: bool = True,
) -> Store:
    """Opens the store at an address.

    Args:
        where: the address.
        credentials: as environment variables name them; the environment if None.
        durable: for folders, whether to survive a power cut.
    """
    location = parse(where) if isinstance(where, str) else where
    if location.scheme == "file":
        return LocalStore(location.prefix, durable=durable)
    from corral.checkpoints.objects import ObjectStore  # obstore costs import time

    return ObjectStore(location, os.environ if credentials is None else credentials)


def service_account(credentials: Mapping[str, str]) -> dict[str, Any] | None:
    """Google's service account with its key, if there is one among the credentials.

    Raises:
        InvalidLocation: if there is one that cannot be read.
    """
    text = credentials.get("GOOGLE_SERVICE_ACCOUNT_KEY") or credentials.get("credentials.json")
    file = credentials.get("GOOGLE_SERVICE_ACCOUNT")
    file = file or credentials.get("GOOGLE_APPLICATION_CREDENTIALS")
    try:
        if text is None and file:
            text = Path(file).read_text()
        found = load_json(text) if text else None
    except (OSError, ValueError) as error:
        raise InvalidLocation(f"the service account's key cannot be read: {error}") from error
    is_key = isinstance(found, dict) and "private_key" in found and "client_email" in found
    return found if is_key else None


def _checked(location: Location) -> Location:
    if location.endpoint:
        parts = urlsplit(location.endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
            raise InvalidLocation(
                f"{location.endpoint}: an endpoint looks like https://host or http://host:port"
            )
    return location
