"""``corral``: the command line."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import corral
from corral.cli import (
    broker,
    checkpoints,
    cluster,
    federated,
    gateway,
    jobs,
    notices,
    operator,
    registry,
    spot,
)
from corral.cli.output import Format, Output, show_documents
from corral.cli.program import start

app = typer.Typer(
    name="corral",
    help="One Kubernetes-native platform for every way people train models together.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

jobs.register(app)

for command in (
    cluster.up,
    cluster.down,
    cluster.apiserver,
    cluster.workloads,
    cluster.scheduler,
    cluster.node,
    operator.operator,
    operator.install,
    operator.uninstall,
    notices.notices,
    gateway.gateway,
    broker.broker,
    registry.registry,
):
    app.command()(command)

app.add_typer(checkpoints.app)
app.add_typer(spot.app)
app.add_typer(federated.app)


def _version(asked: bool) -> None:
    if asked:
        print(f"corral {corral.__version__}")
        raise typer.Exit


Version = Annotated[
    bool,
    # eager: before it is missed that there is no command
    typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit."),
]


@app.callback()
def root(version: Version = False) -> None:
    """Options of every command."""


@app.command()
def demo() -> None:
    """Start a throw-away cluster, do real work on it, print what happened."""
    import asyncio

    from rich.console import Console

    from corral.cli.demo import demo as run

    sys.exit(asyncio.run(run(Console())))


@app.command()
def crds(output: Output = Format.yaml) -> None:
    """Print the definitions of our kinds, for kubectl apply."""
    from corral.api import all_crds

    show_documents(all_crds(), output)


def main() -> None:
    start(app, "corral")


if __name__ == "__main__":
    main()
