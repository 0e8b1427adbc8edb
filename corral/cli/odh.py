"""``odh training create|delete|list|describe|logs mpijob …``: the same code under other names."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from corral.cli.arguments import (
    Container,
    Follow,
    Selector,
    SinceTime,
    Tail,
    Timeout,
    Timestamps,
)
from corral.cli.commands import read, wait, write
from corral.cli.completion import complete_jobs, complete_kinds
from corral.cli.errors import INVALID, USAGE, Trouble
from corral.cli.jobspec import MPI_NAMES, RunOptions, build, check_name, parse_env
from corral.cli.program import start
from corral.cli.session import Session, connected
from corral.cli.views.output import Format, Output, say, show_object
from corral.kube.types import Obj

if TYPE_CHECKING:
    from corral.client.kinds import JobKind

app = typer.Typer(
    name="odh",
    help="Manage distributed training jobs.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
training = typer.Typer(help="Create, list, inspect and delete training jobs.", no_args_is_help=True)
app.add_typer(training, name="training")

Kind = Annotated[
    str, typer.Argument(metavar="KIND", help="Kind of job: mpijob.", autocompletion=complete_kinds)
]
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Job name.", autocompletion=complete_jobs)
]


@app.callback()
def root() -> None:
    """Manage distributed training jobs."""


async def create(
    session: Session,
    kind: Kind,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the new job.")],
    file: Annotated[
        str, typer.Option("--filename", "-f", help="Manifest file, or - for standard input.")
    ] = "",
    image: Annotated[
        str, typer.Option(help="Container image of the launcher and the workers.")
    ] = "",
    workers: Annotated[int, typer.Option(min=0, help="Number of workers.")] = 0,
    slots: Annotated[int, typer.Option(min=1, help="MPI processes per worker.")] = 1,
    mpi: Annotated[
        str, typer.Option(help="MPI implementation: OpenMPI, MPICH or Intel.")
    ] = "OpenMPI",
    gpus: Annotated[int, typer.Option(min=0, help="GPUs per worker.")] = 0,
    cpu: Annotated[str, typer.Option(help="CPUs per worker, such as 2 or 500m.")] = "",
    memory: Annotated[str, typer.Option(help="Memory per worker, such as 4Gi.")] = "",
    env: Annotated[
        list[str] | None, typer.Option(help="Environment variable, NAME=value; repeatable.")
    ] = None,
    command: Annotated[
        str, typer.Option(help="Command that the launcher runs, quoted as one argument.")
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Validate on the server without saving.")
    ] = False,
    output: Output = Format.table,
) -> None:
    """Create a job from a manifest, or from an image and a command."""
    from corral.client.kinds import kind_of

    chosen = kind_of(kind)
    if file:
        if image or workers or command:
            raise Trouble(
                "-f cannot be combined with --image, --workers, --command",
                code=USAGE,
                hint="give one or the other",
            )
        obj = _from_file(chosen, name, file)
    else:
        given = {"--image": image, "--workers": workers, "--command": command}
        missing = [option for option, value in given.items() if not value]
        if missing:
            raise Trouble(
                f"{', '.join(missing)} is missing"
                if len(missing) == 1
                else f"{', '.join(missing)} are missing",
                code=USAGE,
                hint="give -f FILE, or --image, --workers and --command",
            )
        options = RunOptions(
            name=check_name(name),
            namespace=session.namespace,
            command=_words(command),
            image=image,
            replicas=workers,
            slots=slots,
            mpi=_implementation(mpi),
            gpus=gpus,
            cpu=cpu,
            memory=memory,
            env=parse_env(env or [], {}),
        )
        obj = build(chosen.singular, options)
    where = obj["metadata"].get("namespace") or session.namespace
    made = await session.jobs.create(chosen, where, obj, dry_run=dry_run)
    if output is Format.table:
        say(f"{chosen.singular}/{name} {'checked' if dry_run else 'created'}")
    else:
        show_object(chosen.resource.stamp(made), output)


def _from_file(kind: JobKind, name: str, file: str) -> Obj:
    from corral.cli.manifests import read_manifests

    documents = read_manifests([file], recursive=False, stdin=sys.stdin)
    fitting = [one.obj for one in documents if one.obj["kind"] == kind.kind]
    if len(documents) != 1 or not fitting:
        raise Trouble(
            f"{file} does not contain exactly one {kind.kind}",
            code=INVALID,
            hint="use `corral apply -f` for other objects",
        )
    obj = fitting[0]
    obj["metadata"] = {**obj["metadata"], "name": name}
    return obj


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as err:
        raise Trouble(f"--command: {err}", code=USAGE, hint="close the quotes") from err


def _implementation(text: str) -> str:
    try:
        return MPI_NAMES[text.lower()]
    except KeyError:
        raise Trouble(
            f"unknown MPI implementation {text!r}", code=USAGE, hint="use OpenMPI, MPICH or Intel"
        ) from None


async def delete(
    session: Session,
    kind: Kind,
    name: Name,
    wait: Annotated[bool, typer.Option(help="Wait until the job is deleted.")] = True,
    within: Timeout = "2m",
    output: Output = Format.table,
) -> None:
    """Delete a job and its pods."""
    await write.delete(session, [kind, name], wait=wait, within=within, output=output)


async def list_(
    session: Session,
    kind: Kind,
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="List jobs in all namespaces.")
    ] = False,
    labels: Selector = "",
    phase: Annotated[
        list[str] | None, typer.Option(help="Only jobs in this phase; repeatable.")
    ] = None,
    sort: Annotated[
        str,
        typer.Option(
            help="Sort by name, created, started, finished or phase; -created: newest first."
        ),
    ] = "name",
    output: Output = Format.table,
) -> None:
    """List jobs."""
    await read.get(
        session, [kind], all_namespaces, labels=labels, phase=phase, sort=sort, output=output
    )


async def describe(session: Session, kind: Kind, name: Name, output: Output = Format.table) -> None:
    """Show the details of a job: phase, duration, workers, conditions, events."""
    await read.describe(session, [kind, name], output=output)


async def logs(
    session: Session,
    kind: Kind,
    name: Name,
    follow: Follow = False,
    launcher: Annotated[
        bool, typer.Option("--launcher", help="Only logs of the launcher.")
    ] = False,
    worker: Annotated[
        int | None, typer.Option(min=0, help="Only logs of the worker with this index.")
    ] = None,
    container: Container = None,
    tail: Tail = None,
    since_time: SinceTime = "",
    timestamps: Timestamps = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Do not escape control characters on a terminal.")
    ] = False,
    output: Output = Format.table,
) -> None:
    """Print the logs of a job: launcher and workers."""
    if launcher and worker is not None:
        raise Trouble(
            "--launcher and --worker cannot be combined", code=USAGE, hint="give one of them"
        )
    role = "launcher" if launcher else "" if worker is None else f"worker/{worker}"
    await wait.logs(
        session,
        [kind, name],
        follow,
        role=role,
        container=container,
        tail=tail,
        since_time=since_time,
        timestamps=timestamps,
        raw=raw,
        output=output,
    )


for name_, command_ in (
    ("create", create),
    ("delete", delete),
    ("list", list_),
    ("describe", describe),
    ("logs", logs),
):
    training.command(name_)(connected(command_))


def main() -> None:
    start(app, "odh")


if __name__ == "__main__":
    main()
