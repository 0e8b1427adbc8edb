"""What commands print: rows as a table for people, or as JSON, YAML or names for scripts.

Everything that a command writes passes through here (log lines: `corral.cli.views.loglines`), and
nothing of what others wrote reaches the terminal as it is: see `corral.kube.printable`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

from corral.kube.printable import printable, printable_lines

__all__ = [
    "Format",
    "Output",
    "complain",
    "fail",
    "say",
    "say_lines",
    "show",
    "show_documents",
    "show_object",
    "show_objects",
    "titled",
]


class Format(StrEnum):
    """How to print."""

    table = "table"
    json = "json"
    yaml = "yaml"
    name = "name"


Output = Annotated[Format, typer.Option("--output", "-o", help="Output format.")]


def show(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], form: Format) -> None:
    """Print rows; ``columns`` are those of a table, the first one is the name."""
    if form is Format.name:
        for row in rows:
            say(row[columns[0]])
    elif form is Format.json:
        print(json.dumps([dict(row) for row in rows], indent=2))
    elif form is Format.yaml:
        print(_yaml([dict(row) for row in rows]), end="")
    else:
        _table(rows, columns)


def show_documents(objects: Sequence[Mapping[str, Any]], form: Format) -> None:
    """Print objects as one stream that kubectl reads."""
    if form is Format.json:
        print(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}, indent=2))
    elif form is Format.name:
        for found in objects:
            say(found["metadata"]["name"])
    else:
        print("---\n".join(_yaml(found) for found in objects), end="")


def show_object(obj: Mapping[str, Any], form: Format, *, compact: bool = False) -> None:
    """Print one object; ``compact``: JSON on one line, as a stream of them is read."""
    if form is Format.name:
        say(_title(obj))
    elif form is Format.yaml:
        print(("---\n" if compact else "") + _yaml(dict(obj)), end="", flush=compact)
    else:
        print(json.dumps(obj, indent=None if compact else 2), flush=compact)


def show_objects(objects: Sequence[Mapping[str, Any]], form: Format, *, single: bool) -> None:
    """Print objects as kubectl does: one alone, several as a List, or ``kind/name`` lines."""
    if form is Format.name:
        for obj in objects:
            say(_title(obj))
    elif single:
        show_object(objects[0], form)
    else:
        show_object({"apiVersion": "v1", "kind": "List", "items": list(objects)}, form)


def titled(kind: Any, name: str) -> str:
    """``trainingjob/digits``, as commands take it."""
    return f"{kind.singular}/{name}"


def _title(obj: Mapping[str, Any]) -> str:
    return f"{str(obj.get('kind') or '').lower()}/{obj['metadata']['name']}"


def say(text: object, *, err: bool = False, flush: bool = False) -> None:
    """Print one line for people."""
    print(printable(text), file=sys.stderr if err else sys.stdout, flush=err or flush)


def say_lines(lines: Iterable[str], *, err: bool = False, flush: bool = False) -> None:
    """Print lines for people; each stays one."""
    for line in lines:
        say(line, err=err, flush=flush)


def complain(message: object) -> None:
    """Say in one line what is wrong."""
    say(f"corral: {message}", err=True)


def fail(message: object) -> typer.Exit:
    """Say in one line what is wrong; the result, raised, ends the command."""
    complain(message)
    return typer.Exit(1)


def _yaml(value: Any) -> str:
    import yaml

    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
    if printable_lines(text) == text:
        return text
    # YAML may hold characters as they are that turn or hide text: then it is written in ASCII.
    escaped: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=False)
    return escaped


def _table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    cells = [[column.upper() for column in columns]]
    cells += [[_cell(row.get(column)) for column in columns] for row in rows]
    widths = [max(len(line[n]) for line in cells) for n in range(len(columns))]
    for line in cells:
        say(
            "   ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        )


def _cell(value: Any) -> str:
    return "-" if value is None or value == "" else printable(value)
