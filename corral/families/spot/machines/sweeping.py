"""Machines that no object owns any more are found and deleted, now and then.

Every account that a SpotInstanceVM and its jobs mean is searched. What counts as owned is read from
the API server itself, after the machines were listed (`corral.clouds.sweep`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pydantic import ValidationError

from corral.api.spot.kinds import SPOTINSTANCEVMS, SpotInstanceVM
from corral.api.spot.vm import LocalMachine, SpotInstanceVMSpec
from corral.clouds.base import CloudProvider
from corral.clouds.errors import CloudError
from corral.clouds.sweep import Sweeper
from corral.families.spot.machines.entries import is_over
from corral.families.spot.machines.nodes import MachineNodes
from corral.families.spot.machines.providers import Providers
from corral.families.spot.machines.settings import MachineSettings
from corral.kube.client import KubeClient
from corral.kube.connection.transport import KubeConnectionError
from corral.kube.errors import ApiError
from corral.kube.types import Obj
from corral.runtime.informers.informer import Informer
from corral.runtime.keys import key_of

if TYPE_CHECKING:
    from corral.families.spot.machines.reporting import MachineMetrics

__all__ = ["Sweeping"]

logger = logging.getLogger(__name__)


class Sweeping:
    """Keeps all clouds free of machines that nothing owns."""

    def __init__(
        self,
        client: KubeClient,
        settings: MachineSettings,
        providers: Providers,
        *,
        nodes: MachineNodes,
        vms: Informer,
        jobs: Informer,
        job_index: str,
        metrics: MachineMetrics | None = None,
    ) -> None:
        """``job_index`` finds the jobs that name a SpotInstanceVM, by its key."""
        self._client = client
        self._settings = settings
        self._providers = providers
        self._nodes = nodes
        self._vms = vms
        self._jobs = jobs
        self._index = job_index
        self._metrics = metrics
        self._sweepers: dict[CloudProvider, Sweeper] = {}

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(self._settings.sweep)
            try:
                await self.sweep()
            except (ApiError, KubeConnectionError) as error:
                logger.warning("clouds were not searched for lost machines: %s", error)

    async def sweep(self) -> None:
        """Search every account once. Raises ApiError."""
        accounts = await self._accounts()
        for gone in self._sweepers.keys() - set(accounts):
            del self._sweepers[gone]
        for provider in accounts:
            sweeper = self._sweepers.get(provider)
            if sweeper is None:
                sweeper = self._sweepers[provider] = Sweeper(
                    provider,
                    await self._providers.owner(),
                    self._claimed,
                    grace=self._settings.sweep_grace,
                )
            try:
                swept = await sweeper.sweep()
            except CloudError as error:
                logger.warning("%s was not searched for lost machines: %s", provider.name, error)
                continue
            for name, failure in swept.failed.items():
                logger.warning("machine %s, which nothing owns, stays: %s", name, failure)
            for vm in swept.deleted:
                await self._nodes.remove(vm.name)
            if self._metrics and swept.deleted:
                self._metrics.swept.labels(provider.name).inc(len(swept.deleted))

    async def _claimed(self) -> set[str]:
        """Request ids of all machines that are not over, from the API server."""
        found = await self._client.list_all(SPOTINSTANCEVMS)
        return {
            entry["requestID"]
            for vm in found["items"]
            for entry in (vm.get("status") or {}).get("provisionedInstances") or ()
            if entry.get("requestID") and not is_over(entry)
        }

    async def _accounts(self) -> list[CloudProvider]:
        """Each account once."""
        found: dict[CloudProvider, None] = {}
        for cloud, spec, reference, namespace in self._meant():
            try:
                found[await self._providers.open(cloud, spec, reference, namespace)] = None
            except CloudError as error:
                logger.debug("%s in %s cannot be searched: %s", cloud, namespace, error)
        return list(found)

    def _meant(self) -> Iterator[tuple[str, SpotInstanceVMSpec, Obj | None, str]]:
        if self._settings.local is not None:
            # those on this machine cost something though no object may be left
            yield "local", SpotInstanceVMSpec(local=LocalMachine()), None, ""
        for vm in self._vms.store.objects():
            try:
                spec = SpotInstanceVM.read(vm).spec
            except ValidationError:
                continue
            namespace = vm["metadata"]["namespace"]
            users = self._jobs.store.by_index(self._index, key_of(vm))
            references = [_reference(job) for job in users]
            entries = (vm.get("status") or {}).get("provisionedInstances") or ()
            references += [entry.get("credentialsSecretRef") for entry in entries]
            unique = {str(each): each for each in references}.values()
            for cloud in spec.clouds:
                if cloud != "local":
                    yield from ((cloud, spec, each, namespace) for each in unique)


def _reference(job: Obj) -> Obj | None:
    spec = job.get("spec") or {}
    return spec.get("credentialsSecretRef") or spec.get("gcpCredentialsSecretRef")
