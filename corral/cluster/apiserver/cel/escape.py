"""How Kubernetes spells property names as CEL identifiers."""

from __future__ import annotations

import re

__all__ = ["escape"]

_RESERVED = frozenset(
    "true false null in as break const continue else for function if import let loop package "
    "namespace return var void while".split()
)
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_ALLOWED = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*\Z")
_SPECIAL = re.compile(r"__|[-./]")
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}


def escape(name: str) -> str | None:
    """The identifier rules use for a property; None where the name cannot be written in CEL."""
    if name in _RESERVED:
        return f"__{name}__"
    if _PLAIN.match(name) and "__" not in name:
        return name
    if not _ALLOWED.match(name):
        return None
    return _SPECIAL.sub(lambda found: _ESCAPES[found[0]], name)
