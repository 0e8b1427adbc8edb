"""Finding what to talk to: a gateway, a cluster, or the one on this machine.

The first of these that is there: what the caller named (gateway, kubeconfig, context), the variable
CORRAL_GATEWAY (with CORRAL_TOKEN and CORRAL_CA), then what kubectl would take (KUBECONFIG,
``~/.kube/config``, the service account of the pod), then the cluster that `corral up` keeps in
``~/.corral``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from corral.client.access import Access
from corral.client.errors import BadRequest
from corral.client.jobs import Jobs
from corral.kube.client import KubeClient
from corral.kube.connection.config import ClusterConfig, ConfigError
from corral.kube.connection.kubeconfig import load_config
from corral.sdk.errors import NoCluster

__all__ = ["LOCAL_FOLDER", "Connection", "connect"]

LOCAL_FOLDER: Final = Path("~/.corral")
"""Where `corral up` keeps its cluster unless told otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """What the caller said about where to go; nothing at all will do."""

    kubeconfig: str | os.PathLike[str] | None = None
    context: str | None = None
    gateway: str | None = None
    """URL of a Corral gateway; everything then goes through it."""
    token: str | None = field(default=None, repr=False)
    """Bearer token for the gateway."""
    ca_file: str | os.PathLike[str] | None = None
    """Certificate authority of the gateway, where it is not one that everybody trusts."""


def connect(connection: Connection, environ: Mapping[str, str] | None = None) -> Access:
    """The access that is meant.

    Raises:
        NoCluster: nothing was found, or what was found cannot be used.
        BadRequest: a gateway and a kubeconfig were both named.
    """
    env = os.environ if environ is None else environ
    named = connection.kubeconfig is not None or connection.context is not None
    if connection.gateway and named:
        raise BadRequest("a gateway and a kubeconfig were both named", hint="name one of them")
    url = connection.gateway or ("" if named else env.get("CORRAL_GATEWAY", ""))
    if url:
        return _gateway(connection, url, env)
    return Jobs(KubeClient(_config(connection, env)))


def _gateway(connection: Connection, url: str, env: Mapping[str, str]) -> Access:
    from corral.client.gateway.jobs import GatewayJobs

    token = connection.token or env.get("CORRAL_TOKEN", "")
    if not token:
        raise NoCluster(
            f"the gateway {url} needs a token",
            hint="give token=…, or set CORRAL_TOKEN; `kubectl create token NAME` makes one",
        )
    ca_file = connection.ca_file or env.get("CORRAL_CA") or None
    return GatewayJobs(url, token=token, ca_file=ca_file)


def _config(connection: Connection, env: Mapping[str, str]) -> ClusterConfig:
    path = connection.kubeconfig
    try:
        return load_config(
            Path(path).expanduser() if path is not None else None, connection.context, environ=env
        )
    except ConfigError as err:
        home = Path(env.get("HOME") or Path.home())
        local = home / LOCAL_FOLDER.relative_to("~") / "kubeconfig"
        if path is None and not env.get("KUBECONFIG") and local.is_file():
            return load_config(local, connection.context, environ=env)
        raise NoCluster(
            str(err),
            hint="`corral up --detach` starts a cluster on this machine, also as "
            "corral.LocalCluster(); TrainingClient(kubeconfig=…) or (gateway=…) names another",
        ) from err
