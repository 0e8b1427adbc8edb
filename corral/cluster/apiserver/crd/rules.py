"""x-kubernetes-validations: CEL rules of a schema, found at compile time, compiled on first use.

Transition rules run where an old value corresponds to the new one; failures of other rules are
dropped where the value did not change (ratcheting).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from time import thread_time
from typing import Any

from corral.cluster.apiserver.cel.engine import (
    STRINGS,
    CelError,
    CompileError,
    Program,
    uses_variable,
)
from corral.cluster.apiserver.cel.engine import compile as compile_cel
from corral.cluster.apiserver.crd.celvalues import compile_conversion
from corral.cluster.apiserver.crd.fieldpath import resolve
from corral.cluster.apiserver.crd.problems import NO_PATH, bad_value
from corral.cluster.apiserver.crd.types import MISSING, Errors
from corral.cluster.apiserver.crd.values import correlator
from corral.cluster.apiserver.errors import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid_value,
    required,
)
from corral.kube.types import Obj

__all__ = ["RuleWalker", "compile_rules", "deepest_loops", "loops"]

SECONDS_PER_OBJECT = 2.0
"""Stands in for kube-apiserver's cost budget: seconds of the processor, however busy it is."""

_MAX_MESSAGE = 5 * 1024
_VARIABLES = ("self", "oldSelf", "oldSelf_", "hasOld_")
_OPTIONAL_OLD = "cel.bind(oldSelf, hasOld_ ? optional.of(oldSelf_) : optional.none(),"

Parent = tuple[Any, Any] | None
RuleWalker = Callable[[Any, Any, str, Parent, Errors, float], None]
"""(value, old or MISSING, path, nearest correlated parent, errors to add to, deadline)."""


_MACROS = re.compile(
    r"\.\s*(?:all|exists|exists_one|existsOne|map|filter|sortBy|transformList|transformMap|"
    r"transformMapEntry)\s*\("
)


def loops(expression: str) -> int:
    """How deep macros that loop are nested in an expression: it may cost size to that power."""
    bare = STRINGS.sub("''", expression)
    starts = {match.end() - 1 for match in _MACROS.finditer(bare)}
    open_: list[bool] = []
    depth = deepest = 0
    for at, char in enumerate(bare):
        if char == "(":
            open_.append(at in starts)
            depth += at in starts
            deepest = max(deepest, depth)
        elif char == ")" and open_:
            depth -= open_.pop()
    return deepest


def deepest_loops(schema: Any) -> int:
    """The same for all rules of a schema."""
    if isinstance(schema, list):
        return max(map(deepest_loops, schema), default=0)
    if not isinstance(schema, dict):
        return 0
    rules = schema.get("x-kubernetes-validations") or ()
    own = max((loops(str(r.get(k) or "")) for r in rules for k in _EXPRESSIONS), default=0)
    return max([own, *(deepest_loops(sub) for key, sub in schema.items() if key != _RULES)])


_RULES = "x-kubernetes-validations"
_EXPRESSIONS = ("rule", "messageExpression")


class Rule:
    """One rule; its programs are compiled when it first runs."""

    __slots__ = ("_programs", "field_path", "message", "optional", "source", "transition")

    def __init__(self, source: Obj, schema: Obj) -> None:
        self.source = source
        self.optional = bool(source.get("optionalOldSelf"))
        self.transition = uses_variable(source["rule"], "oldSelf")
        self.message = (source.get("message") or "").strip()
        self.field_path = resolve(source.get("fieldPath") or "", schema) or ""
        self._programs: dict[str, Program] = {}

    def __str__(self) -> str:
        return self.message or str(self.source["rule"]).strip()

    def run(self, expression: str, data: Mapping[str, Any]) -> Any:
        program = self._programs.get(expression)
        if program is None:
            wrap = {"prefix": _OPTIONAL_OLD, "suffix": ")"} if self.optional else {}
            program = compile_cel(expression, _VARIABLES, **wrap)
            self._programs[expression] = program
        return program.evaluate(data)

    def detail(self, data: Mapping[str, Any]) -> str:
        """What to say when the rule does not hold."""
        expression = self.source.get("messageExpression")
        if expression:
            try:
                text = str(self.run(expression, data)).strip()
            except CelError:
                text = ""
            if text and "\n" not in text and len(text.encode()) <= _MAX_MESSAGE:
                return text
        return self.message or f"failed rule: {self}"


