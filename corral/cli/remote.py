"""A session with a gateway, as whoever a token says."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from corral.cli.errors import FORBIDDEN, Trouble
from corral.cli.session import ClusterOptions, Session, kubeconfig_of
from corral.client.gateway.jobs import GatewayJobs
from corral.kube.connection.config import ClusterConfig, ConfigError
from corral.kube.connection.kubeconfig import load_config

__all__ = ["gateway_session"]


@asynccontextmanager
async def gateway_session(target: ClusterOptions) -> AsyncIterator[Session]:
    """A session with the gateway of the target, as whoever the token says."""
    config = _config(target)
    jobs = GatewayJobs(
        target.gateway or "", token=_token(config), ca_file=os.environ.get("CORRAL_CA") or None
    )
    namespace = target.namespace or (config.namespace if config else "default")
    try:
        yield Session(target, jobs, namespace)
    finally:
        await jobs.close()


def _config(target: ClusterOptions) -> ClusterConfig | None:
    path = kubeconfig_of(target)
    try:
        return load_config(path, target.context)
    except ConfigError:
        if target.kubeconfig is not None or target.context is not None:
            raise
        return None  # a gateway and a token are enough


def _token(config: ClusterConfig | None) -> str:
    token = os.environ.get("CORRAL_TOKEN", "")
    if not token and config is not None:
        token = config.token
        if not token and config.token_file:
            token = Path(config.token_file).read_text().strip()
    if token:
        return token
    raise Trouble(
        "the gateway needs a token, but none is set",
        code=FORBIDDEN,
        hint="set CORRAL_TOKEN, for example to the output of `kubectl create token NAME`",
    )
