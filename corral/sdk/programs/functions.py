"""A Python function as a program: its source text and its arguments as JSON. Never pickled.

`program_of` gives the files of a folder whose one script defines the function and calls it. What
the function takes from around it is sent along where that can be done faithfully: modules become
imports, plain values become assignments, functions and classes of the same file come as source.
Anything else, and functions that have no source of their own (lambdas, nested ones, methods), is
refused with words that say what to do instead.
"""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
import json
import math
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

from corral.sdk.errors import CannotShip

__all__ = ["ARGUMENTS", "Program", "program_of"]

ARGUMENTS: Final = "arguments.json"
_GLOBAL_LOADS: Final = {"LOAD_GLOBAL", "LOAD_NAME"}
_LONGEST: Final = 64 << 10
"""Characters of one value that is sent along."""


@dataclass(frozen=True, slots=True)
class Program:
    """What runs in the pods."""

    script: str
    """The file to start."""
    files: Mapping[str, bytes]


def program_of(function: Callable[..., Any], arguments: Mapping[str, Any] | None = None) -> Program:
    """The program that calls a function. Raises CannotShip."""
    checked = _plain_function(function)
    arguments = dict(arguments or {})
    _check_call(checked, arguments)
    parts = _Parts(checked.__globals__, checked.__module__)
    parts.add(checked)
    call = f"{checked.__name__}(**json.loads(path.read_text()))"
    if inspect.iscoroutinefunction(checked):
        call = f"asyncio.run({call})"
    text = _SCRIPT.format(
        name=checked.__name__,
        imports="".join(f"{line}\n" for line in sorted(parts.imports)),
        values="".join(f"{name} = {value}\n" for name, value in sorted(parts.values.items())),
        sources="\n\n".join(parts.sources.values()),
        call=call,
    )
    script = f"{checked.__name__}.py"
    return Program(script, {script: text.encode(), ARGUMENTS: _as_json(checked, arguments)})


_SCRIPT: Final = '''\
"""The function {name}, with what it needs."""

from __future__ import annotations

{imports}
{values}
{sources}

if __name__ == "__main__":
    import asyncio
    import json
    from pathlib import Path

    path = Path(__file__).with_name("arguments.json")
    {call}
'''


# -- the function itself ---------------------------------------------------------------------------


def _plain_function(function: Callable[..., Any]) -> FunctionType:
    what = getattr(function, "__qualname__", None) or repr(function)
    if inspect.ismethod(function):
        raise CannotShip(f"{what} is a method: give a function of the top level of a file or cell")
    if not isinstance(function, FunctionType):
        raise CannotShip(
            f"{what} is a {type(function).__name__}, not a Python function: define one with `def` "
            "that calls it"
        )
    if function.__name__ == "<lambda>":
        raise CannotShip("a lambda has no source of its own: define a function with `def`")
    if function.__closure__:
        names = ", ".join(function.__code__.co_freevars)
        raise CannotShip(
            f"{what} uses {names} of the function around it, which does not exist in the pods: "
            "pass it in `args` and define the function at the top level"
        )
    if "." in function.__qualname__:
        raise CannotShip(
            f"{what} is defined inside another function or a class: define it at the top level of "
            "a file or a notebook cell"
        )
    return function


def _check_call(function: FunctionType, arguments: Mapping[str, Any]) -> None:
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as err:
        signature = inspect.signature(function)
        raise CannotShip(
            f"{function.__name__}{signature} cannot be called with these args: {err}"
        ) from err


def _as_json(function: FunctionType, arguments: Mapping[str, Any]) -> bytes:
    for name, value in arguments.items():
        problem = _unlike_json(value)
        if problem:
            raise CannotShip(
                f"the argument {name} of {function.__name__} {problem}; arguments travel as JSON: "
                "numbers, texts, booleans, None, lists, and dicts with texts as keys. Pass what "
                "the object is made of, or load it in the function"
            )
    return json.dumps(arguments, indent=1).encode()


