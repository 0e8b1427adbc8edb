"""The expressions of webhooks and policies, and the variables that they are composed of.

A variable is evaluated when an expression first asks for it, and not at all when none does: each
is bound around the expressions that name it, and bindings are lazy. Everything is compiled once,
on first use; what is stored has been type-checked before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from corral.cluster.apiserver.cel import patch_types
from corral.cluster.apiserver.cel.engine import STRINGS, CelError, Program, compile

__all__ = ["NO_VARIABLES", "Expression", "Inputs", "Variables"]

_NULLABLE = ("object", "oldObject", "params", "namespaceObject")
_NULL = "{}_or_null_"
_NAMES = (
    *_NULLABLE,
    *map(_NULL.format, _NULLABLE),
    "request",
    "authorizer",
    "authorizer.requestResource",
)
_ROOTS = "|".join(_NULLABLE)
_ROOT_FIRST = re.compile(rf"(?<![\w.])({_ROOTS})(?=\s*[=!]=\s*null\b)")
_NULL_FIRST = re.compile(rf"(?<![\w.])(null\s*[=!]=\s*)({_ROOTS})(?!\s*[\w.(\[])")
_HAS = re.compile(r"(?<![\w.])has\(\s*variables\s*\.\s*\w+\s*\)")
_OPTIONAL = re.compile(r"(?<![\w.])variables\s*\.\s*\?\s*(\w+)")
_VARIABLE = re.compile(r"(?<![\w.])variables\s*\.\s*(\w+)")


class Inputs(NamedTuple):
    """What an expression is evaluated on."""

    data: Mapping[str, Any]
    authorize: Any

    @staticmethod
    def of(variables: Mapping[str, Any], authorize: Any) -> Inputs:
        """Expressions may ask an object that is null for its fields: it has none.

        So they get an empty one, and compare another variable with null.
        """
        data = dict(variables)
        for name in _NULLABLE:
            value = data.get(name)
            data[name] = {} if value is None else value
            data[_NULL.format(name)] = None if value is None else True
        return Inputs(data, authorize)

    def without(self, name: str) -> Inputs:
        """The same with one of the objects null."""
        return Inputs({**self.data, name: {}, _NULL.format(name): None}, self.authorize)


class Expression:
    """One expression. ``patch`` ones may have literals of patches."""

    __slots__ = ("_patch", "_program", "_variables", "text")

    def __init__(self, text: str, variables: Variables, *, patch: bool = False) -> None:
        self.text = text
        self._variables = variables
        self._patch = patch
        self._program: Program | None = None

    def evaluate(self, inputs: Inputs) -> Any:
        """Raises CelError with kube-apiserver's words for what went wrong."""
        return self._evaluate(inputs, json=False)

    def evaluate_json(self, inputs: Inputs) -> Any:
        """The result as a JSON value. Raises CelError."""
        return self._evaluate(inputs, json=True)

    def _evaluate(self, inputs: Inputs, *, json: bool) -> Any:
        try:
            if self._program is None:
                self._program = self._variables.compile(self.text, patch=self._patch)
            run = self._program.evaluate_json if json else self._program.evaluate
            return run(inputs.data, authorize=inputs.authorize)
        except CelError as why:
            reason = self._variables.blame(self.text, str(why), inputs)
            raise CelError(f"expression '{self.text}' resulted in error: {reason}") from None


class Variables:
    """The named expressions of a policy, in the order they are defined in."""

    def __init__(self, listed: list[dict[str, Any]] | None = None) -> None:
        self._texts = {v.get("name", ""): v.get("expression", "") for v in listed or ()}
        self._programs: dict[str, Program] = {}

    def compile(self, text: str, *, patch: bool = False) -> Program:
        """Compile an expression inside the bindings of the variables it needs."""
        body = _bound(patch_types.to_maps(text) if patch else text)
        needed = self._needed(text)
        for name in reversed([n for n in self._texts if n in needed]):
            value = _bound(self._texts[name])
            body = f"cel.bind({_identifier(name)},\n{value}\n,\n{body}\n)"
        return compile(body, _NAMES)

    def _needed(self, text: str) -> set[str]:
        """The variables an expression refers to, and those that they refer to."""
        found: set[str] = set()
        waiting = _mentioned(text)
        while waiting:
            name = waiting.pop()
            if name in self._texts and name not in found:
                found.add(name)
                waiting += _mentioned(self._texts[name])
        return found

    def blame(self, text: str, why: str, inputs: Inputs) -> str:
        """The reason of a failure, with the variable it happened in."""
        for name in _mentioned(text):
            if name not in self._texts:
                continue
            try:
                self._program(name).evaluate(inputs.data, authorize=inputs.authorize)
            except CelError as inner:
                if str(inner) == why:
                    reason = self.blame(self._texts[name], why, inputs)
                    return f'composited variable "{name}" fails to evaluate: {reason}'
        return why

    def _program(self, name: str) -> Program:
        if name not in self._programs:
            self._programs[name] = self.compile(self._texts[name])
        return self._programs[name]


NO_VARIABLES = Variables()
"""Of expressions that are composed of nothing."""


def _identifier(name: str) -> str:
    return f"variables_{name}_"


def _mentioned(text: str) -> list[str]:
    bare = STRINGS.sub("''", text)
    return [*_VARIABLE.findall(bare), *_OPTIONAL.findall(bare)]


def _bound(text: str) -> str:
    """The expression with the names that variables are bound to."""
    parts, at = [], 0
    for literal in STRINGS.finditer(text):
        parts += [_rename(text[at : literal.start()]), literal[0]]
        at = literal.end()
    parts.append(_rename(text[at:]))
    return "".join(parts)


def _rename(code: str) -> str:
    code = _ROOT_FIRST.sub(lambda m: _NULL.format(m[1]), code)
    code = _NULL_FIRST.sub(lambda m: m[1] + _NULL.format(m[2]), code)
    code = _HAS.sub("true", code)
    code = _OPTIONAL.sub(lambda m: f"optional.of({_identifier(m[1])})", code)
    return _VARIABLE.sub(lambda m: _identifier(m[1]), code)
