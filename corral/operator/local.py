"""The operator as a part of ``corral up``: beside an embedded API server, on the same machine.

Its rights and Service are looked after at every start, so that a folder of an older version gets
what the newer one needs. That is done as the cluster's administrator; everything else is done with
the operator's own certificate and rights. The definitions are the API server's to look after; that
reaches the operator at the loopback, pods reach it through its Service, whatever their network is.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import orjson

from corral.egress.policy import EgressPolicy
from corral.families.spot.machines.local_vms import end_all
from corral.families.spot.machines.settings import LocalVms, MachineSettings
from corral.kube.client import KubeClient
from corral.kube.connection.kubeconfig import load_kubeconfig
from corral.kube.errors import AlreadyExists, NotFound
from corral.kube.resources import NAMESPACES
from corral.kube.types import Obj
from corral.operator.install import FIELD_MANAGER
from corral.operator.manifests import local_objects
from corral.operator.process import OperatorProcess, operator_client
from corral.operator.settings import NAMESPACE, ProcessSettings

__all__ = ["USER", "Bounds", "run_part", "set_up"]

logger = logging.getLogger(__name__)

USER: Final = "corral:operator"
"""Who the operator is to the API server."""
Where = tuple[str, Mapping[str, str], Mapping[str, str]]
_LOOPBACK: Final = "127.0.0.1"
_DONE: Final = "corral.dev/set-up"
"""On the namespace: the digest of all objects that were set up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What users' objects may have the operator do beside the defaults."""

    allow_endpoints: tuple[str, ...] = ()
    """As `ProcessSettings.allow_endpoints`."""
    local_folders: tuple[tuple[str, Path], ...] = ()
    """As `ProcessSettings.local_folders`."""


def _settings(
    local_root: Path,
    kafka: tuple[str, str],
    kafka_secret: str,
    registries: Where,
    vms: LocalVms | None,
    bounds: Bounds,
) -> ProcessSettings:
    """One replica, which need not wait for a lease; ports are taken as they are free."""
    return ProcessSettings(
        leader_elect=False,
        health_host=_LOOPBACK,
        health_port=0,
        webhook_host=_LOOPBACK,
        webhook_port=0,
        webhook_url_host=_LOOPBACK,
        report_host=_LOOPBACK,
        report_port=0,
        report_address=_LOOPBACK,
        local_root=local_root,
        local_folders=bounds.local_folders,
        allow_endpoints=bounds.allow_endpoints,
        mpi_agent=True,
        kafka=kafka[0],
        pod_kafka=kafka[1],
        kafka_secret=kafka_secret,
        registry=registries[0],
        registry_map=_pairs(registries[1]),
        pod_registry_map=_pairs(registries[2]),
        machines=MachineSettings(local=vms, egress=EgressPolicy.of(bounds.allow_endpoints)),
    )


def _pairs(urls: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"{name}={url}" for name, url in urls.items())


async def set_up(client: KubeClient) -> None:
    """Have the API server know the operator's rights and Service.

    The namespace says what was set up last, so that most starts find everything done.

    Raises:
        ApiError: something is refused.
    """
    namespace, *others = sorted(local_objects(USER), key=lambda obj: obj["kind"] != NAMESPACES.kind)
    digest = sha256(orjson.dumps([namespace, others])).hexdigest()
    if await _is_done(client, digest):
        return
    await _ensure(client, namespace)
    await asyncio.gather(*(_ensure(client, obj) for obj in others))
    note = {"metadata": {"annotations": {_DONE: digest}}}
    await client.patch(NAMESPACES, NAMESPACE, patch=note, field_manager=FIELD_MANAGER)


async def _is_done(client: KubeClient, digest: str) -> bool:
    try:
        namespace = await client.get(NAMESPACES, NAMESPACE)
    except NotFound:
        return False
    return bool((namespace["metadata"].get("annotations") or {}).get(_DONE) == digest)


async def _ensure(client: KubeClient, obj: Obj) -> None:
    resource = await client.resource_for(obj["apiVersion"], obj["kind"])
    try:
        # in most clusters there is nothing yet, and a first apply is slower than a create
        await client.create(resource, obj, field_manager=FIELD_MANAGER)
    except AlreadyExists:
        await client.apply(resource, obj, field_manager=FIELD_MANAGER)


async def run_part(
    administrator: Path,
    own: Path,
    local_root: Path,
    ready: Callable[[dict[str, Any]], None],
    *,
    kafka: tuple[str, str] = ("", ""),
    kafka_secret: str = "",
    registries: Where = ("", {}, {}),
    vms: LocalVms | None = None,
    bounds: Bounds | None = None,
) -> None:
    """Serve until SIGTERM; ``administrator`` and ``own`` are kubeconfigs.

    ``kafka`` has the bootstrap servers, as reached from here and from pods, ``kafka_secret`` names
    the Secret of each namespace that logs in there; ``registries`` where models are kept, and
    where registries are reached from here and from pods; ``vms`` how machines of spot jobs are
    made, which are ended with the cluster; ``bounds`` what may be named.
    """
    config = load_kubeconfig([administrator]).resolve()
    async with KubeClient(config, on_warning=logger.debug) as client:
        await set_up(client)
    async with operator_client(load_kubeconfig([own]).resolve()) as client:
        settings = _settings(local_root, kafka, kafka_secret, registries, vms, bounds or Bounds())
        process = OperatorProcess(client, settings, on_ready=lambda: ready(facts()))

        def facts() -> dict[str, Any]:
            operator = process.operator
            return {"health": operator.health_port if operator else 0}

        await process.run()
    if vms is not None:
        await _end_machines(vms)


async def _end_machines(vms: LocalVms) -> None:
    """Switch them off with the cluster; when we are asked again, they hurry."""
    hurry = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, hurry.set)
    await end_all(vms, hurry)
