"""Whether a schema's CEL rules are well formed and type-check against it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from corral.cluster.apiserver.cel.cost import (
    COST_LIMIT,
    MOST,
    TOTAL_COST_LIMIT,
    cost_message,
    estimated_cost,
    largest,
    most_values,
)
from corral.cluster.apiserver.cel.engine import UNKNOWN_TYPE, CompileError, check, uses_variable
from corral.cluster.apiserver.cel.schema_types import SchemaTypes
from corral.cluster.apiserver.crd.definition.schemachecks import SchemaContext, children
from corral.cluster.apiserver.crd.fieldpath import resolve
from corral.cluster.apiserver.crd.types import Errors
from corral.cluster.apiserver.errors import (
    FieldError,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
    show,
)
from corral.kube.types import Obj

__all__ = ["expression_problems", "rule_problems"]

_REASONS = (
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
)
_RULES = "x-kubernetes-validations"


def rule_problems(schema: Obj, path: str) -> Iterator[FieldError]:
    """What is wrong with the form of the rules, at this node and below."""
    for part, sub, _ in children(schema, SchemaContext()):
        yield from rule_problems(sub, f"{path}.{part}")
    for i, rule in enumerate(schema.get(_RULES) or ()):
        yield from _form(rule, schema, f"{path}.{_RULES}[{i}]")


def _form(rule: Obj, schema: Obj, path: str) -> Iterator[FieldError]:
    text, message = (rule.get("rule") or "").strip(), rule.get("message") or ""
    if not text:
        yield required(f"{path}.rule", "rule is not specified")
    elif message and not message.strip():
        yield invalid_value(f"{path}.message", message, "must be non-empty if specified")
    elif _has_breaks(message.strip()):
        yield invalid_value(f"{path}.message", message, "must not contain line breaks")
    elif _has_breaks(text) and not message:
        why = "message must be specified if rule contains line breaks"
        yield required(f"{path}.message", why)
    expression = rule.get("messageExpression") or ""
    if expression and not expression.strip():
        why = "messageExpression must be non-empty if specified"
        yield required(f"{path}.messageExpression", why)
    reason = rule.get("reason")
    if reason is not None and reason not in _REASONS:
        yield not_supported(f"{path}.reason", reason, _REASONS)
    field = rule.get("fieldPath") or ""
    if not field:
        return
    where = f"{path}.fieldPath"
    if not field.strip():
        yield invalid_value(where, field, "must be non-empty if specified")
    if _has_breaks(field):
        yield invalid_value(where, field, "must not contain line breaks")
    if resolve(field, schema) is None:
        yield invalid_value(where, field, "must be a valid path")


def _has_breaks(text: str) -> bool:
    return "\n" in text or "\r" in text


def expression_problems(schema: Obj, path: str, *, kept: bool = False) -> Errors:
    """What the CEL checker says about every rule of a structural schema.

    One that was ``kept`` as it was may have rules over the limit of each, as upstream.
    """
    nodes = list(_nodes(schema, path, SchemaContext(root=True)))
    if not nodes:
        return []
    types = SchemaTypes()
    named = {f"node{i}_": types.of(node, root=at.root) for i, (node, _, at) in enumerate(nodes)}
    pool = types.finish()
    known = {name: text for name, text in named.items() if text is not None}
    out: Errors = list(_cost_problems(schema, path, kept=kept))
    for i, (node, where, at) in enumerate(nodes):
        if f"node{i}_" in known:
            scope = _Scope(known, f"node{i}_", pool)
            for j, rule in enumerate(node[_RULES]):
                out.extend(_check(rule, scope, f"{where}.{_RULES}[{j}]", at.uncorrelated))
    return out


def _cost_problems(schema: Obj, path: str, *, kept: bool) -> Iterator[FieldError]:
    """Rules that may cost too much, each and together, as upstream estimates them."""
    total = 0
    costly: list[str] = []
    for node, where, times in _counted(schema, path, 1):
        for j, rule in enumerate(node[_RULES]):
            for field, what in _ESTIMATED.items():
                cost = estimated_cost(rule.get(field) or "", node) if rule.get(field) else 0
                cost = min(cost * (times if field == "rule" else 1), MOST)
                at = f"{where}.{_RULES}[{j}].{field}"
                if cost > COST_LIMIT and not kept:
                    yield forbidden_field(at, cost_message(what, cost, COST_LIMIT))
                if cost >= TOTAL_COST_LIMIT // 100:
                    costly.append(at)
                total += cost
    if total > TOTAL_COST_LIMIT:
        for at in costly[:4]:
            yield forbidden_field(at, _CONTRIBUTED)
        yield forbidden_field(path, cost_message(_ALTOGETHER, total, TOTAL_COST_LIMIT))


_ESTIMATED = {
    "rule": "estimated rule cost",
    "messageExpression": "estimated messageExpression cost",
}
_ALTOGETHER = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
_CONTRIBUTED = (
    "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
)


def _counted(schema: Obj, path: str, times: int) -> Iterator[tuple[Obj, str, int]]:
    """The nodes that have rules, and how many values of each an object may have."""
    for part, sub, _ in children(schema, SchemaContext()):
        if not part.startswith(("allOf", "anyOf", "oneOf", "not")):
            many = part == "items" or part.startswith("additionalProperties")
            inner = min(times * largest(schema), most_values(sub)) if many else times
            yield from _counted(sub, f"{path}.{part}", inner)
    if schema.get(_RULES):
        yield schema, path, times


def _nodes(schema: Obj, path: str, at: SchemaContext) -> Iterator[tuple[Obj, str, SchemaContext]]:
    for part, sub, inner in children(schema, at):
        if inner.uncorrelated == "" and at.uncorrelated is None:
            inner = SchemaContext(inner.root, inner.no_defaults, inner.inside_meta, path)
        if not part.startswith(("allOf", "anyOf", "oneOf", "not")):
            yield from _nodes(sub, f"{path}.{part}", inner)
    if schema.get(_RULES):
        yield schema, path, at


class _Scope:
    """The types in force for the rules of one node."""

    def __init__(self, types: dict[str, str], name: str, pool: Any) -> None:
        self.types, self.name, self.pool = types, name, pool

    def check(self, expression: str, optional: bool) -> str:
        old = f"optional.of({self.name})" if optional else self.name
        prefix = f"cel.bind(self, {self.name}, cel.bind(oldSelf, {old},"
        return check(expression, self.types, pool=self.pool, prefix=prefix, suffix="))")


def _check(rule: Obj, scope: _Scope, path: str, uncorrelated: str | None) -> Iterator[FieldError]:
    optional = bool(rule.get("optionalOldSelf"))
    text = rule["rule"]
    try:
        if scope.check(text, optional) not in ("bool", UNKNOWN_TYPE):
            yield _bad(f"{path}.rule", rule, "cel expression must evaluate to a bool")
    except CompileError as why:
        yield _bad(f"{path}.rule", rule, f"compilation failed: {why}")
        return
    yield from _check_message(rule, scope, path, optional)
    if uses_variable(text, "oldSelf"):
        if uncorrelated is not None:
            why_not = "oldSelf cannot be used on the uncorrelatable portion of the schema within"
            yield invalid_value(f"{path}.rule", text, f"{why_not} {uncorrelated}")
    elif rule.get("optionalOldSelf") is not None:
        said = "may not be set if oldSelf is not used in rule"
        yield invalid_value(f"{path}.optionalOldSelf", rule["optionalOldSelf"], said)


def _check_message(rule: Obj, scope: _Scope, path: str, optional: bool) -> Iterator[FieldError]:
    expression = rule.get("messageExpression")
    if not expression:
        return
    where = f"{path}.messageExpression"
    try:
        if scope.check(expression, optional) not in ("string", UNKNOWN_TYPE):
            yield _bad(where, rule, "messageExpression must evaluate to a string")
    except CompileError as why:
        yield _bad(where, rule, f"messageExpression compilation failed: {why}")


def _bad(path: str, rule: Obj, why: str) -> FieldError:
    """The rule is shown as the server's own structure prints."""
    shown = show(
        {
            "Rule": rule.get("rule", ""),
            "Message": rule.get("message", ""),
            "MessageExpression": rule.get("messageExpression", ""),
            "Reason": rule.get("reason"),
            "FieldPath": rule.get("fieldPath", ""),
            "OptionalOldSelf": rule.get("optionalOldSelf"),
        }
    )
    for char in "<>&":
        shown = shown.replace(char, f"\\u{ord(char):04x}")
    return FieldError("FieldValueInvalid", path, f"Invalid value: {shown}: {why}")
