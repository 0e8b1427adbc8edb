"""What the runner is to run, and how it is told.

The plan travels in variables of the runner's process, which only its user may read, and not on the
command line, which everybody may: it holds the module's own variables. It is cut into pieces,
because one variable may not be longer than 128 KiB.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

__all__ = ["Folder", "Plan", "from_environment", "to_environment"]

PREFIX: Final = "CORRAL_WASM_"
PIECE: Final = 96 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A folder of the machine as the module sees it."""

    source: str
    target: str
    read_only: bool = False
    within: str = ""
    """The folder that the way to the source must not leave: what is in it is somebody else's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run of one module."""

    module: str
    """The file, on the machine."""
    within: str = ""
    """The folder that the file must lie in after all links are followed; empty for anywhere."""
    argv: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    folders: Sequence[Folder] = ()
    fuel: int | None = None
    """Units of work, about one an instruction; None for as many as it takes."""
    memory: int | None = None
    """Bytes."""
    seconds: float | None = None
    """Of wall-clock time, compiling included."""
    message: str = ""
    """The file to write to why it ended, where it did not end by itself."""
    inputs: Sequence[int] | None = None
    """Arguments of a function, where the module is a library; None: it must be a program."""
    function: str = ""
    """The function that is meant, where the module has several."""
    cache: str = ""
    """The folder for compiled modules; empty for none."""


def to_environment(plan: Plan) -> dict[str, str]:
    """The plan as variables."""
    text = json.dumps(asdict(plan))  # ASCII: characters are bytes
    pieces = [text[at : at + PIECE] for at in range(0, len(text), PIECE)]
    return {f"{PREFIX}{number}": piece for number, piece in enumerate(pieces)}


def from_environment(environ: Mapping[str, str]) -> Plan:
    """The plan in these variables. Raises ValueError where there is none."""
    pieces: list[str] = []
    while (piece := environ.get(f"{PREFIX}{len(pieces)}")) is not None:
        pieces.append(piece)
    if not pieces:
        raise ValueError(f"there is no plan in the environment ({PREFIX}0)")
    value = json.loads("".join(pieces))
    value["folders"] = [Folder(**folder) for folder in value["folders"]]
    return Plan(**value)
