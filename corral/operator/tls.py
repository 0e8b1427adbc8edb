"""The certificate that webhooks and reports are served with, and the authority that pods trust.

By default the replicas have an authority of their own, in one Secret, renewed without a restart
(`corral.runtime.webhooks.keeper`). With a folder, somebody else does: whatever lies there is read
again every minute, and is used if certificate and key belong together.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path

from cryptography import x509

from corral.kube.client import KubeClient
from corral.operator.settings import REPORTS_SERVICE, SECRET, WEBHOOKS_SERVICE, ProcessSettings
from corral.runtime.webhooks.keeper import CertificateKeeper, Certificates, utc_now
from corral.runtime.webhooks.metrics import WebhookMetrics
from corral.runtime.webhooks.service import service_hosts

__all__ = ["BadFolder", "FolderCertificates", "certificates", "served_hosts"]

logger = logging.getLogger(__name__)


class BadFolder(Exception):
    """A folder has no certificate that could be used; the words say why."""


def served_hosts(settings: ProcessSettings) -> tuple[str, ...]:
    """Everything that this process is reached at."""
    hosts = [
        *service_hosts(WEBHOOKS_SERVICE, settings.namespace),
        *service_hosts(REPORTS_SERVICE, settings.namespace),
        settings.webhook_url_host,
        settings.report_url_host,
    ]
    return tuple(dict.fromkeys(host for host in hosts if host))


def certificates(
    client: KubeClient, settings: ProcessSettings, *, metrics: WebhookMetrics | None = None
) -> Certificates:
    """The certificates of a process; nothing is read before `Certificates.refresh`."""
    if settings.cert_dir is not None:
        return FolderCertificates(settings.cert_dir, metrics=metrics)
    return CertificateKeeper(
        client,
        namespace=settings.namespace,
        secret=SECRET,
        hosts=served_hosts(settings),
        metrics=metrics,
    )


class FolderCertificates:
    """Certificates that somebody else puts into a folder, and renews there."""

    def __init__(
        self,
        folder: Path,
        *,
        metrics: WebhookMetrics | None = None,
        check_every: float = 60.0,
        now: Callable[[], datetime] = utc_now,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._folder = folder
        self._metrics = metrics
        self._check_every = check_every
        self._now, self._sleep = now, sleep
        self._listeners: list[Callable[[], None]] = []
        self._loaded = b""
        self._bundle = b""
        self._end: datetime | None = None
        self.known = b""
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2

    @property
    def bundle(self) -> bytes:
        """What ca.crt says; empty without one, and then nothing is injected anywhere."""
        return self._bundle

    def on_change(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def problem(self) -> str:
        if self._end is None:
            return "there is no serving certificate yet"
        if self._end <= self._now():
            return f"the serving certificate ended at {self._end:%Y-%m-%dT%H:%M:%SZ}"
        return ""

    async def run(self) -> None:
        while True:
            await self._sleep(self._check_every)
            try:
                await self.refresh()
            except BadFolder as error:
                logger.warning("%s: going on with the certificate of before", error)

    async def refresh(self) -> None:
        """Read the folder; use what is new.

        Raises:
            BadFolder: a file is missing, or certificate and key do not belong together.
        """
        await asyncio.to_thread(self._read)

    def _read(self) -> None:
        cert, key = self._folder / "tls.crt", self._folder / "tls.key"
        authority = self._folder / "ca.crt"
        try:
            text = cert.read_bytes()
            bundle = authority.read_bytes() if authority.exists() else b""
            if text == self._loaded and bundle == self._bundle:
                return
            end = x509.load_pem_x509_certificate(text).not_valid_after_utc
            # A context of its own first: half of a pair must not get into the one at work.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key)
            self.context.load_cert_chain(cert, key)
        except (OSError, ValueError, ssl.SSLError) as error:
            raise BadFolder(f"no usable certificate in {self._folder}: {error}") from error
        self._loaded, self._bundle, self._end = text, bundle, end
        if self._metrics:
            self._metrics.certificate_end.set(end.timestamp())
        for listener in self._listeners:
            listener()
