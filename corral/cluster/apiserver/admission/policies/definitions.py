"""Policies and bindings as they are at work: rules, selectors and expressions, read once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from corral.cluster.apiserver.admission.expressions import (
    Expression,
    Inputs,
    Variables,
)
from corral.cluster.apiserver.admission.webhooks.matching import Rule, rule_of
from corral.cluster.apiserver.cel.engine import CelError
from corral.cluster.apiserver.resources import ResourceInfo
from corral.kube.selectors import Selector
from corral.kube.types import Obj

__all__ = [
    "AuditAnnotation",
    "Binding",
    "Match",
    "MutatingPolicy",
    "Mutation",
    "Policy",
    "ValidatingPolicy",
    "Validation",
]


class NamedRule(NamedTuple):
    """A rule that may be about some objects only; no names stand for all of them."""

    rule: Rule
    names: frozenset[str]


def _rules(listed: Iterable[Obj] | None) -> tuple[NamedRule, ...]:
    return tuple(
        NamedRule(rule_of(obj), frozenset(obj.get("resourceNames") or ())) for obj in listed or ()
    )


class Match:
    """MatchResources."""

    __slots__ = ("equivalent", "excluded", "namespaces", "objects", "rules")

    def __init__(self, obj: Obj) -> None:
        self.rules = _rules(obj.get("resourceRules"))
        self.excluded = _rules(obj.get("excludeResourceRules"))
        self.equivalent = obj.get("matchPolicy") == "Equivalent"
        self.namespaces = Selector.from_object(obj.get("namespaceSelector") or {})
        self.objects = Selector.from_object(obj.get("objectSelector") or {})

    def resource(
        self,
        operation: str,
        infos: Sequence[ResourceInfo],
        subresource: str,
        name: str | None,
    ) -> ResourceInfo | None:
        """What the request is matched as; None when it is not.

        ``infos`` is the requested resource and then the same in other versions. Without a name
        the answer is what it may be for some name.
        """
        if name is not None and self._first(self.excluded, operation, infos, subresource, name):
            return None
        if not self.rules:
            return infos[0]
        return self._first(self.rules, operation, infos, subresource, name)

    def _first(
        self,
        rules: tuple[NamedRule, ...],
        operation: str,
        infos: Sequence[ResourceInfo],
        subresource: str,
        name: str | None,
    ) -> ResourceInfo | None:
        rules = tuple(r for r in rules if name is None or not r.names or name in r.names)
        for rule, _ in rules:
            if rule.matches(operation, infos[0], subresource):
                return infos[0]
        if self.equivalent:
            for rule, _ in rules:
                for info in infos[1:]:
                    if rule.matches(operation, info, subresource):
                        return info
        return None


class Binding:
    """A binding; ``match`` None means everything its policy matches."""

    __slots__ = ("actions", "match", "name", "param_ref", "policy")

    def __init__(self, obj: Obj) -> None:
        spec = obj.get("spec") or {}
        self.name: str = obj["metadata"]["name"]
        self.policy: str = spec.get("policyName", "")
        self.param_ref: Obj | None = spec.get("paramRef")
        self.actions: tuple[str, ...] = tuple(spec.get("validationActions") or ())
        resources = spec.get("matchResources")
        self.match = None if resources is None else Match(resources)


class Policy:
    """What both kinds of policies have."""

    def __init__(self, obj: Obj) -> None:
        spec = obj.get("spec") or {}
        self.name: str = obj["metadata"]["name"]
        self.match = Match(spec.get("matchConstraints") or {})
        self.fail_open = spec.get("failurePolicy", "Fail") == "Ignore"
        self.param_kind: Obj | None = spec.get("paramKind")
        self._variables = Variables(spec.get("variables"))
        self._conditions = [
            self._expression(c.get("expression", "")) for c in spec.get("matchConditions") or ()
        ]

    def _expression(self, text: str, *, patch: bool = False) -> Expression:
        return Expression(text, self._variables, patch=patch)

    def meets_conditions(self, inputs: Inputs) -> bool:
        """Raises CelError when the conditions cannot tell and the policy is not to fail open."""
        if not self._conditions:
            return True
        # Conditions are about the request alone.
        inputs = inputs.without("namespaceObject")
        problems = []
        for condition in self._conditions:
            try:
                if condition.evaluate(inputs) is False:
                    return False
            except CelError as why:
                problems.append(str(why))
        if problems and not self.fail_open:
            texts = list(dict.fromkeys(problems))
            raise CelError(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
        return not problems


class Validation(NamedTuple):
    """One validation of a policy."""

    expression: Expression
    message: str
    message_expression: Expression | None
    reason: str


class AuditAnnotation(NamedTuple):
    """Evaluated like any other expression; there is no audit log to publish it in."""

    key: str
    value: Expression


class ValidatingPolicy(Policy):
    """A ValidatingAdmissionPolicy."""

    def __init__(self, obj: Obj) -> None:
        super().__init__(obj)
        spec = obj.get("spec") or {}
        self.validations = [self._validation(v) for v in spec.get("validations") or ()]
        self.annotations = [
            AuditAnnotation(a.get("key", ""), self._expression(a.get("valueExpression", "")))
            for a in spec.get("auditAnnotations") or ()
        ]

    def _validation(self, obj: Obj) -> Validation:
        said = obj.get("messageExpression")
        return Validation(
            self._expression(obj.get("expression", "")),
            (obj.get("message") or "").strip(),
            self._expression(said) if said else None,
            obj.get("reason") or "Invalid",
        )


class Mutation(NamedTuple):
    """One mutation of a policy; ``kind`` is its patch type."""

    kind: str
    expression: Expression


class MutatingPolicy(Policy):
    """A MutatingAdmissionPolicy."""

    def __init__(self, obj: Obj) -> None:
        super().__init__(obj)
        spec = obj.get("spec") or {}
        self.reinvocable = spec.get("reinvocationPolicy") == "IfNeeded"
        self.mutations = [self._mutation(m) for m in spec.get("mutations") or ()]

    def _mutation(self, obj: Obj) -> Mutation:
        kind = obj.get("patchType", "")
        source = obj.get("jsonPatch" if kind == "JSONPatch" else "applyConfiguration") or {}
        return Mutation(kind, self._expression(source.get("expression", ""), patch=True))
