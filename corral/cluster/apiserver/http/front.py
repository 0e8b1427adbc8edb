"""The front door: every request is authenticated, authorized, dispatched and answered here.

Nothing gets past it: an error of ours is a 500 with a Status and a log line, never a traceback to
the client and never a dead connection.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

import orjson
from aiohttp import web

from corral.cluster.apiserver import requests
from corral.cluster.apiserver.audit.record import AUDIT, Auditor
from corral.cluster.apiserver.auth.attributes import Attributes
from corral.cluster.apiserver.auth.authentication import Authenticator
from corral.cluster.apiserver.auth.authorization import Authorizer
from corral.cluster.apiserver.auth.impersonation import impersonate
from corral.cluster.apiserver.auth.users import UserInfo
from corral.cluster.apiserver.crud.kind import Kind
from corral.cluster.apiserver.errors import too_deep
from corral.cluster.apiserver.fairness.dispatch import Dispatcher, lasting
from corral.cluster.apiserver.http import negotiate
from corral.cluster.apiserver.http.connections import Connection, Connections
from corral.cluster.apiserver.http.incoming import BODY, Bodies, read_body
from corral.cluster.apiserver.http.options import SEAT, WARNINGS
from corral.cluster.apiserver.http.sending import Sending
from corral.cluster.apiserver.http.special import Special
from corral.cluster.apiserver.http.system import System
from corral.cluster.apiserver.http.verbs import OBJECT_SUBRESOURCES, Verbs, answer, warn
from corral.cluster.apiserver.requests import ANONYMOUS, RequestInfo
from corral.cluster.apiserver.resources import Catalog, ResourceInfo
from corral.cluster.apiserver.store import DiskFull, StoreError, TooLarge
from corral.cluster.apiserver.turns import flow_of
from corral.kube import errors
from corral.kube.selectors import SelectorError, parse_fields

log = logging.getLogger(__name__)

_NOBODY = UserInfo("")
"""In the audit log, whoever could not be authenticated."""


@dataclass(slots=True)
class Counters:
    """What /metrics reports of the requests."""

    total: dict[tuple[str, str, int], int]

    def count(self, verb: str, resource: str, code: int) -> None:
        key = (verb, resource, code)
        self.total[key] = self.total.get(key, 0) + 1


class Front:
    """The one handler of the HTTP server."""

    def __init__(
        self,
        *,
        authenticator: Authenticator,
        authorizer: Authorizer,
        catalog: Catalog,
        verbs: Verbs,
        special: Special,
        system: System,
        connections: Connections,
        dispatcher: Dispatcher,
        auditor: Auditor | None = None,
    ) -> None:
        self._auditor = auditor
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._catalog = catalog
        self._verbs = verbs
        self._special = special
        self._system = system
        self._connections = connections
        self._bodies = Bodies()
        self._sending = Sending()
        self._dispatcher = dispatcher
        self.counters = Counters({})
        system.counters = self.counters.total

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request, whatever happens."""
        verb = resource = ""
        user = _NOBODY
        try:
            query_watch = "watch" in request.query_string and _truthy(request.query.get("watch"))
            info = requests.parse(
                request.method, request.raw_path.partition("?")[0], watch=query_watch
            )
            verb = info.verb
            if self._catalog.find(info.group, info.version, info.resource) is not None:
                resource = info.resource  # what there is not is not counted by its name
            user = await self._who(request, info)
            response = await self._admit(request, info, user)
        except errors.ApiError as err:
            response = refuse(request, err)
        except DiskFull as err:
            log.error("%s", err)
            full = errors.ApiError(str(err), code=507, reason="InsufficientStorage")
            response = refuse(request, full)
        except TooLarge as err:
            response = refuse(request, errors.ApiError(str(err)))
        except StoreError as err:
            log.error("%s", err)
            response = refuse(request, errors.InternalError(f"Internal error occurred: {err}"))
        except ConnectionResetError:
            response = web.Response(status=499)  # nobody is there to read it
        except Exception as err:
            response = refuse(request, too_deep(err) or _failed(request))
        response = await self._formed(request, response, user)
        self.counters.count(verb, resource, response.status)
        if self._auditor is not None and (record := request.get(AUDIT)) is not None:
            if not response.prepared:
                response.headers["Audit-Id"] = record.id
            record.complete(response, sent=request.get(BODY, b""))
        self._sending.slice(response, flow_of(user))
        return response

    async def _formed(
        self, request: web.BaseRequest, response: web.StreamResponse, user: UserInfo
    ) -> web.StreamResponse:
        """YAML, or JSON for people: what is large is made elsewhere."""
        forming = None if response.prepared else negotiate.forming(request, response)
        if forming is None:
            return response
        assert isinstance(response, web.Response)
        work, body, heavy = forming
        try:
            if heavy:
                response.body = await self._verbs.registry.heavy.apart(user, work, body)
            else:
                response.body = work(body)
        except errors.ApiError as err:
            response = refuse(request, err)
            if response.get(negotiate.UNFORMED):
                response.body = negotiate.as_yaml(orjson.dumps(err.status))
        return response

    # -- who -------------------------------------------------------------------------------

    async def _who(self, request: web.BaseRequest, info: RequestInfo) -> UserInfo:
        """Authenticate, impersonate and authorize; who is refused had the turn of its flow."""
        user = ANONYMOUS
        try:
            user = self._authenticated(request, info)
            connection = request.protocol
            if isinstance(connection, Connection) and not connection.user and known(user):
                self._connections.identified(connection, flow_of(user))
            return self._allowed(request, info, user)
        except (errors.Unauthorized, errors.Forbidden) as err:
            seat = self._dispatcher.seat(user, info)
            if not isinstance(err, errors.Unauthorized):
                request[SEAT] = seat
            await seat.take()
            seat.give()
            raise

    def _authenticated(self, request: web.BaseRequest, info: RequestInfo) -> UserInfo:
        transport = request.transport
        tls = transport.get_extra_info("ssl_object") if transport else None
        certificate = tls.getpeercert(binary_form=True) if tls else None
        headers = request.headers
        try:
            return self._authenticator.authenticate(
                headers.get("Authorization"),
                certificate=certificate,
                protocols=headers.get("Sec-WebSocket-Protocol"),
            )
        except errors.Unauthorized:
            if self._auditor is not None:
                self._auditor.begin(request, attributes(_NOBODY, info, request.query))
            raise

    def _allowed(self, request: web.BaseRequest, info: RequestInfo, user: UserInfo) -> UserInfo:
        """Whom the request is made as."""
        attrs = attributes(user, info, request.query)
        record = self._auditor.begin(request, attrs) if self._auditor is not None else None
        actual = impersonate(request.headers.items(), attrs, self._authorizer.authorize)
        if actual is not user:
            user = actual
            attrs = attrs._replace(user=user)
            if record is not None:
                record.impersonates(user)
        if record is not None:
            record.authorized(self._authorizer.authorize(attrs))
        self._authorizer.require(attrs)
        return user

    # -- when ------------------------------------------------------------------------------

    async def _admit(
        self, request: web.BaseRequest, info: RequestInfo, user: UserInfo
    ) -> web.StreamResponse:
        """Let a request in when its body is here: who sends slowly holds up nobody."""
        if lasting(info):
            await self._dispatcher.seat(user, info).turn()
            return await self._dispatch(request, info, user)
        flow = flow_of(user)
        size = self._bodies.hold(flow, request)
        try:
            if request.method not in _WITHOUT_BODIES:
                await read_body(request)
            return await self._seated(request, info, user)
        finally:
            self._bodies.release(flow, size)

    async def _seated(
        self, request: web.BaseRequest, info: RequestInfo, user: UserInfo
    ) -> web.StreamResponse:
        """Run a request when its flow has its turn."""
        seat = self._dispatcher.seat(user, info)
        request[SEAT] = seat
        await seat.take()
        try:
            response = await self._dispatch(request, info, user)
        finally:
            seat.give()
        if not response.prepared:
            response.headers.update(seat.headers)
        return response

    # -- what ------------------------------------------------------------------------------

    async def _dispatch(
        self, request: web.BaseRequest, info: RequestInfo, user: UserInfo
    ) -> web.StreamResponse:
        if not info.resource:
            return await self._system.handle(request, info, user)
        found = self._catalog.find(info.group, info.version, info.resource)
        if found is None:
            return self._unknown(info)
        special = self._special.find(found, info)
        if special is not None:
            return await special(request, info, user)
        _check_allowed(found, info)
        kind = self._verbs.registry.kind_of(info.group, info.version, info.resource)
        if kind is None:
            return self._unknown(info)
        try:
            response = await self._run(request, info, kind, user)
        except errors.ApiError:
            if kind.deprecation:
                request[WARNINGS] = [kind.deprecation, *request.get(WARNINGS, [])]
            raise
        if kind.deprecation and not response.prepared:
            warn(response, kind.deprecation)
        return response

    async def _run(
        self, request: web.BaseRequest, info: RequestInfo, kind: Kind, user: UserInfo
    ) -> web.StreamResponse:
        verbs = self._verbs
        match info.verb:
            case "get":
                return await verbs.get(request, info, kind)
            case "list":
                return await verbs.list(request, info, kind, user)
            case "watch":
                return await verbs.watch(request, info, kind, user)
            case "create":
                return await verbs.create(request, info, kind, user)
            case "update":
                return await verbs.update(request, info, kind, user)
            case "patch":
                return await verbs.patch(request, info, kind, user)
            case "delete":
                return await verbs.delete(request, info, kind, user)
            case _:
                return await verbs.delete_collection(request, info, kind, user)

    def _unknown(self, info: RequestInfo) -> web.Response:
        """Built-in groups refuse in their own words, whatever the version."""
        if any(r.group == info.group and not r.custom for r in self._catalog):
            raise errors.NotFound("the server could not find the requested resource")
        return web.Response(text="404 page not found\n", status=404)


