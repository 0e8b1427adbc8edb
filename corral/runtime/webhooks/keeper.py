"""Keeps the certificates of all replicas in one Secret, and ours in a TLS context.

Whoever is first makes them; the others read them. Every write is bound to the version that was
read, so that of two replicas that renew at once one takes over what the other made. A Secret that
was deleted or damaged is written again from memory, where there is one that has it.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from typing import Protocol

from corral.kube.client import KubeClient
from corral.kube.connection.transport import KubeConnectionError
from corral.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from corral.kube.resources import SECRETS
from corral.kube.types import Obj
from corral.runtime.webhooks.certificates import CertificateSet, CertificateSettings, advance
from corral.runtime.webhooks.metrics import WebhookMetrics

__all__ = ["CertificateKeeper", "Certificates", "utc_now"]

logger = logging.getLogger(__name__)
_TRIES = 8


def utc_now() -> datetime:
    return datetime.now(UTC)


class Certificates(Protocol):
    """Where a server has its certificate from, and its clients their authorities."""

    context: ssl.SSLContext
    """Serves with the newest certificate once `refresh` was called."""
    known: bytes
    """The bundle that clients are known to have; the injector says."""

    @property
    def bundle(self) -> bytes:
        """The authorities in PEM; empty where they are none of ours."""

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call this whenever the certificates changed."""

    def problem(self) -> str:
        """Why the server should not be trusted to answer; empty while all is well."""

    async def refresh(self) -> object:
        """Read or renew them."""

    async def run(self) -> None:
        """Look again from time to time."""


class CertificateKeeper:
    """One replica's view of the shared certificates."""

    def __init__(
        self,
        client: KubeClient,
        *,
        namespace: str,
        secret: str,
        hosts: Iterable[str],
        settings: CertificateSettings | None = None,
        metrics: WebhookMetrics | None = None,
        check_every: float = 60.0,
        now: Callable[[], datetime] = utc_now,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """``hosts`` are names and addresses that the server is reached at."""
        self._client = client
        self._namespace, self._secret = namespace, secret
        self._hosts = tuple(hosts)
        self._settings = settings or CertificateSettings()
        self._metrics = metrics
        self._check_every = check_every
        self._now, self._sleep = now, sleep
        self.current: CertificateSet | None = None
        self.known = b""
        """The bundle that clients are known to have; the injector says."""
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._listeners: list[Callable[[], None]] = []

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call this whenever the certificates changed."""
        self._listeners.append(listener)

    @property
    def bundle(self) -> bytes:
        return self.current.bundle if self.current else b""

    def problem(self) -> str:
        """Why the server should not be trusted to answer; empty while all is well."""
        if self.current is None:
            return "there is no serving certificate yet"
        if self.current.serving_end <= self._now():
            return f"the serving certificate ended at {self.current.serving_end:%Y-%m-%dT%H:%M:%SZ}"
        return ""

    async def run(self) -> None:
        """Look again from time to time; what cannot be renewed now is used as it is."""
        while True:
            await self._sleep(self._check_every)
            try:
                await self.refresh()
            except (ApiError, KubeConnectionError, OSError) as error:  # a full disk among them
                logger.warning("the certificates of webhooks cannot be looked after: %s", error)

    async def refresh(self) -> CertificateSet:
        """Read the shared certificates, renew what is due, and use them.

        Raises:
            ApiError: the Secret cannot be read or written.
            KubeConnectionError: the API server cannot be reached.
        """
        for _ in range(_TRIES):
            found = await self._try()
            if found is not None:
                self._use(found)
                return found
        raise Conflict(f"secret {self._namespace}/{self._secret} is written by others all the time")

    async def _try(self) -> CertificateSet | None:
        """The certificates in force; none if somebody else wrote meanwhile."""
        try:
            obj = await self._client.get(SECRETS, self._secret, namespace=self._namespace)
        except NotFound:
            return await self._create()
        stored = CertificateSet.from_data(obj.get("data") or {})
        wanted = self._advanced(stored or self.current)
        if wanted is stored:
            return stored
        try:
            await self._client.replace(SECRETS, {**obj, "data": wanted.as_data()})
        except (Conflict, NotFound):
            return None
        logger.info("certificates of webhooks renewed until %s", wanted.serving_end)
        return wanted

    async def _create(self) -> CertificateSet | None:
        wanted = self._advanced(self.current)
        secret: Obj = {
            "metadata": {
                "name": self._secret,
                "namespace": self._namespace,
                "labels": {"app.kubernetes.io/managed-by": "corral"},
            },
            "type": "kubernetes.io/tls",
            "data": wanted.as_data(),
        }
        try:
            await self._client.create(SECRETS, secret)
        except AlreadyExists:
            return None
        return wanted

    def _advanced(self, current: CertificateSet | None) -> CertificateSet:
        return advance(current, self._hosts, self._now(), known=self.known, settings=self._settings)

    def _use(self, found: CertificateSet) -> None:
        if found == self.current:
            return
        if self.current is None or found.serving != self.current.serving:
            _load(self.context, found)
        self.current = found
        if self._metrics:
            self._metrics.certificate_end.set(found.serving_end.timestamp())
        for listener in self._listeners:
            listener()


def _load(context: ssl.SSLContext, found: CertificateSet) -> None:
    """Connections from now on are served with this certificate."""
    # The ssl module reads certificates from files only; this one is readable by us alone and gone
    # at once.
    with tempfile.NamedTemporaryFile(prefix="corral-serving-", suffix=".pem") as file:
        file.write(found.serving.cert + found.serving.key)
        file.flush()
        context.load_cert_chain(file.name)
