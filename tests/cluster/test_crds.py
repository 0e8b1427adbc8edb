"""Custom resources: schemas, defaults, rules, columns, subresources, versions, names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.backends import Backend
from tests.backends.base import Reply
from tests.cluster.objects import Obj, Objects, eventually

API = "apiextensions.k8s.io/v1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE = "application/merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"

SPEC: Obj = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 10},
        "mode": {"type": "string", "enum": ["fast", "slow"], "default": "slow"},
        "replicas": {"type": "integer", "default": 1},
        "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
        "immutable": {
            "type": "string",
            "x-kubernetes-validations": [
                {"rule": "self == oldSelf", "message": "immutable cannot change"}
            ],
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "port": {"x-kubernetes-int-or-string": True},
        "parts": {
            "type": "array",
            "maxItems": 5,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["id"],
            "items": {
                "type": "object",
                "required": ["id"],
                "properties": {
                    "id": {"type": "string", "maxLength": 20},
                    "weight": {"type": "integer", "default": 7},
                },
            },
        },
    },
    "x-kubernetes-validations": [
        {
            "rule": "!has(self.name) || self.mode == 'fast'",
            "messageExpression": "'mode ' + self.mode + ' takes no name'",
            "fieldPath": ".name",
            "reason": "FieldValueForbidden",
        },
        {"rule": "self.size >= oldSelf.size", "message": "size cannot shrink"},
    ],
}
STATUS: Obj = {
    "type": "object",
    "properties": {
        "phase": {"type": "string"},
        "replicas": {"type": "integer"},
        "selector": {"type": "string"},
    },
}


def version(name: str = "v1", **more: Any) -> Obj:
    schema = {"type": "object", "properties": {"spec": SPEC, "status": STATUS}}
    return {
        "name": name,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, "scale": SCALE},
        "additionalPrinterColumns": COLUMNS,
        "selectableFields": [{"jsonPath": ".spec.mode"}, {"jsonPath": ".status.phase"}],
    } | more


SCALE = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}
COLUMNS = [
    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
    {"name": "Phase", "type": "string", "jsonPath": ".status.phase", "priority": 1},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]


class Kit:
    """One definition and the objects of its kind."""

    def __init__(self, backend: Backend, namespace: str, unique: str) -> None:
        self.backend = backend
        self.group = f"g{unique}.example.test"
        self.namespace = namespace
        self.name = f"widgets.{self.group}"

    def definition(self, *versions: Obj, **spec: Any) -> Obj:
        names = {
            "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList",
            "shortNames": ["wd"], "categories": ["all"],
        }  # fmt: skip
        wanted = {
            "group": self.group, "scope": "Namespaced", "names": names,
            "versions": list(versions) or [version()],
        }  # fmt: skip
        return {
            "apiVersion": API, "kind": "CustomResourceDefinition",
            "metadata": {"name": self.name}, "spec": wanted | spec,
        }  # fmt: skip

    def install(self, *versions: Obj, **spec: Any) -> Obj:
        reply = self.backend.request("POST", CRDS, self.definition(*versions, **spec))
        assert reply.code == 201, reply.body
        return self.established()

    def established(self) -> Obj:
        def served() -> Obj | None:
            crd = self.read()
            good = condition(crd, "Established").get("status") == "True"
            version = crd["spec"]["versions"][0]["name"]
            listed = self.backend.request("GET", f"/apis/{self.group}/{version}/widgets")
            return crd if good and listed.code == 200 else None

        return eventually(served)

    def read(self, name: str = "") -> Obj:
        found: Obj = self.backend.request("GET", f"{CRDS}/{name or self.name}").json()
        return found

    def path(self, name: str = "", version: str = "v1") -> str:
        root = f"/apis/{self.group}/{version}/namespaces/{self.namespace}/widgets"
        return f"{root}/{name}" if name else root

    def widget(self, name: str, version: str = "v1", /, **spec: Any) -> Obj:
        return {
            "apiVersion": f"{self.group}/{version}", "kind": "Widget",
            "metadata": {"name": name}, "spec": {"size": 2} | spec,
        }  # fmt: skip

    def post(self, obj: Obj, query: str = "") -> Reply:
        version = obj["apiVersion"].rpartition("/")[2]
        return self.backend.request("POST", self.path(version=version) + query, obj)

    def make(self, name: str, version: str = "v1", /, **spec: Any) -> Obj:
        reply = self.post(self.widget(name, version, **spec))
        assert reply.code == 201, reply.body
        made: Obj = reply.json()
        return made

    def get(self, name: str, version: str = "v1") -> Obj:
        """An object that is there; a definition that just changed may take a moment."""

        def read() -> Obj | None:
            reply = self.backend.request("GET", self.path(name, version))
            return reply.json() if reply.code == 200 else None

        return eventually(read)

    def patch(self, name: str, patch: Obj, version: str = "v1") -> Reply:
        path = self.path(name, version)
        return self.backend.request("PATCH", path, patch, content_type=MERGE)

    def change(self, change: Obj) -> Obj:
        """Patch the definition."""
        reply = self.backend.request("PATCH", f"{CRDS}/{self.name}", change, content_type=MERGE)
        assert reply.code == 200, reply.body
        changed: Obj = reply.json()
        return changed

    def remove(self, name: str = "") -> None:
        self.backend.request("DELETE", f"{CRDS}/{name or self.name}")
        eventually(lambda: self.backend.request("GET", f"{CRDS}/{name or self.name}").code == 404)


def condition(crd: Obj, type_: str) -> Obj:
    conditions = crd.get("status", {}).get("conditions") or ()
    found: Obj = next((c for c in conditions if c["type"] == type_), {})
    return found


def causes(reply: Reply) -> list[tuple[str, str]]:
    """(field, message) of a refusal."""
    status = reply.json()
    assert reply.code == 422 and status["reason"] == "Invalid", status
    return [(c["field"], c["message"]) for c in status["details"]["causes"]]


@pytest.fixture
def bare(backend: Backend, namespace: str, unique: str) -> Iterator[Kit]:
    """Nothing is installed yet."""
    kit = Kit(backend, namespace, unique)
    yield kit
    kit.remove()


@pytest.fixture
def kit(bare: Kit) -> Kit:
    bare.install()
    return bare


# -- the definition -------------------------------------------------------------------------------


def test_definition_is_established_and_discovered(kit: Kit) -> None:
    crd = kit.read()
    assert condition(crd, "NamesAccepted")["status"] == "True"
    assert crd["status"]["acceptedNames"]["plural"] == "widgets"
    assert crd["status"]["storedVersions"] == ["v1"]
    assert crd["spec"]["conversion"] == {"strategy": "None"}

    def listed() -> dict[str, Obj] | None:
        reply = kit.backend.request("GET", f"/apis/{kit.group}/v1")
        return {r["name"]: r for r in reply.json()["resources"]} if reply.code == 200 else None

    found = eventually(listed)
    assert set(found) == {"widgets", "widgets/status", "widgets/scale"}
    assert found["widgets"]["shortNames"] == ["wd"]
    assert found["widgets"]["categories"] == ["all"]
    assert found["widgets/scale"]["kind"] == "Scale"
    assert found["widgets/scale"]["group"] == "autoscaling"
    assert "deletecollection" in found["widgets"]["verbs"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"group": "other.test"}, "metadata.name"),
        ({"scope": "Galaxy"}, "spec.scope"),
        ({"versions": [version(storage=False)]}, "spec.versions"),
        ({"versions": [version(), version()]}, "spec.versions"),
        ({"versions": [version(schema={"openAPIV3Schema": {"type": "object", "properties": {"a": {}}}})]}, "spec.validation.openAPIV3Schema.properties[a].type"),  # noqa: E501
        ({"preserveUnknownFields": True}, "spec.preserveUnknownFields"),
    ],
    ids=["group", "scope", "no storage", "twice", "not structural", "old pruning"],
)  # fmt: skip
def test_bad_definitions_are_refused(
    backend: Backend, namespace: str, unique: str, change: Obj, field: str
) -> None:
    kit = Kit(backend, namespace, unique)
    reply = backend.request("POST", CRDS, kit.definition(**change))
    assert field in [c[0] for c in causes(reply)], causes(reply)


def test_name_conflict_keeps_the_second_out_until_the_name_is_free(kit: Kit) -> None:
    second = kit.definition()
    other = f"gadgets.{kit.group}"
    second["metadata"]["name"] = other
    second["spec"]["names"] = {"plural": "gadgets", "kind": "Widget", "shortNames": ["wd"]}
    assert kit.backend.request("POST", CRDS, second).code == 201
    try:
        refused = eventually(
            lambda: (
                condition(kit.read(other), "NamesAccepted").get("status") == "False"
                and kit.read(other)
            )
        )
        assert isinstance(refused, dict)
        accepted = condition(refused, "NamesAccepted")
        assert accepted["reason"] in ("KindConflict", "ShortNamesConflict", "ListKindConflict")
        assert "is already in use" in accepted["message"]
        assert condition(refused, "Established")["status"] == "False"
        assert kit.backend.request("GET", f"/apis/{kit.group}/v1/gadgets").code == 404
        kit.remove()
        eventually(lambda: condition(kit.read(other), "Established").get("status") == "True")
        eventually(lambda: kit.backend.request("GET", f"/apis/{kit.group}/v1/gadgets").code == 200)
    finally:
        kit.remove(other)


def test_deleting_the_definition_deletes_the_objects(kit: Kit) -> None:
    kit.make("a")
    held = kit.widget("held")
    held["metadata"]["finalizers"] = ["example.test/hold"]
    assert kit.post(held).code == 201
    reply = kit.backend.request("DELETE", f"{CRDS}/{kit.name}")
    assert reply.code == 200
    crd = reply.json()
    assert crd["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    eventually(lambda: kit.backend.request("GET", kit.path("a")).code == 404)
    terminating = eventually(lambda: condition(kit.read(), "Terminating"))
    assert terminating["status"] == "True"
    refused = kit.post(kit.widget("late"))
    assert refused.code == 403
    assert (
        "create not allowed while custom resource definition is terminating"
        in (refused.json()["message"])
    )
    assert kit.patch("held", {"metadata": {"finalizers": None}}).code == 200
    eventually(lambda: kit.backend.request("GET", f"{CRDS}/{kit.name}").code == 404)
    eventually(lambda: kit.backend.request("GET", f"/apis/{kit.group}/v1/widgets").code == 404)
    kit.install()
    assert kit.backend.request("GET", kit.path()).json()["items"] == []


# -- values ---------------------------------------------------------------------------------------


def test_defaults_are_filled_in_and_unknown_fields_pruned(kit: Kit) -> None:
    made = kit.make(
        "a", parts=[{"id": "x", "junk": 1}], junk=True, free={"kept": {"deep": 1}}, port="http"
    )
    assert made["spec"] == {
        "size": 2, "mode": "slow", "replicas": 1, "parts": [{"id": "x", "weight": 7}],
        "free": {"kept": {"deep": 1}}, "port": "http",
    }  # fmt: skip
    assert made["metadata"]["generation"] == 1
    assert kit.get("a") == made


def test_unknown_fields_are_told_or_refused(kit: Kit) -> None:
    warned = kit.post(kit.widget("a", junk=True))
    assert warned.code == 201
    assert warned.headers["Warning"] == '299 - "unknown field \\"spec.junk\\""'
    strict = kit.post(kit.widget("b", junk=True), "?fieldValidation=Strict")
    assert strict.code == 400 and 'unknown field "spec.junk"' in strict.json()["message"]
    silent = kit.post(kit.widget("c", junk=True), "?fieldValidation=Ignore")
    assert silent.code == 201 and "Warning" not in silent.headers


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        ({"size": 0}, "spec.size", 'Invalid value: 0: spec.size in body should be greater than or equal to 1'),  # noqa: E501
        ({"size": 11}, "spec.size", 'Invalid value: 11: spec.size in body should be less than or equal to 10'),  # noqa: E501
        ({"size": "big"}, "spec.size", 'Invalid value: "string": spec.size in body must be of type integer: "string"'),  # noqa: E501
        ({"mode": "wild"}, "spec.mode", 'Unsupported value: "wild": supported values: "fast", "slow"'),  # noqa: E501
        ({"name": "Upper", "mode": "fast"}, "spec.name", "Invalid value: \"Upper\": spec.name in body should match '^[a-z]+$'"),  # noqa: E501
        ({"name": "toolong", "mode": "fast"}, "spec.name", "Too long: may not be more than 5 bytes"),  # noqa: E501
        ({"parts": [{"weight": 1}]}, "spec.parts[0].id", "Required value"),
        ({"parts": [{"id": "x"}, {"id": "x"}]}, "spec.parts[1]", 'Duplicate value: {"id":"x"}'),
        ({"port": True}, "spec.port", 'Invalid value: "boolean": spec.port in body must be of type integer,string: "boolean"'),  # noqa: E501
        ({"name": "abc"}, "spec.name", "Forbidden: mode slow takes no name"),
    ],
)  # fmt: skip
def test_values_are_validated(kit: Kit, spec: Obj, field: str, message: str) -> None:
    found = causes(kit.post(kit.widget("bad", **spec)))
    assert (field, message) in found, found


@pytest.mark.parametrize("number", ["123456789012345678901234567890", "1e30", "-2e19"])
def test_numbers_that_64_bits_do_not_hold(kit: Kit, number: str) -> None:
    def body(metadata: str, free: str) -> bytes:
        obj = kit.widget("huge", free={"number": "FREE"})
        obj["metadata"]["generation"] = "META"
        return json.dumps(obj).replace('"META"', metadata).replace('"FREE"', free).encode()

    refused = kit.backend.request("POST", kit.path(), body(number, "1"))
    assert refused.code == 400, refused.body
    assert "cannot be handled as a Widget" in refused.json()["message"]
    made = kit.backend.request("POST", kit.path(), body("1", number))
    assert made.code == 201, made.body
    assert made.json()["spec"]["free"]["number"] == float(number)


def test_required_field(kit: Kit) -> None:
    obj = kit.widget("bad")
    del obj["spec"]["size"]
    assert ("spec.size", "Required value") in causes(kit.post(obj))


def test_transition_rules_compare_with_what_was(kit: Kit) -> None:
    kit.make("a", size=5, immutable="x")
    shrunk = causes(kit.patch("a", {"spec": {"size": 4}}))
    assert [field for field, _ in shrunk] == ["spec"]
    assert shrunk[0][1].endswith("size cannot shrink")
    changed = causes(kit.patch("a", {"spec": {"immutable": "y"}}))
    assert changed[0][0] == "spec.immutable"
    assert changed[0][1].endswith("immutable cannot change")
    grown = kit.patch("a", {"spec": {"size": 6}})
    assert grown.code == 200 and grown.json()["metadata"]["generation"] == 2
    removed = kit.patch("a", {"spec": {"immutable": None}})
    assert removed.code == 200  # a rule of a field that goes away has nothing to compare


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        ("self.size >", "compilation failed"),
        ("self.unknown == 1", "undefined field 'unknown'"),
        ("self.size", "must evaluate to a bool"),
    ],
)
def test_rules_that_cannot_work_are_refused(
    backend: Backend, namespace: str, unique: str, rule: str, complaint: str
) -> None:
    kit = Kit(backend, namespace, unique)
    spec = {
        "type": "object", "properties": {"size": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": rule}],
    }  # fmt: skip
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    wanted = version(schema=schema)
    for extra in ("subresources", "additionalPrinterColumns", "selectableFields"):
        del wanted[extra]
    found = causes(backend.request("POST", CRDS, kit.definition(wanted)))
    field = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0]"
    assert found[0][0].startswith(field), found
    assert complaint in found[0][1], found


# -- subresources, columns, fields --------------------------------------------------------------


def test_status_and_spec_are_written_apart(kit: Kit) -> None:
    obj = kit.widget("a")
    obj["status"] = {"phase": "Early"}
    assert "status" not in kit.post(obj).json()
    live = kit.get("a")
    live["status"] = {"phase": "Ready"}
    live["spec"]["size"] = 9
    reply = kit.backend.request("PUT", kit.path("a") + "/status", live)
    assert reply.code == 200
    written = reply.json()
    assert written["status"] == {"phase": "Ready"}
    assert written["spec"]["size"] == 2 and written["metadata"]["generation"] == 1
    again = kit.patch("a", {"spec": {"size": 3}, "status": {"phase": "Lost"}}).json()
    assert again["status"] == {"phase": "Ready"} and again["spec"]["size"] == 3
    assert again["metadata"]["generation"] == 2


def test_scale(kit: Kit) -> None:
    kit.make("a", replicas=3)
    status = {"status": {"replicas": 2, "selector": "app=a"}}
    path = kit.path("a")
    assert kit.backend.request("PATCH", path + "/status", status, content_type=MERGE).code == 200
    scale = kit.backend.request("GET", path + "/scale").json()
    assert scale["kind"] == "Scale" and scale["apiVersion"] == "autoscaling/v1"
    assert scale["spec"] == {"replicas": 3}
    assert scale["status"] == {"replicas": 2, "selector": "app=a"}
    scale["spec"]["replicas"] = 5
    reply = kit.backend.request("PUT", path + "/scale", scale)
    assert reply.code == 200 and reply.json()["spec"] == {"replicas": 5}
    assert kit.get("a")["spec"]["replicas"] == 5
    stale = kit.backend.request("PUT", path + "/scale", scale)
    assert stale.code == 409
    patch = {"spec": {"replicas": 1}}
    reply = kit.backend.request("PATCH", path + "/scale", patch, content_type=MERGE)
    assert reply.code == 200 and kit.get("a")["spec"]["replicas"] == 1


def test_printer_columns(kit: Kit) -> None:
    kit.make("a", size=4)
    patch = {"status": {"phase": "Ready"}}
    kit.backend.request("PATCH", kit.path("a") + "/status", patch, content_type=MERGE)
    table = kit.backend.request("GET", kit.path(), headers={"Accept": TABLE}).json()
    assert [(c["name"], c["type"], c["priority"]) for c in table["columnDefinitions"]] == [
        ("Name", "string", 0), ("Size", "integer", 0), ("Phase", "string", 1), ("Age", "date", 0),
    ]  # fmt: skip
    assert table["rows"][0]["cells"][:3] == ["a", 4, "Ready"]


def test_selectable_fields(kit: Kit) -> None:
    kit.make("a", mode="fast")
    kit.make("b")

    def names(selector: str) -> list[str]:
        path = kit.path() + f"?fieldSelector={selector}"
        return [o["metadata"]["name"] for o in kit.backend.request("GET", path).json()["items"]]

    assert names("spec.mode%3Dfast") == ["a"]
    assert names("spec.mode!%3Dfast") == ["b"]
    assert names("status.phase%3D") == ["a", "b"]
    assert names("spec.mode%3Dslow,metadata.name%3Da") == []
    refused = kit.backend.request("GET", kit.path() + "?fieldSelector=spec.size%3D2")
    assert refused.code == 400
    assert refused.json()["message"] == "field label not supported: spec.size"


@pytest.mark.parametrize("kind", ["status", "scale"])
def test_subresource_that_is_not_declared(bare: Kit, kind: str) -> None:
    bare.install(version(subresources={}))
    obj = bare.widget("a")
    obj["status"] = {"phase": "Kept"}
    assert bare.post(obj).json()["status"] == {"phase": "Kept"}
    assert bare.backend.request("GET", bare.path("a") + f"/{kind}").code == 404


def test_strategic_merge_is_for_built_in_kinds(kit: Kit) -> None:
    kit.make("a")
    reply = kit.backend.request(
        "PATCH", kit.path("a"), {"spec": {"size": 3}},
        content_type="application/strategic-merge-patch+json",
    )  # fmt: skip
    assert reply.code == 415 and reply.json()["reason"] == "UnsupportedMediaType"


def test_cluster_scoped_kind(bare: Kit) -> None:
    bare.install(scope="Cluster")
    obj = bare.widget("a")
    reply = bare.backend.request("POST", f"/apis/{bare.group}/v1/widgets", obj)
    assert reply.code == 201 and "namespace" not in reply.json()["metadata"]
    assert bare.backend.request("GET", f"/apis/{bare.group}/v1/widgets/a").code == 200


# -- versions -------------------------------------------------------------------------------------


def loose(name: str, **more: Any) -> Obj:
    """A version whose spec takes other fields."""
    spec = {
        "type": "object",
        "properties": {"size": {"type": "integer"}, f"only-{name}": {"type": "string"}},
    }
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {"name": name, "served": True, "storage": False, "schema": schema} | more


def test_several_versions_show_the_same_object(bare: Kit) -> None:
    bare.install(loose("v1", storage=True), loose("v1beta1"), loose("v2"))
    made = bare.make("a", "v1beta1", **{"only-v1beta1": "x"})
    assert made["apiVersion"] == f"{bare.group}/v1beta1"
    for name in ("v1", "v1beta1", "v2"):
        seen = bare.get("a", name)
        assert seen["apiVersion"] == f"{bare.group}/{name}"
        assert seen["metadata"]["uid"] == made["metadata"]["uid"]
        assert seen["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
        listed = bare.backend.request("GET", bare.path(version=name)).json()
        assert listed["apiVersion"] == f"{bare.group}/{name}"
        assert listed["items"][0]["apiVersion"] == f"{bare.group}/{name}"
    group = bare.backend.request("GET", f"/apis/{bare.group}").json()
    assert [v["version"] for v in group["versions"]] == ["v2", "v1", "v1beta1"]
    assert group["preferredVersion"]["version"] == "v2"
    changed = bare.patch("a", {"spec": {"size": 7}}, "v2")
    assert changed.json()["apiVersion"] == f"{bare.group}/v2"
    assert bare.get("a")["spec"]["size"] == 7


def test_storage_version_can_change_and_old_ones_go(bare: Kit) -> None:
    bare.install(loose("v1", storage=True), loose("v2"))
    bare.make("old")
    bare.change({"spec": {"versions": [loose("v1"), loose("v2", storage=True)]}})
    eventually(lambda: bare.read()["status"]["storedVersions"] == ["v1", "v2"])
    eventually(lambda: bare.backend.request("GET", bare.path(version="v2")).code == 200)
    bare.make("new", "v2")
    for name in ("old", "new"):
        for which in ("v1", "v2"):
            assert bare.get(name, which)["apiVersion"] == f"{bare.group}/{which}"
    assert bare.patch("old", {"spec": {"size": 3}}, "v2").code == 200  # stored anew, as v2
    patch = {"spec": {"versions": [loose("v2", storage=True)]}}
    reply = bare.backend.request("PATCH", f"{CRDS}/{bare.name}", patch, content_type=MERGE)
    assert ("status.storedVersions[0]") in [c[0] for c in causes(reply)]
    bare.backend.request(
        "PATCH", f"{CRDS}/{bare.name}/status", {"status": {"storedVersions": ["v2"]}},
        content_type=MERGE,
    )  # fmt: skip
    bare.change(patch)
    eventually(lambda: bare.backend.request("GET", bare.path(version="v1")).code == 404)
    assert bare.get("old", "v2")["metadata"]["name"] == "old"


def test_version_that_is_no_longer_served(bare: Kit) -> None:
    bare.install(loose("v1", storage=True), loose("v2"))
    bare.make("a", "v2")
    bare.change({"spec": {"versions": [loose("v1", storage=True), loose("v2", served=False)]}})
    eventually(lambda: bare.backend.request("GET", bare.path(version="v2")).code == 404)
    assert bare.get("a")["spec"]["size"] == 2


def test_deprecated_version_warns(bare: Kit) -> None:
    warning = {"deprecated": True, "deprecationWarning": "use v1"}
    bare.install(loose("v1", storage=True), loose("v1beta1", **warning))
    reply = bare.backend.request("GET", bare.path(version="v1beta1"))
    assert reply.headers["Warning"] == '299 - "use v1"'
    assert "Warning" not in bare.backend.request("GET", bare.path()).headers


def test_schema_change_reaches_the_next_write(kit: Kit) -> None:
    kit.make("a")
    crd = kit.read()
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["colour"] = {"type": "string", "default": "red"}
    kit.change({"spec": {"versions": crd["spec"]["versions"]}})
    eventually(lambda: kit.get("a")["spec"].get("colour") == "red")
    assert kit.make("b", colour="blue")["spec"]["colour"] == "blue"


def test_schema_is_published(kit: Kit) -> None:
    def document() -> Obj | None:
        reply = kit.backend.request("GET", f"/openapi/v3/apis/{kit.group}/v1")
        return reply.json() if reply.code == 200 else None

    found = eventually(document)
    schemas = found["components"]["schemas"]
    (widget,) = [s for name, s in schemas.items() if name.endswith(".Widget")]
    assert widget["properties"]["spec"]["properties"]["size"]["maximum"] == 10
    assert widget["x-kubernetes-group-version-kind"] == [
        {"group": kit.group, "version": "v1", "kind": "Widget"}
    ]
    path = f"/apis/{kit.group}/v1/namespaces/{{namespace}}/widgets/{{name}}"
    assert "put" in found["paths"][path]


def test_objects_of_custom_kinds_own_and_are_owned(kit: Kit, objects: Objects) -> None:
    made = kit.make("boss")
    objects.create(
        "configmaps",
        {
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "child",
                "ownerReferences": [
                    {
                        "apiVersion": made["apiVersion"], "kind": "Widget", "name": "boss",
                        "uid": made["metadata"]["uid"],
                    }
                ],
            },
        },
    )  # fmt: skip
    kit.backend.request("DELETE", kit.path("boss"))
    eventually(lambda: objects.find("v1", "configmaps", "child") is None, seconds=60)
