"""The whole of a webhook server: certificates, injection, HTTPS, and its configurations.

`run` serves until it is cancelled, on every replica, leader or not. With a base URL (a process
beside an embedded API server) it also writes its configurations itself, since nobody else knows the
port; behind a Service they are installed with everything else.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from corral.kube.client import KubeClient
from corral.kube.resources import (
    MUTATINGWEBHOOKCONFIGURATIONS,
    VALIDATINGWEBHOOKCONFIGURATIONS,
)
from corral.kube.types import Obj
from corral.runtime.webhooks.certificates import CertificateSettings
from corral.runtime.webhooks.configurations import by_service, by_url, webhook_configurations
from corral.runtime.webhooks.hooks import FailurePolicy, Hooks
from corral.runtime.webhooks.injector import CaInjector
from corral.runtime.webhooks.keeper import CertificateKeeper, Certificates, utc_now
from corral.runtime.webhooks.metrics import WebhookMetrics
from corral.runtime.webhooks.server import ServerSettings, WebhookServer

__all__ = ["WebhookService", "WebhookSettings", "service_hosts"]

_RESOURCES: Final = {
    r.kind: r for r in (MUTATINGWEBHOOKCONFIGURATIONS, VALIDATINGWEBHOOKCONFIGURATIONS)
}
_FIELD_MANAGER = "corral-webhooks"


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """How the server is found."""

    namespace: str
    """Where the Secret is (and the Service)."""
    name: str = "corral"
    """Of the configurations."""
    secret: str = "corral-webhook-certificates"
    service: str = "corral-webhooks"
    """The Service in front; not used with ``url_host``."""
    service_port: int = 443
    url_host: str = ""
    """The address by which the API server reaches this very process, without a Service."""
    further_hosts: tuple[str, ...] = ()
    """What the certificate is for beside the webhooks."""
    failure_policy: FailurePolicy | None = None
    """By default Ignore with ``url_host``, else Fail."""
    server: ServerSettings = field(default_factory=ServerSettings)
    certificates: CertificateSettings = field(default_factory=CertificateSettings)

    @property
    def hosts(self) -> tuple[str, ...]:
        """What the certificate is for."""
        own = (self.url_host,) if self.url_host else service_hosts(self.service, self.namespace)
        return (*own, *self.further_hosts)


def service_hosts(service: str, namespace: str) -> tuple[str, ...]:
    """The names under which a Service is reached."""
    base = f"{service}.{namespace}"
    return (service, base, f"{base}.svc", f"{base}.svc.cluster.local")


class WebhookService:
    """One replica."""

    def __init__(
        self,
        client: KubeClient,
        hooks: Hooks,
        settings: WebhookSettings,
        *,
        metrics: WebhookMetrics | None = None,
        keeper: Certificates | None = None,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        """``keeper`` has the certificates; by default one that shares them through the Secret.

        ``now`` is the time by which certificates are judged.
        """
        self._client, self._hooks, self._settings = client, hooks, settings
        self._tasks: list[asyncio.Task[None]] = []
        self.keeper: Certificates = keeper or CertificateKeeper(
            client,
            namespace=settings.namespace,
            secret=settings.secret,
            hosts=settings.hosts,
            settings=settings.certificates,
            metrics=metrics,
            now=now or utc_now,
        )
        self.injector = CaInjector(client, self.keeper, label=settings.secret)
        self.server = WebhookServer(
            hooks, self.keeper.context, settings=settings.server, metrics=metrics
        )

    def configurations(self) -> list[Obj]:
        """Our configurations, without the CA bundle."""
        settings = self._settings
        url = f"https://{_bracketed(settings.url_host)}:{self.server.port}"
        by_address = bool(settings.url_host)
        where = (
            by_url(url)
            if by_address
            else by_service(settings.service, settings.namespace, settings.service_port)
        )
        return webhook_configurations(
            self._hooks,
            where,
            name=settings.name,
            inject=settings.secret,
            failure_policy=settings.failure_policy or ("Ignore" if by_address else "Fail"),
        )

    def problems(self) -> list[str]:
        """What only a restart can mend; empty while all is well, and before the start."""
        found = [_ended(task) for task in self._tasks if task.done()]
        if self._tasks:
            found.append(self.keeper.problem())
        return [problem for problem in found if problem]

    def unready(self) -> str:
        """Why this replica cannot be asked; empty if it can."""
        if not self.server.ready:
            return "the webhook server does not listen"
        return self.keeper.problem()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve within; it listens, and its configurations are written, when this is entered.

        Raises:
            ApiError: certificates or configurations cannot be read or written.
            OSError: the address cannot be had.
        """
        await self.keeper.refresh()
        await self.server.start()
        try:
            if self._settings.url_host:
                await self.install()
            for name, work in (
                ("certificates of webhooks", self.keeper.run),
                ("authorities of webhooks", self.injector.run),
            ):
                self._tasks.append(asyncio.create_task(work(), name=name))
            yield
        finally:
            await self._end()

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await self.server.stop()

    async def run(self) -> None:
        """Serve until cancelled."""
        async with self.running():
            await asyncio.Event().wait()

    async def install(self) -> None:
        """Write our configurations, trusted from the first moment."""
        text = base64.b64encode(self.keeper.bundle).decode()
        for config in self.configurations():
            for webhook in config["webhooks"]:
                webhook["clientConfig"]["caBundle"] = text
            resource = _RESOURCES[config["kind"]]
            await self._client.apply(resource, config, field_manager=_FIELD_MANAGER)


def _ended(task: asyncio.Task[None]) -> str:
    why = "" if task.cancelled() else f": {task.exception()}"
    return f"nobody looks after the {task.get_name()}{why}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
