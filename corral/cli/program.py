"""How a command line begins and ends: one line for whatever goes wrong, and the exit code."""

from __future__ import annotations

import sys
import traceback
from typing import Any, NoReturn

import typer

from corral.cli.errors import INTERRUPTED, USAGE, Trouble
from corral.cli.views.output import complain
from corral.kube.printable import printable_lines

__all__ = ["start"]

_UsageError: Any = typer.BadParameter.__mro__[1]
"""The base of all errors about words that were not understood."""


def start(app: typer.Typer, name: str) -> NoReturn:
    """Run a command line to its end, and end the process."""
    try:
        code = app(prog_name=name, standalone_mode=False)
    except _UsageError as err:
        if type(err).__name__ == "NoArgsIsHelpError":
            print(printable_lines(err.format_message()))
            sys.exit(USAGE)
        complain(Trouble(_text(err), hint=_hint(err, name)))
        sys.exit(USAGE)
    except Trouble as trouble:
        complain(trouble)
        sys.exit(trouble.code)
    except typer.Exit as end:
        sys.exit(end.exit_code)
    except typer.Abort:
        sys.exit(INTERRUPTED)
    except Exception:
        # a defect of ours: its words, which the interpreter would print as they are, quote others
        print(printable_lines(traceback.format_exc()), end="", file=sys.stderr)
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)


def _text(err: Any) -> str:
    return str(err.format_message()).rstrip(".")


def _hint(err: Any, name: str) -> str:
    context = getattr(err, "ctx", None)
    path = context.command_path if context is not None else name
    return f"run `{path} --help` for usage"