MAX_NAMING = 1024
"""Characters of a field selector that may name an object for authorization."""
_WITHOUT_BODIES = frozenset({"GET", "HEAD"})


def _failed(request: web.BaseRequest) -> errors.InternalError:
    log.exception("%s %s failed", request.method, request.path)
    return errors.InternalError("Internal error occurred: see the server's log")


def known(user: UserInfo) -> bool:
    """Whether somebody stands behind a request."""
    return user.name != ANONYMOUS.name


def attributes(user: UserInfo, info: RequestInfo, query: Mapping[str, str]) -> Attributes:
    """The request as authorization sees it."""
    if not info.resource:
        return Attributes(user, info.verb, resource_request=False, path=info.path)
    selector = query.get("fieldSelector", "") if info.verb in ("list", "watch") else ""
    return Attributes(
        user,
        info.verb,
        info.namespace,
        info.group,
        info.version,
        info.resource,
        info.subresource,
        info.name or (_exact_name(selector) if selector else ""),
        True,
        info.path,
        selector,
    )


def _exact_name(selector: str) -> str:
    """The one name that a field selector asks for: permissions by name hold for it as well."""
    if len(selector) > MAX_NAMING:
        return ""
    try:
        found = parse_fields(selector).requirements
    except SelectorError:
        return ""
    return next((r.values[0] for r in found if r.key == "metadata.name" and r.op == "="), "")


