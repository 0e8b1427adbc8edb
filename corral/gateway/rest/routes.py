"""Every operation there is: where it is, who does it, and everything that it may answer.

The same table routes requests and becomes the OpenAPI document, so the two cannot differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from corral.client.kinds import JobKind
from corral.gateway.rest import streams, views
from corral.gateway.rest.params import Param
from corral.gateway.rest.views import View

__all__ = ["OPERATIONS", "Answer", "Header", "Operation", "View"]

_ALL: Final = "/api/v1/{plural}"
_SOME: Final = "/api/v1/namespaces/{namespace}/{plural}"
_ONE: Final = f"{_SOME}/{{name}}"
_REFUSALS: Final = (400, 401, 403, 404, 429, 500, 502, 503, 504)
"""What every operation may answer."""


@dataclass(frozen=True, slots=True)
class Header:
    """A header that an operation understands."""

    name: str
    description: str
    longest: int = 200


@dataclass(frozen=True, slots=True)
class Answer:
    """A good answer."""

    status: int
    description: str
    schema: str = ""
    """Of `schemas`; ``object`` and ``list`` are those of the kind; empty: no body."""
    media: tuple[str, ...] = ("application/json",)
    headers: tuple[str, ...] = ()
    """Of `schemas.HEADERS`."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing that can be done."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    verb: str
    """Of the audit log and the metrics."""
    view: View
    summary: str
    answers: tuple[Answer, ...]
    refusals: tuple[int, ...] = ()
    """Beyond those of every operation."""
    params: tuple[Param, ...] = ()
    headers: tuple[Header, ...] = ()
    body: str = ""
    """The schema of the body; empty: there is none."""
    body_types: tuple[str, ...] = ("application/json",)
    streams: bool = False
    """Whether the answer goes on: it then has a time of its own."""
    fits: Callable[[JobKind], bool] = lambda kind: True
    """Whether a kind can do it."""
    plural: str = ""
    """The kind that it is about, where its path does not say."""
    name: str = ""
    """Its name in the OpenAPI document; made of the verb and the kind if empty."""

    @property
    def all_refusals(self) -> tuple[int, ...]:
        body = (413, 415) if self.body else ()
        return tuple(sorted({*_REFUSALS, *self.refusals, *body}))


def _has_pods(kind: JobKind) -> bool:
    return kind.pod_selector is not None


def _has_workers(kind: JobKind) -> bool:
    return kind.family == "mpijob"


_IF_MATCH: Final = Header("If-Match", "Only if the object is still this one: its ETag, or `*`.")
_IF_NONE: Final = Header("If-None-Match", "Only if the object is no longer this one: its ETag.")
_KEY: Final = Header(
    "Idempotency-Key",
    "A word of your own for this create: sent again with it, nothing is created twice.",
)
_LAST: Final = Header("Last-Event-ID", "The id of the last event that was seen.", 100)
_OBJECT: Final = Answer(200, "The object.", "object", headers=("ETag",))
_PAGE: Final = Answer(200, "One page of objects.", "list", headers=("Link", "X-Total-Count"))
_EVENTS: Final = Answer(200, "Changes as they happen.", "sse", ("text/event-stream",))
_LOGS: Final = Answer(
    200,
    "What was written. `application/vnd.corral.logs` has frames with the place of each piece.",
    "log",
    ("text/plain", "application/vnd.corral.logs"),
)


def _log(path: str, verb_of: str, fits: Callable[[JobKind], bool]) -> Operation:
    return Operation(
        "GET", _ONE + path, "logs", streams.logs, f"Read or follow the logs of {verb_of}",
        (_LOGS,), params=streams.LOG_PARAMS if path == "/logs" else streams.ONE_LOG_PARAMS,
        refusals=(406,), streams=True, fits=fits,
    )  # fmt: skip


def _action(
    name: str,
    view: View,
    summary: str,
    fits: Callable[[JobKind], bool],
    *,
    params: tuple[Param, ...] = (),
) -> Operation:
    return Operation(
        "POST", f"{_ONE}/{name}", name, view, summary, (_OBJECT,),
        refusals=(409, 412, 422), params=params, headers=(_IF_MATCH,), fits=fits,
    )  # fmt: skip


