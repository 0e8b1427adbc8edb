"""What Kubernetes' own conformance tests once found wrong with this server."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster import manifests
from tests.cluster.objects import Objects, eventually

Obj = dict[str, Any]
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
SERVICES = "apiregistration.k8s.io/v1"


@pytest.mark.parametrize(
    ("accept", "code"),
    [(TABLE, 406), (f"{TABLE},application/json", 201)],
    ids=["only a table", "a table or an object"],
)
def test_reviews_are_no_tables(cluster: Objects, accept: str, code: int) -> None:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    reply = cluster.backend.request("POST", path, review, headers={"Accept": accept})
    assert reply.code == code
    if code == 406:
        assert reply.json()["reason"] == "NotAcceptable"


def test_both_event_apis_select_by_their_own_fields(objects: Objects) -> None:
    """Listing in one API must not spoil the field selectors of the other."""
    new, old = "events.k8s.io/v1", "v1"
    objects.create("events", _event(objects.namespace))
    assert objects.names(new, "events", "?fieldSelector=regarding.kind=Pod") == {"happened"}
    assert objects.names(old, "events", "?fieldSelector=source=reporter") == {"happened"}
    assert objects.names(new, "events", "?fieldSelector=reportingController=reporter") == {
        "happened"
    }


def _event(namespace: str) -> Obj:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "happened", "namespace": namespace},
        "eventTime": "2024-01-01T00:00:00.000000Z",
        "type": "Normal",
        "reason": "Test",
        "action": "Did",
        "regarding": {"kind": "Pod", "namespace": namespace, "name": "p"},
        "reportingController": "reporter",
        "reportingInstance": "reporter-0",
    }


def test_open_definitions_say_nothing_of_their_parts_in_openapi_2(
    cluster: Objects, unique: str
) -> None:
    group = f"open{unique}.example.test"
    definition = manifests.widget_definition(group)
    definition["spec"]["versions"][0] |= {
        "schema": {
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        },
    }
    definition["spec"]["versions"][0].pop("additionalPrinterColumns", None)
    definition["spec"]["versions"][0].pop("selectableFields", None)
    definition["spec"]["versions"][0].pop("subresources", None)
    name = f"test.example.open{unique}.v1.Widget"
    cluster.create("customresourcedefinitions", definition)
    try:
        found = eventually(lambda: _definitions(cluster).get(name), seconds=30)
        gvk = {"group": group, "kind": "Widget", "version": "v1"}
        assert found == {"type": "object", "x-kubernetes-group-version-kind": [gvk]}
    finally:
        cluster.delete("apiextensions.k8s.io/v1", "customresourcedefinitions", f"widgets.{group}")


def _definitions(cluster: Objects) -> Obj:
    reply = cluster.backend.request("GET", "/openapi/v2")
    assert reply.code == 200
    found: Obj = reply.json()["definitions"]
    return found


def test_openapi_3_has_no_empty_lists_and_objects(cluster: Objects) -> None:
    """Go clients compare what they read with what they write, which leaves empty ones out."""
    for path in cluster.backend.request("GET", "/openapi/v3").json()["paths"]:
        if "example.test" in path:
            continue  # of another case, and maybe on its way out
        document = cluster.backend.request("GET", f"/openapi/v3/{path}").json()
        for item in document.get("paths", {}).values():
            assert item.get("parameters") != []
        assert document.get("components", {}).get("schemas") != {}


def test_the_default_service_range_is_an_object(cluster: Objects) -> None:
    found = cluster.get("networking.k8s.io/v1", "servicecidrs", "kubernetes")
    assert found["spec"] == {"cidrs": ["10.96.0.0/16"]}

    def ready() -> bool:
        found = cluster.get("networking.k8s.io/v1", "servicecidrs", "kubernetes")
        conditions = (found.get("status") or {}).get("conditions") or []
        return [(c["type"], c["status"]) for c in conditions] == [("Ready", "True")]

    assert eventually(ready)


def test_served_groups_are_registered(cluster: Objects) -> None:
    found = eventually(lambda: cluster.find(SERVICES, "apiservices", "v1.apps"))
    assert found is not None
    assert found["spec"] == {
        "group": "apps",
        "version": "v1",
        "groupPriorityMinimum": 17800,
        "versionPriority": 15,
    }
    groups = cluster.backend.request("GET", "/apis").json()["groups"]
    assert groups[0]["name"] == "apiregistration.k8s.io"


def test_custom_groups_are_registered_as_they_come_and_go(cluster: Objects, unique: str) -> None:
    group = f"reg{unique}.example.test"
    cluster.create("customresourcedefinitions", manifests.widget_definition(group))
    name = f"v1.{group}"

    def available() -> Obj | None:
        found = cluster.find(SERVICES, "apiservices", name)
        return found if found and (found.get("status") or {}).get("conditions") else None

    try:
        found = eventually(available, seconds=30)
        assert found is not None
        assert found["metadata"]["labels"] == {"kube-aggregator.kubernetes.io/automanaged": "true"}
        condition = found["status"]["conditions"][0]
        assert (condition["type"], condition["status"], condition["reason"]) == (
            "Available",
            "True",
            "Local",
        )
    finally:
        cluster.delete("apiextensions.k8s.io/v1", "customresourcedefinitions", f"widgets.{group}")
    assert eventually(lambda: cluster.find(SERVICES, "apiservices", name) is None, seconds=30)


def test_api_services_are_validated(cluster: Objects) -> None:
    wrong = {
        "apiVersion": SERVICES,
        "kind": "APIService",
        "metadata": {"name": "bad"},
        "spec": {"group": "a.example.test", "version": "v1", "insecureSkipTLSVerify": True},
    }
    reply = cluster.backend.request("POST", f"/apis/{SERVICES}/apiservices", wrong)
    assert reply.code == 422
    causes = {c["field"]: c["message"] for c in reply.json()["details"]["causes"]}
    assert causes == {
        "metadata.name": 'Invalid value: "bad": must be `spec.version+"."+spec.group`: '
        '"v1.a.example.test"',
        "spec.groupPriorityMinimum": "Invalid value: 0: must be positive and less than 20000",
        "spec.versionPriority": "Invalid value: 0: must be positive and less than 1000",
        "spec.insecureSkipTLSVerify": "Invalid value: true: local APIServices may not have "
        "insecureSkipTLSVerify",
    }


def test_pods_leave_a_namespace_first(cluster: Objects, unique: str) -> None:
    name = f"going-{unique}"
    cluster.create(
        "namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    )
    inside = Objects(cluster.backend, name)
    eventually(lambda: inside.find("v1", "serviceaccounts", "default"))
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "stays", "finalizers": ["example.test/held"]},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    inside.create("pods", pod)
    inside.create(
        "configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "used"}}
    )
    cluster.delete("v1", "namespaces", name)

    def processed() -> bool:
        conditions = cluster.get("v1", "namespaces", name)["status"].get("conditions") or []
        return any(c["type"] == "NamespaceDeletionContentFailure" for c in conditions)

    assert eventually(processed, seconds=30)
    assert "deletionTimestamp" in inside.get("v1", "pods", "stays")["metadata"]
    assert inside.find("v1", "configmaps", "used") is not None
    inside.patch("v1", "pods", "stays", {"metadata": {"finalizers": None}})
    assert eventually(lambda: cluster.find("v1", "namespaces", name) is None, seconds=60)


@pytest.mark.parametrize(
    ("signer", "seconds", "longest"),
    [("example.test/signer", 7862401, 7862400), ("a.kubernetes.io/signer", 86401, 86400)],
    ids=["any signer", "an own signer"],
)
def test_pod_certificates_do_not_last_for_ever(
    objects: Objects, signer: str, seconds: int, longest: int
) -> None:
    certificate = {
        "signerName": signer,
        "keyType": "ED25519",
        "maxExpirationSeconds": seconds,
        "credentialBundlePath": "bundle.pem",
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "certified"},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "projected": {"sources": [{"podCertificate": certificate}]}}],
        },
    }
    reply = objects.backend.request("POST", objects.path("v1", "pods"), pod)
    assert reply.code == 422
    assert [c["message"] for c in reply.json()["details"]["causes"]] == [
        f"Invalid value: {seconds}: if provided, maxExpirationSeconds must be <= {longest}"
    ]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (
            "... [] bad expression",
            "compilation failed: ERROR: <input>:1:2: Syntax error: no viable alternative at input "
            "'..'\n | ... [] bad expression\n | .^",
        ),
        (
            "params.x == 1",
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in "
            "container '')\n | params.x == 1\n | ^",
        ),
        ("object.spec", "must evaluate to bool but got dyn"),
        ("authorizer.requestResource.check('get').allowed() && object.x == 1", ""),
        ("namespaceObject.metadata.name == 'x'", ""),
    ],
    ids=["no expression", "an unknown name", "no condition", "a condition", "one on the namespace"],
)
def test_match_conditions_are_compiled(cluster: Objects, expression: str, message: str) -> None:
    hook = {
        "name": "a.example.test",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "matchConditions": [{"name": "c", "expression": expression}],
    }
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "conditions.example.test"},
        "webhooks": [hook],
    }
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations?dryRun=All"
    reply = cluster.backend.request("POST", path, configuration)
    assert reply.code == (422 if message else 201), reply.body
    if message:
        cause = reply.json()["details"]["causes"][0]
        assert cause["field"] == "webhooks[0].matchConditions[0].expression"
        assert cause["message"] == f'Invalid value: "{expression}": {message}'
