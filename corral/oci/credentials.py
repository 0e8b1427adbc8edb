"""Who we are to a registry, as Docker's configuration files and ``dockerconfigjson`` Secrets say.

Nothing here is ever shown: the values do not appear in ``repr``.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from corral.egress.reading import load_json
from corral.oci.errors import RegistryError

__all__ = ["Credentials", "Login", "docker_config", "secret_logins"]

_MODERN: Final = ".dockerconfigjson"
_LEGACY: Final = ".dockercfg"
_HUB: Final = {"index.docker.io": "docker.io", "registry-1.docker.io": "docker.io"}


@dataclass(frozen=True, slots=True)
class Login:
    """A user and a password, or a token that others are bought with."""

    username: str = ""
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Credentials:
    """Logins by the registry, or the part of a registry, that they are for."""

    logins: Mapping[str, Login] = field(default_factory=dict)

    def find(self, registry: str, repository: str = "") -> Login | None:
        """The login with the longest path that the repository is in."""
        registry = _HUB.get(registry, registry)
        path = f"{registry}/{repository}".rstrip("/")
        while path:
            login = self.logins.get(path)
            if login is not None:
                return login
            path = path.rpartition("/")[0]
        return None

    def __or__(self, other: Credentials) -> Credentials:
        """Both; where both know a registry, the right one counts."""
        return Credentials({**self.logins, **other.logins})

    def __bool__(self) -> bool:
        return bool(self.logins)


def docker_config(secret_data: Mapping[str, str | bytes]) -> Credentials:
    """The logins in the ``data`` of a Secret.

    Values are taken as the API has them (base64), or as bytes that are decoded already.

    Raises:
        RegistryError: it is not such a Secret.
    """
    for key, unpack in ((_MODERN, _auths), (_LEGACY, _itself)):
        if key in secret_data:
            content = _object(_decoded(secret_data[key], key), key)
            return Credentials(dict(_logins(unpack(content), key)))
    raise RegistryError(
        f"the Secret has neither {_MODERN} nor {_LEGACY}: make it with "
        "`kubectl create secret docker-registry`"
    )


def secret_logins(secret_data: Mapping[str, str | bytes], registry: str) -> Credentials:
    """The logins in a Secret of either kind: Docker's, or username, password and registry.

    ``registry`` is whom they are for where the Secret does not say.

    Raises:
        RegistryError: it is neither.
    """
    if "username" not in secret_data:
        return docker_config(secret_data)
    fields = {
        key: _decoded(secret_data[key], key).decode(errors="replace").strip()
        for key in ("username", "password", "registry")
        if key in secret_data
    }
    login = Login(fields["username"], fields.get("password", ""))
    return Credentials({_place(fields.get("registry") or registry): login})


def _auths(content: dict[str, Any]) -> Any:
    return content.get("auths") or {}


def _itself(content: dict[str, Any]) -> Any:
    return content


def _decoded(value: str | bytes, key: str) -> bytes:
    if isinstance(value, bytes):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise RegistryError(f"{key} of the Secret is not base64") from None


def _object(content: bytes, key: str) -> dict[str, Any]:
    try:
        value = load_json(content)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise RegistryError(f"{key} of the Secret is not a JSON object")
    return value


def _logins(auths: Any, key: str) -> Iterable[tuple[str, Login]]:
    if not isinstance(auths, dict):
        raise RegistryError(f"the registries in {key} of the Secret are not a JSON object")
    for server, entry in auths.items():
        if isinstance(entry, dict):
            yield _place(server), _login(entry, server)


def _place(server: str) -> str:
    """``https://index.docker.io/v1/`` and the like, as references name the registry."""
    bare = server.partition("://")[2] or server
    bare = bare.rstrip("/")
    for version in ("/v1", "/v2"):
        bare = bare.removesuffix(version)
    host, slash, path = bare.partition("/")
    return f"{_HUB.get(host, host)}{slash}{path}"


def _login(entry: dict[str, Any], server: str) -> Login:
    username, password = str(entry.get("username") or ""), str(entry.get("password") or "")
    packed = entry.get("auth")
    if isinstance(packed, str) and packed and not (username and password):
        try:
            text = base64.b64decode(packed, validate=True).decode().rstrip("\0")
        except (binascii.Error, ValueError):
            raise RegistryError(f"`auth` of {server} in the Secret is not base64") from None
        username, _, password = text.partition(":")
    return Login(username, password, str(entry.get("identitytoken") or ""))
