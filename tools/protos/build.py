"""Brings ``corral/v1`` up to date: only when an input changed, each file in one step.

``corral/v1/.generated.json`` holds the digests of everything that a run read and wrote: .proto
files, numbers, types and the modules of this repository that it loaded, and the versions of the
libraries. While all of them are as they were, there is nothing to do. It is written last, so that
a run that was interrupted is done again.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tools.protos.paths import BY_HAND, NUMBERS, OUTPUT, ROOT, WIRE, write

STAMP = OUTPUT / ".generated.json"
LIBRARIES = ("grpcio-tools", "pydantic")
"""Whose version may change what comes out."""


def generate() -> int:
    """Generate what is missing or out of date.

    Returns:
        The number of files, 0 where everything is up to date.

    Raises:
        ProtoError: a field has no number, or protoc refuses a file.
    """
    if is_current():
        return 0
    # these load protoc and the models, which the check does not need
    from tools.protos.contents import contents

    made = contents()
    for name, content in made.items():
        write(OUTPUT / name, content)
    for path in _outputs():
        if path.name not in made:
            path.unlink()
    state = _state([NUMBERS, WIRE, *_loaded()])
    write(STAMP, f"{json.dumps(state, indent=1)}\n".encode())
    return len(made)


def is_current() -> bool:
    """Whether what is there was made from the inputs that are there."""
    try:
        recorded = json.loads(STAMP.read_bytes())
    except (OSError, ValueError):
        return False
    return bool(recorded == _state(ROOT / name for name in recorded["files"]))


def _state(files: Iterable[Path]) -> dict[str, Any]:
    """The versions of the libraries, and the digests of these files and all .proto files."""
    every = sorted({*files, *BY_HAND.glob("*.proto"), *_outputs()})
    return {
        "libraries": {name: _version(name) for name in LIBRARIES},
        "files": {path.relative_to(ROOT).as_posix(): _digest(path) for path in every},
    }


def _outputs() -> Iterator[Path]:
    yield from OUTPUT.glob("*_pb2*.py*")
    yield from OUTPUT.glob("*.proto")


def _loaded() -> Iterator[Path]:
    """The modules of this repository that are loaded, the generator's own among them."""
    for module in list(sys.modules.values()):
        path = Path(getattr(module, "__file__", None) or "/")
        if path.is_relative_to(ROOT / "corral") or path.is_relative_to(ROOT / "tools"):
            yield path


def _version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None


def _digest(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return None
