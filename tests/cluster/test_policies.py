"""Admission policies, as clients meet them. Both servers must answer alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.backends.base import Reply
from tests.cluster.objects import Obj, Objects, eventually

API = "admissionregistration.k8s.io/v1"
KINDS = {"Validating": "validatingadmissionpolicies", "Mutating": "mutatingadmissionpolicies"}
RULE: Obj = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE", "UPDATE"],
    "resources": ["configmaps"],
}

Add = Callable[..., str]


@pytest.fixture
def add(cluster: Objects, namespace: str, unique: str) -> Iterator[Add]:
    """Adds a policy for the case's namespace, and its binding; the name of both."""
    made: list[tuple[str, str]] = []

    def make(plural: str, kind: str, name: str, spec: Obj) -> None:
        obj = {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}
        cluster.create(plural, obj)
        made.append((plural, name))

    def policy(kind: str, name: str, spec: Obj, *, binding: Obj | None = None) -> str:
        name = f"{name}-{unique}"
        here = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
        match = {"namespaceSelector": here, "resourceRules": [RULE]}
        make(KINDS[kind], f"{kind}AdmissionPolicy", name, {"matchConstraints": match} | spec)
        bound: Obj = {"policyName": name} | (binding or {})
        if kind == "Validating":
            bound.setdefault("validationActions", ["Deny"])
        plural = f"{KINDS[kind].removesuffix('ies')}ybindings"
        make(plural, f"{kind}AdmissionPolicyBinding", name, bound)
        return name

    yield policy
    for plural, name in reversed(made):
        cluster.delete(API, plural, name)


def config_map(name: str = "c", data: Obj | None = None, **meta: Any) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **meta},
        "data": data or {},
    }


def post(objects: Objects, obj: Obj) -> Reply:
    """Try to create; nothing is stored."""
    path = objects.path("v1", "configmaps") + "?dryRun=All"
    return objects.backend.request("POST", path, obj)


def refused(objects: Objects, obj: Obj) -> Obj:
    """The refusal, once the policy is in force."""
    reply = eventually(lambda: ((r := post(objects, obj)).code != 201 and r) or None)
    status: Obj = reply.json()
    return status


def changed(objects: Objects, obj: Obj, holds: Callable[[Obj], bool]) -> Obj:
    """The object as created, once the policy is in force."""

    def attempt() -> Obj | None:
        made: Obj = post(objects, obj).json()
        return made if made["kind"] == "ConfigMap" and holds(made) else None

    return eventually(attempt)


def text(name: str, message: str) -> str:
    return f"ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request: {message}"


def test_a_validation_denies(objects: Objects, add: Add) -> None:
    name = add("Validating", "deny", {"validations": [{"expression": "!('bad' in object.data)"}]})
    status = refused(objects, config_map(data={"bad": "1"}))
    said = text(name, "failed expression: !('bad' in object.data)")
    assert status["message"] == f'configmaps "c" is forbidden: {said}'
    assert (status["reason"], status["code"]) == ("Invalid", 422)
    assert status["details"]["causes"] == [{"message": said}]
    assert post(objects, config_map(data={"good": "1"})).code == 201


def test_a_validation_speaks(objects: Objects, add: Add, namespace: str) -> None:
    variables = [
        {"name": "size", "expression": "object.data.size()"},
        {"name": "never", "expression": "object.nothing.here"},
    ]
    validation = {
        "expression": "variables.size < 2 || variables.never == 1",
        "messageExpression": "'unused'",
        "reason": "Forbidden",
    }
    first = {
        "expression": "variables.size != 1",
        "messageExpression": "request.operation + ' of ' + string(variables.size) + ' in ' + "
        "namespaceObject.metadata.name",
        "reason": "Forbidden",
    }
    spec = {"variables": variables, "validations": [first, validation]}
    name = add("Validating", "speak", spec)
    status = refused(objects, config_map(data={"a": "1"}))
    assert status["message"].endswith(text(name, f"CREATE of 1 in {namespace}"))
    assert (status["reason"], status["code"]) == ("Forbidden", 403)
    status = refused(objects, config_map(data={"a": "1", "b": "1"}))
    assert status["message"].endswith(
        f"expression '{validation['expression']}' resulted in error: composited variable "
        '"never" fails to evaluate: no such key: nothing'
    )


