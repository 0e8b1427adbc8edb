"""Deletes checkpoints on a volume: ``python3 -m corral.inpod.remove FOLDER ID…``.

Manifest first, then data, in an order that may be interrupted anywhere and repeated. One that is
not there is no error; a name that is not that of a checkpoint deletes nothing and fails.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from .volume.names import step_of
from .volume.volume import Volume

if TYPE_CHECKING:
    from collections.abc import Sequence


def remove(folder: str, identifiers: Sequence[str]) -> int:
    """Deletes them; the exit status."""
    strange = [name for name in identifiers if step_of(name) is None]
    if strange:
        sys.stderr.write(f"not names of checkpoints: {', '.join(strange)}\n")
        return 2
    volume = Volume(folder)
    failed = 0
    for identifier in identifiers:
        try:
            volume.delete(identifier)
        except OSError as error:
            sys.stderr.write(f"{identifier} was not deleted: {error}\n")
            failed = 1
    return failed


def main(arguments: Sequence[str] | None = None) -> int:
    """Remove the named checkpoints from a folder; returns the exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if len(given) < 2:
        sys.stderr.write("usage: python3 -m corral.inpod.remove FOLDER ID...\n")
        return 2
    return remove(given[0], given[1:])


if __name__ == "__main__":
    sys.exit(main())
