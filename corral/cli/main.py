"""``corral``: the command line."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import corral
from corral.cli.commands import (
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
from corral.cli.program import start
from corral.cli.views.output import Format, Output, show_documents

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
    """Run and manage distributed training jobs on Kubernetes."""


@app.command()
def demo() -> None:
    """Start a temporary cluster, run sample jobs on it and print the results."""
    import asyncio

    from rich.console import Console

    from corral.cli.demo.command import demo as run

    sys.exit(asyncio.run(run(Console())))


@app.command()
def crds(output: Output = Format.yaml) -> None:
    """Print the CustomResourceDefinitions of Corral, for kubectl apply."""
    from corral.api import all_crds

    show_documents(all_crds(), output)


def main() -> None:
    start(app, "corral")


if __name__ == "__main__":
    main()