def test_a_warning_warns(objects: Objects, add: Add) -> None:
    spec = {"validations": [{"expression": "false", "message": "careful"}]}
    name = add("Validating", "warn", spec, binding={"validationActions": ["Warn"]})

    def warned() -> str:
        reply = post(objects, config_map())
        assert reply.code == 201
        return reply.headers.get("Warning", "")

    who = f"ValidatingAdmissionPolicy '{name}' with binding '{name}'"
    assert eventually(warned) == f'299 - "Validation failed for {who}: careful"'


def test_conditions_and_selectors_narrow(objects: Objects, add: Add) -> None:
    spec = {
        "matchConditions": [{"name": "go", "expression": "object.data.go == 'y'"}],
        "validations": [{"expression": "false", "message": "no"}],
    }
    binding = {"matchResources": {"objectSelector": {"matchLabels": {"a": "b"}}}}
    name = add("Validating", "narrow", spec, binding=binding)
    labels = {"a": "b"}
    status = refused(objects, config_map(data={"go": "y"}, labels=labels))
    assert status["message"].endswith(text(name, "no"))
    assert post(objects, config_map(data={"go": "n"}, labels=labels)).code == 201
    assert post(objects, config_map(data={"go": "y"})).code == 201
    status = refused(objects, config_map(labels=labels))
    why = "expression 'object.data.go == 'y'' resulted in error: no such key: "
    assert why in status["message"]


def test_parameters(objects: Objects, add: Add) -> None:
    objects.create("configmaps", config_map("limit", {"max": "1"}))
    validation = {
        "expression": "object.data.size() <= int(params.data.max)",
        "messageExpression": "params.kind + ' ' + params.metadata.name + ' says ' + "
        "params.data.max",
    }
    spec = {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "validations": [validation]}
    ref = {"name": "limit", "parameterNotFoundAction": "Deny"}
    name = add("Validating", "params", spec, binding={"paramRef": ref})
    status = refused(objects, config_map(data={"a": "1", "b": "1"}))
    assert status["message"].endswith(text(name, "ConfigMap limit says 1"))
    assert post(objects, config_map(data={"a": "1"})).code == 201


def test_absent_parameters_deny(objects: Objects, add: Add) -> None:
    spec = {
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{"expression": "params.data.max == '1'"}],
    }
    ref = {"name": "absent", "parameterNotFoundAction": "Deny"}
    name = add("Validating", "absent", spec, binding={"paramRef": ref})
    status = refused(objects, config_map())
    why = "no params found for policy binding with `Deny` parameterNotFoundAction"
    assert status["message"].endswith(text(name, f"failed to configure binding: {why}"))


def test_an_apply_configuration_is_merged(objects: Objects, add: Add) -> None:
    expression = (
        "Object{metadata: Object.metadata{labels: {'team': 'a'}}, "
        "data: {'by': request.userInfo.username}}"
    )
    mutation = {
        "patchType": "ApplyConfiguration",
        "applyConfiguration": {"expression": expression},
    }
    add("Mutating", "apply", {"mutations": [mutation], "reinvocationPolicy": "Never"})
    obj = config_map(data={"own": "1"}, labels={"own": "1"})
    made = changed(objects, obj, lambda o: "by" in o["data"])
    assert made["data"] == {"own": "1", "by": "admin"}
    assert made["metadata"]["labels"] == {"own": "1", "team": "a"}


