"""Admission policies on the real write path. Texts were read from kube-apiserver 1.37.1."""

from __future__ import annotations

import pytest

from corral.cluster.apiserver.admission.chain import Plugin
from corral.cluster.apiserver.admission.policies import MutatingPolicies, ValidatingPolicies
from corral.cluster.apiserver.admission.reinvocation import run_stages
from corral.cluster.apiserver.auth.users import UserInfo
from corral.kube.errors import ApiError, Invalid

API = "admissionregistration.k8s.io/v1"
RULE = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE", "UPDATE"],
    "resources": ["configmaps"],
}


class Mutating(Plugin):
    """The mutating policies alone, with what runs again after them."""

    def __init__(self, policies, built_in=()):
        self._policies = policies
        self._built_in = built_in

    async def mutate(self, request):
        return await run_stages((self._policies,), self._built_in, request)


@pytest.fixture
def policies(world):
    """A world with both kinds of policies at work, and a way to add them."""
    mutating = MutatingPolicies(
        world.store, world.catalog, kinds=world, authorizer=world.authorizer
    )
    validating = ValidatingPolicies(
        world.store, world.catalog, kinds=world, authorizer=world.authorizer
    )
    world.plugins = [Mutating(mutating), validating]
    return Policies(world)


class Policies:
    def __init__(self, world):
        self.world = world

    async def add(self, kind, spec, *, name="p", rules=None, bindings=None, **match):
        constraints = {"resourceRules": rules or [RULE], **match}
        spec = {"matchConstraints": constraints, **spec}
        await self._create(f"{kind}AdmissionPolicy", name, spec)
        default = {"validationActions": ["Deny"]} if kind == "Validating" else {}
        for i, binding in enumerate([{}] if bindings is None else bindings):
            bound = {"policyName": name, **default, **binding}
            await self._create(f"{kind}AdmissionPolicyBinding", f"{name}-{i}", bound)

    async def _create(self, kind, name, spec):
        obj = {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}
        await self.world.create(obj)

    async def validating(self, expression, *, message="", **more):
        validation = {"expression": expression}
        if message:
            validation["message"] = message
        top = {k: more.pop(k) for k in list(more) if k in SPEC_FIELDS}
        await self.add("Validating", {"validations": [validation], **top}, **more)

    async def applying(self, *expressions, **more):
        mutations = [
            {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": e}}
            for e in expressions
        ]
        await self._mutating(mutations, more)

    async def patching(self, expression, **more):
        mutation = {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}
        await self._mutating([mutation], more)

    async def _mutating(self, mutations, more):
        top = {k: more.pop(k) for k in list(more) if k in SPEC_FIELDS}
        top.setdefault("reinvocationPolicy", "Never")
        await self.add("Mutating", {"mutations": mutations, **top}, **more)

    async def create(self, data=None, *, name="c", labels=None, **meta):
        obj = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "labels": labels or {}, **meta},
        }
        if data is not None:
            obj["data"] = data
        return await self.world.create(obj, dry_run=True)

    async def refused(self, *args, **kwargs):
        with pytest.raises(ApiError) as caught:
            await self.create(*args, **kwargs)
        return caught.value


SPEC_FIELDS = frozenset(
    "failurePolicy paramKind variables matchConditions auditAnnotations reinvocationPolicy".split()
)


def denied(text, *, policy="p", binding="p-0", name="c"):
    who = f"ValidatingAdmissionPolicy '{policy}' with binding '{binding}'"
    return f'configmaps "{name}" is forbidden: {who} denied request: {text}'


# -- validating ----------------------------------------------------------------------------


async def test_a_denial_is_invalid_and_shows_the_expression(policies):
    await policies.validating(" !has(object.data) || !('bad' in object.data) ")
    error = await policies.refused({"bad": "1"})
    text = denied("failed expression: !has(object.data) || !('bad' in object.data)")
    assert isinstance(error, Invalid)
    assert error.message == text
    cause = text.partition("forbidden: ")[2]
    assert error.details == {"name": "c", "kind": "configmaps", "causes": [{"message": cause}]}
    assert (await policies.create({"good": "1"}))["data"] == {"good": "1"}


