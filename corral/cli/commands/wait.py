"""``corral wait`` and ``corral logs``."""

from __future__ import annotations

from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from corral.cli.arguments import (
    Container,
    Follow,
    Job,
    SinceTime,
    Tail,
    Timeout,
    Timestamps,
    parse_time,
    span,
)
from corral.cli.errors import FAILED, USAGE, Trouble
from corral.cli.references import Found, find
from corral.cli.session import Session
from corral.cli.views.output import Format, Output, say, show_object
from corral.kube.types import Obj

__all__ = ["logs", "wait"]

FINISHED = "finished"


async def wait(
    session: Session,
    job: Job,
    for_: Annotated[
        str,
        typer.Option(
            "--for", help="Phase to wait for (several: comma-separated), `finished` or `deleted`."
        ),
    ] = FINISHED,
    within: Timeout = "1h",
    output: Output = Format.table,
) -> None:
    """Wait until a job finishes (exit code 1 if it failed), reaches a phase or is deleted."""
    limit = span(within)
    goal = for_.lower().removeprefix("condition=").removeprefix("phase=")
    goal = {"delete": "deleted", "complete": "succeeded"}.get(goal, goal)
    found = await find(session, job)
    until = found.kind.finished if goal == FINISHED else goal.split(",")
    obj = await session.jobs.wait(found.kind, session.namespace, found.name, until, timeout=limit)
    phase = "Deleted" if goal == "deleted" else found.kind.phase(obj)
    if output is Format.table:
        say(f"{found.title} {phase}")
    else:
        show_object(found.kind.resource.stamp(obj or found.obj), output)
    if goal == FINISHED and not found.kind.succeeded(obj):
        raise failed(found, obj)


def failed(found: Found, obj: Obj) -> Trouble:
    """That a job is over and did not succeed."""
    why = found.kind.message(obj)
    text = f"{found.title} {found.kind.phase(obj).lower()}"
    hint = f"run `corral explain {found.title}` for the reason"
    return Trouble(f"{text}: {why}" if why else text, code=FAILED, hint=hint)


async def logs(
    session: Session,
    job: Job,
    follow: Follow = False,
    role: Annotated[
        str,
        typer.Option(
            help="Only this role: launcher, worker or replica, or one pod of it, such as worker/3."
        ),
    ] = "",
    container: Container = None,
    tail: Tail = None,
    since: Annotated[
        str, typer.Option(help="Only lines newer than this, such as 30s, 5m or 2h.")
    ] = "",
    since_time: SinceTime = "",
    timestamps: Timestamps = False,
    previous: Annotated[
        bool,
        typer.Option(
            "--previous",
            "-p",
            help="Logs of the previous container instance, before the last restart.",
        ),
    ] = False,
    prefix: Annotated[
        bool | None,
        typer.Option(
            "--prefix/--no-prefix",
            help="Prefix each line with its replica (default: if there are several).",
        ),
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Do not escape control characters on a terminal.")
    ] = False,
    output: Output = Format.table,
) -> None:
    """Print the logs of a job: all replicas merged, each in its own colour."""
    from corral.cli.views.loglines import printer
    from corral.client import LogQuery

    if since and since_time:
        raise Trouble(
            "--since and --since-time cannot be combined", code=USAGE, hint="give one of them"
        )
    start = _stamp(datetime.now(UTC) - timedelta(seconds=span(since))) if since else None
    query = LogQuery(
        roles=_role(role),
        container=container,
        follow=follow,
        tail_lines=tail,
        since_time=_stamp(parse_time(since_time)) if since_time else start,
        timestamps=timestamps,
        previous=previous,
    )
    found = await find(session, job)
    several = "/" not in role and _several(found)
    sink = printer(output, prefix=several if prefix is None else prefix, raw=raw)
    lines = session.jobs.logs(found.kind, session.namespace, found.name, query, job=found.obj)
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


def _several(found: Found) -> bool:
    """Whether lines may come from more than one pod, as far as the spec says."""
    from corral.client.summary import desired_pods

    desired = desired_pods(found.kind, found.obj)
    return not desired or sum(desired.values()) > 1


def _nothing(found: Found) -> None:
    phase = found.kind.phase(found.obj)
    title = found.title
    if found.kind.finished(found.obj):
        hint = "it wrote no output, or its pods were deleted"
    else:
        hint = f"it is {phase}: wait with `corral logs -f`, or run `corral explain {title}`"
    say(f"corral: no logs of {title} yet; {hint}", err=True)
