"""Options about what users' objects may have the operator do."""

from __future__ import annotations

from pathlib import Path

import typer

__all__ = ["allowed_endpoints", "local_folders"]


def local_folders(pairs: list[str] | None) -> tuple[tuple[str, Path], ...]:
    """Namespaces and folders, as written. Raises BadParameter."""
    found = []
    for pair in pairs or ():
        name, equals, folder = pair.partition("=")
        if not (name and equals and folder.startswith("/")):
            raise typer.BadParameter(f"--local-folder {pair!r}: write NAMESPACE=/absolute/folder")
        found.append((name, Path(folder)))
    return tuple(found)


def allowed_endpoints(texts: list[str] | None) -> tuple[str, ...]:
    """What may be called, as written and checked. Raises BadParameter."""
    from corral.egress import EgressPolicy

    try:
        EgressPolicy.of(texts or ())
    except (ValueError, OSError) as err:
        raise typer.BadParameter(f"--allow-endpoint: {err}") from err
    return tuple(texts or ())
