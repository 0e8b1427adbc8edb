"""`GatewayJobs`: jobs through a Corral gateway, over REST; one `Access`.

Watches and logs go on by themselves where a connection or the gateway's patience ended: a watch by
the id of its last event, a log by the position of its last piece. A create carries a key of its
own, so that one whose answer was lost may be sent again without making two jobs.
"""

from __future__ import annotations

import asyncio
import builtins
import os
import ssl
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final
from urllib.parse import quote

import aiohttp
import orjson

from corral.client.errors import (
    AlreadyExists,
    BadRequest,
    Expired,
    NoCluster,
    NotSupported,
    ServerError,
    Unavailable,
)
from corral.client.explain.explanation import Explanation
from corral.client.gateway.problems import error_of
from corral.client.gateway.serverevents import ServerEvent, server_events
from corral.client.kinds import JobKind, kind_of_object
from corral.client.logs.frames import MEDIA_TYPE
from corral.client.logs.query import LogChunk, LogQuery
from corral.client.logs.remote import remote_logs
from corral.client.queries import ListQuery, Page
from corral.client.summary import Summary
from corral.client.watching import Change, Scope, Until, wait_for
from corral.kube.types import Obj

__all__ = ["GatewayJobs"]

_SECONDS: Final = 40.0
"""For an ordinary answer: the gateway itself gives up after 30."""
_ATTEMPTS: Final = 20
"""Connections in a row that may end without anything new: over a minute."""
_PAUSE, _LONGEST_PAUSE = 0.05, 5.0
_AGAIN: Final = 1.0
"""Seconds between two looks at a collection."""


