"""What each ordinary route does: one call of the gateway, and its answer as JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

from starlette.responses import Response

from corral.client.queries import SORT_KEYS, ListQuery
from corral.gateway.etags import ETags, etag_of, read_etags
from corral.gateway.placed import placed
from corral.gateway.problems import Refused
from corral.gateway.rest.answers import json_answer
from corral.gateway.rest.asks import Ask
from corral.gateway.rest.params import Param, boolean, choice, number, text, timestamp
from corral.kube.types import Obj

__all__ = [
    "CREATE_PARAMS",
    "DELETE_PARAMS",
    "FILTER_PARAMS",
    "LIST_PARAMS",
    "RESTART_PARAMS",
    "View",
    "create_object",
    "delete_object",
    "events",
    "explain",
    "get_object",
    "list_objects",
    "list_query",
    "metrics",
    "replace_object",
    "restart",
    "resume",
    "scale",
    "status",
    "suspend",
]

View = Callable[[Ask], Awaitable[Response]]
_ORDERS: Final = tuple(word for key in SORT_KEYS for word in (key, f"-{key}"))
FILTER_PARAMS: Final[tuple[Param, ...]] = (
    text("labelSelector", "Labels that objects must have, such as `team=a,stage!=test`."),
    text("phase", "One of these phases, in any case.", longest=64, many=True),
    text("name", "A part of the name, or a pattern with `*` and `?`.", longest=253),
    timestamp("since", "Created at that time or later."),
)
LIST_PARAMS: Final[tuple[Param, ...]] = (
    *FILTER_PARAMS,
    choice("sort", "The order; with `-` the other way round.", _ORDERS, default="name"),
    number("limit", "Objects on a page.", least=1, most=1000, default=100),
    text("token", "From the page before, or of its `next` link."),
)
CREATE_PARAMS: Final[tuple[Param, ...]] = (
    boolean("dryRun", "Check and complete the object, but do not create it."),
)
DELETE_PARAMS: Final[tuple[Param, ...]] = (
    choice(
        "propagation", "What becomes of what the job made.",
        ("Background", "Foreground", "Orphan"), default="Background",
    ),
)  # fmt: skip
RESTART_PARAMS: Final[tuple[Param, ...]] = (boolean("force", "Restart it even while it runs."),)


def list_query(given: Mapping[str, Any]) -> ListQuery:
    """Of the parameters of a list, or of the filters alone."""
    more = {name: given[name] for name in ("sort", "limit", "token") if name in given}
    return ListQuery(
        labels=given["labelSelector"],
        phase=given["phase"],
        name=given["name"],
        since=given["since"],
        **more,
    )


async def list_objects(ask: Ask) -> Response:
    wanted = list_query(ask.query)
    page = await ask.gateway.list(ask.caller, ask.kind, namespace=ask.where.namespace, query=wanted)
    metadata: Obj = {"resourceVersion": page.resource_version, "total": page.total}
    headers = {"X-Total-Count": str(page.total)}
    if page.token:
        metadata["continue"] = page.token
        headers["Link"] = f'<{_next(ask, page.token)}>; rel="next"'
    body = {
        "apiVersion": ask.kind.api_version,
        "kind": f"{ask.kind.kind}List",
        "metadata": metadata,
        "items": page.items,
    }
    return json_answer(body, headers=headers)


def _next(ask: Ask, token: str) -> str:
    """This very list from the token on; relative, so that it is right behind any proxy."""
    given = [(k, v) for k, v in ask.request.query_params.multi_items() if k != "token"]
    return f"{quote(ask.request.url.path)}?{urlencode([*given, ('token', token)])}"


async def create_object(ask: Ask) -> Response:
    obj = placed(await ask.object(), ask.kind, namespace=ask.namespace)
    dry = ask.query["dryRun"]
    created = await ask.gateway.create(
        ask.caller,
        ask.kind,
        namespace=ask.namespace,
        obj=obj,
        idempotency_key=ask.token("Idempotency-Key") or None,
        dry_run=dry,
    )
    headers = {"ETag": created.etag}
    if created.repeated:
        headers["Idempotency-Replayed"] = "true"
    if not dry and not created.repeated:
        name = created.object["metadata"]["name"]
        headers["Location"] = f"{quote(ask.request.url.path)}/{name}"
    status = 200 if dry or created.repeated else 201
    return json_answer(created.object, status=status, headers=headers)


def _if_match(ask: Ask) -> ETags | None:
    return read_etags(ask.request.headers.get("if-match"))


def _unless_seen(ask: Ask, etag: str, body: Obj, obj: Obj) -> Response:
    """The body, or that nothing has changed since it was seen."""
    seen = read_etags(ask.request.headers.get("if-none-match"))
    if seen is not None and seen.holds_weakly(obj):
        return Response(status_code=304, headers={"ETag": etag})
    return json_answer(body, headers={"ETag": etag})


def _object(obj: Obj) -> Response:
    return json_answer(obj, headers={"ETag": etag_of(obj)})


async def get_object(ask: Ask) -> Response:
    found = await ask.gateway.get(ask.caller, ask.kind, **ask.one)
    return _unless_seen(ask, etag_of(found), found, found)


async def replace_object(ask: Ask) -> Response:
    return _object(
        await ask.gateway.replace(
            ask.caller,
            ask.kind,
            **ask.one,
            obj=placed(await ask.object(), ask.kind, **ask.one),
            if_match=_if_match(ask),
        )
    )


async def delete_object(ask: Ask) -> Response:
    answer = await ask.gateway.delete(
        ask.caller,
        ask.kind,
        **ask.one,
        if_match=_if_match(ask),
        propagation=ask.query["propagation"],
    )
    going = answer.get("kind") != "Status"
    body = {"namespace": ask.namespace, "name": ask.name, "deleted": not going}
    return json_answer(body, status=202 if going else 200)


async def status(ask: Ask) -> Response:
    found = await ask.gateway.status(ask.caller, ask.kind, **ask.one)
    identity = {"metadata": {"uid": found.uid, "resourceVersion": found.resource_version}}
    etag = etag_of(identity)
    return _unless_seen(ask, etag, found.as_object(), identity)


def _reading(verb: str, shown: Callable[[Any], Any]) -> View:
    """A view that answers what the gateway says about one object."""

    async def view(ask: Ask) -> Response:
        ask_for = getattr(ask.gateway, verb)
        return json_answer(shown(await ask_for(ask.caller, ask.kind, **ask.one)))

    return view


def _acting(verb: str) -> View:
    """A view that changes an object as the query says, and answers with it."""

    async def view(ask: Ask) -> Response:
        act = getattr(ask.gateway, verb)
        return _object(
            await act(ask.caller, ask.kind, **ask.one, if_match=_if_match(ask), **ask.query)
        )

    return view


events = _reading("events", lambda found: {"items": found})
explain = _reading("explain", lambda found: found.as_object())
metrics = _reading("metrics", lambda found: found)
restart, suspend, resume = (_acting(verb) for verb in ("restart", "suspend", "resume"))


async def scale(ask: Ask) -> Response:
    body = await ask.object()
    replicas = body.get("replicas")
    if isinstance(replicas, bool) or not isinstance(replicas, int) or not 0 <= replicas <= 100_000:
        detail = "must be a whole number from 0 to 100000"
        raise Refused("invalid", f"replicas {detail}", errors=(("replicas", detail),))
    return _object(
        await ask.gateway.scale(
            ask.caller,
            ask.kind,
            **ask.one,
            replicas=replicas,
            if_match=_if_match(ask),
        )
    )