def test_a_json_patch_is_applied(objects: Objects, add: Add) -> None:
    expression = (
        "[JSONPatch{op: 'test', path: '/data/x', value: '1'}, JSONPatch{op: 'add', "
        "path: '/data/' + jsonpatch.escapeKey('y'), value: object.metadata.name}]"
    )
    mutation = {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}
    add("Mutating", "patch", {"mutations": [mutation], "reinvocationPolicy": "Never"})
    made = changed(objects, config_map(data={"x": "1"}), lambda o: "y" in o["data"])
    assert made["data"] == {"x": "1", "y": "c"}
    assert post(objects, config_map(data={"x": "2"})).json()["data"] == {"x": "2"}


def test_a_mutation_that_cannot_be_applied(objects: Objects, add: Add) -> None:
    mutation = {
        "patchType": "ApplyConfiguration",
        "applyConfiguration": {"expression": "Object{foo: 'x'}"},
    }
    name = add("Mutating", "bad", {"mutations": [mutation], "reinvocationPolicy": "Never"})
    status = refused(objects, config_map())
    assert status["message"] == (
        f"policy '{name}' with binding '{name}' denied request: error applying patch: failed to "
        "convert patch object to typed object: .foo: field not declared in schema"
    )
    assert (status["reason"], status["code"]) == ("Invalid", 403)


def test_custom_resources(objects: Objects, add: Add, group: str, namespace: str) -> None:
    """Custom kinds are matched, changed, and taken for parameters."""
    here = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    rule = RULE | {"apiGroups": [group], "resources": ["widgets"]}
    match = {"matchConstraints": {"namespaceSelector": here, "resourceRules": [rule]}}
    limit = {
        "apiVersion": f"{group}/v1",
        "kind": "Widget",
        "metadata": {"name": "limit"},
        "spec": {"size": 3},
    }
    objects.create("widgets", limit)
    mutation = {
        "patchType": "ApplyConfiguration",
        "applyConfiguration": {
            "expression": "Object{spec: Object.spec{replicas: object.spec.size * 2}}"
        },
    }
    add("Mutating", "widgets", match | {"mutations": [mutation], "reinvocationPolicy": "Never"})
    validation = {
        "expression": "object.spec.replicas <= params.spec.size",
        "messageExpression": "'more than ' + string(params.spec.size) + ' of ' + object.kind",
    }
    kind = {"apiVersion": f"{group}/v1", "kind": "Widget"}
    spec = match | {"paramKind": kind, "validations": [validation]}
    ref = {"name": "limit", "parameterNotFoundAction": "Deny"}
    name = add("Validating", "widgets", spec, binding={"paramRef": ref})
    path = objects.path(f"{group}/v1", "widgets") + "?dryRun=All"

    def attempt(size: int) -> Obj:
        made = limit | {"metadata": {"name": "w"}, "spec": {"size": size}}
        answer: Obj = objects.backend.request("POST", path, made).json()
        return answer

    said = text(name, "more than 3 of Widget")
    eventually(lambda: attempt(2).get("message", "").endswith(said))
    assert attempt(1)["spec"] == {"size": 1, "colour": "red", "replicas": 2}


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        (
            "foo",
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'foo' (in container "
            "'')\n | foo\n | ^",
        ),
        ("object.x", "must evaluate to bool but got dyn"),
        (
            "request.foo == 1",
            "compilation failed: ERROR: <input>:1:8: undefined field 'foo'\n | request.foo == 1\n"
            " | .......^",
        ),
    ],
)
def test_expressions_are_checked(cluster: Objects, expression: str, why: str) -> None:
    obj = {
        "apiVersion": API,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "checked"},
        "spec": {
            "matchConstraints": {"resourceRules": [RULE]},
            "validations": [{"expression": expression}],
        },
    }
    path = f"/apis/{API}/validatingadmissionpolicies?dryRun=All"
    reply = cluster.backend.request("POST", path, obj)
    where = f'spec.validations[0].expression: Invalid value: "{expression}"'
    head = 'ValidatingAdmissionPolicy.admissionregistration.k8s.io "checked" is invalid'
    assert reply.code == 422
    assert reply.json()["message"] == f"{head}: {where}: {why}"
