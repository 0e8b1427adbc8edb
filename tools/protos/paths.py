"""Where the inputs and outputs of the generator are, and how it writes a file."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = "corral/v1"
SOURCES = ROOT / "proto"
BY_HAND = SOURCES / PACKAGE
NUMBERS = SOURCES / "numbers.json"
RECORDED = SOURCES / "recorded.binpb"
WIRE = ROOT / "corral/cluster/apiserver/codec/types.json"
OUTPUT = ROOT / PACKAGE


def write(path: Path, content: bytes) -> None:
    """Replace the file in one step, where it is different."""
    if path.is_file() and path.read_bytes() == content:
        return
    fresh = path.with_name(f".new-{os.getpid()}")
    fresh.write_bytes(content)
    fresh.replace(path)
