"""The HTTPS server of a node: who may come in, and who answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web
from prometheus_client import CollectorRegistry

from corral.cluster.node.access import AccessError, PodAccess
from corral.cluster.node.server.authority import Authority, Forbidden, Question
from corral.cluster.node.server.certificates import Certificates
from corral.cluster.node.server.changes import Changes
from corral.cluster.node.server.identity import Identity, Unauthenticated, User
from corral.cluster.node.server.logs import Logs
from corral.cluster.node.server.memory import Memory
from corral.cluster.node.server.readings import Readings
from corral.cluster.node.server.reports import Reports
from corral.cluster.node.server.sessions import Sessions
from corral.kube.client import KubeClient, KubeConnectionError
from corral.kube.connection.config import ConfigError
from corral.kube.errors import ApiError
from corral.kube.resources import CONFIGMAPS
from corral.kube.types import Obj
from corral.runtime.serving.connection_limits import limited

log = logging.getLogger(__name__)

MAX_LINE = 1 << 20
"""Bytes of a request line: commands travel in the query."""
MAX_FIELD = 256 * 1024
HANDSHAKE_TIMEOUT = 10.0
"""Seconds a client has for TLS."""
GOODBYE_TIMEOUT = 5.0
"""Seconds a client has to close its end once we have closed ours."""
STOP_WAIT = 1.0
"""Seconds open requests may take to end at a stop."""


@dataclass(frozen=True, slots=True)
class Route:
    """Who answers, to which methods, and how many parts of the path it takes."""

    handler: Callable[..., Awaitable[web.StreamResponse]]
    methods: Sequence[str] = ("GET",)
    parts: Sequence[int] = (0,)


class NodeServer:
    """What a kubelet serves. ``start`` and ``stop`` bracket its use.

    Every request is authenticated (client certificate, or token by TokenReview) and authorized
    (SubjectAccessReview on subresources of the Node); what cannot be reviewed is refused.
    """

    def __init__(
        self,
        access: PodAccess,
        *,
        client: KubeClient,
        folder: Path,
        node: str,
        addresses: Sequence[str] = (),
        client_ca: bytes | Path | None = None,
        certificate: tuple[Path, Path] | None = None,
        anonymous: bool = False,
        metrics: CollectorRegistry | None = None,
        probes: CollectorRegistry | None = None,
        problems: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """Make a server.

        Args:
            access: the pods.
            client: asks the API server about tokens and rights, as the node.
            folder: keeps the certificate that is made unless one is given.
            node: its name.
            addresses: further names and addresses under which clients come.
            client_ca: PEM or a file; by default what the API server believes itself.
            certificate: files of a serving certificate and its key.
            anonymous: let those without credentials be ``system:anonymous``.
            metrics: what ``/metrics`` shows; by default the process.
            probes: what ``/metrics/probes`` shows.
            problems: what is wrong with the agent, for ``/healthz``.
        """
        self._client = client
        self._folder = folder
        self._names = (node, *addresses, "localhost", "127.0.0.1")
        self._client_ca = client_ca
        self._certificate = certificate
        self._anonymous = anonymous
        self._users: Memory[bytes, User | None] = Memory()
        self._rights: Memory[Question, bool] = Memory()
        self._identity = Identity(client, self._users)
        self._authority = Authority(client, self._rights, node=node)
        self._changes = Changes()
        reports = Reports(
            access,
            Readings(access),
            node=node,
            folder=folder,
            settings=_settings(anonymous=anonymous),
            metrics=metrics,
            probes=probes,
            problems=problems,
        )
        self._routes = _routes(Logs(access, self._changes), Sessions(access), reports)
        self._web: web.Server | None = None
        self._listener: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port. Raises OSError, ssl.SSLError, ValueError."""
        self._folder.mkdir(parents=True, exist_ok=True)
        ca = await self._believed()
        if ca is None:
            log.warning("no client CA is known: client certificates are not asked for")
        certificates = Certificates(
            self._folder, self._names, client_ca=ca, given=self._certificate
        )
        self._web = web.Server(self._handle, handler_cancellation=True)
        self._listener = await asyncio.get_running_loop().create_server(
            limited(self._web, access_log=None, max_line_size=MAX_LINE, max_field_size=MAX_FIELD),
            host,
            port,
            ssl=certificates.listening(),
            ssl_handshake_timeout=HANDSHAKE_TIMEOUT,
            ssl_shutdown_timeout=GOODBYE_TIMEOUT,
            backlog=1024,
        )
        bound: int = self._listener.sockets[0].getsockname()[1]
        return bound

    async def stop(self) -> None:
        """Stop listening, end what is under way. Harmless when done twice."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        if self._web is not None:
            transports = [one.transport for one in self._web.connections]
            self._web.pre_shutdown()
            await self._web.shutdown(STOP_WAIT)
            self._web = None
            for transport in transports:
                if transport is not None:
                    transport.abort()  # whoever has not said goodbye by now
            await asyncio.sleep(0)
        await self._users.close()
        await self._rights.close()
        self._changes.close()

    async def _believed(self) -> bytes | None:
        """Whose client certificates are believed."""
        if isinstance(self._client_ca, bytes):
            return self._client_ca
        if self._client_ca is not None:
            return await asyncio.to_thread(self._client_ca.read_bytes)
        try:
            found = await self._client.get(
                CONFIGMAPS, "extension-apiserver-authentication", namespace="kube-system"
            )
            if pem := (found.get("data") or {}).get("client-ca-file"):
                return str(pem).encode()
        except (ApiError, KubeConnectionError, ConfigError) as err:
            log.debug("the API server's client CA could not be read: %s", err)
        config = self._client.config
        if config.ca_data or not config.ca_file:
            return config.ca_data or None
        return await asyncio.to_thread(Path(config.ca_file).read_bytes)

    # -- requests --------------------------------------------------------------------------------

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        # one text decides what is asked for and what must be allowed
        root, *rest = request.path.split("/")[1:]
        try:
            user = await self._identity.user_of(request, anonymous=self._anonymous)
            await self._authority.check(user, request.method, root)
            return await self._answer(request, root, rest)
        except Unauthenticated:
            return web.Response(status=401, text="Unauthorized")
        except Forbidden as err:
            return web.Response(status=err.code, text=str(err))
        except AccessError as err:
            return web.Response(status=err.code, text=str(err))

    async def _answer(
        self, request: web.BaseRequest, root: str, rest: list[str]
    ) -> web.StreamResponse:
        if rest and not rest[-1]:
            rest.pop()
        name, where = root, rest
        if root in ("metrics", "stats") and rest:
            name, where = f"{root}/{rest[0]}", rest[1:]
        route = self._routes.get(name)
        if route is None or len(where) not in route.parts or not all(where):
            return web.Response(status=404, text="404 page not found\n")
        if request.method not in route.methods:
            headers = {"Allow": ", ".join(route.methods)}
            return web.Response(status=405, text="Method Not Allowed", headers=headers)
        return await route.handler(request, *where)


def _routes(logs: Logs, sessions: Sessions, reports: Reports) -> Mapping[str, Route]:
    both = ("GET", "POST")
    return {
        "containerLogs": Route(logs.serve, parts=(3,)),
        "exec": Route(sessions.exec, both, parts=(3, 4)),
        "attach": Route(sessions.attach, both, parts=(3, 4)),
        "portForward": Route(sessions.forward, both, parts=(2, 3)),
        "pods": Route(reports.pods),
        "runningpods": Route(reports.running_pods),
        "healthz": Route(reports.healthz),
        "livez": Route(reports.healthz),
        "configz": Route(reports.configz),
        "spec": Route(reports.spec),
        "metrics": Route(reports.metrics),
        "metrics/resource": Route(reports.resource_metrics),
        "metrics/cadvisor": Route(reports.cadvisor_metrics),
        "metrics/probes": Route(reports.probe_metrics),
        "stats/summary": Route(reports.stats_summary, both),
        "checkpoint": Route(reports.checkpoint, ("POST",), parts=(3,)),
        "logs": Route(reports.logs, parts=range(64)),
    }


def _settings(*, anonymous: bool) -> Obj:
    """What ``/configz`` shows."""
    return {
        "kind": "KubeletConfiguration",
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "authentication": {
            "x509": {},
            "webhook": {"enabled": True, "cacheTTL": "2m0s"},
            "anonymous": {"enabled": anonymous},
        },
        "authorization": {
            "mode": "Webhook",
            "webhook": {"cacheAuthorizedTTL": "5m0s", "cacheUnauthorizedTTL": "30s"},
        },
        "enableDebuggingHandlers": True,
        "enableSystemLogHandler": False,
        "streamingConnectionIdleTimeout": "4h0m0s",
    }
