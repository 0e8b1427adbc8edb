"""``corral get``, ``describe``, ``events`` and ``explain``: what there is, and how it is."""

from __future__ import annotations

from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corral.cli.arguments import Job, Selector, span
from corral.cli.completion import complete_kinds
from corral.cli.references import find, job_kinds
from corral.cli.session import Session
from corral.cli.views.output import (
    Format,
    Output,
    say,
    say_lines,
    show,
    show_object,
    show_objects,
    titled,
)
from corral.kube.types import Obj

if TYPE_CHECKING:
    from corral.client import ListQuery
    from corral.client.kinds import JobKind

__all__ = ["describe", "events", "explain", "explanation_lines", "get"]

Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[KIND[/NAME]] [NAME]...",
        help="Kind, optionally with object names (default: jobs of every kind).",
        autocompletion=complete_kinds,
    ),
]


async def get(
    session: Session,
    what: Words = None,
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="List objects in all namespaces.")
    ] = False,
    labels: Selector = "",
    phase: Annotated[
        list[str] | None, typer.Option(help="Only jobs in this phase; repeatable.")
    ] = None,
    since: Annotated[
        str, typer.Option(help="Only objects created within this time, such as 30m, 2h or 1d.")
    ] = "",
    sort: Annotated[
        str,
        typer.Option(
            help="Sort by name, created, started, finished or phase; -created: newest first."
        ),
    ] = "name",
    limit: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of objects per kind.")
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Print changes until interrupted.")
    ] = False,
    output: Output = Format.table,
) -> None:
    """List jobs, or get the named ones."""
    from corral.client import ListQuery

    kinds, names = _meant(what or [])
    namespace = None if all_namespaces else session.namespace
    if names:
        found = [await find(session, [kinds[0].singular, name]) for name in names]
        _print([(one.kind, one.obj) for one in found], output, single=len(found) == 1)
        return
    start = datetime.now(UTC) - timedelta(seconds=span(since)) if since else None
    query = ListQuery(labels=labels, phase=tuple(phase or ()), since=start, sort=sort, limit=limit)
    if watch:
        await _watch(session, kinds, namespace, query, output)
        return
    found_objects = await _listed(session, kinds, namespace, query)
    if not found_objects and output is Format.table:
        where = "any namespace" if namespace is None else f"namespace {namespace}"
        what_kind = kinds[0].plural if len(kinds) == 1 else "jobs"
        say(f"no {what_kind} in {where}", err=True)
        return
    _print(found_objects, output, many_kinds=len(kinds) > 1, many_places=namespace is None)


def _meant(words: list[str]) -> tuple[list[JobKind], list[str]]:
    """Which kinds, and which objects of the kind where some were named."""
    from corral.client.kinds import kind_of

    if not words or words == ["all"]:
        return job_kinds(), []
    kind, slash, name = words[0].partition("/")
    return [kind_of(kind)], ([name] if slash else []) + words[1:]


_Typed = list[tuple["JobKind", Obj]]


async def _listed(
    session: Session, kinds: list[JobKind], namespace: str | None, query: ListQuery
) -> _Typed:
    """Objects of the kinds; where several were asked for, those that the cluster knows."""
    import asyncio

    from corral.client import errors

    async def one(kind: JobKind) -> _Typed:
        asked = query
        if len(kinds) > 1 and query.phases:
            known = {phase.lower() for phase in kind.phases}
            if not known.issuperset(phase.lower() for phase in query.phases):
                return []
        try:
            page = await session.jobs.list(kind, namespace, asked)
        except (errors.NotInstalled, errors.Forbidden):
            if len(kinds) == 1 or kind is kinds[0]:
                raise
            return []
        return [(kind, obj) for obj in page.items]

    return [pair for part in await asyncio.gather(*map(one, kinds)) for pair in part]


