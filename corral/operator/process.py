"""One replica of the operator: every family's controllers, webhooks, reports, health and metrics.

Webhooks, reports and health are served by every replica; controllers run on the one that leads.
`OperatorProcess.prepare` reads or makes the certificates and builds everything,
`OperatorProcess.run` runs it until `OperatorProcess.stop` or a signal.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from prometheus_client import CollectorRegistry

from corral.api import all_kinds
from corral.families.mpijob.objects.podgroup import pod_groups
from corral.families.mpijob.settings import ObjectSettings
from corral.files.temporary import sweep
from corral.kube.client import KubeClient
from corral.kube.connection.config import ClusterConfig
from corral.kube.connection.kubeconfig import load_config
from corral.kube.errors import NotFound
from corral.operator import rbac
from corral.operator.families import FAMILIES, Surroundings
from corral.operator.partners import end_with_leader, partners
from corral.operator.reporting import Reporting
from corral.operator.settings import LEASE, SECRET, WEBHOOKS_SERVICE, ProcessSettings
from corral.operator.tls import certificates
from corral.runtime.leadership.leader import LeaderElector
from corral.runtime.manager import Manager, ManagerSettings
from corral.runtime.metering import MeteredClient
from corral.runtime.metrics import RuntimeMetrics
from corral.runtime.operator import Operator, OperatorSettings
from corral.runtime.sharing import WHOLE
from corral.runtime.webhooks.hooks import Hooks
from corral.runtime.webhooks.keeper import Certificates
from corral.runtime.webhooks.metrics import WebhookMetrics
from corral.runtime.webhooks.server import ServerSettings
from corral.runtime.webhooks.service import WebhookService, WebhookSettings

__all__ = ["DefinitionsMissing", "OperatorProcess", "all_hooks", "operator_client"]

logger = logging.getLogger(__name__)


class DefinitionsMissing(Exception):
    """The API server does not know our kinds."""


def operator_client(config: ClusterConfig | None = None) -> MeteredClient:
    """A client that counts its requests; by default for the cluster that `load_config` finds."""
    metrics = RuntimeMetrics(CollectorRegistry())
    # warnings are for people: what a controller sends is not theirs to mend
    return MeteredClient(config or load_config(), metrics=metrics, on_warning=logger.debug)


def all_hooks(client: KubeClient | None = None, settings: ProcessSettings | None = None) -> Hooks:
    """The webhooks of all families; with a client they judge by what is in the cluster too."""
    hooks = Hooks()
    for family in FAMILIES:
        family.hooks(hooks, client, settings or ProcessSettings())
    return hooks


class OperatorProcess:
    """One replica."""

    def __init__(
        self,
        client: MeteredClient,
        settings: ProcessSettings | None = None,
        *,
        on_ready: Callable[[], None] | None = None,
        partners: Sequence[Sequence[str]] = (),
    ) -> None:
        """``on_ready`` is called once, when every informer has its first list.

        ``partners`` are the commands of the processes that have the other shares.
        """
        self.settings = settings or ProcessSettings()
        self._client = client
        self._on_ready = on_ready
        self._partners = partners
        self._webhook_metrics = WebhookMetrics(client.metrics.registry)
        self.certificates: Certificates = certificates(
            client, self.settings, metrics=self._webhook_metrics
        )
        self._authority = b""
        self.manager: Manager | None = None
        self.operator: Operator | None = None
        self.reporting: Reporting | None = None

    async def prepare(self) -> Operator:
        """Read or make the certificates, and build everything.

        Raises:
            DefinitionsMissing: our kinds are not installed.
            ApiError: the certificates cannot be read or written.
            BadFolder: nor can those of a folder.
        """
        await asyncio.to_thread(sweep)  # keys of VMs and data of pods among it
        await self._check_definitions()
        await self.certificates.refresh()
        self._authority = self.certificates.bundle
        manager = self.manager = self._new_manager()
        surroundings = Surroundings(self.settings, self._authority.decode())
        settings = self.settings
        for family in FAMILIES:
            if family.shared or not settings.is_partner:
                manager.share = settings.share if family.shared else WHOLE
                family.register(manager, surroundings)
        if settings.share.count > 1 and not settings.is_partner:
            manager.add_task("partners", partial(partners, self._partners))
        webhooks = self._webhooks()
        if settings.report_port is not None and not settings.is_partner:
            care = webhooks is None
            self.reporting = Reporting(manager, settings, self.certificates, care=care)
        self.operator = Operator(
            manager,
            webhooks=webhooks,
            served={"reports": self.reporting} if self.reporting else {},
            settings=OperatorSettings(
                settings.health_host,
                settings.health_port,
                handle_signals=settings.handle_signals,
            ),
            on_ready=self._on_ready,
        )
        self.certificates.on_change(self._certificates_changed)
        return self.operator

    async def run(self) -> None:
        """Run until `stop` or a signal; see `Operator.run` for what it raises."""
        operator = self.operator or await self.prepare()
        if self.settings.is_partner:
            end_with_leader(operator.stop)
        await operator.run()

    def stop(self) -> None:
        """Begin an orderly stop; `run` returns when it is over."""
        if self.operator is not None:
            self.operator.stop()

    # --- parts -----------------------------------------------------------------------------------

    async def _check_definitions(self) -> None:
        """Say what is missing at once, instead of waiting for a first list that never comes."""
        paths = {f"/apis/{kind.resource().api_version}" for kind in all_kinds()}
        missing = []
        for path in sorted(paths):
            try:
                await self._client.request("GET", path)
            except NotFound:
                missing.append(path.removeprefix("/apis/"))
        if missing:
            raise DefinitionsMissing(
                f"the API server does not know {' and '.join(missing)}: install the definitions "
                "with `corral crds | kubectl apply -f -` or `corral install`"
            )
        await self._check_gangs()

    async def _check_gangs(self) -> None:
        scheduler = self.settings.gang_scheduler
        groups = pod_groups(ObjectSettings(gang_scheduler=scheduler))
        if groups is None:
            return
        try:
            await self._client.request("GET", f"/apis/{groups.api_version}")
        except NotFound:
            raise DefinitionsMissing(
                f"the API server does not know {groups.kind}s of {groups.api_version}: install "
                f"{scheduler} first, or run without --gang-scheduling"
            ) from None

    def _new_manager(self) -> Manager:
        settings = self.settings
        elector = None
        if settings.leader_elect and not settings.is_partner:
            elector = LeaderElector(
                self._client,
                name=LEASE,
                namespace=settings.namespace,
                identity=settings.identity,
                settings=settings.election,
                on_new_leader=lambda leader: logger.info("%s leads", leader),
                metrics=self._client.metrics,
            )
        return Manager(
            self._client,
            settings=ManagerSettings(resync=settings.resync),
            metrics=self._client.metrics,
            elector=elector,
        )

    def _webhooks(self) -> WebhookService | None:
        settings = self.settings
        if settings.webhook_port is None or settings.is_partner:
            return None
        return WebhookService(
            self._client,
            all_hooks(self._client, settings),
            WebhookSettings(
                settings.namespace,
                name=rbac.CONFIGURATIONS,
                secret=SECRET,
                service=WEBHOOKS_SERVICE,
                url_host=settings.webhook_url_host,
                server=ServerSettings(settings.webhook_host, settings.webhook_port),
            ),
            metrics=self._webhook_metrics,
            keeper=self.certificates,
        )

    def _certificates_changed(self) -> None:
        """Pods are told the authority when they are made: a new one is for a new process."""
        if self.certificates.bundle != self._authority:
            logger.warning("there is a new certificate authority: ending, to begin with it")
            self.stop()