@pytest.mark.parametrize(
    ("reason", "code"),
    [("Forbidden", 403), ("Invalid", 422), ("RequestEntityTooLarge", 413)],
)
async def test_reasons_have_codes(policies, reason, code):
    validation = {"expression": "false", "message": " no ", "reason": reason}
    await policies.add("Validating", {"validations": [validation]})
    error = await policies.refused()
    assert (error.status["reason"], error.status["code"]) == (reason, code)
    assert error.message == denied("no")


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("'by ' + request.userInfo.username", "by admin"),
        ("string(object.zzz)", "fixed"),
        ("'two\\nlines'", "fixed"),
        ("'  '", "fixed"),
        ("string(oldObject == null) + request.operation + request.namespace", "trueCREATEteam"),
        ("string(has(oldObject.x)) + string(oldObject.?x.hasValue())", "falsefalse"),
        ("string(null != oldObject) + string(object != null)", "falsetrue"),
        ("request.kind.kind + request.resource.resource + request.name", "ConfigMapconfigmapsc"),
        ("namespaceObject.metadata.name", "team"),
    ],
)
async def test_messages_by_expression(policies, expression, text):
    validation = {"expression": "false", "message": "fixed", "messageExpression": expression}
    await policies.add("Validating", {"validations": [validation]})
    assert (await policies.refused()).message == denied(text)


async def test_the_first_denial_is_told(policies):
    await policies.validating("false", name="a", message="first")
    await policies.validating("false", name="b", message="second")
    assert (await policies.refused()).message == denied("first", policy="a", binding="a-0")


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("object.spec.x == 1", "no such key: spec"),
        ("oldObject.x == 1", "no such key: x"),
        ("int(object.metadata.name) == 1", "type conversion error from 'string' to 'int'"),
    ],
)
async def test_failures_follow_the_failure_policy(policies, expression, why):
    await policies.validating(expression)
    text = denied(f"expression '{expression}' resulted in error: {why}")
    assert (await policies.refused()).message == text
    await policies.world.delete(_ref("ValidatingAdmissionPolicy", "p"))
    await policies.validating(expression, failurePolicy="Ignore", bindings=[])
    await policies.create()


def _ref(kind, name):
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name}}


async def test_warnings_let_the_request_pass(policies):
    warn = {"validationActions": ["Warn", "Audit"]}
    await policies.validating("false", message="careful", bindings=[warn])
    await policies.create()
    assert policies.world.warnings == [
        "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p-0': careful"
    ]


async def test_bindings_narrow_and_act_for_themselves(policies):
    narrow = {"matchResources": {"objectSelector": {"matchLabels": {"a": "b"}}}}
    warn = {"validationActions": ["Warn"]}
    await policies.validating("false", message="one", bindings=[warn, narrow])
    await policies.create()
    error = await policies.refused(labels={"a": "b"})
    assert error.message == denied("one", binding="p-1")
    assert len(policies.world.warnings) == 1


async def test_policies_without_bindings_do_nothing(policies):
    await policies.validating("false", bindings=[])
    await policies.create()


@pytest.mark.parametrize(
    ("match", "stopped", "passing"),
    [
        ({"rules": [RULE | {"resourceNames": ["only"]}]}, "only", "c"),
        ({"excludeResourceRules": [RULE | {"resourceNames": ["skip"]}]}, "c", "skip"),
    ],
)
async def test_rules_by_name(policies, match, stopped, passing):
    await policies.validating("false", message="no", **match)
    assert (await policies.refused(name=stopped)).message == denied("no", name=stopped)
    await policies.create(name=passing)


@pytest.mark.parametrize(
    "match",
    [
        {"namespaceSelector": {"matchLabels": {"x": "y"}}},
        {"objectSelector": {"matchLabels": {"x": "y"}}},
        {"rules": [RULE | {"operations": ["DELETE"]}]},
        {"rules": [RULE | {"resources": ["secrets"]}]},
    ],
)
async def test_what_does_not_match_is_left_alone(policies, match):
    await policies.validating("false", **match)
    await policies.create()


async def test_conditions(policies):
    condition = {"name": "a", "expression": "'go' in object.data"}
    await policies.validating("false", message="no", matchConditions=[condition])
    assert (await policies.refused({"go": "1"})).message == denied("no")
    await policies.create({"no": "1"})
    why = "expression ''go' in object.data' resulted in error: no such key: data"
    assert (await policies.refused()).message == denied(why)


