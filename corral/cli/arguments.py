"""Arguments and options that several commands share, and the words in them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from corral.cli.completion import complete_jobs
from corral.cli.errors import USAGE, Trouble

__all__ = [
    "Container",
    "Follow",
    "Job",
    "Selector",
    "SinceTime",
    "Tail",
    "Timeout",
    "Timestamps",
    "parse_time",
    "span",
]

Job = Annotated[
    list[str],
    typer.Argument(
        metavar="JOB", help="Job, as NAME, KIND/NAME or KIND NAME.", autocompletion=complete_jobs
    ),
]
Selector = Annotated[
    str, typer.Option("--selector", "-l", help="Label selector, such as team=vision,tier!=test.")
]
Timeout = Annotated[
    str, typer.Option("--timeout", help="Maximum time to wait, such as 90s, 30m or 2h.")
]
Follow = Annotated[
    bool, typer.Option("--follow", "-f", help="Stream new lines until the job finishes.")
]
Container = Annotated[str | None, typer.Option("--container", "-c", help="Container name.")]
Tail = Annotated[
    int | None, typer.Option(min=0, help="Number of most recent lines per pod (default: all).")
]
SinceTime = Annotated[
    str, typer.Option(help="Only lines since this time, such as 2026-01-31T12:00:00Z.")
]
Timestamps = Annotated[
    bool, typer.Option("--timestamps", help="Prefix each line with its timestamp.")
]

_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def span(text: str) -> float:
    """Seconds of ``90``, ``90s``, ``1h30m``, ``2d``.

    Raises:
        Trouble: it is none of them.
    """
    parts = re.findall(r"(\d+(?:\.\d+)?)([smhd]?)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise Trouble(f"{text!r} is not a duration", code=USAGE, hint="write 90s, 30m, 1h30m or 2d")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def parse_time(text: str) -> datetime:
    """A time as the API writes it.

    Raises:
        Trouble: it is none.
    """
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise Trouble(
            f"{text!r} is not a timestamp", code=USAGE, hint="write it as 2026-01-31T12:00:00Z"
        ) from None
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)
