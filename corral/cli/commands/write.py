"""``corral apply``, ``delete``, ``suspend``, ``resume``, ``restart`` and ``scale``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from corral.cli.arguments import Job, Timeout, span
from corral.cli.completion import complete_kinds
from corral.cli.references import Found, find
from corral.cli.session import Session
from corral.cli.views.output import Format, Output, say, show_object, show_objects
from corral.kube.types import Obj

__all__ = ["apply", "delete", "restart", "resume", "scale", "suspend"]

MANAGER = "corral-cli"


async def apply(
    session: Session,
    files: Annotated[
        list[str],
        typer.Option(
            "--filename", "-f", help="Manifest file or folder, or - for standard input; repeatable."
        ),
    ],
    recursive: Annotated[
        bool, typer.Option("--recursive", "-R", help="Read folders recursively.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Validate on the server without saving.")
    ] = False,
    output: Output = Format.table,
) -> None:
    """Create or update objects from manifests (server-side apply)."""
    from corral.cli.manifests import read_manifests

    documents = read_manifests(files, recursive=recursive, stdin=sys.stdin)
    applied: list[Obj] = []
    for document in documents:
        applied.append(await _applied(session, document.obj, document.source, dry_run=dry_run))
        if output is Format.table:
            obj = applied[-1]
            done = "checked" if dry_run else "applied"
            say(f"{obj['kind'].lower()}/{obj['metadata']['name']} {done}")
    if output is not Format.table:
        show_objects(applied, output, single=len(applied) == 1)


async def _applied(session: Session, obj: Obj, source: str, *, dry_run: bool) -> Obj:
    from corral.cli.errors import USAGE, Trouble, trouble_of

    own = obj["metadata"].get("namespace")
    if own and session.target.namespace and own != session.target.namespace:
        raise Trouble(
            f"{source} is in namespace {own}, but -n {session.target.namespace} was given",
            code=USAGE,
            hint="remove one of them",
        )
    where = own or session.namespace
    try:
        return await session.jobs.apply(
            obj, field_manager=MANAGER, namespace=where, dry_run=dry_run
        )
    except Exception as err:
        trouble = trouble_of(err)
        if trouble is None:
            raise
        raise Trouble(f"{source}: {trouble.message}", code=trouble.code, hint=trouble.hint) from err


Words = Annotated[
    list[str],
    typer.Argument(
        metavar="JOB...",
        help="Jobs, as KIND/NAME..., KIND NAME... or a single NAME.",
        autocompletion=complete_kinds,
    ),
]


async def delete(
    session: Session,
    what: Words,
    wait: Annotated[bool, typer.Option(help="Wait until the objects are deleted.")] = True,
    ignore_not_found: Annotated[
        bool, typer.Option("--ignore-not-found", help="Exit with code 0 if a job does not exist.")
    ] = False,
    within: Timeout = "2m",
    output: Output = Format.table,
) -> None:
    """Delete jobs and their pods."""
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
    """Suspend a job: delete its pods and keep the job."""
    found = await find(session, job)
    now = await session.jobs.suspend(found.kind, session.namespace, found.name)
    _done(found, now, "suspended", output)


async def resume(session: Session, job: Job, output: Output = Format.table) -> None:
    """Resume a suspended job."""
    found = await find(session, job)
    now = await session.jobs.resume(found.kind, session.namespace, found.name)
    _done(found, now, "resumed", output)


async def restart(
    session: Session,
    job: Job,
    force: Annotated[
        bool, typer.Option("--force", help="Restart the job even if it has not finished.")
    ] = False,
    output: Output = Format.table,
) -> None:
    """Restart a finished job."""
    found = await find(session, job)
    now = await session.jobs.restart(found.kind, session.namespace, found.name, force=force)
    _done(found, now, "restarted", output)


async def scale(
    session: Session,
    job: Job,
    replicas: Annotated[
        int, typer.Option(min=0, help="Number of replicas (workers for an MPIJob).")
    ],
    output: Output = Format.table,
) -> None:
    """Change the number of replicas of a job (workers for an MPIJob)."""
    found = await find(session, job)
    now = await session.jobs.scale(found.kind, session.namespace, found.name, replicas=replicas)
    _done(found, now, f"scaled to {replicas}", output)


def _done(found: Found, obj: Obj, word: str, output: Format) -> None:
    if output is Format.table:
        say(f"{found.title} {word}")
    else:
        show_object(found.kind.resource.stamp(obj), output)