class GatewayJobs:
    """One gateway, with one bearer token."""

    def __init__(
        self,
        url: str,
        *,
        token: str,
        ca_file: str | os.PathLike[str] | None = None,
        namespace: str = "default",
    ) -> None:
        """Raises NoCluster where the URL or the certificate authority is of no use."""
        if not url.startswith(("http://", "https://")):
            raise NoCluster(f"the gateway {url!r} is no http:// or https:// URL")
        self._url, self._token, self._default = url.rstrip("/"), token, namespace
        self._tls = _tls(ca_file) if url.startswith("https://") else None
        self._open: aiohttp.ClientSession | None = None

    @property
    def namespace(self) -> str:
        return self._default

    @property
    def where(self) -> str:
        return self._url

    @property
    def client(self) -> None:
        """A gateway knows jobs only."""

    async def close(self) -> None:
        if self._open is None:
            return
        if self._open.connector is not None:
            # no farewell: it would go on behind our back, after the loop has ended
            await self._open.connector.close(abort_ssl=True)
        await self._open.close()

    # -- requests ----------------------------------------------------------------------------------

    @property
    def _session(self) -> aiohttp.ClientSession:
        if self._open is None:
            self._open = aiohttp.ClientSession(
                headers={"Authorization": f"Bearer {self._token}"},
                connector=aiohttp.TCPConnector(ssl=self._tls if self._tls else True),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=10),
                read_bufsize=1 << 20,
            )
        return self._open

    @asynccontextmanager
    async def _answer(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: Any = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A good answer. Raises JobError for others, NoCluster for none."""
        data = None if body is None else orjson.dumps(body)
        sent = {**(headers or {}), **({"Content-Type": "application/json"} if data else {})}
        try:
            async with self._session.request(
                method, self._url + path, params=query or {}, headers=sent, data=data
            ) as answer:
                if answer.status >= 400:
                    raise error_of(answer.status, _json(await answer.read()))
                try:
                    yield answer
                finally:
                    _hang_up(answer)
        except (aiohttp.ClientError, OSError) as err:
            raise NoCluster(
                f"the gateway {self._url} gave no answer: {err}",
                hint="is it up, and is its certificate authority known (ca_file=…)?",
            ) from err

    async def _ask(self, method: str, path: str, **more: Any) -> Obj:
        try:
            async with asyncio.timeout(_SECONDS), self._answer(method, path, **more) as answer:
                found = _json(await answer.read())
        except TimeoutError as err:
            raise NoCluster(f"the gateway {self._url} did not answer in {_SECONDS:g} s") from err
        if not isinstance(found, dict):
            raise ServerError(f"the gateway {self._url} answered with no object: is it one?")
        return found

    # -- reading -----------------------------------------------------------------------------------

    async def get(self, kind: JobKind, namespace: str, name: str) -> Obj:
        return await self._ask("GET", _path(kind, namespace, name))

    async def list(
        self, kind: JobKind, namespace: str | None, query: ListQuery | None = None
    ) -> Page:
        params = _list_query(query or ListQuery())
        found = await self._ask("GET", _path(kind, namespace), query=params)
        meta = found.get("metadata") or {}
        return Page(
            found.get("items") or [],
            str(meta.get("continue") or ""),
            int(meta.get("total") or 0),
            str(meta.get("resourceVersion") or ""),
        )

    async def summary(self, kind: JobKind, namespace: str, name: str) -> Summary:
        return Summary.read(await self._ask("GET", _path(kind, namespace, name, "status")))

    async def events(self, kind: JobKind, namespace: str, name: str) -> builtins.list[Obj]:
        found = await self._ask("GET", _path(kind, namespace, name, "events"))
        items: list[Obj] = found.get("items") or []
        return items

    async def explain(self, kind: JobKind, namespace: str, name: str) -> Explanation:
        found = await self._ask("GET", _path(kind, namespace, name, "explain"))
        return Explanation(
            str(found.get("phase") or ""),
            str(found.get("headline") or ""),
            tuple(found.get("reasons") or ()),
            tuple(found.get("hints") or ()),
        )

    async def metrics(self, kind: JobKind, namespace: str, name: str) -> Obj:
        return await self._ask("GET", _path(kind, namespace, name, "metrics"))

    # -- writing -----------------------------------------------------------------------------------

    async def create(
        self, kind: JobKind, namespace: str, obj: Obj, *, dry_run: bool = False
    ) -> Obj:
        headers = {"Idempotency-Key": uuid.uuid4().hex}
        path = _path(kind, namespace)
        query = {"dryRun": "true"} if dry_run else {}
        try:
            return await self._ask("POST", path, query=query, body=obj, headers=headers)
        except NoCluster:
            if dry_run:
                raise
            return await self._ask("POST", path, query=query, body=obj, headers=headers)

    async def apply(
        self, obj: Obj, *, field_manager: str, namespace: str, dry_run: bool = False
    ) -> Obj:
        """Create it, or replace what is there."""
        kind = kind_of_object(obj)
        if kind is None:
            raise NotSupported(
                f"a gateway does not take {obj.get('kind')}s",
                hint="apply other objects to the cluster itself, without --gateway",
            )
        try:
            return await self.create(kind, namespace, obj, dry_run=dry_run)
        except AlreadyExists:
            if dry_run:
                return obj
        name = obj["metadata"]["name"]
        version = _version(await self.get(kind, namespace, name))
        meta = {**obj["metadata"], "resourceVersion": version, "namespace": namespace}
        body = {**obj, "metadata": meta}
        return await self._ask("PUT", _path(kind, namespace, name), body=body)

    async def delete(
        self, kind: JobKind, namespace: str, name: str, *, uid: str | None = None
    ) -> Obj:
        """The gateway deletes whatever has the name: it takes no uid."""
        return await self._ask("DELETE", _path(kind, namespace, name))

    async def restart(
        self, kind: JobKind, namespace: str, name: str, *, force: bool = False
    ) -> Obj:
        query = {"force": "true"} if force else {}
        return await self._ask("POST", _path(kind, namespace, name, "restart"), query=query)

    async def suspend(self, kind: JobKind, namespace: str, name: str) -> Obj:
        return await self._ask("POST", _path(kind, namespace, name, "suspend"))

    async def resume(self, kind: JobKind, namespace: str, name: str) -> Obj:
        return await self._ask("POST", _path(kind, namespace, name, "resume"))

    async def scale(self, kind: JobKind, namespace: str, name: str, *, replicas: int) -> Obj:
        body = {"replicas": replicas}
        return await self._ask("PUT", _path(kind, namespace, name, "scale"), body=body)

    # -- following ---------------------------------------------------------------------------------

    def watch(
        self,
        kind: JobKind,
        namespace: str | None,
        name: str | None = None,
        *,
        query: ListQuery | None = None,
    ) -> AsyncGenerator[Change, None]:
        """Of one object every change; of a collection what differs from one look to the next."""
        if namespace and name:
            return self._watch(kind, namespace, name)
        return self._looks(kind, namespace, query)

    async def wait(
        self,
        kind: JobKind,
        namespace: str,
        name: str,
        until: Until,
        *,
        timeout: float,  # noqa: ASYNC109 - the error says what was seen until then
    ) -> Obj:
        """The object when it is as wanted; see `corral.client.watching.wait_for`."""
        scope = Scope(kind, namespace, name)
        return await wait_for(self._watch(kind, namespace, name), scope, until, timeout=timeout)

    async def _looks(
        self, kind: JobKind, namespace: str | None, query: ListQuery | None
    ) -> AsyncGenerator[Change, None]:
        seen: dict[str, Obj] = {}
        while True:
            page = await self.list(kind, namespace, query)
            now = {obj["metadata"]["uid"]: obj for obj in page.items}
            for uid in seen.keys() - now.keys():
                yield Change("DELETED", seen[uid], kind.phase(seen[uid]))
            for uid, obj in now.items():
                if uid not in seen:
                    yield Change("ADDED", obj, kind.phase(obj))
                elif _version(seen[uid]) != _version(obj):
                    yield Change("MODIFIED", obj, kind.phase(obj))
            seen = now
            await asyncio.sleep(_AGAIN)

    async def _watch(
        self, kind: JobKind, namespace: str, name: str
    ) -> AsyncGenerator[Change, None]:
        """What is there, then every change, until it is deleted."""
        path, seen, failures = _path(kind, namespace, name, "watch"), "", 0
        while True:
            before = seen
            try:
                async with aclosing(self._changes(path, seen)) as changes:
                    async for place, change in changes:
                        seen = place
                        if change is not None:
                            yield change
                            if change.type == "DELETED":
                                return
            except Expired:
                seen = ""  # what is there is told anew
            except Unavailable:
                if not before and not seen:
                    raise  # it was never reached
                if failures >= _ATTEMPTS:
                    raise
            failures = 0 if seen != before else failures + 1
            if failures > _ATTEMPTS:
                raise NoCluster(f"the gateway {self._url} ends every watch at once")
            await asyncio.sleep(min(_PAUSE * 2**failures, _LONGEST_PAUSE) if failures else 0)

    async def _changes(
        self, path: str, since: str
    ) -> AsyncGenerator[tuple[str, Change | None], None]:
        """One connection's changes, each with the place after it; none for what was seen."""
        headers = {"Last-Event-ID": since} if since else {}
        async with self._answer("GET", path, headers=headers) as answer:
            async for event in server_events(answer.content.iter_any()):
                change = _change(event)
                if change is not None:
                    again = change.resource_version == since and change.type != "DELETED"
                    since = event.id or since
                    yield since, None if again else change

    def logs(
        self,
        kind: JobKind,
        namespace: str,
        name: str,
        query: LogQuery | None = None,
        *,
        job: Obj | None = None,
    ) -> AsyncGenerator[LogChunk, None]:
        """Pieces of all logs; goes on where a connection ended. The gateway reads the job."""
        path, headers = _path(kind, namespace, name, "logs"), {"Accept": MEDIA_TYPE}

        @asynccontextmanager
        async def asked(query: LogQuery) -> AsyncIterator[AsyncIterator[bytes]]:
            params = query.as_params()
            async with self._answer("GET", path, query=params, headers=headers) as answer:
                yield answer.content.iter_any()

        return remote_logs(asked, query or LogQuery())


def _tls(ca_file: str | os.PathLike[str] | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=str(ca_file) if ca_file else None)
    except OSError as err:
        raise NoCluster(f"the certificate authority {ca_file} cannot be read: {err}") from err


def _path(kind: JobKind, namespace: str | None, name: str = "", verb: str = "") -> str:
    if name and not namespace:
        raise BadRequest(f"{kind.kind} {name} needs a namespace")
    parts = ["/api/v1"]
    if namespace:
        parts += ["namespaces", quote(namespace, safe="")]
    parts += [part for part in (kind.plural, quote(name, safe=""), verb) if part]
    return "/".join(parts)


def _version(obj: Obj) -> str:
    return str(obj["metadata"].get("resourceVersion"))


def _list_query(query: ListQuery) -> dict[str, str]:
    found = {
        "labelSelector": query.labels,
        "phase": ",".join(query.phases),
        "name": query.name,
        "since": query.since.isoformat() if query.since else "",
        "sort": query.sort,
        "limit": str(query.limit) if query.limit is not None else "",
        "token": query.token,
    }
    return {key: value for key, value in found.items() if value}


def _change(event: ServerEvent) -> Change | None:
    """Raises the error that an ``error`` event tells of."""
    if event.name == "error":
        problem = _json(event.data.encode())
        status = problem.get("status") if isinstance(problem, dict) else None
        raise error_of(status if isinstance(status, int) else 500, problem)
    if event.name not in ("ADDED", "MODIFIED", "DELETED"):
        return None
    data = orjson.loads(event.data)
    return Change(data["type"], data["object"], data["phase"])


def _hang_up(answer: aiohttp.ClientResponse) -> None:
    """Leave an answer before its end: nobody waits for a farewell, and none is sent."""
    connection = answer.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()


def _json(content: bytes) -> Any:
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
