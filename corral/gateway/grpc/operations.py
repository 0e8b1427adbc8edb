"""The methods of every service, each written once; `Face` decides what objects look like.

A method takes a `Call` and gives an answer, or several; what it means is `corral.gateway.service`'s
to say. Refusals are exceptions, as everywhere in the gateway.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.message import Message  # type: ignore[import-untyped]

from corral.client import JobKind, ListQuery, LogQuery
from corral.gateway.auth import Caller
from corral.gateway.etags import ETags, etag_of, read_etags
from corral.gateway.grpc.failures import unreadable
from corral.gateway.grpc.fields import read_fields
from corral.gateway.grpc.messages import write_message
from corral.gateway.grpc.objects import Face, write_object
from corral.gateway.grpc.values import Unreadable
from corral.gateway.placed import placed
from corral.gateway.problems import Refused
from corral.gateway.rest.asks import checked_name
from corral.gateway.rest.streams import LOG_PARAMS
from corral.gateway.rest.views import LIST_PARAMS, list_query
from corral.gateway.service import Gateway
from corral.kube.types import Obj
from corral.v1.jobs_pb2 import ChangeType, DeletePropagation

__all__ = ["STREAMS", "UNARIES", "Call", "Operation"]

_PROPAGATION: Final = {
    DeletePropagation.DELETE_PROPAGATION_UNSPECIFIED: "Background",
    DeletePropagation.DELETE_PROPAGATION_BACKGROUND: "Background",
    DeletePropagation.DELETE_PROPAGATION_FOREGROUND: "Foreground",
    DeletePropagation.DELETE_PROPAGATION_ORPHAN: "Orphan",
}
_PIECE: Final = 1 << 20
"""Bytes of log in one message; clients take 4 MiB unless they are told otherwise."""
_KEY: Final = re.compile(r"[\x21-\x7e]{0,200}")
_REPLICAS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Call:
    """One call of somebody."""

    gateway: Gateway
    caller: Caller
    face: Face
    kind: JobKind
    request: Any
    answer: Callable[[], Any]
    """A new message of the method's answer."""

    @property
    def namespace(self) -> str:
        return checked_name("namespace", self.request.namespace)

    @property
    def anywhere(self) -> str | None:
        """The namespace, or none for all of them."""
        return self.namespace if self.request.namespace else None

    @property
    def named(self) -> dict[str, Any]:
        """Which object the call is about."""
        return {"namespace": self.namespace, "name": checked_name("name", self.request.name)}

    @property
    def if_match(self) -> ETags | None:
        return read_etags(self.request.if_match)

    def object(self) -> Obj:
        """The object of the request. Raises Refused."""
        if not self.request.HasField("object"):
            raise Refused("bad-request", "object is missing", errors=(("object", "is missing"),))
        try:
            return self.face.read(self.request.object)
        except Unreadable as error:
            raise unreadable(error) from error

    def of_object(self, obj: Obj) -> Any:
        """An answer that is an object and its etag."""
        out = self.answer()
        self.face.write(out.object, obj, self.kind)
        out.etag = etag_of(obj)
        return out


Operation = Callable[[Call], Awaitable[Message]]
Stream = Callable[[Call], AsyncGenerator[Message, None]]


async def _create(call: Call) -> Message:
    request = call.request
    obj = call.object()
    namespace = checked_name("namespace", request.namespace or _namespace(obj))
    created = await call.gateway.create(
        call.caller,
        call.kind,
        namespace=namespace,
        obj=placed(obj, call.kind, namespace=namespace),
        idempotency_key=_key(request.idempotency_key),
        dry_run=request.dry_run,
    )
    out = call.of_object(created.object)
    out.already_created = created.repeated
    return out


async def _get(call: Call) -> Message:
    return call.of_object(await call.gateway.get(call.caller, call.kind, **call.named))


async def _list(call: Call) -> Message:
    query = list_query(read_fields(call.request, LIST_PARAMS))
    page = await call.gateway.list(call.caller, call.kind, namespace=call.anywhere, query=query)
    out = call.answer()
    for obj in page.items:
        call.face.write(out.objects.add(), obj, call.kind)
    out.next_page_token, out.total = page.token, page.total
    return out


async def _replace(call: Call) -> Message:
    obj = placed(call.object(), call.kind, **call.named)
    obj = await call.gateway.replace(
        call.caller, call.kind, obj=obj, if_match=call.if_match, **call.named
    )
    return call.of_object(obj)