VARIABLES = [
    {"name": "size", "expression": "object.data.size()"},
    {"name": "twice", "expression": "variables.size * 2"},
    {"name": "bad", "expression": "object.nope.x"},
    {"name": "worse", "expression": "variables.bad + 1"},
]


async def test_variables_are_lazy(policies):
    # ``worse`` fails, but only those ask for it that do not have two entries.
    await policies.validating("variables.twice == 4 || variables.worse == 1", variables=VARIABLES)
    await policies.create({"a": "1", "b": "2"})
    why = 'composited variable "bad" fails to evaluate: no such key: nope'
    text = f"""resulted in error: composited variable "worse" fails to evaluate: {why}"""
    assert (await policies.refused({"a": "1"})).message.endswith(text)


async def test_variables_in_messages_strings_and_options(policies):
    said = "'variables.size ' + string(variables.twice) + string(has(variables.bad))"
    validation = {"expression": "variables.?size.orValue(0) < 2", "messageExpression": said}
    await policies.add("Validating", {"validations": [validation], "variables": VARIABLES})
    await policies.create({"a": "1"})
    error = await policies.refused({"a": "1", "b": "1"})
    assert error.message == denied("variables.size 4true")


async def test_authorizer_answers_for_the_user(policies):
    expression = "authorizer.group('').resource('pods').namespace('x').check('get').allowed()"
    await policies.validating(expression, message="no")
    await policies.create()
    policies.world.user = UserInfo("nobody", groups=("system:authenticated",))
    assert (await policies.refused()).message == denied("no")


async def test_audit_annotations_only_fail(policies):
    note = {"key": "k", "valueExpression": "string(object.nope)"}
    audit = {"validationActions": ["Audit"]}
    await policies.validating("true", auditAnnotations=[note], bindings=[audit])
    why = "expression 'string(object.nope)' resulted in error: no such key: nope"
    assert (await policies.refused()).message == denied(why)


async def test_deletes_have_an_old_object_only(policies):
    await policies.validating(
        "object == null && oldObject.data.keep != 'y'",
        message="kept",
        rules=[RULE | {"operations": ["DELETE"]}],
    )
    for value in "ny":
        await policies.world.put(_config_map(value) | {"data": {"keep": value}})
    await policies.world.delete(_config_map("n"))
    with pytest.raises(Invalid, match="kept"):
        await policies.world.delete(_config_map("y"))


def _config_map(name):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


async def test_policies_never_see_policies(policies):
    everything = RULE | {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    await policies.validating("false", rules=[everything])
    await policies.refused()
    await policies.validating("true", name="other")


async def test_other_versions_are_matched_and_shown(policies):
    rule = {
        "apiGroups": ["autoscaling"],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["horizontalpodautoscalers"],
    }
    said = "object.apiVersion + ' ' + request.kind.version + request.requestKind.version"
    validation = {"expression": "false", "messageExpression": said}
    await policies.add("Validating", {"validations": [validation]}, rules=[rule])
    target = {"kind": "Deployment", "name": "x", "apiVersion": "apps/v1"}
    scaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": target},
    }
    with pytest.raises(Invalid, match="denied request: autoscaling/v1 v1v2"):
        await policies.world.create(scaler)


async def test_changes_are_noticed(policies):
    await policies.validating("false")
    await policies.refused()
    await policies.world.delete(_ref("ValidatingAdmissionPolicyBinding", "p-0"))
    await policies.create()


# -- parameters ----------------------------------------------------------------------------

CONFIG_MAPS = {"apiVersion": "v1", "kind": "ConfigMap"}


async def _params(policies, **maxima):
    for name, value in maxima.items():
        meta = {"name": name, "labels": {"limit": "yes"}}
        await policies.world.put(CONFIG_MAPS | {"metadata": meta, "data": {"max": value}})


async def _limit(policies, ref, *, kind=CONFIG_MAPS, **more):
    said = "params.kind + ' ' + params.metadata.name + ' allows ' + params.data.max"
    expression = "object.data.size() <= int(params.data.max)"
    validation = {"expression": expression, "messageExpression": said}
    bindings = [{"paramRef": {"parameterNotFoundAction": "Deny"} | ref} if ref else {}]
    spec = {"validations": [validation], "paramKind": kind, **more}
    await policies.add("Validating", spec, bindings=bindings)


