"""The commands about jobs, in the order in which help lists them."""

from __future__ import annotations

import typer

from corral.cli.commands import read, run, top, wait, write
from corral.cli.completion import SHELLS, script
from corral.cli.errors import USAGE, Trouble
from corral.cli.session import connected

__all__ = ["completion", "register"]

_PASS_ON = {"ignore_unknown_options": True, "allow_interspersed_args": False}
"""Words after the first that is no option of ours are the user's own command."""


def register(app: typer.Typer) -> None:
    """Give the commands to a command line."""
    app.command(context_settings=_PASS_ON)(connected(run.run))
    for command in (
        write.apply,
        read.get,
        read.describe,
        wait.logs,
        wait.wait,
        read.explain,
        read.events,
        write.suspend,
        write.resume,
        write.restart,
        write.scale,
        write.delete,
        top.top,
        top.cost,
    ):
        app.command()(connected(command))
    app.command()(completion)


def completion(
    shell: str = typer.Argument(help=f"Shell: {', '.join(SHELLS)}."),
    program: str = typer.Option("corral", help="Program to complete: corral or odh."),
) -> None:
    """Print the shell completion script, to be sourced by the shell."""
    if shell not in SHELLS:
        raise Trouble(
            f"there is no completion for {shell!r}", code=USAGE, hint=f"use {', '.join(SHELLS)}"
        )
    typer.echo(script(program, shell))