async def _delete(call: Call) -> Message:
    propagation = _PROPAGATION.get(call.request.propagation)
    if propagation is None:
        raise Refused("bad-request", "propagation is not one of those known")
    obj = await call.gateway.delete(
        call.caller,
        call.kind,
        if_match=call.if_match,
        propagation=propagation,
        **call.named,
    )
    out = call.answer()
    if obj.get("kind") == call.kind.kind:
        call.face.write(out.object, obj, call.kind)
    return out


async def _get_status(call: Call) -> Message:
    summary = await call.gateway.status(call.caller, call.kind, **call.named)
    out = call.answer()
    write_message(out.status, summary.as_object())
    return out


def _acting(verb: str, *fields: str) -> Operation:
    """A method that changes an object as these fields of the request say, and answers with it."""

    async def act(call: Call) -> Message:
        options = {name: getattr(call.request, name) for name in fields}
        change = getattr(call.gateway, verb)
        obj = await change(call.caller, call.kind, if_match=call.if_match, **options, **call.named)
        return call.of_object(obj)

    return act


async def _scale(call: Call) -> Message:
    if not 0 <= call.request.replicas <= _REPLICAS:
        detail = f"must be a whole number from 0 to {_REPLICAS}"
        raise Refused("invalid", f"replicas {detail}", errors=(("replicas", detail),))
    obj = await call.gateway.scale(
        call.caller,
        call.kind,
        replicas=call.request.replicas,
        if_match=call.if_match,
        **call.named,
    )
    return call.of_object(obj)


async def _explain(call: Call) -> Message:
    explanation = await call.gateway.explain(call.caller, call.kind, **call.named)
    out = call.answer()
    write_message(out.explanation, explanation.as_object())
    return out


async def _get_metrics(call: Call) -> Message:
    out = call.answer()
    write_message(out.metrics, await call.gateway.metrics(call.caller, call.kind, **call.named))
    return out


async def _list_events(call: Call) -> Message:
    out = call.answer()
    for event in await call.gateway.events(call.caller, call.kind, **call.named):
        write_object(out.events.add(), event)
    return out


async def _watch_status(call: Call) -> AsyncGenerator[Message, None]:
    request = call.request
    changes = call.gateway.watch(
        call.caller,
        call.kind,
        namespace=call.namespace if request.name else call.anywhere,
        name=checked_name("name", request.name) if request.name else None,
        since=request.since or None,
        query=ListQuery(labels=request.label_selector),
    )
    async with aclosing(changes):
        async for change in changes:
            out = call.answer()
            out.type = ChangeType.Value(f"CHANGE_TYPE_{change.type}")
            out.phase = change.phase
            call.face.write(out.object, change.object, call.kind)
            yield out


async def _get_logs(call: Call) -> AsyncGenerator[Message, None]:
    query = LogQuery.of_params(read_fields(call.request, LOG_PARAMS))
    chunks = call.gateway.logs(call.caller, call.kind, query=query, **call.named)
    async with aclosing(chunks):
        async for chunk in chunks:
            for start in range(0, max(len(chunk.data), 1), _PIECE):
                out = call.answer()
                out.pod, out.role, out.container = chunk.pod, chunk.role.name, chunk.container
                if chunk.role.index is not None:
                    out.index = chunk.role.index
                out.data = chunk.data[start : start + _PIECE]
                if start + _PIECE >= len(chunk.data):
                    out.position = str(chunk.position)
                yield out


def _key(written: str) -> str | None:
    if not _KEY.fullmatch(written):
        detail = "must be at most 200 printable characters without a space"
        raise Refused(
            "bad-request", f"idempotency_key {detail}", errors=(("idempotency_key", detail),)
        )
    return written or None


def _namespace(obj: Obj) -> str:
    metadata = obj.get("metadata")
    found = metadata.get("namespace") if isinstance(metadata, dict) else None
    return found if isinstance(found, str) else ""


UNARIES: Final[Mapping[str, tuple[str, Operation]]] = {
    "Create": ("create", _create),
    "Get": ("get", _get),
    "List": ("list", _list),
    "Replace": ("replace", _replace),
    "Delete": ("delete", _delete),
    "GetStatus": ("status", _get_status),
    "Restart": ("restart", _acting("restart", "force")),
    "Suspend": ("suspend", _acting("suspend")),
    "Resume": ("resume", _acting("resume")),
    "Scale": ("scale", _scale),
    "Explain": ("explain", _explain),
    "ListEvents": ("events", _list_events),
    "GetMetrics": ("metrics", _get_metrics),
}
"""By the name in JobService: the verb for the audit log, and the method."""
STREAMS: Final[Mapping[str, tuple[str, Stream]]] = {
    "WatchStatus": ("watch", _watch_status),
    "GetLogs": ("logs", _get_logs),
}
