"""Admission policies and their bindings.

Expressions are compiled and type-checked; kube-apiserver's budget for their cost is not kept.
"""

from __future__ import annotations

import re

from corral.cluster.apiserver.builtin.validation.fields import check, names
from corral.cluster.apiserver.builtin.validation.fields.errors import Errors
from corral.cluster.apiserver.builtin.validation.fields.rules import (
    Create,
    Kinds,
    Rules,
    same_again,
    whole,
)
from corral.cluster.apiserver.builtin.validation.fields.selectors import check_selector
from corral.cluster.apiserver.builtin.validation.system.webhooks import CHECK_RULE, check_conditions
from corral.cluster.apiserver.cel.admission_types import Checker
from corral.kube.types import Obj

__all__ = ["KINDS"]

_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*\Z")
_RESERVED = frozenset(
    "true false null in as break const continue else for function if import let loop package "
    "namespace return var void while".split()
)
_MUTABLE_OPERATIONS = ("*", "CONNECT", "CREATE", "UPDATE")
_PATCH_FIELDS = {"JSONPatch": "jsonPatch", "ApplyConfiguration": "applyConfiguration"}
_PATCH_RESULTS = {"JSONPatch": "list(JSONPatch)", "ApplyConfiguration": "Object"}
_MAX_ANNOTATIONS = 20
_MAX_VALUE_EXPRESSION = 5 * 1024


# -- what both kinds of policies have --------------------------------------------------------------


def _check_resource_names(errs: Errors, rule: Obj, path: str) -> None:
    seen: set[str] = set()
    for i, name in enumerate(rule.get("resourceNames") or ()):
        errs.format(f"{path}.resourceNames[{i}]", name, names.path_segment)
        if name in seen:
            errs.duplicate(f"{path}.resourceNames[{i}]", name)
        seen.add(name)


_RULE = check.struct(_check_resource_names, CHECK_RULE)
_MATCH = check.struct(
    check.given("matchPolicy", check.choice("Equivalent", "Exact")),
    check.given("namespaceSelector", check_selector),
    check.given("objectSelector", check_selector),
    check.items("resourceRules", _RULE),
    check.items("excludeResourceRules", _RULE),
)


def _check_version(errs: Errors, version: str, path: str) -> None:
    group, _, short = version.rpartition("/")
    for value, rule in ((group, names.dns_subdomain), (short, names.dns1035_label)):
        if value and (found := rule(value)):
            errs.invalid(path, value, ",".join(found))


def _check_kind(errs: Errors, name: str, path: str) -> None:
    if found := names.dns1035_label(name.lower()):
        why = f"may have mixed case, but should otherwise match: {','.join(found)}"
        errs.invalid(path, name, why)


_PARAM_KIND = check.struct(
    check.needed("apiVersion", _check_version), check.needed("kind", _check_kind)
)
_POLICY = check.struct(
    check.given("failurePolicy", check.choice("Fail", "Ignore")),
    check.pointer("paramKind", _PARAM_KIND),
    check.given("matchConstraints", check.struct(_MATCH, check.needed("resourceRules"))),
)
"""What both kinds of policies have, up to their match conditions."""


def _check_policy(errs: Errors, spec: Obj, *, mutable: bool) -> None:
    _POLICY(errs, spec, "spec")
    if mutable:
        _check_mutable(errs, spec.get("matchConstraints") or {}, "spec.matchConstraints")
    params = spec.get("paramKind") is not None
    conditions = spec.get("matchConditions") or []
    check_conditions(errs, conditions, "spec.matchConditions", params=params)


def _check_mutable(errs: Errors, match: Obj, path: str) -> None:
    for rule in match.get("resourceRules") or ():
        for operation in rule.get("operations") or ():
            if operation not in _MUTABLE_OPERATIONS:
                where = f"{path}.resourceRules.operations"
                errs.not_supported(where, operation, _MUTABLE_OPERATIONS)


