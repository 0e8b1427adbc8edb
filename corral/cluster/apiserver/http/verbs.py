"""The verbs over HTTP: from a request to the registry and back to a response."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

import orjson
from aiohttp import web

from corral.cluster.apiserver import errors as say
from corral.cluster.apiserver.audit.record import started
from corral.cluster.apiserver.auth.users import UserInfo
from corral.cluster.apiserver.crud.core import Registry
from corral.cluster.apiserver.crud.delete import Deleter
from corral.cluster.apiserver.crud.kind import Kind
from corral.cluster.apiserver.crud.long_selectors import read_labels
from corral.cluster.apiserver.crud.read import (
    ListOptions,
    Reader,
    label_selector,
    list_options,
    matcher,
)
from corral.cluster.apiserver.crud.selecting import label_test
from corral.cluster.apiserver.crud.write import (
    Change,
    Writer,
    check_name,
    check_namespace,
    check_uid,
)
from corral.cluster.apiserver.fairness.dispatch import Seat, breathe, elsewhere
from corral.cluster.apiserver.fairness.watches import WatchLimit
from corral.cluster.apiserver.heavy import HEAVY_BYTES, work_of
from corral.cluster.apiserver.http import negotiate
from corral.cluster.apiserver.http.bodies import decode_object, parse_options
from corral.cluster.apiserver.http.incoming import check_small, read_body
from corral.cluster.apiserver.http.large import Body, LargeWrites, Written
from corral.cluster.apiserver.http.options import APPLY, SEAT, query_delete_options, write_context
from corral.cluster.apiserver.http.patching import PATCH_TYPES, patcher
from corral.cluster.apiserver.http.render import PIECE, Renderer, Table
from corral.cluster.apiserver.http.scaling import scale_patch, scale_update
from corral.cluster.apiserver.http.watch import Stream
from corral.cluster.apiserver.requests import Context, RequestInfo
from corral.cluster.apiserver.turns import flow_of
from corral.kube import errors
from corral.kube.types import Obj

T = TypeVar("T")
QUERY_WORK = 12
"""What reading a byte of a selector takes, in bytes of a body."""
MOST_WHOLE = 16 * 2**20
"""Bytes of a list that is turned into YAML, or indented."""
SMALL = 256 * 1024
"""Bytes of a list that is sent at once."""

OBJECT_SUBRESOURCES = frozenset(
    {"", "status", "ephemeralcontainers", "resize", "finalize", "approval"}
)
"""Subresources that are views of the whole object."""


class Verbs:
    """Generic verbs for every kind that is stored."""

    def __init__(self, registry: Registry, table_of: Callable[[Kind], Table]) -> None:
        self.registry = registry
        self.reader = Reader(registry)
        self.writer = Writer(registry)
        self.deleter = Deleter(registry)
        self._large = LargeWrites(registry)
        self._watches = WatchLimit()
        self._table_of = table_of

    def _renderer(self, kind: Kind, out: negotiate.Output, query: Mapping[str, str]) -> Renderer:
        included = query.get("includeObject", "")
        if out.shape == "table" and included not in ("", "Metadata", "Object", "None"):
            why = "must be 'Metadata', 'Object', 'None', or empty"
            problem = say.invalid_value("includeObject", included, why)
            raise errors.BadRequest(f"Unable to convert to Table as requested: {problem}")
        table = self._table_of(kind) if out.shape == "table" else None
        return Renderer(self.registry, kind, out, table, query.get("includeObject", ""))

    async def _do(self, context: Context, work: Callable[..., T], *args: Any) -> T:
        """Work on the body of a request, beside the event loop where that is large."""
        return await self.registry.heavy.do(context.user, context.size, work, *args)

    # -- reading ---------------------------------------------------------------------------

    async def _options(
        self, request: web.BaseRequest, kind: Kind, user: UserInfo, *, watch: bool = False
    ) -> ListOptions:
        """The query of a list or watch; what takes long is read piece by piece, or elsewhere."""
        query, labels = request.query, None
        size = len(request.query_string) * QUERY_WORK
        if size >= HEAVY_BYTES:
            text = query.get("labelSelector", "")
            labels = await read_labels(text)
            if labels is None:
                apart = self.registry.heavy.apart(user, label_selector, text)
                labels = label_test(await elsewhere(apart))
            size -= len(text) * QUERY_WORK
        read = partial(list_options, kind, query, watch=watch, labels=labels)
        return await self.registry.heavy.do(user, size, read)

    async def get(self, request: web.BaseRequest, info: RequestInfo, kind: Kind) -> web.Response:
        out = negotiate.output(request.headers.get("Accept", ""))
        version = request.query.get("resourceVersion", "") if request.query_string else ""
        entry = await self.reader.get(kind, info.namespace, info.name, version=version)
        await kind.prefetch([entry])
        if info.subresource == "scale":
            obj = kind.get_scale(kind.from_storage(entry.decode()))
            return answer(out, orjson.dumps(obj))
        return answer(out, self._renderer(kind, out, request.query).one(entry))

    async def list(
        self, request: web.BaseRequest, info: RequestInfo, kind: Kind, user: UserInfo
    ) -> web.StreamResponse:
        out = negotiate.output(request.headers.get("Accept", ""))
        options = await self._options(request, kind, user)
        page = await self.reader.page(kind, info.namespace, options)
        await kind.prefetch(page.entries)
        pieces = self._renderer(kind, out, request.query).page(page)
        size = sum(len(e.value) for e in page.entries)
        small = len(page.entries) <= PIECE and size <= SMALL
        yaml = out.media == negotiate.YAML
        if yaml and size > MOST_WHOLE:
            raise errors.NotAcceptable(
                f"the list is of {size} bytes, and lists of more than {MOST_WHOLE} are not "
                "converted to YAML: ask for application/json, or for pages with limit"
            )
        if yaml or small or (negotiate.wants_pretty(request) and size <= MOST_WHOLE):
            parts = []
            for piece in pieces:
                parts.append(piece)
                await breathe()
            return answer(out, b"".join(parts))
        return await self._stream(request, out, kind, pieces)

    async def _stream(
        self, request: web.BaseRequest, out: negotiate.Output, kind: Kind, pieces: Iterator[bytes]
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Cache-Control": "no-cache, private"})
        response.headers["Content-Type"] = out.content_type
        if kind.deprecation:
            warn(response, kind.deprecation)
        seat = request.get(SEAT)
        if seat is not None:
            response.headers.update(seat.headers)
        response.enable_chunked_encoding()
        await response.prepare(request)
        for piece in pieces:
            await (response.write(piece) if seat is None else seat.pause(response.write(piece)))
        await response.write_eof(b"\n")
        return response

    async def watch(
        self, request: web.BaseRequest, info: RequestInfo, kind: Kind, user: UserInfo
    ) -> web.StreamResponse:
        seat = request.get(SEAT)
        flow = flow_of(user)
        with self._watches.one(flow, exempt=seat is None or seat.exempt):
            out = negotiate.output(request.headers.get("Accept", ""), streaming=True)
            options = await self._options(request, kind, user, watch=True)
            renderer = self._renderer(kind, out, request.query)
            stream = Stream(
                self.registry, kind, info.namespace,
                name=info.name, options=options, renderer=renderer, flow=flow,
            )  # fmt: skip
            return await self._watched(request, kind, stream, seat)

    async def _watched(
        self, request: web.BaseRequest, kind: Kind, stream: Stream, seat: Seat | None
    ) -> web.StreamResponse:
        initial, watch = await stream.open()
        response = web.StreamResponse(headers={"Cache-Control": "no-cache, private"})
        response.content_type = "application/json"
        if kind.deprecation:
            warn(response, kind.deprecation)
        response.enable_chunked_encoding()
        if seat is not None:
            response.headers.update(seat.headers)
        try:
            await response.prepare(request)
            started(request, response.status)
            await stream.start(response, initial, seat)
            if seat is not None:
                seat.give()  # a watch counts while it starts
            await stream.run(response, watch)
            await response.write_eof()
        finally:
            self.registry.store.unwatch(kind.info.table, watch)
        return response

    # -- writing ---------------------------------------------------------------------------

    async def create(
        self, request: web.BaseRequest, info: RequestInfo, kind: Kind, user: UserInfo
    ) -> web.Response:
        out = negotiate.output(request.headers.get("Accept", ""))
        media = negotiate.body_media(request)
        body = await read_body(request)
        context = write_context(request, user, "CreateOptions", size=work_of(body, media))
        options = write_options(request, "Create")
        done = await self._large.create(kind, info, Body(body, media), context, options)
        if done is not None:
            return self._sent(request, kind, out, done, context)
        obj = await self._do(context, decode_object, kind, body, media, context)
        made = await self.writer.create(kind, info.namespace, obj, context=context, options=options)
        return self._written(request, kind, out, made, context, 201)

    async def update(
        self, request: web.BaseRequest, info: RequestInfo, kind: Kind, user: UserInfo
    ) -> web.Response:
        out = negotiate.output(request.headers.get("Accept", ""))
        media = negotiate.body_media(request)
        body = await read_body(request)
        context = write_context(request, user, "UpdateOptions", size=work_of(body, media))
        if info.subresource == "scale":
            check_small(body, media)
            now = self.registry.timestamp
            change = await self._do(context, scale_update, info, kind, body, media, context, now)
            return await self._scale(info, kind, out, context, change)

        options = write_options(request, "Update")
        create = kind.allow_create_on_update and not info.subresource
        large = await self._large.update(
            kind, info, Body(body, media), context, options, create=create
        )
        if large is not None:
            return self._sent(request, kind, out, large, context)
        decoded = [await self._do(context, decode_object, kind, body, media, context)]
        check_namespace(kind, info.namespace, decoded[0])
        check_name(decoded[0], info.name)

        def sent(live: Obj | None) -> Obj:
            """The object as sent; a second try decodes it anew, for the first one changed it."""
            obj = decoded.pop() if decoded else decode_object(kind, body, media, context)
            if live is not None:
                check_uid(kind, obj, live)
            return obj

        done, created = await self.writer.update(
            kind,
            info.namespace,
            info.name,
            change=sent,
            context=context,
            subresource=info.subresource,
            create=create,
            options=options,
        )
        return self._written(request, kind, out, done, context, 201 if created else 200)

    async def patch(
        self, request: web.BaseRequest, info: RequestInfo, kind: Kind, user: UserInfo
    ) -> web.Response:
        out = negotiate.output(request.headers.get("Accept", ""))
        header = request.headers.get("Content-Type", "")
        patch_type = header.split(";", 1)[0].strip().lower()
        allowed = [t for t in PATCH_TYPES if not kind.info.custom or "strategic" not in t]
        if patch_type not in allowed:
            raise errors.UnsupportedMediaType(
                "the body of the request was in an unknown format - accepted media types "
                f"include: {', '.join(allowed)}"
                if kind.info.custom
                else "415: Unsupported Media Type"
            )
        body = await read_body(request)
        context = write_context(
            request, user, "PatchOptions", patch_type=patch_type, size=work_of(body, patch_type)
        )
        if info.subresource == "scale":
            check_small(body, patch_type)
            now = self.registry.timestamp
            change = await self._do(
                context, scale_patch, info, kind, body, patch_type, context, now
            )
            return await self._scale(info, kind, out, context, change)
        options = write_options(request, "Patch")
        create = patch_type == APPLY and not info.subresource
        large = await self._large.update(
            kind, info, Body(body, patch_type, patch=True), context, options, create=create
        )
        if large is not None:
            return self._sent(request, kind, out, large, context)
        make = partial(patcher, subresource=info.subresource, now=self.registry.timestamp)
        change = await self._do(context, make, kind, body, patch_type, context)
        done, created = await self.writer.update(
            kind,
            info.namespace,
            info.name,
            change=change,
            context=context,
            subresource=info.subresource,
            create=create,
            track=patch_type != APPLY,
            options=options,
        )
        return self._written(request, kind, out, done, context, 201 if created else 200)

    def _sent(
        self,
        request: web.BaseRequest,
        kind: Kind,
        out: negotiate.Output,
        done: Written,
        context: Context,
    ) -> web.Response:
        code = 201 if done.created else 200
        if out.shape != "object":
            return self._written(request, kind, out, orjson.loads(done.value), context, code)
        return answer(out, done.value, code, context.warnings)

    def _written(
        self,
        request: web.BaseRequest,
        kind: Kind,
        out: negotiate.Output,
        obj: Obj,
        context: Context,
        code: int,
    ) -> web.Response:
        if out.shape == "object":
            body = orjson.dumps(obj)
        else:
            body = self._renderer(kind, out, request.query).obj(obj)
        return answer(out, body, code, context.warnings)

    async def _scale(
        self,
        info: RequestInfo,
        kind: Kind,
        out: negotiate.Output,
        context: Context,
        change: Change,
    ) -> web.Response:
        done, _ = await self.writer.update(
            kind,
            info.namespace,
            info.name,
            change=change,
            context=context,
            subresource="scale",
            track=False,
        )
        return answer(out, orjson.dumps(kind.get_scale(done)), 200, context.warnings)

    # -- deleting --------------------------------------------------------------------------

    async def delete(
        self, request: web.BaseRequest, info: RequestInfo, kind: Kind, user: UserInfo
    ) -> web.Response:
        out = negotiate.output(request.headers.get("Accept", ""))
        options = await self._delete_options(request, user)
        context = Context(user, dry_run=bool(options.get("dryRun")))
        for text in kind.delete_warnings(options):
            context.warn(text)
        obj, gone = await self.deleter.delete(
            kind, info.namespace, info.name, context=context, options=options
        )
        code = 200
        if not gone and options.get("orphanDependents") is False:
            code = 202
        if gone and not kind.returns_deleted:
            body = orjson.dumps(deleted_status(kind, obj))
        else:
            body = self._renderer(kind, out, request.query).obj(obj)
        return answer(out, body, code, context.warnings)

    async def delete_collection(
        self, request: web.BaseRequest, info: RequestInfo, kind: Kind, user: UserInfo
    ) -> web.Response:
        out = negotiate.output(request.headers.get("Accept", ""))
        selection = await self._options(request, kind, user)
        options = await self._delete_options(request, user)
        context = Context(user, dry_run=bool(options.get("dryRun")))
        for text in kind.delete_warnings(options):
            context.warn(text)
        found = await self.deleter.delete_collection(
            kind,
            info.namespace,
            matches=matcher(kind, selection) or (lambda entry: True),
            context=context,
            options=options,
        )
        for obj in found if not kind.info.custom else ():
            del obj["kind"], obj["apiVersion"]  # as in any list
        body = orjson.dumps(
            {
                "kind": kind.info.list_kind,
                "apiVersion": kind.info.api_version,
                "metadata": {"resourceVersion": str(self.registry.store.revision)},
                "items": found,
            }
        )
        return answer(out, body)

    async def _delete_options(self, request: web.BaseRequest, user: UserInfo) -> Obj:
        body = await read_body(request)
        if not body:
            return query_delete_options(request.query)
        media = negotiate.body_media(request)
        check_small(body, media)
        heavy = self.registry.heavy
        return await heavy.do(
            user, work_of(body, media), parse_options, body, media, "DeleteOptions"
        )


def write_options(request: web.BaseRequest, verb: str) -> Obj:
    """The options object that admission webhooks see."""
    options: Obj = {"kind": f"{verb}Options", "apiVersion": "meta.k8s.io/v1"}
    if not request.query_string:
        return options
    for name in ("fieldManager", "fieldValidation"):
        if request.query.get(name):
            options[name] = request.query[name]
    if request.query.get("dryRun"):
        options["dryRun"] = ["All"]
    return options


def deleted_status(kind: Kind, obj: Obj) -> Obj:
    meta = obj["metadata"]
    details = {
        "name": meta.get("name", ""),
        "group": kind.info.group,
        "kind": kind.info.plural,
        "uid": meta.get("uid", ""),
    }
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {k: v for k, v in details.items() if v},
    }


def answer(
    out: negotiate.Output, body: bytes, code: int = 200, warnings: list[str] | None = None
) -> web.Response:
    """A response; one that shall be YAML is still JSON (see ``Front``)."""
    response = web.Response(body=body + b"\n" if out.media == negotiate.JSON else body, status=code)
    response.headers["Content-Type"] = out.content_type
    if out.media == negotiate.YAML:
        response[negotiate.UNFORMED] = True
    response.headers["Cache-Control"] = "no-cache, private"
    for text in _bounded(warnings) if warnings else ():
        warn(response, text)
    return response


MAX_WARNING_TEXT = 4096
MAX_ONE_WARNING = 256
MAX_WARNINGS = 64
"""Each is a header, and many clients take a hundred headers at most."""


def _bounded(warnings: list[str]) -> Iterator[str]:
    """All of them where they are short together, else what fits, each cut, as upstream does."""
    if len(warnings) <= MAX_WARNINGS and sum(map(len, warnings)) <= MAX_WARNING_TEXT:
        yield from warnings
        return
    written = 0
    for text in warnings[:MAX_WARNINGS]:
        if written >= MAX_WARNING_TEXT:
            return
        written += min(len(text), MAX_ONE_WARNING)
        yield text[:MAX_ONE_WARNING]


def warn(response: web.StreamResponse, text: str) -> None:
    """Add a warning that kubectl prints."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    response.headers.add("Warning", f'299 - "{escaped}"')
