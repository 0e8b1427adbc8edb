"""A short report of what differs between two values, for messages about forbidden changes.

The API prints a diff of its internal structures there; people read it, nothing parses it. Ours
has the same outline (one line per changed leaf, ``-`` before ``+``) with the field names of the
wire.
"""

from __future__ import annotations

from typing import Any

from corral.cluster.apiserver.builtin.validation.fields.errors import same
from corral.cluster.apiserver.errors import show

__all__ = ["difference"]


def _walk(old: Any, new: Any, path: str, out: list[str]) -> None:
    if same(old, new):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*old, *new)):
            _walk(old.get(key), new.get(key), f"{path}.{key}" if path else str(key), out)
        return
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (a, b) in enumerate(zip(old, new, strict=True)):
            _walk(a, b, f"{path}[{i}]", out)
        return
    out.append(f"-\t{path}: {show(old)},")
    out.append(f"+\t{path}: {show(new)},")


def difference(kind: str, old: Any, new: Any) -> str:
    """Lines that say what changed from ``old`` to ``new``."""
    lines: list[str] = []
    _walk(old, new, "", lines)
    body = "".join(f"{line}\n" for line in lines)
    return f"  {kind}{{\n  \t... // identical fields\n{body}  }}\n"
