"""Serves reports on every replica, beside the webhooks and with the same certificate.

What must be known by all replicas is in the API, so pods may speak to any of them. Where the
Service cannot find this process by itself (`ProcessSettings.report_address`), it is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from corral.checkpoints.places import StoreRules
from corral.families.trainingjob.checkpoints.stores import Stores
from corral.operator.endpoint import publish
from corral.operator.reports import ReportServer, ReportService
from corral.operator.settings import ProcessSettings
from corral.runtime.manager import Manager
from corral.runtime.webhooks.keeper import Certificates

__all__ = ["Reporting"]


class Reporting:
    """The report endpoint of one replica."""

    def __init__(
        self,
        manager: Manager,
        settings: ProcessSettings,
        certificates: Certificates,
        *,
        care: bool,
    ) -> None:
        """``care``: whether nobody else looks after the certificates."""
        self._client = manager.client
        self._settings = settings
        self._certificates = certificates
        self._care = care
        self._stores = Stores(manager.client, rules=store_rules(settings))
        self._service = ReportService.of_manager(manager, self._stores, spot=True)
        self._server: ReportServer | None = None

    @property
    def port(self) -> int:
        """Where it listens; 0 while it does not."""
        return self._server.port if self._server else 0

    def problems(self) -> list[str]:
        return [self._server.failed] if self._server and self._server.failed else []

    def unready(self) -> str:
        return "" if self._server else "reports are not taken yet"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve within.

        Raises:
            OSError: the address cannot be had.
            ApiError: the Service may not be told.
        """
        settings = self._settings
        server = ReportServer(
            self._service,
            host=settings.report_host,
            port=settings.report_port or 0,
            tls=self._certificates.context,
        )
        care = asyncio.create_task(self._certificates.run()) if self._care else None
        try:
            async with server:
                if settings.report_address:
                    where = settings.report_address
                    await publish(self._client, settings.namespace, where, server.port)
                self._server = server
                yield
        finally:
            self._server = None
            self._stores.close()
            if care is not None:
                care.cancel()
                await asyncio.gather(care, return_exceptions=True)


def store_rules(settings: ProcessSettings) -> StoreRules:
    """What the operator's own credentials and disks may be used for."""
    return StoreRules(
        endpoints=frozenset(settings.store_endpoints),
        buckets=settings.store_buckets,
        local_root=settings.local_root,
        local_folders=settings.local_folders,
        egress=settings.egress,
    )