async def test_a_parameter_by_name(policies):
    await _params(policies, low="1")
    await _limit(policies, {"name": "low"})
    await policies.create({"a": "1"})
    error = await policies.refused({"a": "1", "b": "1"})
    assert error.message == denied("ConfigMap low allows 1")


async def test_parameters_by_selector_are_all_asked(policies):
    await _params(policies, high="3", low="1")
    await _limit(policies, {"selector": {"matchLabels": {"limit": "yes"}}})
    await policies.create({"a": "1"})
    error = await policies.refused({"a": "1", "b": "1"})
    assert error.message == denied("ConfigMap low allows 1")


NOT_FOUND = "no params found for policy binding with `Deny` parameterNotFoundAction"


@pytest.mark.parametrize(
    ("ref", "kind", "text"),
    [
        ({"name": "zz"}, CONFIG_MAPS, NOT_FOUND),
        ({"name": "low", "namespace": "default"}, CONFIG_MAPS, NOT_FOUND),
        (
            {"name": "team", "namespace": "x"},
            {"apiVersion": "v1", "kind": "Namespace"},
            "paramRef.namespace must not be provided for a cluster-scoped `paramKind`",
        ),
    ],
)
async def test_parameters_that_cannot_be_found(policies, ref, kind, text):
    await _params(policies, low="1")
    await _limit(policies, ref, kind=kind)
    error = await policies.refused({"a": "1"})
    assert error.message == denied(f"failed to configure binding: {text}")


async def test_missing_parameters_may_be_allowed(policies):
    await _limit(policies, {"name": "zz", "parameterNotFoundAction": "Allow"})
    await policies.create({"a": "1"})


async def test_bindings_without_parameters_see_null(policies):
    await _limit(policies, None)
    error = await policies.refused({"a": "1"})
    assert error.message.endswith("resulted in error: no such key: data")


@pytest.mark.parametrize("failure_policy", ["Fail", "Ignore"])
async def test_unknown_kinds_of_parameters(policies, failure_policy):
    unknown = {"apiVersion": "example.com/v1", "kind": "Nope"}
    await _limit(policies, {"name": "zz"}, kind=unknown, failurePolicy=failure_policy)
    if failure_policy == "Ignore":
        await policies.create({"a": "1"})
        return
    assert (await policies.refused({"a": "1"})).message == (
        "configmaps \"c\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: failed to "
        "configure policy: failed to find resource referenced by paramKind: "
        "'example.com/v1, Kind=Nope'"
    )


# -- mutating ------------------------------------------------------------------------------


def refused_by(text):
    return f"policy 'p' with binding 'p-0' denied request: {text}"


async def test_apply_configurations_are_merged(policies):
    await policies.applying(
        "Object{metadata: Object.metadata{labels: {'a': 'b'}}, data: {'x': object.metadata.name}}"
    )
    made = await policies.create({"y": "1"}, labels={"z": "1"})
    assert made["data"] == {"y": "1", "x": "c"}
    assert made["metadata"]["labels"] == {"z": "1", "a": "b"}
    assert (await policies.create())["data"] == {"x": "c"}


async def test_mutations_see_those_before_them(policies):
    await policies.applying("Object{data: {'x': '1'}}", "Object{data: {'y': object.data.x + '2'}}")
    assert (await policies.create())["data"] == {"x": "1", "y": "12"}


@pytest.mark.parametrize(
    ("expression", "data"),
    [
        ("has(object.data) ? Object{immutable: true} : Object{data: {'was': 'empty'}}", "empty"),
        ("Object{?data: optional.of({'was': 'empty'})}", "empty"),
        ("Object{metadata: Object.metadata{?labels: optional.none()}, data: {'was': 'x'}}", "x"),
        ("Object{data: {'was': 'Object{}'}}", "Object{}"),
        ("Object{data: {'was': variables.name}}", "c!"),
    ],
)
async def test_literals(policies, expression, data):
    variables = [{"name": "name", "expression": "object.metadata.name + '!'"}]
    await policies.applying(expression, variables=variables)
    assert (await policies.create())["data"] == {"was": data}


