# ruff: noqa: E501 -- a case a line reads better
"""Reading: lists, pages, selectors, other shapes of answers, watches, discovery, deletes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.compare.kinds import READS, SAMPLES
from tests.cluster.compare.normal import Normal, differences
from tests.cluster.compare.pair import Pair, Request, Side
from tests.cluster.compare.watching import Watch

pytestmark = pytest.mark.real

AGE = re.compile(r"\d+[smhd]|<unknown>|<invalid>")
CORE = f"/api/v1/namespaces/{READS}"
SECRETS = f"{CORE}/secrets"
PODS = f"{CORE}/pods"
JOBS = f"/apis/batch/v1/namespaces/{READS}/jobs"
WIDGETS = f"/apis/example.com/v1/namespaces/{READS}/widgets"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


def secret(name: str, **labels: str) -> dict[str, Any]:
    meta = {"name": name, "labels": labels} if labels else {"name": name}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": {"a": name}}


def pod(name: str, node: str = "") -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [{"name": "main", "image": "busybox"}]}
    if node:
        spec["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def widget(name: str, color: str = "blue") -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"size": 1, "color": color},
    }


@pytest.fixture(scope="module")
def shelf(pair: Pair) -> Iterator[Pair]:
    """Both servers with the same things to look at."""
    for i in range(5):
        pair.same(Request("POST", SECRETS, secret(f"s{i}", parity="odd" if i % 2 else "even")))
    pair.same(Request("POST", SECRETS, secret("bare")))
    pair.same(Request("POST", PODS, pod("unbound")))
    pair.same(Request("POST", PODS, pod("bound", "somewhere")))
    for name, color in (("red", "red"), ("green", "green"), ("blue", "blue")):
        pair.same(Request("POST", WIDGETS, widget(name, color)))
    yield pair


def get(path: str, accept: str = "") -> Request:
    return Request("GET", path, headers=(("Accept", accept),) if accept else ())


# -- selectors ---------------------------------------------------------------------------------

LABELS = (
    "parity%3Dodd", "parity%3D%3Deven", "parity!%3Dodd", "parity", "!parity", "parity%20in%20(odd,even)",
    "parity%20notin%20(odd)", "parity%3Dodd,parity%3Deven", "nosuch%3Dx", "", "parity%20in%20(odd)%2Cparity",
)  # fmt: skip
FIELDS = (
    (SECRETS, "metadata.name%3Ds1"), (SECRETS, "metadata.name!%3Ds1"), (SECRETS, "type%3DOpaque"), (SECRETS, "type%3Dx"),
    (SECRETS, f"metadata.namespace%3D{READS}"), (SECRETS, "metadata.name%3Ds1,metadata.name%3Ds2"),
    (PODS, "spec.nodeName%3Dsomewhere"), (PODS, "spec.nodeName%3D"), (PODS, "status.phase%3DPending"),
    (PODS, "status.phase!%3DRunning"), (PODS, "spec.restartPolicy%3DAlways"), (PODS, "spec.serviceAccountName%3Ddefault"),
    (PODS, "status.podIP%3D10.0.0.1"), (PODS, "spec.schedulerName%3Ddefault-scheduler"), (PODS, "spec.hostNetwork%3Dfalse"),
    (WIDGETS, "spec.color%3Dred"), (WIDGETS, "spec.color!%3Dred"),
)  # fmt: skip
ODD_FIELDS = (
    SECRETS, PODS, JOBS, WIDGETS, f"{CORE}/services", f"{CORE}/events", f"{CORE}/configmaps", "/api/v1/nodes",
    "/api/v1/namespaces", f"{CORE}/serviceaccounts", f"{CORE}/replicationcontrollers", f"{CORE}/endpoints",
    f"{CORE}/persistentvolumeclaims", "/api/v1/persistentvolumes", f"/apis/apps/v1/namespaces/{READS}/deployments",
    f"/apis/apps/v1/namespaces/{READS}/statefulsets", f"/apis/apps/v1/namespaces/{READS}/replicasets",
    f"/apis/batch/v1/namespaces/{READS}/cronjobs", "/apis/certificates.k8s.io/v1/certificatesigningrequests",
    f"/apis/events.k8s.io/v1/namespaces/{READS}/events", f"/apis/coordination.k8s.io/v1/namespaces/{READS}/leases",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles", "/apis/storage.k8s.io/v1/storageclasses",
)  # fmt: skip


@pytest.mark.parametrize("selector", LABELS)
def test_label_selectors(shelf: Pair, selector: str) -> None:
    outcome = shelf.same(get(f"{SECRETS}?labelSelector={selector}"))
    assert outcome.theirs.code == 200


@pytest.mark.parametrize(("path", "selector"), FIELDS)
def test_field_selectors(shelf: Pair, path: str, selector: str) -> None:
    shelf.same(get(f"{path}?fieldSelector={selector}"))


@pytest.mark.parametrize("path", ODD_FIELDS)
def test_field_selectors_that_are_not_supported(shelf: Pair, path: str) -> None:
    outcome = shelf.same(get(f"{path}?fieldSelector=spec.nosuch%3Dx"))
    assert outcome.theirs.code == 400


# -- pages and versions ------------------------------------------------------------------------


def walk(side: Side, path: str) -> list[tuple[list[str], int | None, bool]]:
    """Every page: its names, how many are said to remain, and whether there is a token."""
    pages = []
    token = ""
    while True:
        found = json.loads(side.send(get(path + (f"&continue={token}" if token else ""))).body)
        names = [item["metadata"]["name"] for item in found["items"]]
        token = found["metadata"].get("continue", "")
        pages.append((names, found["metadata"].get("remainingItemCount"), bool(token)))
        if not token:
            return pages


@pytest.mark.parametrize(
    "query",
    [
        "limit=1", "limit=2", "limit=4", "limit=6", "limit=100", "limit=2&labelSelector=parity%3Dodd",
        "limit=2&fieldSelector=metadata.name!%3Ds1", "limit=0",
    ],
)  # fmt: skip
def test_pages(shelf: Pair, query: str) -> None:
    ours, theirs = (walk(side, f"{SECRETS}?{query}") for side in (shelf.ours, shelf.theirs))
    if "Selector" in query:
        # kube-apiserver may end with an empty page when it has not looked at all yet.
        ours, theirs = ([page for page in pages if page[0]] for pages in (ours, theirs))
        ours, theirs = ([page[:2] for page in pages] for pages in (ours, theirs))
    assert ours == theirs


def test_pages_show_one_state(shelf: Pair) -> None:
    """What is created between two pages is on neither."""
    rest = []
    for side in (shelf.ours, shelf.theirs):
        first = json.loads(side.send(get(f"{SECRETS}?limit=2")).body)
        side.send(Request("POST", SECRETS, secret("s00")))
        token = first["metadata"]["continue"]
        after = json.loads(side.send(get(f"{SECRETS}?limit=50&continue={token}")).body)
        side.send(Request("DELETE", f"{SECRETS}/s00"))
        assert after["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        rest.append([item["metadata"]["name"] for item in after["items"]])
    assert rest[0] == rest[1]
    assert "s00" not in rest[0]


@pytest.mark.parametrize(
    "query",
    [
        "resourceVersion=0", "resourceVersion=0&limit=1", "resourceVersion=$RV", "resourceVersion=$RV&limit=2",
        "resourceVersion=$RV&resourceVersionMatch=Exact", "resourceVersion=$RV&resourceVersionMatch=NotOlderThan",
        "resourceVersion=0&resourceVersionMatch=NotOlderThan", "resourceVersion=$RV&resourceVersionMatch=Exact&limit=1",
    ],
)  # fmt: skip
def test_lists_at_versions(shelf: Pair, query: str) -> None:
    """Only what is in them: tokens and counts depend on caches."""
    shelf.same(Request("GET", f"{SECRETS}/s4", about="newest"))
    names = []
    for side in (shelf.ours, shelf.theirs):
        reply = side.send(Request("GET", f"{SECRETS}?{query}", about="newest"))
        assert reply.code == 200, reply.body
        names.append([item["metadata"]["name"] for item in json.loads(reply.body)["items"]])
    assert names[0] == names[1]


@pytest.mark.parametrize("query", ["resourceVersion=0", "resourceVersion=$RV", "pretty=true"])
def test_get_at_versions(shelf: Pair, query: str) -> None:
    shelf.same(Request("GET", f"{SECRETS}/s4", about="newest"))
    shelf.same(Request("GET", f"{SECRETS}/s4?{query}", about="newest"))


# -- shapes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "accept"),
    [
        (f"{SECRETS}/s1", TABLE), (SECRETS, TABLE), (PODS, TABLE), (f"{PODS}/bound", TABLE), (WIDGETS, TABLE),
        (f"{WIDGETS}/red", TABLE), (f"{SECRETS}?includeObject=None", TABLE), (f"{SECRETS}?includeObject=Object", TABLE),
        (f"{SECRETS}?includeObject=Odd", TABLE),
        (f"{SECRETS}/s1", PARTIAL), (SECRETS, PARTIAL_LIST), (WIDGETS, PARTIAL_LIST),
        (f"{WIDGETS}/red", PARTIAL), (f"{SECRETS}/absent", TABLE), (f"{SECRETS}?limit=2&labelSelector=parity", TABLE),
        (f"{JOBS}", TABLE), (f"{SECRETS}/s1", "application/yaml"), (SECRETS, "application/yaml;q=0.5, application/json;q=0.1"),
    ],
)  # fmt: skip
def test_shapes(shelf: Pair, path: str, accept: str) -> None:
    ours, theirs = (side.send(get(path, accept)) for side in (shelf.ours, shelf.theirs))
    assert ours.code == theirs.code
    if "yaml" in accept:
        assert ours.content_type == theirs.content_type
        return
    assert not differences(shape(ours.value()), shape(theirs.value()))


def shape(value: Any) -> Any:
    """Normalised; ages in tables depend on when the objects were made, tokens on the server."""
    if isinstance(value, dict) and isinstance(value.get("metadata"), dict):
        value["metadata"].pop("continue", None)
    value = Normal().value(value)
    if isinstance(value, dict) and value.get("kind") == "Table":
        for column in value.get("columnDefinitions") or ():
            del column["description"]  # prose
        for row in value["rows"]:
            row["cells"] = ["age" if AGE.fullmatch(str(cell)) else cell for cell in row["cells"]]
            if row.get("object") is None:
                row.pop("object", None)
    return value


# -- watches -----------------------------------------------------------------------------------


def changes(side: Side, path: str) -> None:
    """The same history everywhere: appear, change, leave a selector, come back, go."""
    side.send(Request("POST", path, secret("w", watched="yes")))
    for body in (
        {"metadata": {"annotations": {"n": "1"}}},
        {"metadata": {"labels": {"watched": "no"}}},
        {"metadata": {"annotations": {"n": "2"}}},
        {"metadata": {"labels": {"watched": "yes"}}},
    ):
        side.send(Request("PATCH", f"{path}/w", body, "application/merge-patch+json"))
    side.send(Request("DELETE", f"{path}/w"))


@pytest.mark.parametrize(
    "query",
    [
        "", "labelSelector=watched%3Dyes", "labelSelector=watched%3Dno", "fieldSelector=metadata.name%3Dw",
        "fieldSelector=metadata.name%3Dother", "labelSelector=watched%3Dyes&fieldSelector=metadata.name%3Dw",
    ],
)  # fmt: skip
@pytest.mark.parametrize("accept", ["application/json", TABLE, PARTIAL])
def test_watch_from_a_version(shelf: Pair, query: str, accept: str) -> None:
    seen = []
    for side in (shelf.ours, shelf.theirs):
        start = json.loads(side.send(get(SECRETS)).body)["metadata"]["resourceVersion"]
        changes(side, SECRETS)
        path = f"{SECRETS}?watch=true&resourceVersion={start}&timeoutSeconds=1&{query}"
        seen.append([shaped(event) for event in Watch(side, path, accept=accept).rest()])
    assert not differences(*seen)


def shaped(event: Any) -> Any:
    return {"type": event["type"], "object": shape(event["object"])}


@pytest.mark.parametrize(
    "query",
    [
        "timeoutSeconds=1", "resourceVersion=0&timeoutSeconds=1", "labelSelector=parity%3Dodd&timeoutSeconds=1",
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1",
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1&resourceVersion=0",
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1&labelSelector=parity",
        "sendInitialEvents=false&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1",
    ],
)  # fmt: skip
def test_watch_from_the_start(shelf: Pair, query: str) -> None:
    """What is there comes as ADDED, in any order; the bookmark that ends it comes last."""
    seen = []
    for side in (shelf.ours, shelf.theirs):
        events = Watch(side, f"{SECRETS}?watch=true&{query}").rest()
        tail = [e for e in events if e["type"] == "BOOKMARK"]
        marks = [e["object"]["metadata"].get("annotations") for e in tail]
        ended = [mark for mark in marks if mark]  # others come with time
        added = sorted(json.dumps(e, sort_keys=True) for e in events if e["type"] != "BOOKMARK")
        seen.append([added, ended])
    assert seen[0] == seen[1]


def test_watch_is_no_option_of_a_get(shelf: Pair) -> None:
    shelf.same(get(f"{SECRETS}/s1?watch=true&timeoutSeconds=1"))


def test_old_watch_paths(shelf: Pair) -> None:
    path = f"/api/v1/watch/namespaces/{READS}/secrets?timeoutSeconds=1&fieldSelector=type%3DOpaque"
    seen = [
        sorted(json.dumps(e, sort_keys=True) for e in Watch(side, path).rest())
        for side in (shelf.ours, shelf.theirs)
    ]
    assert seen[0] == seen[1]


# -- discovery ---------------------------------------------------------------------------------


def groups(side: Side) -> dict[str, list[str]]:
    found = json.loads(side.send(get("/apis")).body)["groups"]
    return {g["name"]: [v["version"] for v in g["versions"]] for g in found}


def documents(pair: Pair) -> Iterator[str]:
    yield "/api/v1"
    theirs = groups(pair.theirs)
    for group, versions in groups(pair.ours).items():
        if group in theirs:
            yield from (f"/apis/{group}/{v}" for v in versions if v in theirs[group])


def test_every_group_we_serve_is_a_real_one(pair: Pair) -> None:
    """metrics.k8s.io is an aggregated API, which a bare kube-apiserver has not."""
    assert set(groups(pair.ours)) - set(groups(pair.theirs)) <= {"metrics.k8s.io"}


def test_resources_are_described_alike(pair: Pair) -> None:
    found: list[str] = []
    for path in documents(pair):
        ours, theirs = (listed(side, path) for side in (pair.ours, pair.theirs))
        for name, described in ours.items():
            if name not in theirs:
                found.append(f"{path} {name}: not in kube-apiserver")
            else:
                found += differences(described, theirs[name], f"{path} {name}")
    assert not found, "\n".join(found)


def listed(side: Side, path: str) -> dict[str, Any]:
    resources = json.loads(side.send(get(path)).body)["resources"]
    for resource in resources:
        resource.pop("storageVersionHash", None)  # of the encoding, which is another one
        resource["verbs"].sort()
    return {resource["name"]: resource for resource in resources}


# -- deleting ----------------------------------------------------------------------------------


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: f"{s.kind}-{s.api_version}")
@pytest.mark.parametrize(
    "options",
    [None, {}, {"propagationPolicy": "Background"}, {"gracePeriodSeconds": 0}],
    ids=["none", "empty", "background", "now"],
)
def test_delete_answers(pair: Pair, sample: Any, options: Any) -> None:
    if sample.alone:
        pytest.skip("its controller is at work in ours")
    how = "-".join(options or ["none" if options is None else "empty"]).lower()
    name = f"gone-{sample.api_version[-1]}-{how}"
    pair.send(Request("POST", sample.collection, sample.minimal(name), about=name))
    dry = {**(options or {}), "dryRun": ["All"]}
    pair.same(Request("DELETE", f"{sample.collection}/{name}", dry, about=name))
    pair.same(Request("DELETE", f"{sample.collection}/{name}", options, about=name))
    if sample.kind == "Pod":
        now = {"gracePeriodSeconds": 0}
        pair.same(Request("DELETE", f"{sample.collection}/{name}", now, about=name))


@pytest.mark.parametrize("policy", ["Foreground", "Orphan", "Background"])
def test_propagation_policies(pair: Pair, policy: str) -> None:
    """A finalizer of the object's own keeps it, so that what a policy sets can be seen."""
    for path, body in ((SECRETS, secret(f"held-{policy}".lower())), (WIDGETS, widget("held"))):
        body["metadata"] |= {"finalizers": ["example.com/hold"], "name": f"held-{policy}".lower()}
        one = f"{path}/{body['metadata']['name']}"
        pair.same(Request("POST", path, body, about=one))
        pair.same(Request("DELETE", one, {"propagationPolicy": policy}, about=one))
        pair.same(Request("POST", path, body))


def test_last_finalizer_ends_a_delete(pair: Pair) -> None:
    body = secret("final")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    one = f"{SECRETS}/final"
    pair.same(Request("POST", SECRETS, body, about=one))
    pair.same(Request("DELETE", one, about=one))
    pair.same(Request("DELETE", one, about=one))
    add = {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}
    merge = "application/merge-patch+json"
    pair.same(Request("PATCH", one, add, merge, about=one))
    pair.same(Request("PATCH", one, {"metadata": {"finalizers": None}}, merge, about=one))
    pair.same(Request("GET", one))


def test_deletecollection(pair: Pair) -> None:
    for i in range(3):
        labels = {"batch": "yes" if i else "no"}
        pair.same(Request("POST", SECRETS, secret(f"many{i}", **labels)))
    path = f"{SECRETS}?labelSelector=batch%3Dyes"
    pair.same(Request("DELETE", f"{path}&dryRun=All"))
    pair.same(Request("DELETE", path))
    pair.same(get(f"{SECRETS}?labelSelector=batch"))
    pair.same(Request("DELETE", f"{SECRETS}?labelSelector=batch", {"propagationPolicy": "Odd"}))