def _unlike_json(value: Any) -> str:
    """What is wrong with a value, in words; empty where nothing is."""
    if value is None or isinstance(value, (bool, int, str)):
        return ""
    if isinstance(value, float):
        return "" if math.isfinite(value) else f"is {value}, which JSON has no word for"
    if isinstance(value, (list, tuple)):
        return next(filter(None, map(_unlike_json, value)), "")
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            return "holds a dict whose keys are not all texts"
        return next(filter(None, map(_unlike_json, value.values())), "")
    return f"is or holds a {type(value).__name__}"


# -- what it needs from around it ------------------------------------------------------------------


@dataclass(slots=True)
class _Parts:
    """Imports, values and sources, each once; what a part needs stands before it."""

    scope: Mapping[str, Any]
    module: str
    imports: set[str] = field(default_factory=set)
    values: dict[str, str] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)

    def add(self, part: FunctionType | type) -> None:
        """A function or class of the file, after all that it needs."""
        self._seen.add(part.__name__)
        source = _source(part)
        for name in sorted(_names(part, source)):
            if name not in self._seen and name in self.scope:
                self._need(name, self.scope[name], part.__name__)
        self.sources[part.__name__] = source

    def _need(self, name: str, value: Any, by: str) -> None:
        self._seen.add(name)
        home = getattr(value, "__module__", None)
        if isinstance(value, ModuleType):
            self._import(f"import {value.__name__}", value.__name__, name, by)
        elif isinstance(value, (FunctionType, type)) and home == self.module:
            if value.__name__ != name or "." in value.__qualname__:
                raise CannotShip(_foreign(name, by, f"a {type(value).__name__} of another name"))
            self.add(value)
        elif home and home != self.module and _found_in(home, value):
            self._import(f"from {home} import {value.__name__}", home, name, by)
        elif not _unlike_json(value):
            self.values[name] = _literal(name, value, by)
        else:
            raise CannotShip(_foreign(name, by, f"a {type(value).__name__}"))

    def _import(self, line: str, module: str, name: str, by: str) -> None:
        root = module.partition(".")[0]
        if not _installed(root):
            raise CannotShip(
                f"{by} uses {name} of the module {module}, which is a file of yours and not in the "
                "pods: ship its folder with `directory=`, or move the code into the function's file"
            )
        last = line.split()[-1]
        self.imports.add(line if last == name else f"{line} as {name}")


def _foreign(name: str, by: str, what: str) -> str:
    return (
        f"{by} uses {name}, {what} that lives in this process only: make it an argument, "
        "or import or create it inside the function"
    )


def _literal(name: str, value: Any, by: str) -> str:
    text = repr(value)
    if len(text) > _LONGEST:
        raise CannotShip(
            f"{by} uses {name}, which is {len(text) >> 10} KiB of data: put it into a volume or a "
            "bucket, or load it in the function"
        )
    return text


def _found_in(module: str, value: Any) -> bool:
    name = getattr(value, "__name__", None)
    return isinstance(name, str) and getattr(sys.modules.get(module), name, None) is value


def _installed(root: str) -> bool:
    """Whether a top-level module is of the standard library or of an installed package."""
    if root in sys.stdlib_module_names:
        return True
    from importlib.metadata import packages_distributions

    return root in packages_distributions()


def _source(part: FunctionType | type) -> str:
    try:
        return textwrap.dedent(inspect.getsource(part))
    except (OSError, TypeError) as err:
        raise CannotShip(
            f"the source of {part.__name__} cannot be found: define it in a file or a notebook "
            "cell, or give the path of a script"
        ) from err


def _names(part: FunctionType | type, source: str) -> set[str]:
    """The global names that the part needs when it is defined or runs."""
    names = set(_defining(source))
    if isinstance(part, FunctionType):
        names |= set(_loaded(part.__code__))
    else:
        code = compile(source, "<class>", "exec", dont_inherit=True)
        names |= set(_loaded(code))
    return {name for name in names if not hasattr(builtins, name)}


def _loaded(code: CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname in _GLOBAL_LOADS:
            yield str(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _loaded(constant)


def _defining(source: str) -> Iterator[str]:
    """Names in decorators and defaults; annotations are texts in the program."""
    for node in ast.parse(source).body:
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        defaults = [*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)]
        for expression in (*node.decorator_list, *defaults):
            for name in ast.walk(expression):
                if isinstance(name, ast.Name):
                    yield name.id
