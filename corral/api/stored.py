"""Definitions of our kinds, kept beside the byte code of the modules that they are made of.

Making them takes longer than everything else that an operator does when it starts. As byte code,
they are made again when a source has changed, and nothing depends on them being there:
``python -m corral.api.stored`` makes them, as an installation does.
"""

from __future__ import annotations

import hashlib
import os
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import orjson

from corral.kube.types import Obj

__all__ = ["are_stored", "keep", "stored_definitions", "stored_schema"]

_FOLDER = Path(__file__).parent


@cache
def _place() -> Path:
    """The file for exactly these sources, this pydantic and this Python."""
    digest = hashlib.sha256(f"{sys.version} {_pydantic()}".encode())
    for source in sorted(_FOLDER.rglob("*.py")):
        digest.update(str(source.relative_to(_FOLDER)).encode())
        digest.update(source.read_bytes())
    return _FOLDER / "__pycache__" / f"definitions-{digest.hexdigest()[:32]}.json"


def _pydantic() -> str:
    try:
        return version("pydantic")
    except PackageNotFoundError:
        return ""


def stored_definitions() -> list[Obj]:
    """The definitions of all kinds, new objects each time; none where they are to be made."""
    try:
        found = orjson.loads(_place().read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return []
    return found if isinstance(found, list) else []


@cache
def _schemas() -> dict[str, Obj]:
    return {
        obj["metadata"]["name"]: obj["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for obj in stored_definitions()
    }


def are_stored() -> bool:
    """Whether there are definitions of these very sources."""
    return bool(_schemas())


def stored_schema(name: str) -> Obj | None:
    """A kind's schema, by ``plural.group``; none where it is to be made."""
    return _schemas().get(name)


def keep(definitions: list[Obj]) -> None:
    """Keep the definitions for the next process; those of older sources go.

    Raises:
        OSError: the folder cannot be written.
    """
    place = _place()
    place.parent.mkdir(exist_ok=True)
    made = place.with_suffix(f".{os.getpid()}")
    made.write_bytes(orjson.dumps(definitions))
    made.chmod(0o644)  # as the sources that they are made of
    made.replace(place)
    for old in place.parent.glob("definitions-*.json"):
        if old != place:
            old.unlink(missing_ok=True)


def main() -> None:
    """Make them, unless they are there."""
    from corral.api import all_kinds

    if not are_stored():
        keep([kind.crd() for kind in all_kinds()])


if __name__ == "__main__":
    main()