_SHAPE = "error applying patch: failed to convert patch object to typed object: "


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (
            "Object{metadata: Object.spec{labels: {'a': 'b'}}}",
            'type mismatch: unexpected type name "Object.spec", expected "Object.metadata", which '
            "matches field name path from root Object type",
        ),
        ("Object{foo: 'x'}", f"{_SHAPE}.foo: field not declared in schema"),
        ("Object{immutable: 'x'}", f"{_SHAPE}.immutable: expected boolean, got &{{x}}"),
        (
            "Object{data: {'x': object.zzz}}",
            "expression 'Object{data: {'x': object.zzz}}' resulted in error: no such key: zzz",
        ),
    ],
)
async def test_bad_apply_configurations(policies, expression, text):
    await policies.applying(expression)
    error = await policies.refused()
    assert (error.status["code"], error.status["reason"]) == (403, "Invalid")
    assert error.message == refused_by(text)
    assert error.details["causes"] == [{"message": refused_by(text)}]


async def test_failing_mutations_may_be_ignored(policies):
    await policies.applying("Object{data: {'x': object.zzz}}", failurePolicy="Ignore")
    assert "data" not in await policies.create()


DEPLOYMENTS = {
    "apiGroups": ["apps"],
    "apiVersions": ["v1"],
    "operations": ["CREATE"],
    "resources": ["deployments"],
}


def deployment():
    containers = [{"name": name, "image": "i"} for name in "cd"]
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }


SPEC = "Object.spec.template.spec"


async def test_results_are_defaulted_and_lists_merged_by_key(policies):
    await policies.applying(
        "Object{spec: Object.spec{replicas: 3, template: Object.spec.template{spec: "
        f"{SPEC}{{initContainers: [{SPEC}.initContainers{{name: 'init', image: 'x', "
        f"ports: [{SPEC}.initContainers.ports{{containerPort: 80}}]}}], "
        f"containers: object.spec.template.spec.containers.map(c, {SPEC}.containers{{"
        f"name: c.name, env: [{SPEC}.containers.env{{name: 'A', value: 'B'}}]}})}}}}}}}}",
        rules=[DEPLOYMENTS],
    )
    made = await policies.world.create(deployment())
    spec = made["spec"]["template"]["spec"]
    assert made["spec"]["replicas"] == 3
    assert [(c["name"], c["image"], c["env"]) for c in spec["containers"]] == [
        (name, "i", [{"name": "A", "value": "B"}]) for name in "cd"
    ]
    (init,) = spec["initContainers"]
    assert init["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert init["terminationMessagePath"] == "/dev/termination-log"


async def test_atomic_values_cannot_be_applied(policies):
    expression = (
        f"Object{{spec: Object.spec{{template: Object.spec.template{{spec: {SPEC}{{nodeSelector: "
        f"{{'a': 'b'}}, containers: [{SPEC}.containers{{name: 'c', command: ['x']}}]}}}}}}}}"
    )
    await policies.applying(expression, rules=[DEPLOYMENTS])
    with pytest.raises(ApiError) as caught:
        await policies.world.create(deployment())
    assert caught.value.message.startswith(
        refused_by(
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps "
            "or structs: "
        )
    )
    assert ".spec.template.spec.nodeSelector" in caught.value.message
    assert ".spec.template.spec.containers[0].command" in caught.value.message


async def test_json_patches(policies):
    await policies.patching(
        "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b'), "
        "value: 'v'}, JSONPatch{op: 'add', path: '/data', value: "
        "{'k': string(size(object.metadata.name))}}]"
    )
    made = await policies.create(labels={"q": "1"})
    assert made["metadata"]["labels"] == {"q": "1", "a/b": "v"}
    assert made["data"] == {"k": "1"}


async def test_json_patches_apply_where_their_tests_hold(policies):
    await policies.patching(
        "[JSONPatch{op: 'test', path: '/data/x', value: '1'}, "
        "JSONPatch{op: 'replace', path: '/data/x', value: '2'}]"
    )
    assert (await policies.create({"x": "1"}))["data"] == {"x": "2"}
    assert (await policies.create({"x": "9"}))["data"] == {"x": "9"}


async def test_json_patches_take_literals_for_values(policies):
    await policies.patching(
        "[JSONPatch{op: 'add', path: '/metadata', value: Object.metadata{name: "
        "object.metadata.name, labels: Object.metadata.labels{a: 'b'}}}]"
    )
    meta = (await policies.create())["metadata"]
    assert (meta["name"], meta["namespace"], meta["labels"]) == ("c", "team", {"a": "b"})


_MISSING = 'add operation does not apply: doc is missing path: "/data/x/y": missing value'
_ABSENT = "Unable to remove nonexistent key: x: missing value"


@pytest.mark.parametrize(
    ("operation", "code", "text"),
    [
        ("op: 'add', path: '/data/x/y', value: 1", 403, refused_by(f"JSON Patch: {_MISSING}")),
        (
            "op: 'remove', path: '/data/x'",
            403,
            refused_by(f"JSON Patch: error in remove for path: '/data/x': {_ABSENT}"),
        ),
        ("op: 'frob', path: '/data'", 403, refused_by("JSON Patch: Unexpected kind: frob")),
        (
            "op: 'add', path: '/foo', value: 1",
            500,
            'Internal error occurred: strict decoding error: unknown field "foo"',
        ),
        (
            "op: 'add', path: '/data', value: 1",
            500,
            "Internal error occurred: json: cannot unmarshal number into Go struct field "
            "ConfigMap.data of type map[string]string",
        ),
    ],
)
async def test_bad_json_patches(policies, operation, code, text):
    await policies.patching(f"[JSONPatch{{{operation}}}]")
    error = await policies.refused({"y": "9"})
    assert (error.status["code"], error.message) == (code, text)


async def test_generated_names_are_not_seen_and_stay(policies):
    await policies.applying("Object{data: {'named': string(has(object.metadata.name))}}")
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "gen-"}}
    made = await policies.world.create(obj)
    assert made["data"] == {"named": "false"}
    assert made["metadata"]["name"].startswith("gen-")


