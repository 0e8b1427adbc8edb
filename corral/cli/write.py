"""``corral apply``, ``delete``, ``suspend``, ``resume``, ``restart`` and ``scale``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from corral.cli.arguments import Job, Timeout, span
from corral.cli.completion import complete_kinds
from corral.cli.output import Format, Output, show_object, show_objects
from corral.cli.references import Found, find
from corral.cli.session import Session
from corral.kube.types import Obj

__all__ = ["apply", "delete", "restart", "resume", "scale", "suspend"]

MANAGER = "corral-cli"


async def apply(
    session: Session,
    files: Annotated[
        list[str],
        typer.Option("--filename", "-f", help="File, folder, or - for standard input."),
    ],
    recursive: Annotated[
        bool, typer.Option("--recursive", "-R", help="Folders within folders too.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Have it checked only.")] = False,
    output: Output = Format.table,
) -> None:
    """Create objects, or make them as they are written: server-side apply."""
    from corral.cli.manifests import read_manifests

    documents = read_manifests(files, recursive=recursive, stdin=sys.stdin)
    applied: list[Obj] = []
    for document in documents:
        applied.append(await _applied(session, document.obj, document.source, dry_run=dry_run))
        if output is Format.table:
            obj = applied[-1]
            done = "checked" if dry_run else "applied"
            typer.echo(f"{obj['kind'].lower()}/{obj['metadata']['name']} {done}")
    if output is not Format.table:
        show_objects(applied, output, single=len(applied) == 1)


async def _applied(session: Session, obj: Obj, source: str, *, dry_run: bool) -> Obj:
    from corral.cli.errors import USAGE, Trouble, trouble_of

    own = obj["metadata"].get("namespace")
    if own and session.target.namespace and own != session.target.namespace:
        raise Trouble(
            f"{source} is of namespace {own}, and -n {session.target.namespace} was given",
            code=USAGE,
            hint="leave one of them away",
        )
    where = own or session.namespace
    try:
        return await session.jobs.apply(
            obj, field_manager=MANAGER, namespace=where, dry_run=dry_run
        )
    except Exception as err:
        told = trouble_of(err)
        if told is None:
            raise
        raise Trouble(f"{source}: {told.message}", code=told.code, hint=told.hint) from err


Words = Annotated[
    list[str],
    typer.Argument(
        metavar="JOB...",
        help="KIND/NAME..., KIND NAME..., or one NAME.",
        autocompletion=complete_kinds,
    ),
]


async def delete(
    session: Session,
    what: Words,
    wait: Annotated[bool, typer.Option(help="Wait until it is gone.")] = True,
    ignore_not_found: Annotated[
        bool, typer.Option("--ignore-not-found", help="What is not there is no error.")
    ] = False,
    within: Timeout = "2m",
    output: Output = Format.table,
) -> None:
    """Delete jobs with their pods."""
    from corral.cli.errors import NOT_FOUND, Trouble

    for words in _each(what):
        try:
            found = await find(session, words)
        except Trouble as trouble:
            if ignore_not_found and trouble.code == NOT_FOUND:
                continue
            raise
        uid = found.obj["metadata"]["uid"]
        await session.jobs.delete(found.kind, session.namespace, found.name, uid=uid)
        if wait:
            await session.jobs.wait(
                found.kind, session.namespace, found.name, "Deleted", timeout=span(within)
            )
        _done(found, found.obj, "deleted", output)


def _each(words: list[str]) -> list[list[str]]:
    """``kind name name`` are two jobs, ``kind/name kind/name`` as well."""
    if len(words) < 2 or any("/" in word for word in words):
        return [[word] for word in words]
    return [[words[0], name] for name in words[1:]]


async def suspend(session: Session, job: Job, output: Output = Format.table) -> None:
    """Take the pods of a job away; its progress is kept."""
    found = await find(session, job)
    now = await session.jobs.suspend(found.kind, session.namespace, found.name)
    _done(found, now, "suspended", output)


async def resume(session: Session, job: Job, output: Output = Format.table) -> None:
    """Let a suspended job go on."""
    found = await find(session, job)
    now = await session.jobs.resume(found.kind, session.namespace, found.name)
    _done(found, now, "resumed", output)


async def restart(
    session: Session,
    job: Job,
    force: Annotated[bool, typer.Option("--force", help="Also if it is not over.")] = False,
    output: Output = Format.table,
) -> None:
    """Run a job again that is over."""
    found = await find(session, job)
    now = await session.jobs.restart(found.kind, session.namespace, found.name, force=force)
    _done(found, now, "restarted", output)


async def scale(
    session: Session,
    job: Job,
    replicas: Annotated[int, typer.Option(min=0, help="How many replicas or workers.")],
    output: Output = Format.table,
) -> None:
    """Change the number of replicas (of workers, for an MPIJob)."""
    found = await find(session, job)
    now = await session.jobs.scale(found.kind, session.namespace, found.name, replicas=replicas)
    _done(found, now, f"scaled to {replicas}", output)


def _done(found: Found, obj: Obj, word: str, output: Format) -> None:
    if output is Format.table:
        typer.echo(f"{found.title} {word}")
    else:
        show_object(found.kind.resource.stamp(obj), output)
