"""Which server a name in a reference stands for, and how to reach it."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from corral.oci.credentials import Credentials, Login
from corral.oci.errors import RegistryError
from corral.oci.own import OWN
from corral.oci.reference import Reference

__all__ = ["Endpoint", "Registries", "endpoints"]

_HUB: Final = "https://registry-1.docker.io"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server that speaks the distribution API."""

    url: str
    """Without ``/v2``; it may have a path."""
    token: Callable[[], str] | None = field(default=None, repr=False)
    """Gives a token that the server takes as it is; asked again when it is refused."""
    username: str = ""
    password: str = field(default="", repr=False)
    ca_file: str | None = None
    """Authorities to trust instead of the system's."""

    @property
    def login(self) -> Login | None:
        return Login(self.username, self.password) if self.username else None


@dataclass(frozen=True, slots=True)
class Registries:
    """Names of registries → servers; a name that is not there is a host of that name."""

    mapping: Mapping[str, Endpoint] = field(default_factory=dict)
    credentials: Credentials = field(default_factory=Credentials)

    def endpoint(self, registry: str) -> Endpoint:
        """The server of a registry. Hosts of this machine are reached without TLS."""
        known = self.mapping.get(registry)
        if known is not None:
            return known
        if registry == "docker.io":
            return Endpoint(_HUB)
        return Endpoint(f"{'http' if is_loopback(registry) else 'https'}://{registry}")

    def login(self, reference: Reference) -> Login | None:
        """Who we are there: what the endpoint says, else what the credentials say."""
        endpoint = self.endpoint(reference.registry)
        return endpoint.login or self.credentials.find(reference.registry, reference.repository)


def endpoints(
    pairs: Iterable[str], *, token: Callable[[], str] | None = None
) -> dict[str, Endpoint]:
    """A mapping from ``NAME=URL`` pairs.

    ``token`` gives a token of the cluster's API. It is shown to the cluster's own registry only:
    to the server that `OWN` stands for, under whichever name.

    Raises:
        RegistryError: a pair is malformed.
    """
    urls: dict[str, str] = {}
    for pair in pairs:
        name, equals, url = pair.partition("=")
        parts = urlsplit(url)
        if not (name and equals and parts.scheme in ("http", "https") and parts.netloc):
            raise RegistryError(f"{pair!r} does not map a registry: write NAME=http://HOST:PORT")
        urls[name] = url.rstrip("/")
    own = urls.get(OWN)
    return {name: Endpoint(url, token if url == own else None) for name, url in urls.items()}


def is_loopback(registry: str) -> bool:
    """Whether a host, with or without a port, is this machine."""
    host = urlsplit(f"//{registry}").hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