def _check_variables(errs: Errors, variables: list[Obj], checker: Checker) -> None:
    for i, variable in enumerate(variables):
        path, name = f"spec.variables[{i}]", variable.get("name") or ""
        expression = variable.get("expression") or ""
        if not name.strip():
            errs.required(f"{path}.name", "name is not specified")
        elif not _IDENTIFIER.match(name) or name in _RESERVED:
            errs.invalid(f"{path}.name", name, "must be a valid CEL identifier")
        if not expression.strip():
            errs.required(f"{path}.expression", "expression is not specified")
        elif problem := checker.add_variable(name, expression):
            errs.invalid(f"{path}.expression", expression, problem)


# -- validating ----------------------------------------------------------------------------


def validate_policy(errs: Errors, obj: Obj) -> None:
    """A ValidatingAdmissionPolicy."""
    spec = obj.get("spec") or {}
    _check_policy(errs, spec, mutable=False)
    variables = spec.get("variables") or []
    checker = Checker(params=spec.get("paramKind") is not None, composed=bool(variables))
    _check_variables(errs, variables, checker)
    checks, notes = spec.get("validations") or (), spec.get("auditAnnotations") or ()
    if not checks and not notes:
        why = "validations or auditAnnotations must contain at least one item"
        errs.required("spec.validations", why)
        errs.required("spec.auditAnnotations", why)
    for i, item in enumerate(checks):
        _check_validation(errs, item, f"spec.validations[{i}]", checker)
    _check_annotations(errs, list(notes), (obj.get("metadata") or {}).get("name") or "", checker)


_REASON = check.pointer("reason", check.choice("Forbidden", "Invalid", "RequestEntityTooLarge"))


def _check_validation(errs: Errors, item: Obj, path: str, checker: Checker) -> None:
    expression = item.get("expression") or ""
    if not expression.strip():
        errs.required(f"{path}.expression", "expression is not specified")
    elif problem := checker.problem(expression, "bool"):
        errs.invalid(f"{path}.expression", expression, problem)
    said, where = item.get("messageExpression") or "", f"{path}.messageExpression"
    if said and not said.strip():
        errs.invalid(where, said, "must be non-empty if specified")
    elif said and (problem := checker.problem(said, "string", authorizer=False)):
        errs.invalid(where, said, problem)
    text = item.get("message") or ""
    if text and not text.strip():
        errs.invalid(f"{path}.message", text, "must be non-empty if specified")
    elif "\n" in text.strip() or "\r" in text.strip():
        errs.invalid(f"{path}.message", text, "must not contain line breaks")
    _REASON(errs, item, path)


def _check_annotations(errs: Errors, notes: list[Obj], name: str, checker: Checker) -> None:
    root = "spec.auditAnnotations"
    if len(notes) > _MAX_ANNOTATIONS:
        errs.invalid(root, notes, f"must not have more than {_MAX_ANNOTATIONS} auditAnnotations")
    seen: set[str] = set()
    for i, note in enumerate(notes):
        path, key = f"{root}[{i}]", note.get("key") or ""
        if name:
            full = f"{name}/{key}"
            errs.format(f"{path}.key", full, names.qualified_name)
        else:
            errs.invalid(f"{path}.key", key, "requires metadata.name be non-empty")
        _check_annotation_value(errs, note.get("valueExpression") or "", path, checker)
        if key in seen:
            errs.duplicate(f"{path}.key", key)
        seen.add(key)


def _check_annotation_value(errs: Errors, value: str, path: str, checker: Checker) -> None:
    where, bare = f"{path}.valueExpression", value.strip()
    if not bare:
        errs.required(where, "valueExpression is not specified")
    elif len(bare.encode()) > _MAX_VALUE_EXPRESSION:
        errs.required(where, f"must not exceed {_MAX_VALUE_EXPRESSION} bytes in length")
    elif problem := checker.problem(bare, "string", "null_type"):
        errs.invalid(where, value, problem)


# -- mutating ------------------------------------------------------------------------------


