"""What a client must know to reach a cluster, as frozen values.

Nothing here reads files or the environment: `kubeconfig` and `incluster` produce these values,
`credentials` and `tls` use them. Secrets are left out of ``repr``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["ClusterConfig", "ConfigError", "ExecPlugin", "Impersonation"]


class ConfigError(Exception):
    """The configuration cannot be used; the message is one line and says what to do."""


@dataclass(frozen=True, slots=True)
class Impersonation:
    """Act as another user: the ``as*`` fields of a kubeconfig user."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A command that prints an ``ExecCredential``."""

    command: str
    api_version: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    interactive_mode: str = "IfAvailable"
    provide_cluster_info: bool = False
    install_hint: str = ""
    cluster_info: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The ``spec.cluster`` the plugin is told when it asks for it."""


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """One cluster, one user, one default namespace.

    PEM data wins over the file of the same purpose. Files are named, not read: tokens and
    certificates rotate while a client lives.
    """

    server: str
    """Base URL; may carry a path prefix, never ends with a slash."""
    namespace: str = "default"
    ca_file: str = ""
    ca_data: bytes = field(default=b"", repr=False)
    insecure: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    socket: str = ""
    """A Unix socket of the server's on this machine, used instead of its address, without TLS."""
    disable_compression: bool = False
    cert_file: str = ""
    cert_data: bytes = field(default=b"", repr=False)
    key_file: str = ""
    key_data: bytes = field(default=b"", repr=False)
    token: str = field(default="", repr=False)
    token_file: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    impersonation: Impersonation | None = None
    exec_plugin: ExecPlugin | None = None
    context: str = ""
    """Name of the kubeconfig context this came from, where there is one."""

    def __post_init__(self) -> None:
        if not self.server.startswith(("http://", "https://")):
            raise ConfigError(
                f"server {self.server!r} is no http:// or https:// URL: "
                "correct `server` of the cluster in the kubeconfig"
            )
        if self.insecure and (self.ca_file or self.ca_data):
            raise ConfigError(
                "insecure-skip-tls-verify and a certificate authority are both set: remove one"
            )
        object.__setattr__(self, "server", self.server.rstrip("/"))
