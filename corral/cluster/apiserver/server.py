"""The API server, put together: storage, kinds, admission, access, HTTP."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Protocol

from corral.cluster.apiserver.admission import Chain
from corral.cluster.apiserver.admission.namespaces import NamespaceLifecycle
from corral.cluster.apiserver.admission.plugins import close_plugins, default_plugins
from corral.cluster.apiserver.admission.quotas.status import QuotaUsage
from corral.cluster.apiserver.admission.webhooks.client import ServiceResolver, WebhookClient
from corral.cluster.apiserver.audit.log import AuditLog, LogSettings
from corral.cluster.apiserver.audit.policy import load_policy
from corral.cluster.apiserver.audit.record import Auditor
from corral.cluster.apiserver.auth import bootstrap, pki
from corral.cluster.apiserver.auth.authentication import Authenticator, parse_token_file
from corral.cluster.apiserver.auth.authorization import Authorizer
from corral.cluster.apiserver.auth.jwt import Signer
from corral.cluster.apiserver.auth.references import pod_refers
from corral.cluster.apiserver.auth.renewal import Renewal
from corral.cluster.apiserver.auth.tokens import ServiceAccountTokens, TokenIssuer
from corral.cluster.apiserver.auth.users import MASTERS, UserInfo
from corral.cluster.apiserver.builtin.strategy.allocation import ServiceNetwork
from corral.cluster.apiserver.controllers.access import Access
from corral.cluster.apiserver.controllers.crds import Definitions
from corral.cluster.apiserver.controllers.gc import GarbageCollector
from corral.cluster.apiserver.controllers.namespaces import Namespaces
from corral.cluster.apiserver.controllers.own_endpoints import OwnEndpoints, advertised
from corral.cluster.apiserver.controllers.registrations import Registrations
from corral.cluster.apiserver.controllers.service_range import ServiceRange
from corral.cluster.apiserver.controllers.tokens import SecretTokens
from corral.cluster.apiserver.controllers.upkeep import EventSweeper, RoleAggregator
from corral.cluster.apiserver.crd.structural import CompiledVersion
from corral.cluster.apiserver.crud.core import Registry
from corral.cluster.apiserver.crud.kind import Kind
from corral.cluster.apiserver.customs import CustomKind
from corral.cluster.apiserver.definitions import DefinitionKind
from corral.cluster.apiserver.fairness.defaults import default_objects
from corral.cluster.apiserver.fairness.dispatch import Dispatcher
from corral.cluster.apiserver.http.connections import (
    IDLE_SECONDS,
    Connections,
    HttpServer,
    bind,
    bind_path,
)
from corral.cluster.apiserver.http.discovery import Discovery
from corral.cluster.apiserver.http.front import Front
from corral.cluster.apiserver.http.openapi.v3 import OpenApi
from corral.cluster.apiserver.http.render import Table
from corral.cluster.apiserver.http.special import Special
from corral.cluster.apiserver.http.system import System
from corral.cluster.apiserver.http.verbs import Verbs
from corral.cluster.apiserver.kinds import Kinds
from corral.cluster.apiserver.loopback import LOOPBACK_KINDS
from corral.cluster.apiserver.nodes.access import NodeAccess
from corral.cluster.apiserver.requests import Context
from corral.cluster.apiserver.resources import Catalog, ResourceInfo
from corral.cluster.apiserver.services import ServiceAllocator
from corral.cluster.apiserver.store import DELETED, Entry, Event, Store
from corral.cluster.apiserver.tables import table_for
from corral.kube import errors
from corral.kube.types import Obj

log = logging.getLogger(__name__)

RBAC_TABLES = {
    "rbac.authorization.k8s.io/clusterroles": "ClusterRole",
    "rbac.authorization.k8s.io/clusterrolebindings": "ClusterRoleBinding",
    "rbac.authorization.k8s.io/roles": "Role",
    "rbac.authorization.k8s.io/rolebindings": "RoleBinding",
}
FIRST_REVISION = 101
"""A client that watches from revision 1 is told to list, as on any server with a past."""
PARTICULAR = {("apiextensions.k8s.io", "CustomResourceDefinition"): DefinitionKind}
SHUTDOWN_SECONDS = 60.0
SYSTEM = UserInfo("system:apiserver", groups=(MASTERS,))


@dataclass(frozen=True, slots=True)
class Config:
    """How to run the server."""

    data_dir: Path
    """Database, certificates and the admin kubeconfig."""
    port: int = 0
    """0 = any free port."""
    host: str = "127.0.0.1"
    hosts: Sequence[str] = ()
    """Further names and addresses for the serving certificate."""
    socket: Path | None = None
    """Also listened on, without TLS: for clients on this machine that may reach the file."""
    token_file: Path | None = None
    """Static tokens: token,user,uid,"group,group"."""
    users: Mapping[str, UserInfo] = field(default_factory=dict)
    """Further static tokens."""
    service_cidr: str = "10.96.0.0/16"
    loopback_endpoints: bool = False
    """Endpoints may have addresses of 127.0.0.0/8: all nodes are on this machine."""
    objects: Sequence[Obj] = ()
    """Further objects to begin with; one that is there already is left alone."""
    definitions: Sequence[Obj] = ()
    """Kinds to serve from the start; one that is there already is made as it is here."""
    audit_policy: Path | None = None
    """What is recorded of requests; without it nothing is."""
    audit_log: LogSettings | None = None
    """Where to; in the data folder if not given."""
    one_tenant: bool = False
    """Refuse a second tenant while a node does not keep pods apart."""
    clock: Callable[[], float] = time.time
    """Seconds since the epoch: when certificates and tokens are judged."""


class ApiServer:
    """One server on one data folder. ``start`` returns when it serves."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.port = config.port
        self.store = Store(
            config.data_dir / "db", first=FIRST_REVISION, witness=config.data_dir / "kubeconfig"
        )
        self.catalog = Catalog()
        particular = {**PARTICULAR, **(LOOPBACK_KINDS if config.loopback_endpoints else {})}
        self.kinds = Kinds(self.catalog, particular)
        self.authorizer = Authorizer(node_uses=self._node_uses)
        pods = self.kinds.find("", "v1", "pods")
        assert pods is not None
        self._pod_fields = pods.fields
        self._pods_of_node: dict[str, dict[str, None]] = {}
        """Node → keys of its pods, in order."""
        self._ready = False
        self._audit_log: AuditLog | None = None
        self.on_renewal: Callable[[], None] = lambda: None
        """Called when certificates were made anew: others may hold copies of them."""
        self.connections = Connections()
        self.address = config.host
        self._http: HttpServer | None = None

    # -- life ------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the store, make what is missing, listen. Raises StoreError, OSError."""
        self.store.open()
        self.store.listen(self._on_event)
        hosts = [*self.config.hosts, self.service_ip]
        folder = self.config.data_dir / "pki"
        ensure = partial(_ensured, folder, hosts, self.config.clock)
        self.pki = ensure()
        self.renewal = Renewal(ensure, self._use_certificates)
        self._assemble()
        for table, kind in RBAC_TABLES.items():
            for entry in self.store.scan(table):
                self.authorizer.set_object(kind, entry.decode())
        for entry in self.store.scan("/pods"):
            self._note_pod(entry)
        self.definitions.load()
        self.allocator.start()
        await self.nodes.start()
        await self._listen()
        await self._bootstrap()
        await self.definitions.install(self.config.definitions)
        for controller in self.controllers:
            controller.start()
        self._write_kubeconfig()
        self.renewal.start(self.pki)
        self._ready = True

    def _assemble(self) -> None:
        signer = Signer.from_pem(self.pki.service_account_key_file.read_bytes())
        issuer = TokenIssuer(signer, clock=self.config.clock)
        tokens = ServiceAccountTokens(issuer, self.lookup)
        static = dict(self.config.users)
        if self.config.token_file:
            static |= parse_token_file(self.config.token_file.read_text())
        authenticator = Authenticator(service_accounts=tokens, static_tokens=static)
        self.plugins = default_plugins(
            store=self.store,
            authorizer=self.authorizer,
            kinds=self.kinds,
            catalog=self.catalog,
            one_tenant=self.config.one_tenant,
        )
        chain = Chain([NamespaceLifecycle(self.store), *self.plugins])
        self.registry = Registry(self.store, chain, kind_of=self.kinds.find)
        self.verbs = Verbs(self.registry, self._table_of)
        network = ServiceNetwork(cidr=self.config.service_cidr)
        self.allocator = self.registry.hooks["/services"] = ServiceAllocator(self.store, network)
        self._make_controllers(issuer)
        system = System(
            catalog=self.catalog,
            discovery=Discovery(self.catalog),
            openapi=OpenApi(self.catalog, self._custom_schema),
            issuer=issuer,
            store=self.store,
            address=lambda: f"{self.config.host}:{self.port}",
            ready=lambda: self._ready,
        )
        self.nodes = NodeAccess(
            self.store,
            cert_file=self.pki.kubelet_client.cert_file,
            key_file=self.pki.kubelet_client.key_file,
            require=self.authorizer.require,
        )
        special = Special(
            verbs=self.verbs,
            authenticator=authenticator,
            authorizer=self.authorizer,
            issuer=issuer,
            lookup=self.lookup,
            nodes=self.nodes,
        )
        self.front = Front(
            authenticator=authenticator,
            authorizer=self.authorizer,
            catalog=self.catalog,
            verbs=self.verbs,
            special=special,
            system=system,
            connections=self.connections,
            dispatcher=Dispatcher(self.store),
            auditor=self._auditor(),
        )

    def _auditor(self) -> Auditor | None:
        """Raises PolicyError, OSError."""
        config = self.config
        if config.audit_policy is None:
            return None
        policy = load_policy(config.audit_policy)
        settings = config.audit_log or LogSettings(config.data_dir / "logs" / "audit.log")
        self._audit_log = AuditLog(settings)
        self._audit_log.open()
        return Auditor(policy, self._audit_log.write)

    def _make_controllers(self, issuer: TokenIssuer) -> None:
        def access(name: str) -> Access:
            return Access(self.verbs, self.catalog, name)

        self._converting = WebhookClient(ServiceResolver(self.store))
        self.definitions = Definitions(access("kube-apiserver"), self.kinds, self._converting)
        self.controllers: list[Controller] = [
            self.definitions,
            Registrations(access("kube-apiserver"), self.catalog),
            Namespaces(access("namespace-controller"), self.pki.ca.cert.decode()),
            SecretTokens(
                access("tokens-controller"),
                lambda namespace, account, uid, secret: issuer.issue_for_secret(
                    namespace, account, sa_uid=uid, secret=secret
                ),
                self.pki.ca.cert.decode(),
            ),
            GarbageCollector(access("generic-garbage-collector")),
            RoleAggregator(access("clusterrole-aggregation-controller")),
            ServiceRange(access("kube-apiserver")),
            OwnEndpoints(
                access("kube-apiserver"),
                self._where,
                lambda: bootstrap.kubernetes_service(self.service_ip, self.port),
            ),
            EventSweeper(access("kube-apiserver")),
            QuotaUsage(self.store, kind=self.kinds.find("", "v1", "resourcequotas")),
        ]

    def _where(self) -> tuple[str | None, int]:
        """The address under which pods and others reach this server, if there is one, and port."""
        return advertised(self.address, loopback=self.config.loopback_endpoints), self.port

    def _table_of(self, kind: Kind) -> Table:
        if isinstance(kind, CustomKind):
            return CustomTable(kind.version)
        return table_for(kind.info.group, kind.info.version, kind.info.kind)

    def _custom_schema(self, info: ResourceInfo) -> Obj | None:
        kind = self.kinds.find(info.group, info.version, info.plural)
        return kind.version.openapi if isinstance(kind, CustomKind) else None

    def _node_uses(self, node: str, resource: str, namespace: str, name: str) -> bool:
        """A pod on the node refers to the object; to a volume through its claim."""
        if resource == "persistentvolumes":
            volume = self.lookup(resource, "", name) or {}
            claim = (volume.get("spec") or {}).get("claimRef") or {}
            resource = "persistentvolumeclaims"
            namespace, name = claim.get("namespace", ""), claim.get("name", "")
        keys = self._pods_of_node.get(node, {})
        if resource == "pods":
            return f"{namespace}/{name}" in keys
        pods = (self.store.get("/pods", key) for key in keys if key.startswith(f"{namespace}/"))
        return any(pod_refers(pod.decode(), resource, name) for pod in pods if pod is not None)

    def _note_pod(self, entry: Entry, *, gone: bool = False) -> None:
        node = entry.fields(self._pod_fields).get("spec.nodeName", "")
        if not node:
            return
        keys = self._pods_of_node.setdefault(node, {})
        key = f"{entry.namespace}/{entry.name}"
        if not gone:
            keys[key] = None
            return
        keys.pop(key, None)
        if not keys:
            del self._pods_of_node[node]

    async def _listen(self) -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.pki.serving.cert_file, self.pki.serving.key_file)
        context.load_verify_locations(self.pki.ca.cert_file)
        context.verify_mode = ssl.CERT_OPTIONAL
        self._tls = context
        self._http = server = HttpServer(
            self.connections,
            self.front.handle,
            access_log=None,
            # the words of a long `kubectl exec` are in its query
            max_line_size=1 << 20,
            max_field_size=1 << 18,
            keepalive_timeout=IDLE_SECONDS,
            lingering_time=2.0,
            auto_decompress=False,  # as upstream: what is sent is what is read
        )
        for sock in bind(self.config.host, self.config.port):
            self.address, self.port = sock.getsockname()[:2]
            self.connections.listen(sock, server, context)
        if self.config.socket is not None:
            self.connections.listen(bind_path(self.config.socket), server, None)

    def _use_certificates(self, renewed: pki.Pki) -> None:
        """Connections from now on get what is in these files. Raises OSError, ssl.SSLError."""
        self._tls.load_cert_chain(renewed.serving.cert_file, renewed.serving.key_file)
        self._tls.load_verify_locations(renewed.ca.cert_file)
        self.nodes.use_certificate(
            renewed.kubelet_client.cert_file, renewed.kubelet_client.key_file
        )
        self.pki = renewed
        self._write_kubeconfig()
        self.on_renewal()

    async def stop(self) -> None:
        """Stop serving and make everything durable."""
        self._ready = False
        await self.renewal.stop()
        for controller in reversed(self.controllers):
            await controller.stop()
        if self._http is not None:
            self.connections.close()
            for table in self.store.resources():
                self.store.end_watches(table)
            await self.nodes.stop()
            self._http.pre_shutdown()
            await self._http.shutdown(SHUTDOWN_SECONDS)
        await close_plugins(self.plugins)
        self.registry.heavy.close()
        await self._converting.close()
        await self.store.close()
        if self._audit_log is not None:
            self._audit_log.close()

    # -- state that follows the store ---------------------------------------------------------

    def _on_event(self, event: Event) -> None:
        entry = event.entry
        if entry.resource == "/pods":
            self._note_pod(entry, gone=event.type == DELETED)
            return
        kind = RBAC_TABLES.get(entry.resource)
        if kind is None:
            return
        if event.type == DELETED:
            self.authorizer.remove(kind, entry.namespace, entry.name)
        else:
            self.authorizer.set_object(kind, entry.decode())

    def lookup(self, resource: str, namespace: str, name: str) -> Obj | None:
        """A core object by plural, namespace and name."""
        entry = self.store.get(f"/{resource}", f"{namespace}/{name}" if namespace else name)
        return entry.decode() if entry else None

    # -- first start --------------------------------------------------------------------------

    async def _bootstrap(self) -> None:
        """Create the objects every cluster has, where they are missing."""
        objects = (
            bootstrap.system_objects(
                self.pki.ca.cert.decode(),
                target_port=self.port,
                service_ip=self.service_ip,
                service_cidr=self.config.service_cidr,
            )
            + bootstrap.bootstrap_objects()
            + deepcopy(default_objects())
            + list(self.config.objects)
        )
        context = Context(SYSTEM, manager="kube-apiserver")
        namespaces = [o for o in objects if o["kind"] == "Namespace"]
        await asyncio.gather(*(self._ensure(o, context) for o in namespaces))
        rest = [o for o in objects if o["kind"] != "Namespace"]
        await asyncio.gather(*(self._ensure(o, context) for o in rest))

    async def _ensure(self, obj: Obj, context: Context) -> None:
        group, _, version = obj["apiVersion"].rpartition("/")
        info = self.catalog.by_kind(group, version, obj["kind"])
        assert info is not None, obj["kind"]
        kind = self.kinds.find(group, version, info.plural)
        assert kind is not None
        meta = obj["metadata"]
        namespace = meta.get("namespace", "")
        if self.store.get(info.table, self.registry.key(kind, namespace, meta["name"])):
            return
        decoded = kind.normalise(obj)
        kind.default(decoded)
        try:
            await self.verbs.writer.create(kind, namespace, decoded, context=context)
        except errors.AlreadyExists:
            return

    def _write_kubeconfig(self) -> None:
        pki.write_kubeconfig(
            self.config.data_dir / "kubeconfig",
            f"https://{self.config.host}:{self.port}",
            ca=self.pki.ca.cert,
            cert=self.pki.admin.cert,
            key=self.pki.admin.key,
        )

    @property
    def service_ip(self) -> str:
        """The address of the server's own service: the first of the range."""
        return str(ip_network(self.config.service_cidr)[1])

    @property
    def kubeconfig(self) -> Path:
        return self.config.data_dir / "kubeconfig"


def _ensured(folder: Path, hosts: Sequence[str], clock: Callable[[], float]) -> pki.Pki:
    return pki.ensure_pki(folder, hosts=hosts, now=datetime.fromtimestamp(clock(), UTC))


class CustomTable:
    """The Table of a custom kind."""

    def __init__(self, version: CompiledVersion) -> None:
        self._version = version
        self.columns = version.columns

    def row(self, obj: Obj, now: datetime) -> list[Any]:
        return self._version.row(obj, lambda: now)

    def rows(self, objects: list[Obj], now: datetime) -> list[list[Any]]:
        return [self.row(obj, now) for obj in objects]

    def conditions(self, obj: Obj) -> list[Obj]:
        return []


class Controller(Protocol):
    """A loop of the server's own."""

    def start(self) -> None: ...

    async def stop(self) -> None: ...