def compile_rules(schema: Obj) -> RuleWalker | None:
    """The rules of a node and everything below; None where there are none."""
    rules = [Rule(r, schema) for r in schema.get("x-kubernetes-validations") or ()]
    children = {
        name: walker
        for name, sub in (schema.get("properties") or {}).items()
        if (walker := compile_rules(sub)) is not None
    }
    more = schema.get("additionalProperties")
    extra = compile_rules(more) if isinstance(more, dict) else None
    items = schema.get("items")
    item = compile_rules(items) if isinstance(items, dict) else None
    if not (rules or children or extra or item):
        return None
    here = _Node(schema, rules) if rules else None
    keys: list[str] = schema.get("x-kubernetes-list-map-keys") or []
    keyed = schema.get("x-kubernetes-list-type") == "map" and bool(keys)

    def walk(value: Any, old: Any, path: str, parent: Parent, out: Errors, deadline: float) -> None:
        if value is None:
            return
        if here is not None:
            here.evaluate(value, old, path, parent, out, deadline)
        below = (value, old) if old is not MISSING else parent
        if type(value) is dict:
            before = old if type(old) is dict else {}
            for name, inner in value.items():
                walker = children.get(name)
                if walker is not None:
                    dotted = f"{path}.{name}" if path else name
                    walker(inner, before.get(name, MISSING), dotted, below, out, deadline)
                elif extra is not None:
                    extra(inner, before.get(name, MISSING), f"{path}[{name}]", below, out, deadline)
        elif type(value) is list and item is not None:
            find = correlator(old if keyed else None, keys)
            for i, inner in enumerate(value):
                item(inner, find(inner), f"{path}[{i}]", below, out, deadline)

    return walk


class _Node:
    """The rules of one schema node."""

    def __init__(self, schema: Obj, rules: list[Rule]) -> None:
        self.rules = rules
        self.kind = "" if schema.get("x-kubernetes-int-or-string") else schema.get("type") or ""
        self.compound = self.kind in ("object", "array")
        self.convert = compile_conversion(schema)

    def evaluate(
        self, value: Any, old: Any, path: str, parent: Parent, out: Errors, deadline: float
    ) -> None:
        has_old = old is not MISSING and old is not None
        convert = self.convert
        before = old if has_old else None
        if convert is not None:
            shown, before = convert(value), convert(before)
        else:
            shown = value
        plain = {"self": shown, "oldSelf": before}
        for rule in self.rules:
            if rule.transition and not has_old and not rule.optional:
                continue
            if thread_time() > deadline:
                why = "validation failed due to running out of cost budget, no further validation "
                out.append(invalid_value(path or NO_PATH, self.kind, f"{why}rules will be run"))
                return
            data = plain
            if rule.optional:
                data = {"self": shown, "oldSelf_": before, "hasOld_": has_old}
            problem = self._problem(rule, data, value, path)
            if problem is None:
                continue
            if rule.transition or not _unchanged(value, old, parent):
                out.append(problem)

    def _problem(self, rule: Rule, data: Obj, value: Any, path: str) -> FieldError | None:
        where = path or NO_PATH
        try:
            if rule.run(rule.source["rule"], data) is True:
                return None
        except CompileError as why:
            return invalid_value(where, self.kind, f"rule compile error: {why}")
        except CelError as why:
            return invalid_value(where, self.kind, _evaluation_text(str(why), rule))
        if rule.field_path:
            where = f"{path}.{rule.field_path}" if path else rule.field_path
        return self._failure(rule.source.get("reason"), where, value, rule.detail(data))

    def _failure(self, reason: str | None, where: str, value: Any, detail: str) -> FieldError:
        if reason == "FieldValueForbidden":
            return forbidden_field(where, detail)
        if reason == "FieldValueRequired":
            return required(where, detail)
        if reason == "FieldValueDuplicate":
            if self.compound:
                return FieldError("FieldValueDuplicate", where, "Duplicate value")
            return duplicate(where, value)
        if self.compound:  # objects and lists are too long to show
            return FieldError("FieldValueInvalid", where, f"Invalid value: {detail}")
        return bad_value(where, value, detail)


_TOO_LONG = "Iteration budget exceeded"
_CANCELLED = "operation cancelled: actual cost limit exceeded"


def _evaluation_text(why: str, rule: Rule) -> str:
    if why.startswith(_TOO_LONG):
        return (
            f"'{_CANCELLED}': no further validation rules will be run due to call cost exceeds "
            f"limit for rule: {rule}"
        )
    if why.startswith("no such overload"):
        return (
            f"'{why}': call arguments did not match a supported operator, function or macro "
            f"signature for rule: {rule}"
        )
    return f"{why} evaluating rule: {rule}"


def _unchanged(value: Any, old: Any, parent: Parent) -> bool:
    if old is not MISSING:
        return bool(value == old)
    return parent is not None and bool(parent[0] == parent[1])
