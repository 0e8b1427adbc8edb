"""What a CEL function looks like to the checker and to the evaluator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Signature", "fn", "method"]

# Opaque types, and how their values travel at run time.
OPAQUE = frozenset(
    "Quantity Semver URL Format Authorizer PathCheck GroupCheck ResourceCheck Decision".split()
)


@dataclass(frozen=True, slots=True)
class Signature:
    """One overload of one function; types are names like ``list<string>``."""

    name: str
    member: bool
    params: tuple[str, ...]
    result: str
    call: Callable[..., Any]
    returns: str
    """The kind of the value at run time, where it is not that of ``result``."""
    optional: bool
    """The call answers a map that holds ``value`` or nothing; the engine makes it an optional."""

    @property
    def identity(self) -> str:
        parts = (self.name.replace(".", "_"), "m" if self.member else "f", *self.params)
        return "_".join(p.replace("<", "_").replace(">", "").replace(", ", "_") for p in parts)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The run-time kinds of the parameters."""
        return tuple(kind_of(p) for p in self.params)


def kind_of(name: str) -> str:
    if name in OPAQUE or name.startswith("optional_type"):
        return "map"
    return name.partition("<")[0]


def fn(
    name: str,
    params: Sequence[str],
    result: str,
    call: Callable[..., Any],
    *,
    returns: str = "",
    optional: bool = False,
    member: bool = False,
) -> Signature:
    return Signature(name, member, tuple(params), result, call, returns or result, optional)


def method(
    name: str,
    params: Sequence[str],
    result: str,
    call: Callable[..., Any],
    *,
    returns: str = "",
    optional: bool = False,
) -> Signature:
    return fn(name, params, result, call, returns=returns, optional=optional, member=True)
