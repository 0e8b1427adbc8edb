"""Whether an applied configuration has the shape its type asks for.

Only what merging relies on is checked here; what the values mean is validated elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from corral.cluster.apiserver.apply.fields import show_element
from corral.cluster.apiserver.apply.types import MAP_LIST, SET, Type, UntypableError


def problems(type_: Type, value: Any, path: str = "") -> Iterator[str]:
    """Each thing wrong, as ``.path: what``."""
    if value is None:
        return
    shape = type_.shape
    if isinstance(value, dict) and shape in ("map", "any"):
        yield from _struct_problems(type_, value, path)
    elif isinstance(value, list) and shape in ("list", "any"):
        yield from _list_problems(type_, value, path)
    elif shape == "any" and not isinstance(value, dict | list):
        return
    else:
        problem = _scalar_problem(shape, value)
        if problem:
            yield f"{path}: {problem}" if path else problem


def _struct_problems(type_: Type, value: dict[str, Any], path: str) -> Iterator[str]:
    if not type_.fields and _all_text(type_.elem, value):
        return
    for name, item in value.items():
        field = type_.fields.get(name)
        sub = type_.elem if field is None else field[1]
        if sub is None:
            yield f"{path}.{name}: field not declared in schema"
            return
        yield from problems(sub, item, f"{path}.{name}")


def _all_text(elem: Type | None, value: dict[str, Any]) -> bool:
    """Whether this is a map of strings with nothing but strings in it: no need to look closer."""
    return elem is not None and elem.shape == "string" and set(map(type, value.values())) <= {str}


def _list_problems(type_: Type, value: list[Any], path: str) -> Iterator[str]:
    if type_.elem is None:
        return
    prefix = f"{path}: " if path else ""
    seen: set[str] = set()
    for index, item in enumerate(value):
        element = f"i:{index}"
        if type_.kind in (SET, MAP_LIST):
            try:
                key_of = type_.item_key if type_.kind == MAP_LIST else type_.set_key
                element = key_of(item)
            except UntypableError as exc:
                yield f"{prefix}element {index}: {exc}"
                return
            if element in seen:
                yield f"{prefix}duplicate entries for key {show_element(element)}"
            seen.add(element)
        yield from problems(type_.elem, item, path + show_element(element))


def _scalar_problem(shape: str, value: Any) -> str:
    if shape == "string":
        if not isinstance(value, str):
            return f"expected string, got &value.valueUnstructured{{Value:{_go_syntax(value)}}}"
    elif shape == "numeric":
        if isinstance(value, bool) or not isinstance(value, int | float):
            return f"expected numeric (int or float), got {_go_type(value)}"
    elif shape == "boolean":
        if not isinstance(value, bool):
            return f"expected boolean, got &{{{_go_value(value)}}}"
    elif shape == "untyped":
        if isinstance(value, dict | list):
            return f"expected any scalar, got &{{{_go_value(value)}}}"
    else:
        return f"expected {shape}, got &{{{_go_value(value)}}}"
    return ""


def _go_type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    return "map[string]interface {}" if isinstance(value, dict) else "[]interface {}"


def _go_value(value: Any) -> str:
    """As Go prints with ``%v``."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "<nil>"
    if isinstance(value, dict):
        return f"map[{' '.join(f'{k}:{_go_value(v)}' for k, v in sorted(value.items()))}]"
    if isinstance(value, list):
        return f"[{' '.join(_go_value(v) for v in value)}]"
    return str(value)


def _go_syntax(value: Any) -> str:
    """As Go prints with ``%#v``."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "interface {}(nil)"
    if isinstance(value, dict):
        inner = ", ".join(f'"{k}":{_go_syntax(v)}' for k, v in sorted(value.items()))
        return f"map[string]interface {{}}{{{inner}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(_go_syntax(v) for v in value)}}}"
    return f'"{value}"' if isinstance(value, str) else str(value)
