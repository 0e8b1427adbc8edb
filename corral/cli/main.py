"""``corral``: the command line."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

import corral

app = typer.Typer(
    name="corral",
    help="One Kubernetes-native platform for every way people train models together.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)

DEFAULT_DIR = Path("~/.corral")


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        print(f"corral {corral.__version__}")
        raise typer.Exit


@app.command()
def apiserver(
    data_dir: Annotated[Path, typer.Option(help="Folder of the database and keys.")] = DEFAULT_DIR,
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 6443,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    token_file: Annotated[
        Path | None, typer.Option(help='Static tokens, one a line: token,user,uid,"groups".')
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log more.")] = False,
) -> None:
    """Serve the Kubernetes API from one process and one folder."""
    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    sys.exit(asyncio.run(_serve(data_dir.expanduser(), host, port, token_file)))


async def _serve(data_dir: Path, host: str, port: int, token_file: Path | None) -> int:
    from corral.cluster.apiserver.server import ApiServer, Config
    from corral.cluster.apiserver.store import StoreError

    server = ApiServer(Config(data_dir=data_dir, host=host, port=port, token_file=token_file))
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        await server.start()
    except StoreError as err:
        print(f"corral: {err}", file=sys.stderr)
        return 1
    except OSError as err:
        what = f"use {err.filename}" if err.filename else f"listen on {host}:{port}"
        print(f"corral: cannot {what}: {err.strerror}", file=sys.stderr)
        return 1
    print(
        f"corral apiserver is ready: https://{host}:{server.port} KUBECONFIG={server.kubeconfig}",
        flush=True,
    )
    await stop.wait()
    await server.stop()
    return 0


@app.command()
def demo() -> None:
    """Start a throw-away cluster, do real work on it, print what happened."""
    from rich.console import Console

    from corral.cli.demo import demo as run

    sys.exit(asyncio.run(run(Console())))


def main() -> None:
    app()


if __name__ == "__main__":
    main()