def _print(
    found: _Typed,
    output: Format,
    *,
    single: bool = False,
    many_kinds: bool = False,
    many_places: bool = False,
) -> None:
    from corral.cli.views.rows import COLUMNS, job_row

    objects = [kind.resource.stamp(obj) for kind, obj in found]
    if output is not Format.table:
        show_objects(objects, output, single=single)
        return
    now = datetime.now(UTC)
    rows = [job_row(kind, obj, now) for kind, obj in found]
    more = (("namespace",) if many_places else ()) + (("kind",) if many_kinds else ())
    shown = [name for name in COLUMNS if name in ("name", "phase", "age") or _any(rows, name)]
    show(rows, ["name", *more, *shown[1:]], Format.table)


def _any(rows: list[dict[str, Any]], column: str) -> bool:
    return any(row[column] for row in rows)


async def _watch(
    session: Session,
    kinds: list[JobKind],
    namespace: str | None,
    query: ListQuery,
    output: Format,
) -> None:
    """A line for every change, until Ctrl-C."""
    import asyncio

    from corral.cli.views.rows import job_row

    async def one(kind: JobKind) -> None:
        async with aclosing(session.jobs.watch(kind, namespace, None, query=query)) as changes:
            async for change in changes:
                if output is not Format.table:
                    show_object(kind.resource.stamp(change.object), output, compact=True)
                    continue
                row = job_row(kind, change.object, datetime.now(UTC))
                phase = "Deleted" if change.type == "DELETED" else row["phase"]
                words = (titled(kind, row["name"]), phase, row["progress"], row["message"])
                say("   ".join(word for word in words if word), flush=True)

    async with asyncio.TaskGroup() as group:
        for kind in await _installed(session, kinds, namespace):
            group.create_task(one(kind))


async def _installed(
    session: Session, kinds: list[JobKind], namespace: str | None
) -> list[JobKind]:
    from corral.client import ListQuery, errors

    if len(kinds) == 1:
        return kinds
    known = []
    for kind in kinds:
        try:
            await session.jobs.list(kind, namespace, ListQuery(limit=1))
        except errors.NotInstalled:
            continue
        known.append(kind)
    return known


async def describe(session: Session, job: Job, output: Output = Format.table) -> None:
    """Show the details of a job: phase, times, replicas, progress, conditions, events."""
    from corral.cli.views.description import described, description_lines

    found = await find(session, job)
    if output is Format.name:
        say(found.title)
        return
    summary = await session.jobs.summary(found.kind, session.namespace, found.name)
    events = await session.jobs.events(found.kind, session.namespace, found.name)
    now = datetime.now(UTC)
    if output is Format.table:
        say_lines(description_lines(found, summary, events, now))
    else:
        show_object(described(found, summary, events, now), output)


async def events(session: Session, job: Job, output: Output = Format.table) -> None:
    """List the events of a job and its pods, oldest first."""
    from corral.cli.views.rows import EVENT_COLUMNS, event_row

    found = await find(session, job)
    happened = await session.jobs.events(found.kind, session.namespace, found.name)
    now = datetime.now(UTC)
    rows = [event_row(event, now) for event in happened]
    if output is Format.name:
        for event in happened:
            say(f"event/{event['metadata']['name']}")
    elif not rows and output is Format.table:
        say(f"no events for {found.title}", err=True)
    else:
        show(rows, EVENT_COLUMNS, output)


async def explain(session: Session, job: Job, output: Output = Format.table) -> None:
    """Explain what a job waits for, or why it failed."""
    found = await find(session, job)
    explanation = await session.jobs.explain(found.kind, session.namespace, found.name)
    if output is Format.name:
        say(found.title)
    elif output is Format.table:
        say_lines(explanation_lines(explanation.headline, explanation.reasons, explanation.hints))
    else:
        known = {
            "kind": found.kind.kind,
            "namespace": session.namespace,
            "name": found.name,
            "headline": explanation.headline,
            "reasons": list(explanation.reasons),
            "hints": list(explanation.hints),
        }
        show_object(known, output)


def explanation_lines(headline: str, reasons: Any, hints: Any) -> list[str]:
    """A headline, why, and what to do."""
    lines = [headline]
    lines += [f"  - {reason}" for reason in reasons]
    lines += [f"  try: {hint}" for hint in hints]
    return lines
