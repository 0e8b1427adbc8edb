"""The verbs over HTTP: from a request to the registry and back to a response."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import orjson
from aiohttp import web

from corral.cluster.apiserver import errors as say
from corral.cluster.apiserver.auth.users import UserInfo
from corral.cluster.apiserver.http import negotiate
from corral.cluster.apiserver.http.bodies import decode_object, parse_options
from corral.cluster.apiserver.http.options import APPLY, query_delete_options, write_context
from corral.cluster.apiserver.http.patching import PATCH_TYPES, patcher
from corral.cluster.apiserver.http.render import PIECE, Renderer, Table
from corral.cluster.apiserver.http.scaling import scale_patch, scale_update
from corral.cluster.apiserver.http.watch import Stream
from corral.cluster.apiserver.registry.core import Registry
from corral.cluster.apiserver.registry.delete import Deleter
from corral.cluster.apiserver.registry.kind import Kind
from corral.cluster.apiserver.registry.read import Reader, list_options, matcher
from corral.cluster.apiserver.registry.write import (
    Change,
    Writer,
    check_name,
    check_namespace,
    check_uid,
)
from corral.cluster.apiserver.requests import Context, RequestInfo
from corral.kube import errors
from corral.kube.types import Obj

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
        self._table_of = table_of

    def _renderer(self, kind: Kind, out: negotiate.Output, query: Mapping[str, str]) -> Renderer:
        included = query.get("includeObject", "")
        if out.shape == "table" and included not in ("", "Metadata", "Object", "None"):
            why = "must be 'Metadata', 'Object', 'None', or empty"
            problem = say.invalid_value("includeObject", included, why)
            raise errors.BadRequest(f"Unable to convert to Table as requested: {problem}")
        table = self._table_of(kind) if out.shape == "table" else None
        return Renderer(self.registry, kind, out, table, query.get("includeObject", ""))

    # -- reading ---------------------------------------------------------------------------

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
        self, request: web.BaseRequest, info: RequestInfo, kind: Kind
    ) -> web.StreamResponse:
        out = negotiate.output(request.headers.get("Accept", ""))
        options = list_options(kind, request.query, watch=False)
        page = await self.reader.page(kind, info.namespace, options)
        await kind.prefetch(page.entries)
        pieces = self._renderer(kind, out, request.query).page(page)
        whole = out.media != negotiate.JSON or out.shape == "table"
        if whole or len(page.entries) <= PIECE or negotiate.wants_pretty(request):
            return answer(out, b"".join(pieces))
        return await self._stream(request, out, kind, pieces)

    async def _stream(
        self, request: web.BaseRequest, out: negotiate.Output, kind: Kind, pieces: Iterator[bytes]
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Cache-Control": "no-cache, private"})
        response.headers["Content-Type"] = out.content_type
        if kind.deprecation:
            warn(response, kind.deprecation)
        response.enable_chunked_encoding()
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
        await response.write_eof(b"\n")
        return response

    async def watch(
        self, request: web.BaseRequest, info: RequestInfo, kind: Kind
    ) -> web.StreamResponse:
        out = negotiate.output(request.headers.get("Accept", ""), streaming=True)
        options = list_options(kind, request.query, watch=True)
        renderer = self._renderer(kind, out, request.query)
        stream = Stream(
            self.registry, kind, info.namespace, name=info.name, options=options, renderer=renderer
        )
        initial, watch = await stream.open()
        response = web.StreamResponse(headers={"Cache-Control": "no-cache, private"})
        response.content_type = "application/json"
        if kind.deprecation:
            warn(response, kind.deprecation)
        response.enable_chunked_encoding()
        try:
            await response.prepare(request)
            await stream.run(response, initial, watch)
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
        body = await negotiate.read_body(request)
        context = write_context(request, user, "CreateOptions")
        obj = decode_object(kind, body, media, context)
        made = await self.writer.create(
            kind, info.namespace, obj, context=context, options=write_options(request, "Create")
        )
        return self._written(request, kind, out, made, context, 201)

    async def update(
        self, request: web.BaseRequest, info: RequestInfo, kind: Kind, user: UserInfo
    ) -> web.Response:
        out = negotiate.output(request.headers.get("Accept", ""))
        media = negotiate.body_media(request)
        body = await negotiate.read_body(request)
        context = write_context(request, user, "UpdateOptions")
        if info.subresource == "scale":
            now = self.registry.timestamp
            change = scale_update(info, kind, body, media, context, now)
            return await self._scale(info, kind, out, context, change)

        decoded = [decode_object(kind, body, media, context)]
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
            create=kind.allow_create_on_update and not info.subresource,
            options=write_options(request, "Update"),
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
        body = await negotiate.read_body(request)
        context = write_context(request, user, "PatchOptions", patch_type=patch_type)
        if info.subresource == "scale":
            now = self.registry.timestamp
            change = scale_patch(info, kind, body, patch_type, context, now)
            return await self._scale(info, kind, out, context, change)
        change = patcher(
            kind,
            body,
            patch_type,
            context,
            subresource=info.subresource,
            now=self.registry.timestamp,
        )
        done, created = await self.writer.update(
            kind,
            info.namespace,
            info.name,
            change=change,
            context=context,
            subresource=info.subresource,
            create=patch_type == APPLY and not info.subresource,
            track=patch_type != APPLY,
            options=write_options(request, "Patch"),
        )
        return self._written(request, kind, out, done, context, 201 if created else 200)

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
        options = await self._delete_options(request)
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
        selection = list_options(kind, request.query, watch=False)
        options = await self._delete_options(request)
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

    async def _delete_options(self, request: web.BaseRequest) -> Obj:
        body = await negotiate.read_body(request)
        if not body:
            return query_delete_options(request.query)
        return parse_options(body, negotiate.body_media(request), "DeleteOptions")


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
    """A response in the negotiated form."""
    response = web.Response(body=negotiate.encode(out, body), status=code)
    response.headers["Content-Type"] = out.content_type
    response.headers["Cache-Control"] = "no-cache, private"
    for text in warnings or ():
        warn(response, text)
    return response


def warn(response: web.StreamResponse, text: str) -> None:
    """Add a warning that kubectl prints."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    response.headers.add("Warning", f'299 - "{escaped}"')