def _check_allowed(found: ResourceInfo, info: RequestInfo) -> None:
    """404 for a subresource that is not there, 405 for a verb it does not have."""
    if info.subresource:
        sub = found.subresources.get(info.subresource)
        if sub is None:
            raise errors.NotFound("the server could not find the requested resource")
        generic = info.subresource in OBJECT_SUBRESOURCES | {"scale"}
        allowed: tuple[str, ...] = sub.verbs if generic else ()
    else:
        allowed = found.verbs
    verb = info.verb
    wrong_place = (verb == "create" and info.name) or (
        verb in ("update", "patch") and not info.name
    )
    missing_namespace = found.namespaced and not info.namespace and verb not in ("list", "watch")
    elsewhere = info.namespace and not found.namespaced and info.resource != "namespaces"
    if elsewhere or (missing_namespace and verb == "get"):
        raise errors.NotFound("the server could not find the requested resource")
    if verb not in allowed or wrong_place or missing_namespace:
        raise errors.MethodNotSupported(
            "the server does not allow this method on the requested resource"
        )


def _truthy(text: str | None) -> bool:
    return text is not None and text.lower() not in ("false", "0")


def refuse(request: web.BaseRequest, err: errors.ApiError) -> web.Response:
    """An error as the Status the client understands."""
    status = err.status
    token = getattr(err, "continue_token", "")
    if token:
        status["metadata"]["continue"] = token
    try:
        out = negotiate.output(request.headers.get("Accept", ""))
    except errors.NotAcceptable:
        out = negotiate.Output()
    if out.shape != "object":
        out = negotiate.Output(out.media, content_type=out.media)
    response = answer(out, orjson.dumps(status), err.status_code, request.get(WARNINGS))
    seat = request.get(SEAT)
    if seat is not None:
        response.headers.update(seat.headers)
    if err.retry_after:
        response.headers["Retry-After"] = str(int(err.retry_after))
    response.headers["Audit-Id"] = str(uuid.uuid4())
    return response
