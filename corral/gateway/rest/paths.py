"""Which operation a path and a method mean.

Paths are taken apart before they are decoded: a slash inside a name cannot lead elsewhere.

    /api/v1/namespaces/{namespace}/{plural}[/{name}[/…]]
    /api/v1/{plural}                                      all namespaces
    /api/v1/watch/namespaces/{namespace}/{plural}         and /api/v1/watch/{plural}
    /kafkaml/{namespace}/…                                with or without a slash at the end
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

from corral.client.kinds import JobKind, kind_of
from corral.gateway.problems import Refused
from corral.gateway.rest.asks import Where, checked_name
from corral.gateway.rest.kafkaml.table import KAFKAML
from corral.gateway.rest.routes import OPERATIONS, Operation

__all__ = ["MethodNotAllowed", "locate"]

_INDEX: Final = re.compile(r"\d{1,6}", re.ASCII)


class MethodNotAllowed(Refused):
    """The path is known, the method is not."""

    def __init__(self, method: str, allowed: list[str]) -> None:
        words = ", ".join(allowed)
        super().__init__("method-not-allowed", f"{method} cannot be done here; {words} can")
        self.allowed = allowed


def _table() -> dict[tuple[str, ...], dict[str, Operation]]:
    out: dict[tuple[str, ...], dict[str, Operation]] = {}
    for operation in OPERATIONS:
        out.setdefault(tuple(operation.path.split("/")), {})[operation.method] = operation
    return out


_BY_SHAPE: Final = _table()


def _kafkaml_table() -> dict[tuple[str, ...], dict[str, Operation]]:
    out: dict[tuple[str, ...], dict[str, Operation]] = {}
    for operation in KAFKAML:
        words = tuple(operation.path.rstrip("/").split("/")[3:])
        out.setdefault(words, {})[operation.method] = operation
    return out


_KAFKAML: Final = _kafkaml_table()
"""By what follows the namespace."""


def locate(method: str, path: bytes) -> tuple[Operation, Where]:
    """The operation, and what it is about.

    Raises:
        Refused: there is nothing at this path, or not for this method.
    """
    if path.startswith(b"/kafkaml/"):
        return _locate_kafkaml(method, _parts(path))
    shape, namespace, plural, rest = _split(path)
    found = _BY_SHAPE.get(shape)
    if found is None:
        raise Refused("not-found", "there is nothing at this path; see /docs")
    kind = _kind(plural)
    able = {name: op for name, op in found.items() if op.fits(kind)}
    if not able:
        raise Refused("not-supported", f"{kind.plural} have no {rest[1] if rest[1:] else 'such'}")
    operation = able.get(method)
    if operation is None:
        raise MethodNotAllowed(method, sorted(able))
    where = Where(
        kind,
        None if namespace is None else checked_name("namespace", namespace),
        checked_name("name", rest[0]) if rest else "",
        _index(rest[3]) if len(rest) > 3 else None,
    )
    return operation, where


def _split(path: bytes) -> tuple[tuple[str, ...], str | None, str, list[str]]:
    """The shape of a path, its namespace and plural, and what follows."""
    parts = _parts(path)
    head, rest = parts[:3], parts[3:]
    if head != ["", "api", "v1"] or not rest:
        raise Refused("not-found", "there is nothing at this path; see /docs")
    shape = ["", "api", "v1"]
    if rest[0] == "watch" and rest[1:]:
        shape.append(rest.pop(0))
    namespace = None
    if rest[0] == "namespaces" and len(rest) >= 3:
        namespace = rest[1]
        shape += ["namespaces", "{namespace}"]
        rest = rest[2:]
    plural, rest = rest[0], rest[1:]
    shape.append("{plural}")
    return (*shape, *_shape(rest)), namespace, plural, rest


def _parts(path: bytes) -> list[str]:
    try:
        return [unquote(part, errors="strict") for part in path.decode("ascii").split("/")]
    except UnicodeDecodeError:
        raise Refused("bad-request", "the path cannot be read") from None


def _locate_kafkaml(method: str, parts: list[str]) -> tuple[Operation, Where]:
    if len(parts) > 4 and not parts[-1]:
        parts = parts[:-1]
    namespace, words = parts[2], tuple(parts[3:])
    found, name = _KAFKAML.get(words), ""
    if found is None and len(words) > 1:
        found, name = _KAFKAML.get((*words[:-1], "{name}")), words[-1]
    if found is None:
        raise Refused("not-found", "there is nothing at this path; see /docs")
    operation = found.get(method)
    if operation is None:
        raise MethodNotAllowed(method, sorted(found))
    where = Where(
        kind_of(operation.plural),
        checked_name("namespace", namespace),
        checked_name("name", name) if name else "",
    )
    return operation, where


def _shape(rest: list[str]) -> list[str]:
    out = ["{name}", *rest[1:]] if rest else []
    if out[1:3] == ["logs", "worker"] and len(out) == 4:
        out[3] = "{index}"
    return out


def _kind(plural: str) -> JobKind:
    kind = kind_of(plural[:100])
    if plural not in (kind.plural, kind.qualified):
        raise Refused("not-found", f"there is nothing at this path; did you mean {kind.plural}?")
    return kind


def _index(written: str) -> int:
    if not _INDEX.fullmatch(written):
        detail = "the index of a worker is a whole number"
        raise Refused("bad-request", detail, errors=(("index", detail),))
    return int(written)
