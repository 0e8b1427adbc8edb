"""``odh training create|delete|list|describe|logs mpijob …``: the same code under other names."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from corral.cli import read, wait, write
from corral.cli.arguments import Selector, Timeout
from corral.cli.completion import complete_jobs, complete_kinds
from corral.cli.errors import INVALID, USAGE, Trouble
from corral.cli.jobspec import MPI_NAMES, RunOptions, build, check_name, parse_env
from corral.cli.output import Format, Output, show_object
from corral.cli.program import start
from corral.cli.session import Session, connected
from corral.kube.types import Obj

if TYPE_CHECKING:
    from corral.jobs.kinds import JobKind

app = typer.Typer(
    name="odh", help="Distributed training.", no_args_is_help=True, rich_markup_mode=None
)
training = typer.Typer(help="Training jobs.", no_args_is_help=True)
app.add_typer(training, name="training")

Kind = Annotated[str, typer.Argument(metavar="KIND", help="mpijob.", autocompletion=complete_kinds)]
Name = Annotated[str, typer.Argument(metavar="NAME", autocompletion=complete_jobs)]


@app.callback()
def root() -> None:
    """Distributed training."""


async def create(
    session: Session,
    kind: Kind,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the new job.")],
    file: Annotated[
        str, typer.Option("--filename", "-f", help="Manifest, or - for standard input.")
    ] = "",
    image: Annotated[str, typer.Option(help="Container image of launcher and workers.")] = "",
    workers: Annotated[int, typer.Option(min=0, help="How many workers.")] = 0,
    slots: Annotated[int, typer.Option(min=1, help="Processes of each worker.")] = 1,
    mpi: Annotated[str, typer.Option(help="OpenMPI, MPICH or Intel.")] = "OpenMPI",
    gpus: Annotated[int, typer.Option(min=0, help="GPUs of each worker.")] = 0,
    cpu: Annotated[str, typer.Option(help="CPUs of each worker.")] = "",
    memory: Annotated[str, typer.Option(help="Memory of each worker.")] = "",
    env: Annotated[list[str] | None, typer.Option(help="NAME=value.")] = None,
    command: Annotated[str, typer.Option(help="What the launcher runs, in one word.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Have it checked only.")] = False,
    output: Output = Format.table,
) -> None:
    """Create a job from a manifest, or from an image and a command."""
    from corral.jobs.kinds import kind_of

    chosen = kind_of(kind)
    if file:
        if image or workers or command:
            raise Trouble(
                "-f and --image, --workers, --command", code=USAGE, hint="give one or the other"
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
        typer.echo(f"{chosen.singular}/{name} {'checked' if dry_run else 'created'}")
    else:
        show_object(chosen.resource.stamp(made), output)


def _from_file(kind: JobKind, name: str, file: str) -> Obj:
    from corral.cli.manifests import read_manifests

    documents = read_manifests([file], recursive=False, stdin=sys.stdin)
    fitting = [one.obj for one in documents if one.obj["kind"] == kind.kind]
    if len(documents) != 1 or not fitting:
        raise Trouble(
            f"{file} does not hold one {kind.kind}",
            code=INVALID,
            hint="`corral apply -f` takes any objects",
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
            f"there is no MPI {text!r}", code=USAGE, hint="use OpenMPI, MPICH or Intel"
        ) from None


async def delete(
    session: Session,
    kind: Kind,
    name: Name,
    wait: Annotated[bool, typer.Option(help="Wait until it is gone.")] = True,
    within: Timeout = "2m",
    output: Output = Format.table,
) -> None:
    """Delete a job with its pods."""
    await write.delete(session, [kind, name], wait=wait, within=within, output=output)


async def list_(
    session: Session,
    kind: Kind,
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Of all namespaces.")
    ] = False,
    labels: Selector = "",
    phase: Annotated[list[str] | None, typer.Option(help="In this phase only.")] = None,
    sort: Annotated[str, typer.Option(help="By name, created, phase, …")] = "name",
    output: Output = Format.table,
) -> None:
    """List jobs."""
    await read.get(
        session, [kind], all_namespaces, labels=labels, phase=phase, sort=sort, output=output
    )


async def describe(session: Session, kind: Kind, name: Name, output: Output = Format.table) -> None:
    """Everything about a job: phase, duration, workers, conditions, events."""
    await read.describe(session, [kind, name], output=output)


async def logs(
    session: Session,
    kind: Kind,
    name: Name,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until it is over.")] = False,
    launcher: Annotated[bool, typer.Option("--launcher", help="Of the launcher only.")] = False,
    worker: Annotated[int | None, typer.Option(min=0, help="Of this worker only.")] = None,
    container: Annotated[str | None, typer.Option("--container", "-c")] = None,
    tail: Annotated[int | None, typer.Option(min=0, help="The last lines of each.")] = None,
    since_time: Annotated[str, typer.Option(help="From this time on.")] = "",
    timestamps: Annotated[bool, typer.Option("--timestamps")] = False,
    output: Output = Format.table,
) -> None:
    """Print what a job writes."""
    if launcher and worker is not None:
        raise Trouble("--launcher and --worker", code=USAGE, hint="give one of them")
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
