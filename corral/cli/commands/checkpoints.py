"""``corral checkpoint``: look at checkpoints where they lie, without any cluster."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from corral.cli.views.output import Format, Output, fail, show

app = typer.Typer(
    name="checkpoint", help="List, verify and restore checkpoints.", no_args_is_help=True
)

Url = Annotated[
    str,
    typer.Argument(help="Checkpoint location: a folder, s3://bucket/path, gs://… or az://…."),
]
Name = Annotated[str | None, typer.Argument(help="Checkpoint name (default: all).")]
OrNewest = Annotated[
    str | None, typer.Argument(help="Checkpoint name (default: the newest intact one).")
]
COLUMNS = ("name", "status", "step", "attempt", "time", "files", "bytes", "message")


@app.command("list")
def list_(url: Url, output: Output = Format.table) -> None:
    """List complete checkpoints, newest first, then incomplete or damaged ones."""
    from corral.checkpoints import commands
    from corral.checkpoints.errors import CheckpointError

    try:
        rows = commands.list_checkpoints(commands.open_repository(url))
    except CheckpointError as err:
        raise fail(err) from err
    show([asdict(row) for row in rows], COLUMNS, output)


@app.command()
def verify(url: Url, name: Name = None, output: Output = Format.table) -> None:
    """Verify the digests of all checkpoint data; exit code 1 if any is damaged."""
    from corral.checkpoints import commands
    from corral.checkpoints.errors import CheckpointError

    try:
        rows = commands.verify_checkpoints(commands.open_repository(url), name)
    except CheckpointError as err:
        raise fail(err) from err
    show([asdict(row) for row in rows], COLUMNS, output)
    if any(row.status != "Verified" for row in rows):
        raise typer.Exit(1)


@app.command()
def restore(
    url: Url,
    target: Annotated[Path, typer.Argument(help="Folder to write to; must be empty or not exist.")],
    name: OrNewest = None,
    output: Output = Format.table,
) -> None:
    """Restore the files of a checkpoint into a folder."""
    from corral.checkpoints import commands
    from corral.checkpoints.errors import CheckpointError

    try:
        done = commands.restore_checkpoint(commands.open_repository(url), target, name)
    except CheckpointError as err:
        raise fail(err) from err
    show([done], ("name", "step", "files", "bytes", "folder"), output)