@pytest.mark.parametrize(("reinvocation", "saw"), [("Never", "no"), ("IfNeeded", "yes")])
async def test_reinvocation(policies, reinvocation, saw):
    first = "Object{data: {'saw': has(object.data) && 'b' in object.data ? 'yes' : 'no'}}"
    await policies.applying(first, name="a", reinvocationPolicy=reinvocation)
    await policies.applying("Object{data: {'b': '1'}}", name="b")
    assert (await policies.create())["data"] == {"saw": saw, "b": "1"}


async def test_unknown_parameters_of_mutations(policies):
    unknown = {"apiVersion": "example.com/v1", "kind": "Nope"}
    await policies.applying("Object{data: {'n': params.data.max}}", paramKind=unknown)
    error = await policies.refused()
    assert (error.status["code"], error.status["reason"]) == (403, "Forbidden")
    assert error.message == (
        'policy "p" denied request: failed to configure policy: failed to find resource '
        "referenced by paramKind: 'example.com/v1, Kind=Nope'"
    )


# -- what may be stored --------------------------------------------------------------------

COMPILATION = "compilation failed: ERROR: <input>:"


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            {"validations": [{"expression": "foo"}]},
            f'spec.validations[0].expression: Invalid value: "foo": {COMPILATION}1:1: undeclared '
            "reference to 'foo' (in container '')\n | foo\n | ^",
        ),
        (
            {"validations": [{"expression": "object.x"}]},
            'spec.validations[0].expression: Invalid value: "object.x": must evaluate to bool but '
            "got dyn",
        ),
        (
            {"validations": [{"expression": "request"}]},
            'spec.validations[0].expression: Invalid value: "request": must evaluate to bool but '
            "got kubernetes.AdmissionRequest",
        ),
        (
            {"validations": [{"expression": "request.foo"}]},
            f'spec.validations[0].expression: Invalid value: "request.foo": {COMPILATION}1:8: '
            "undefined field 'foo'\n | request.foo\n | .......^",
        ),
        (
            {"validations": [{"expression": "params.x"}]},
            f'spec.validations[0].expression: Invalid value: "params.x": {COMPILATION}1:1: '
            "undeclared reference to 'params' (in container '')\n | params.x\n | ^",
        ),
        (
            {"validations": [{"expression": "true", "messageExpression": "1"}]},
            'spec.validations[0].messageExpression: Invalid value: "1": must evaluate to string '
            "but got int",
        ),
        (
            {"auditAnnotations": [{"key": "k", "valueExpression": "1"}]},
            'spec.auditAnnotations[0].valueExpression: Invalid value: "1": must evaluate to one '
            "of [string null_type] but got int",
        ),
        (
            {
                "variables": [{"name": "a", "expression": "[1]"}],
                "validations": [{"expression": "variables.a[0]=='x'"}],
            },
            f"spec.validations[0].expression: Invalid value: \"variables.a[0]=='x'\": {COMPILATION}"
            "1:15: found no matching overload for '_==_' applied to '(int, string)'\n"
            " | variables.a[0]=='x'\n | ..............^",
        ),
        (
            {
                "variables": [{"name": "a-b", "expression": "1"}, {"name": "in"}],
                "validations": [{"expression": "true"}],
            },
            '[spec.variables[0].name: Invalid value: "a-b": must be a valid CEL identifier, '
            'spec.variables[1].name: Invalid value: "in": must be a valid CEL identifier, '
            "spec.variables[1].expression: Required value: expression is not specified]",
        ),
        (
            {
                "matchConditions": [{"name": "a", "expression": " 1 "}],
                "validations": [{"expression": "true"}],
            },
            'spec.matchConditions[0].expression: Invalid value: "1": must evaluate to bool but '
            "got int",
        ),
    ],
)
async def test_expressions_of_validating_policies_are_checked(policies, spec, text):
    with pytest.raises(Invalid) as caught:
        await policies.add("Validating", spec)
    head = 'ValidatingAdmissionPolicy.admissionregistration.k8s.io "p" is invalid: '
    assert caught.value.message == head + text


