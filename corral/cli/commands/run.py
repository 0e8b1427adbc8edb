"""``corral run -- python train.py``: the folder one is in, as a job, followed to its end."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from corral.cli.errors import INTERRUPTED, USAGE, Trouble
from corral.cli.jobspec import (
    MPI_NAMES,
    RUNNABLE,
    RunOptions,
    build,
    check_name,
    name_for,
    parse_env,
)
from corral.cli.references import Found
from corral.cli.session import Session
from corral.cli.views.output import Format, Output, say, say_lines, show_object
from corral.kube.types import Obj

if TYPE_CHECKING:
    from corral.sdk.programs.shipping import Shipped

__all__ = ["follow_to_end", "run", "submit"]

Command = Annotated[
    list[str] | None,
    typer.Argument(metavar="-- COMMAND [ARGS]...", help="Command to run in every replica."),
]


async def run(
    session: Session,
    command: Command = None,
    kind: Annotated[
        str, typer.Option(help=f"Kind of job: {' or '.join(RUNNABLE)}.")
    ] = "trainingjob",
    replicas: Annotated[
        int,
        typer.Option("--replicas", "-r", min=1, help="Number of replicas (workers for an MPIJob)."),
    ] = 1,
    name: Annotated[str, typer.Option(help="Job name (default: derived from the command).")] = "",
    image: Annotated[
        str, typer.Option(help="Container image (default: python, in the version of this Python).")
    ] = "",
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env",
            "-e",
            help="Environment variable, NAME=value, or NAME to copy it from here; repeatable.",
        ),
    ] = None,
    gpus: Annotated[int, typer.Option(min=0, help="GPUs per replica.")] = 0,
    cpu: Annotated[str, typer.Option(help="CPUs per replica, such as 2 or 500m.")] = "",
    memory: Annotated[str, typer.Option(help="Memory per replica, such as 4Gi.")] = "",
    framework: Annotated[
        str, typer.Option(help="Framework: pytorch, tensorflow, jax, xgboost or custom.")
    ] = "custom",
    slots: Annotated[int, typer.Option(min=1, help="MPI processes per worker (MPIJob only).")] = 1,
    mpi: Annotated[
        str, typer.Option(help="MPI implementation: OpenMPI, MPICH or Intel (MPIJob only).")
    ] = "",
    queue: Annotated[str, typer.Option(help="Scheduling queue.")] = "",
    restarts: Annotated[
        int, typer.Option(min=0, help="Maximum number of restarts after failures.")
    ] = 0,
    label: Annotated[
        list[str] | None, typer.Option(help="Label for the job, NAME=value; repeatable.")
    ] = None,
    folder: Annotated[Path, typer.Option("--dir", help="Folder with the code to run.")] = Path(),
    code: Annotated[
        bool, typer.Option("--code/--no-code", help="Make the code folder available in the pods.")
    ] = True,
    writable: Annotated[
        bool,
        typer.Option("--writable", help="Mount the code folder read-write instead of read-only."),
    ] = False,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Return as soon as the job is created.")
    ] = False,
    follow: Annotated[bool, typer.Option(help="Print the logs of the job.")] = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Validate and print the job without creating it.")
    ] = False,
    output: Output = Format.table,
) -> None:
    """Run a command from the current folder as a job and follow it until it finishes."""
    if not command:
        raise Trouble(
            "there is no command to run",
            code=USAGE,
            hint="write it after --, as in `corral run -- python train.py`",
        )
    chosen = check_name(name) if name else name_for(command, secrets.token_hex(2))
    options = RunOptions(
        name=chosen,
        namespace=session.namespace,
        command=command,
        image=image,
        replicas=replicas,
        framework=framework,
        env=parse_env(env or [], os.environ),
        cpu=cpu,
        memory=memory,
        gpus=gpus,
        slots=slots,
        mpi=_implementation(mpi),
        queue=queue,
        restarts=restarts,
        labels=parse_env(label or [], {}),
    )
    source = _folder(folder, command) if code else None
    found = await submit(session, kind, options, Code(source, writable), dry_run=dry_run)
    if dry_run or output is not Format.table:
        form = Format.yaml if dry_run and output is Format.table else output
        show_object(found.kind.resource.stamp(found.obj), form)
    elif detach:
        say(f"{found.title} created; follow it with `corral logs -f {found.title}`")
    if not detach and not dry_run:
        await follow_to_end(session, found, logs=follow, quiet=output is not Format.table)


@dataclass(frozen=True, slots=True)
class Code:
    """The folder that goes to the pods."""

    folder: Path | None
    writable: bool = False


def _implementation(text: str) -> str:
    if not text:
        return ""
    try:
        return MPI_NAMES[text.lower()]
    except KeyError:
        known = "OpenMPI, MPICH or Intel"
        raise Trouble(
            f"unknown MPI implementation {text!r}", code=USAGE, hint=f"use {known}"
        ) from None


def _folder(folder: Path, command: list[str]) -> Path:
    """The folder, where the script that the command names is in it."""
    whole = folder.expanduser().resolve()
    if not whole.is_dir():
        raise Trouble(f"there is no folder {folder}", code=USAGE, hint="choose one with --dir")
    for word in command[:3]:
        plain = word.endswith((".py", ".sh")) and not word.startswith(("-", "/"))
        if plain and not (whole / word).exists():
            raise Trouble(
                f"there is no {word} in {whole}",
                code=USAGE,
                hint="change to the folder with the code, or name it with --dir; "
                "use --no-code if the image contains it",
            )
    return whole


# -- from options to a job -------------------------------------------------------------------------


async def submit(
    session: Session, kind_name: str, options: RunOptions, code: Code, *, dry_run: bool = False
) -> Found:
    """Create the job, and everything that its pods need to find the code."""
    from corral.client.kinds import kind_of
    from corral.sdk.programs.shipping import create_shipped

    kind = kind_of(kind_name)
    obj = build(kind.singular, options)
    if code.folder is None:
        made = await session.jobs.create(kind, session.namespace, obj, dry_run=dry_run)
        return Found(kind, options.name, made)
    await _not_there_yet(session, Found(kind, options.name, obj))
    made = await create_shipped(
        session.jobs,
        kind,
        session.namespace,
        options.name,
        source=code.folder,
        build=lambda shipped: with_code(obj, shipped, writable=code.writable),
        dry_run=dry_run,
    )
    return Found(kind, options.name, made)


async def _not_there_yet(session: Session, wanted: Found) -> None:
    """Code of a job that is there must not be touched."""
    from corral.client import errors

    try:
        await session.jobs.get(wanted.kind, session.namespace, wanted.name)
    except errors.NotInstalled:
        raise
    except errors.NotFound:
        return
    raise errors.AlreadyExists(
        f"{wanted.title} already exists in namespace {session.namespace}",
        hint=f"choose another --name, or run `corral delete {wanted.title}` first",
    )


def with_code(obj: Obj, shipped: Shipped, *, writable: bool) -> Obj:
    """The job whose pods find the code in their working directory."""
    if shipped.way == "mount" and not writable:
        mounts = tuple({**mount, "readOnly": True} for mount in shipped.mounts)
        shipped = replace(shipped, mounts=mounts)
    spec = obj["spec"]
    if "mpiReplicaSpecs" in spec:
        for replica in spec["mpiReplicaSpecs"].values():
            replica["template"] = _equipped(replica["template"], shipped)
    else:
        spec["template"] = _equipped(spec["template"], shipped)
    return obj


def _equipped(template: Obj, shipped: Shipped) -> Obj:
    out = shipped.into(template)
    first = out["spec"]["containers"][0]
    if first.get("command"):
        first["command"] = shipped.command(first["command"])
    elif shipped.way != "mount":
        # The image decides what runs: the code must be there before it.
        before = {key: first[key] for key in ("image", "env", "volumeMounts", "workingDir")}
        unpack = {"name": "corral-code", **before, "command": shipped.command(["true"])}
        out["spec"].setdefault("initContainers", []).append(unpack)
    return out


# -- to its end ------------------------------------------------------------------------------------


async def follow_to_end(
    session: Session, found: Found, *, logs: bool = True, quiet: bool = False
) -> None:
    """Show a job until it is over.

    Raises:
        Trouble: it did not succeed.
    """
    from rich.console import Console

    from corral.cli.commands.wait import failed
    from corral.cli.views.follow import Ending, Follower

    console = Console(highlight=False, stderr=quiet)
    follower = Follower(session, found, console=console, logs=logs and not quiet)
    ending = await follower.run()
    if ending is Ending.detached:
        say(f"{found.title} continues; follow it with `corral logs -f {found.title}`", err=True)
        if not console.is_terminal:
            raise typer.Exit(INTERRUPTED)  # nobody was asked
    elif ending is Ending.stopped:
        word = "suspended" if found.kind.suspendable else "deleted"
        more = f"; `corral resume {found.title}` continues it" if found.kind.suspendable else ""
        say(f"{found.title} {word}{more}", err=True)
    elif ending is Ending.deleted:
        raise Trouble(f"{found.title} was deleted", hint="`corral events` may show by whom")
    elif not found.kind.succeeded(follower.last):
        await _explain(session, found)
        raise failed(found, follower.last)


async def _explain(session: Session, found: Found) -> None:
    from corral.cli.commands.read import explanation_lines
    from corral.client import errors

    try:
        explanation = await session.jobs.explain(found.kind, session.namespace, found.name)
    except errors.JobError:
        return  # that it failed is told anyway
    say_lines(
        explanation_lines(explanation.headline, explanation.reasons, explanation.hints), err=True
    )