OPERATIONS: Final[tuple[Operation, ...]] = (
    Operation(
        "GET", _ALL, "list", views.list_objects, "List objects of all namespaces",
        (_PAGE,), params=views.LIST_PARAMS,
    ),
    Operation(
        "GET", _SOME, "list", views.list_objects, "List objects", (_PAGE,),
        params=views.LIST_PARAMS,
    ),
    Operation(
        "POST", _SOME, "create", views.create_object, "Create an object",
        (
            Answer(201, "Created.", "object", headers=("ETag", "Location")),
            Answer(
                200, "Created before by the same request, or a dry run.", "object",
                headers=("ETag", "Idempotency-Replayed"),
            ),
        ),
        refusals=(409, 422), params=views.CREATE_PARAMS, headers=(_KEY,), body="object",
    ),
    Operation(
        "GET", _ONE, "get", views.get_object, "Get an object",
        (_OBJECT, Answer(304, "It is still the one of If-None-Match.", headers=("ETag",))),
        headers=(_IF_NONE,),
    ),
    Operation(
        "PUT", _ONE, "replace", views.replace_object, "Replace an object", (_OBJECT,),
        refusals=(409, 412, 422), headers=(_IF_MATCH,), body="object",
    ),
    Operation(
        "DELETE", _ONE, "delete", views.delete_object, "Delete an object",
        (
            Answer(200, "It is gone.", "deleted"),
            Answer(202, "It is being deleted.", "deleted"),
        ),
        refusals=(409, 412, 422), params=views.DELETE_PARAMS, headers=(_IF_MATCH,),
    ),
    Operation(
        "GET", f"{_ONE}/status", "status", views.status, "Phase, replicas, progress, diagnosis",
        (Answer(200, "The job at a glance.", "Summary", headers=("ETag",)),
         Answer(304, "It is still the one of If-None-Match.", headers=("ETag",))),
        headers=(_IF_NONE,),
    ),
    Operation(
        "GET", f"{_ONE}/events", "events", views.events, "Events of a job and its children",
        (Answer(200, "Events, the oldest first.", "EventList"),),
    ),
    Operation(
        "GET", f"{_ONE}/explain", "explain", views.explain,
        "What it waits for, or why it failed, in plain words",
        (Answer(200, "An explanation.", "Explanation"),),
    ),
    Operation(
        "GET", f"{_ONE}/metrics", "metrics", views.metrics,
        "What was learned, by round and by proplet",
        (Answer(200, "Samples, losses, bytes, durations.", "Metrics"),),
        fits=lambda kind: kind.learns,
    ),
    Operation(
        "GET", f"{_ONE}/watch", "watch", streams.watch, "Watch one object", (_EVENTS,),
        refusals=(410,), params=streams.WATCH_PARAMS, headers=(_LAST,), streams=True,
    ),
    Operation(
        "GET", "/api/v1/watch/namespaces/{namespace}/{plural}", "watch", streams.watch,
        "Watch the objects of a namespace", (_EVENTS,), refusals=(410,),
        params=streams.WATCH_ALL_PARAMS, headers=(_LAST,), streams=True,
    ),
    Operation(
        "GET", "/api/v1/watch/{plural}", "watch", streams.watch,
        "Watch the objects of all namespaces", (_EVENTS,), refusals=(410,),
        params=streams.WATCH_ALL_PARAMS, headers=(_LAST,), streams=True,
    ),
    _log("/logs", "all replicas", _has_pods),
    _log("/logs/launcher", "the launcher", _has_workers),
    _log("/logs/worker/{index}", "one worker", _has_workers),
    _action(
        "restart", views.restart, "Run a job again from its spec", lambda kind: kind.restartable,
        params=views.RESTART_PARAMS,
    ),
    _action("suspend", views.suspend, "Suspend a job", lambda kind: kind.suspendable),
    _action("resume", views.resume, "Resume a suspended job", lambda kind: kind.suspendable),
    Operation(
        "PUT", f"{_ONE}/scale", "scale", views.scale, "Change the number of replicas", (_OBJECT,),
        refusals=(409, 412, 422), headers=(_IF_MATCH,), body="Scale",
        fits=lambda kind: kind.scalable,
    ),
)  # fmt: skip
