"""``corral wait`` and ``corral logs``."""

from __future__ import annotations

from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from corral.cli.arguments import Job, Timeout, moment, span
from corral.cli.errors import FAILED, USAGE, Trouble
from corral.cli.output import Format, Output, show_object
from corral.cli.references import Found, find
from corral.cli.session import Session
from corral.kube.types import Obj

__all__ = ["logs", "wait"]

FINISHED = "finished"


async def wait(
    session: Session,
    job: Job,
    for_: Annotated[
        str,
        typer.Option("--for", help="A phase, several with commas, `finished` or `deleted`."),
    ] = FINISHED,
    within: Timeout = "1h",
    output: Output = Format.table,
) -> None:
    """Wait until a job is over (exit code 1 if it failed), is in a phase, or is gone."""
    limit = span(within)
    goal = for_.lower().removeprefix("condition=").removeprefix("phase=")
    goal = {"delete": "deleted", "complete": "succeeded"}.get(goal, goal)
    found = await find(session, job)
    until = found.kind.finished if goal == FINISHED else goal.split(",")
    obj = await session.jobs.wait(found.kind, session.namespace, found.name, until, timeout=limit)
    phase = "Deleted" if goal == "deleted" else found.kind.phase(obj)
    if output is Format.table:
        typer.echo(f"{found.title} {phase}")
    else:
        show_object(found.kind.resource.stamp(obj or found.obj), output)
    if goal == FINISHED and not found.kind.succeeded(obj):
        raise failed(found, obj)


def failed(found: Found, obj: Obj) -> Trouble:
    """That a job is over and did not succeed."""
    why = found.kind.message(obj)
    text = f"{found.title} {found.kind.phase(obj).lower()}"
    hint = f"`corral explain {found.title}` says why"
    return Trouble(f"{text}: {why}" if why else text, code=FAILED, hint=hint)


async def logs(
    session: Session,
    job: Job,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until it is over.")] = False,
    role: Annotated[
        str, typer.Option(help="Of launcher, worker or replica only; worker/3: of that one.")
    ] = "",
    container: Annotated[str | None, typer.Option("--container", "-c", help="Of this one.")] = None,
    tail: Annotated[int | None, typer.Option(min=0, help="The last lines of each.")] = None,
    since: Annotated[str, typer.Option(help="Of the last 30s, 5m, 2h.")] = "",
    since_time: Annotated[str, typer.Option(help="From this time on.")] = "",
    timestamps: Annotated[
        bool, typer.Option("--timestamps", help="The time before each line.")
    ] = False,
    previous: Annotated[
        bool, typer.Option("--previous", "-p", help="Of the run before the last restart.")
    ] = False,
    prefix: Annotated[
        bool | None,
        typer.Option("--prefix/--no-prefix", help="Whose line it is; else if there are several."),
    ] = None,
    output: Output = Format.table,
) -> None:
    """Print what a job writes: all replicas, merged, each in its colour."""
    from corral.cli.loglines import printer
    from corral.jobs import LogQuery

    if since and since_time:
        raise Trouble("--since and --since-time", code=USAGE, hint="give one of them")
    start = _stamp(datetime.now(UTC) - timedelta(seconds=span(since))) if since else None
    query = LogQuery(
        roles=_role(role),
        container=container,
        follow=follow,
        tail_lines=tail,
        since_time=_stamp(moment(since_time)) if since_time else start,
        timestamps=timestamps,
        previous=previous,
    )
    found = await find(session, job)
    several = "/" not in role and await _several(session, found)
    sink = printer(output, prefix=several if prefix is None else prefix)
    lines = session.jobs.logs(found.kind, session.namespace, found.name, query)
    count = 0
    async with aclosing(lines) as chunks:
        async for chunk in chunks:
            count += 1
            sink(chunk)
    if not count:
        _nothing(found)


def _stamp(time: datetime) -> str:
    """As the API writes it."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _role(text: str) -> tuple[str] | tuple[str, int] | None:
    if not text:
        return None
    name, _, index = text.partition("/")
    if not index:
        return (name,)
    if not index.isdigit():
        raise Trouble(f"--role {text!r} has no number", code=USAGE, hint="write worker/3")
    return (name, int(index))


async def _several(session: Session, found: Found) -> bool:
    """Whether lines may come of more than one pod."""
    summary = await session.jobs.summary(found.kind, session.namespace, found.name)
    return sum(max(one.desired or 0, one.running) for one in summary.replicas) > 1


def _nothing(found: Found) -> None:
    phase = found.kind.phase(found.obj)
    title = found.title
    if found.kind.finished(found.obj):
        hint = "it wrote nothing, or its pods are gone"
    else:
        hint = f"it is {phase}: wait with `corral logs -f`, or ask `corral explain {title}`"
    typer.echo(f"corral: no logs of {title} yet; {hint}", err=True)
