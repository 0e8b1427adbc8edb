"""The JSONPath of printer columns and selectable fields: fields, indexes, wildcards, filters.

A path is compiled once; evaluating it yields every value found, and nothing for missing fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["compile_path"]

Step = Callable[[Any], Iterator[Any]]
Finder = Callable[[Any], list[Any]]

_TOKEN = re.compile(
    r"""
    \.\.(?P<deep>[^.\[\]]+)
  | \.?\['(?P<quoted>(?:\\.|[^'\\])*)'\]
  | \.?\["(?P<double>(?:\\.|[^"\\])*)"\]
  | \.?\[(?P<wild>\*)\]
  | \.?\[(?P<index>-?\d+)\]
  | \.?\[(?P<slice>-?\d*:-?\d*(?::-?\d*)?)\]
  | \.?\[\?\((?P<filter>.*?)\)\]
  | \.(?P<star>\*)
  | \.(?P<name>(?:\\.|[^.\[\]\\])+)
    """,
    re.VERBOSE,
)
_FILTER = re.compile(r"\s*(@[^=!<>]*?)\s*(?:(==|!=|<=|>=|<|>)\s*(.+?))?\s*\Z")


def compile_path(path: str) -> Finder:
    """Compile ``.spec.items[*].name``.

    Raises:
        ValueError: the path is not understood.
    """
    steps = _steps(path)
    names = [step for step in steps if isinstance(step, str)]
    if len(names) == len(steps):
        return lambda value: _simple(value, names)
    calls = [_field(step) if isinstance(step, str) else step for step in steps]

    def find(value: Any) -> list[Any]:
        found = [value]
        for call in calls:
            found = [item for parent in found for item in call(parent)]
            if not found:
                break
        return found

    return find


def _simple(value: Any, names: list[str]) -> list[Any]:
    for name in names:
        if type(value) is not dict or name not in value:
            return []
        value = value[name]
    return [value]


def _steps(path: str) -> list[str | Step]:
    path = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    if path and path[0] not in ".[":
        path = f".{path}"
    if path == ".":
        return []
    steps: list[str | Step] = []
    at = 0
    while at < len(path):
        found = _TOKEN.match(path, at)
        if found is None:
            raise ValueError(f"unrecognized column definition {path!r}")
        steps.append(_step(found))
        at = found.end()
    return steps


def _step(found: re.Match[str]) -> str | Step:
    kind = found.lastgroup
    text = found[kind or 0]
    if kind in ("name", "quoted", "double"):
        return re.sub(r"\\(.)", r"\1", text)
    if kind in ("wild", "star"):
        return _children
    if kind == "index":
        return _index(int(text))
    if kind == "slice":
        return _slice(text)
    if kind == "filter":
        return _filter(text)
    return _deep(text)


def _field(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if type(value) is dict and name in value:
            yield value[name]

    return step


def _children(value: Any) -> Iterator[Any]:
    if type(value) is list:
        yield from value
    elif type(value) is dict:
        yield from (value[name] for name in sorted(value))


def _index(index: int) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if type(value) is list and -len(value) <= index < len(value):
            yield value[index]

    return step


def _slice(text: str) -> Step:
    cut = slice(*(int(part) if part else None for part in text.split(":")))

    def step(value: Any) -> Iterator[Any]:
        if type(value) is list:
            yield from value[cut]

    return step


def _deep(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if type(value) is dict and name in value:
            yield value[name]
        for child in _children(value):
            yield from step(child)

    return step


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: bool(a == b),
    "!=": lambda a, b: bool(a != b),
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
}


def _filter(text: str) -> Step:
    found = _FILTER.match(text)
    if found is None:
        raise ValueError(f"unrecognized filter {text!r}")
    left = compile_path(found[1].removeprefix("@") or ".")
    compare = _COMPARE.get(found[2] or "")
    right = _literal(found[3]) if found[3] is not None else None

    def holds(item: Any) -> bool:
        values = left(item)
        if compare is None:
            return bool(values)
        if not values:
            return False
        try:
            return compare(values[0], right)
        except TypeError:
            return False

    def step(value: Any) -> Iterator[Any]:
        yield from (item for item in _children(value) if holds(item))

    return step


def _literal(text: str) -> Any:
    if text[:1] in "'\"" and text[-1:] == text[:1]:
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        return float(text) if re.match(r"-?[0-9.]+\Z", text) else text