_AT = "spec.mutations[0]."


@pytest.mark.parametrize(
    ("mutation", "text"),
    [
        ({}, f"{_AT}patchType: Required value"),
        (
            {"patchType": "x"},
            f'{_AT}patchType: Unsupported value: "x": supported values: "ApplyConfiguration", '
            '"JSONPatch"',
        ),
        (
            {"patchType": "JSONPatch", "applyConfiguration": {"expression": ""}},
            f"[{_AT}jsonPatch: Required value: must be specified when patchType is JSONPatch, "
            f'{_AT}applyConfiguration: Invalid value: "{{applyConfiguration}}": must not be '
            "specified when patchType is JSONPatch]",
        ),
        (
            {"patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}},
            f'{_AT}jsonPatch.expression: Invalid value: "[]": must evaluate to list(JSONPatch) '
            "but got list(dyn)",
        ),
        (
            {"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 1}]"}},
            f'{_AT}jsonPatch.expression: Invalid value: "[JSONPatch{{op: 1}}]": {COMPILATION}1:14: '
            "expected type of field 'op' is 'string' but provided type is 'int'\n"
            " | [JSONPatch{op: 1}]\n | .............^",
        ),
        (
            {
                "patchType": "ApplyConfiguration",
                "applyConfiguration": {"expression": "Object.spec{}"},
            },
            f'{_AT}applyConfiguration.expression: Invalid value: "Object.spec{{}}": must evaluate '
            "to Object but got Object.spec",
        ),
        (
            {
                "patchType": "ApplyConfiguration",
                "applyConfiguration": {"expression": "Object{spec: Object.spec{a: foo}}"},
            },
            f'{_AT}applyConfiguration.expression: Invalid value: "Object{{spec: Object.spec{{a: '
            f"foo}}}}\": {COMPILATION}1:29: undeclared reference to 'foo' (in container '')\n"
            " | Object{spec: Object.spec{a: foo}}\n | ............................^",
        ),
    ],
)
async def test_mutations_are_checked(policies, mutation, text):
    with pytest.raises(Invalid) as caught:
        await policies.add("Mutating", {"mutations": [mutation], "reinvocationPolicy": "Never"})
    head = 'MutatingAdmissionPolicy.admissionregistration.k8s.io "p" is invalid: '
    assert caught.value.message == head + text


async def test_mutating_policies_say_when_they_run(policies):
    with pytest.raises(Invalid) as caught:
        await policies.add("Mutating", {}, rules=[RULE | {"operations": ["DELETE"]}])
    assert caught.value.message == (
        'MutatingAdmissionPolicy.admissionregistration.k8s.io "p" is invalid: '
        '[spec.matchConstraints.resourceRules.operations: Unsupported value: "DELETE": '
        'supported values: "*", "CONNECT", "CREATE", "UPDATE", spec.mutations: Required value: '
        "mutations must contain at least one item, spec.reinvocationPolicy: Required value]"
    )