def validate_mutating_policy(errs: Errors, obj: Obj) -> None:
    """A MutatingAdmissionPolicy."""
    spec = obj.get("spec") or {}
    _check_policy(errs, spec, mutable=True)
    checker = Checker(params=spec.get("paramKind") is not None, composed=True)
    _check_variables(errs, spec.get("variables") or [], checker)
    mutations = spec.get("mutations") or ()
    if not mutations:
        errs.required("spec.mutations", "mutations must contain at least one item")
    for i, mutation in enumerate(mutations):
        _check_mutation(errs, mutation, f"spec.mutations[{i}]", checker)
    check.needed("reinvocationPolicy", check.choice("IfNeeded", "Never"))(errs, spec, "spec")


def _check_mutation(errs: Errors, mutation: Obj, path: str, checker: Checker) -> None:
    kind = mutation.get("patchType") or ""
    if not kind:
        errs.required(f"{path}.patchType")
        return
    if kind not in _PATCH_FIELDS:
        errs.not_supported(f"{path}.patchType", kind, sorted(_PATCH_FIELDS))
        return
    for other, field in _PATCH_FIELDS.items():
        if other == kind and mutation.get(field) is None:
            errs.required(f"{path}.{field}", f"must be specified when patchType is {kind}")
        elif other == kind:
            _check_patch(errs, mutation[field], f"{path}.{field}.expression", checker, kind)
    for other, field in _PATCH_FIELDS.items():
        if other != kind and mutation.get(field) is not None:
            why = f"must not be specified when patchType is {kind}"
            errs.invalid(f"{path}.{field}", f"{{{field}}}", why)


def _check_patch(errs: Errors, patch: Obj, path: str, checker: Checker, kind: str) -> None:
    expression = (patch.get("expression") or "").strip()
    if not expression:
        errs.required(path)
    elif problem := checker.problem(expression, _PATCH_RESULTS[kind], patches=True):
        errs.invalid(path, expression, problem)


# -- bindings ------------------------------------------------------------------------------


def _check_param_ref(errs: Errors, ref: Obj, path: str) -> None:
    name, selector = ref.get("name") or "", ref.get("selector")
    exclusive = "name and selector are mutually exclusive"
    if name:
        errs.format(f"{path}.name", name, names.path_segment)
        if selector is not None:
            errs.forbidden(f"{path}.name", exclusive)
    check_selector(errs, selector, f"{path}.selector")
    if name and selector is not None:
        errs.forbidden(f"{path}.selector", exclusive)
    if not name and selector is None:
        errs.required(path, "one of name or selector must be specified")


_NOT_FOUND = check.needed("parameterNotFoundAction", check.choice("Deny", "Allow"))
_BOUND = check.struct(
    check.pointer("paramRef", check.struct(_check_param_ref, _NOT_FOUND)),
    check.pointer("matchResources", _MATCH),
)


def _check_actions(errs: Errors, actions: list[str], path: str) -> None:
    seen: set[str] = set()
    for i, action in enumerate(actions):
        check.choice("Audit", "Deny", "Warn")(errs, action, f"{path}[{i}]")
        if action in seen:
            errs.duplicate(f"{path}[{i}]", action)
        seen.add(action)
    if "Deny" in actions and "Warn" in actions:
        why = (
            "must not contain both Deny and Warn (repeating the same validation failure "
            "information in the API response and headers serves no purpose)"
        )
        errs.invalid(path, actions, why)


_BINDING = whole(
    check.inside(
        "spec",
        check.optional("policyName", check.SUBDOMAIN),
        _BOUND,
        check.optional("validationActions", _check_actions),
        check.needed("policyName validationActions"),
    )
)
_MUTATING_BINDING = whole(
    check.inside(
        "spec",
        check.needed("policyName", check.SUBDOMAIN),
        _BOUND,
        check.inside("matchResources", _check_mutable),
    )
)


def _rules(create: Create) -> Rules:
    return same_again(create, namespaced=False, kube_finalizers=False)


_GROUP = "admissionregistration.k8s.io"

KINDS: Kinds = {
    (_GROUP, "ValidatingAdmissionPolicy"): _rules(validate_policy),
    (_GROUP, "ValidatingAdmissionPolicyBinding"): _rules(_BINDING),
    (_GROUP, "MutatingAdmissionPolicy"): _rules(validate_mutating_policy),
    (_GROUP, "MutatingAdmissionPolicyBinding"): _rules(_MUTATING_BINDING),
}  # fmt: skip
