"""Where Kafka is, and who the caller is there: what its rights in the namespace let it read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from corral.cli.errors import NOT_FOUND, USAGE, Trouble
from corral.cli.session import LOCAL_CLUSTER, ClusterOptions, kubeconfig_of, opened

if TYPE_CHECKING:
    from corral.kube.client import KubeClient
    from corral.podtools.kafka.client import Access

__all__ = ["access_of", "bootstrap_of"]

_VARIABLES: Final = ("KAFKA_BOOTSTRAP_SERVERS", "KML_CLOUD_BOOTSTRAP_SERVERS")
_MADE_WITHIN: Final = 10.0
"""Seconds in which a namespace that is new is given its login."""
_LOOK: Final = 0.1


def bootstrap_of(detail: str, kubeconfig: Path | None) -> str:
    """Where the brokers are: as said, as the environment says, or beside the cluster.

    Raises:
        Trouble: nobody says.
    """
    found = _said(detail) or str(_facts(kubeconfig).get("bootstrap") or "")
    if found:
        return found
    raise Trouble(
        "the address of Kafka is not known",
        code=USAGE,
        hint="give --bootstrap HOST:PORT; `corral up` starts a broker beside the cluster",
    )


def _said(detail: str) -> str:
    return detail or next(filter(None, (os.environ.get(name) for name in _VARIABLES)), "")


def _facts(kubeconfig: Path | None) -> dict[str, Any]:
    """What the broker of a cluster here has written beside the kubeconfig; else nothing."""
    places = [kubeconfig_of(ClusterOptions(kubeconfig=kubeconfig))]
    places += [Path(word) for word in os.environ.get("KUBECONFIG", "").split(os.pathsep) if word]
    places.append(LOCAL_CLUSTER.expanduser())
    for place in places:
        try:
            facts = json.loads((place.parent / "broker.json").read_text()) if place else {}
        except (OSError, ValueError):
            continue
        if isinstance(facts, dict) and facts.get("bootstrap"):
            return facts
    return {}


async def access_of(bootstrap: str, target: ClusterOptions, *, secret: str = "") -> Access:
    """How the caller reaches Kafka.

    It logs in as the environment says (``KAFKA_USERNAME``…), else with a Secret of the namespace,
    read with the caller's own rights: the one that is named, or that of the cluster's broker.

    Raises:
        Trouble: it is not known where Kafka is, or there is no such Secret.
        ApiError: the caller may not read it.
    """
    from corral.podtools.kafka.client import Access

    servers = bootstrap_of(bootstrap, target.kubeconfig)
    facts = _facts(target.kubeconfig)
    if not secret and servers == facts.get("bootstrap"):
        secret = str(facts.get("secret") or "")
    if not secret or os.environ.get("KAFKA_USERNAME"):
        return Access.from_environment({**os.environ, "BROKERS": servers}, "BROKERS")
    async with opened(target) as session:
        client = session.direct("to log in to Kafka")
        login = await _login(client, session.namespace, secret)
    return Access(servers, **login)


async def _login(client: KubeClient, namespace: str, secret: str) -> dict[str, str]:
    import asyncio
    import base64

    from corral.kube.errors import NotFound
    from corral.kube.resources import SECRETS

    loop = asyncio.get_running_loop()
    until = loop.time() + _MADE_WITHIN
    while True:
        try:
            data = (await client.get(SECRETS, secret, namespace=namespace)).get("data") or {}
            keys = [key for key in ("username", "password", "mechanism") if data.get(key)]
            return {key: base64.b64decode(data[key]).decode() for key in keys}
        except NotFound as err:
            if loop.time() > until:
                raise Trouble(
                    f"there is no Secret {secret} for the Kafka login in namespace {namespace}",
                    code=NOT_FOUND,
                    hint="does the namespace exist? the broker creates it in every one",
                ) from err
            await asyncio.sleep(_LOOK)
