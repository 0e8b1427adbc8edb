"""Which nodes will do, and the words for those that will not."""

from __future__ import annotations

from typing import Any

import pytest
from scheduling_objects import (
    HOST,
    ZONE,
    cluster,
    container,
    expression,
    node,
    node_terms,
    outcome,
    pod,
    pod_term,
    required,
    spread,
)

from corral.cluster.scheduler.placement.cycle import Cycle
from corral.kube.types import Obj

AFFINITY = "node(s) didn't match Pod's node affinity/selector"
PORTS = "node(s) didn't have free ports for the requested pod ports"


def reject(
    nodes: list[Obj], item: Obj, pods: list[Obj] | None = None
) -> dict[str, tuple[Any, ...]]:
    """Reasons by node, each with whether evicting pods could help; fitting nodes left out."""
    state = cluster(nodes, pods)
    _, error = Cycle(state, state.info(item)).feasible()
    return {name: (*r.reasons, r.resolvable) for name, r in error.rejections.items()}


LOCAL: dict[str, tuple[Obj, Obj, tuple[Any, ...] | None]] = {
    "cordoned": (node("n", unschedulable=True), pod("p"), ("node(s) were unschedulable", False)),
    "cordoned, tolerated": (
        node("n", unschedulable=True),
        pod("p", tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]),
        None,
    ),
    "tainted": (
        node("n", taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]),
        pod("p", tolerations=[{"key": "gpu", "value": "no", "effect": "NoSchedule"}]),
        ("node(s) had untolerated taint(s)", False),
    ),
    "taint tolerated by value": (
        node("n", taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]),
        pod("p", tolerations=[{"key": "gpu", "operator": "Equal", "value": "yes"}]),
        None,
    ),
    "taint tolerated for another effect": (
        node("n", taints=[{"key": "gpu", "effect": "NoExecute"}]),
        pod("p", tolerations=[{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]),
        ("node(s) had untolerated taint(s)", False),
    ),
    "everything tolerated": (
        node("n", taints=[{"key": "gpu", "effect": "NoExecute"}]),
        pod("p", tolerations=[{"operator": "Exists"}]),
        None,
    ),
    "a soft taint keeps nothing away": (
        node("n", taints=[{"key": "old", "effect": "PreferNoSchedule"}]),
        pod("p"),
        None,
    ),
    "node selector": (
        node("n", labels={"disk": "hdd"}),
        pod("p", nodeSelector={"disk": "ssd"}),
        (AFFINITY, False),
    ),
    "too little cpu free": (
        node("n", cpu="1"),
        pod("p", {"cpu": "1500m"}),
        ("Insufficient cpu", False),
    ),
    "several resources": (
        node("n", cpu="1", memory="1Gi"),
        pod("p", {"cpu": "2", "memory": "2Gi", "nvidia.com/gpu": "1"}),
        ("Insufficient cpu", "Insufficient memory", "Insufficient nvidia.com/gpu", False),
    ),
    "no room for pods at all": (node("n", pods=0), pod("p"), ("Too many pods", True)),
    "extended resource there": (
        node("n", nvidia_com__gpu="1"),
        pod("p", {"nvidia.com/gpu": "1"}),
        None,
    ),
    "the first rule speaks": (
        node("n", unschedulable=True, cpu="1"),
        pod("p", {"cpu": "2"}, nodeSelector={"disk": "ssd"}),
        ("node(s) were unschedulable", False),
    ),
}


@pytest.mark.parametrize("case", LOCAL)
def test_one_node(case: str) -> None:
    where, item, expected = LOCAL[case]
    assert reject([where], item).get("n") == expected


def test_what_other_pods_hold_can_be_resolved() -> None:
    held = pod("q", {"cpu": "3"}, on="n")
    assert reject([node("n")], pod("p", {"cpu": "2"}), [held]) == {"n": ("Insufficient cpu", True)}


@pytest.mark.parametrize(
    ("terms", "fits"),
    [
        pytest.param([[expression("size", "In", "l", "xl")]], True, id="in"),
        pytest.param([[expression("size", "In", "s")]], False, id="not in the values"),
        pytest.param([[expression("size", "NotIn", "s")]], True, id="notin"),
        pytest.param([[expression("none", "NotIn", "s")]], True, id="notin without the label"),
        pytest.param([[expression("size", "Exists")]], True, id="exists"),
        pytest.param([[expression("size", "DoesNotExist")]], False, id="does not exist"),
        pytest.param([[expression("gen", "Gt", "6")]], True, id="greater"),
        pytest.param([[expression("gen", "Gt", "7")]], False, id="not greater"),
        pytest.param([[expression("gen", "Lt", "10")]], True, id="less, as numbers"),
        pytest.param([[expression("size", "Lt", "10")]], False, id="not a number"),
        pytest.param([[expression("gen", "Gt", "1", "2")]], False, id="malformed"),
        pytest.param([[expression("size", "Is", "l")]], False, id="unknown operator"),
        pytest.param(
            [[expression("size", "In", "s")], [expression("gen", "Exists")]], True, id="any term"
        ),
        pytest.param(
            [[expression("size", "In", "s"), expression("gen", "Exists")]], False, id="all of one"
        ),
        pytest.param(
            [[expression("size", "Is", "l")], [expression("gen", "Exists")]],
            True,
            id="a broken term does not spoil the others",
        ),
        pytest.param([[]], False, id="an empty term matches nothing"),
        pytest.param([], False, id="no term matches nothing"),
    ],
)
def test_node_affinity_operators(terms: list[list[Obj]], fits: bool) -> None:
    item = pod("p", affinity=node_terms(*({"matchExpressions": term} for term in terms)))
    found = reject([node("n", labels={"size": "l", "gen": "7"})], item)
    assert found == ({} if fits else {"n": (AFFINITY, False)})


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param([expression("metadata.name", "In", "b")], "b", id="by name"),
        pytest.param(
            [expression("metadata.name", "NotIn", "b"), expression("metadata.name", "NotIn", "c")],
            "a",
            id="by name, negated",
        ),
        pytest.param(
            [expression("metadata.name", "In", "z")],
            "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity]. "
            "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
            id="a node that is not there",
        ),
        pytest.param(
            [expression("metadata.name", "In", "a"), expression("metadata.name", "In", "b")],
            "0/3 nodes are available: pod affinity terms conflict. not found",
            id="conflict",
        ),
    ],
)
def test_node_affinity_fields(fields: list[Obj], expected: str) -> None:
    state = cluster([node("a"), node("b"), node("c")])
    assert outcome(state, pod("p", affinity=node_terms({"matchFields": fields}))) == expected


def port(number: int, address: str = "", protocol: str = "TCP") -> list[Obj]:
    entry: Obj = {"hostPort": number, "protocol": protocol}
    if address:
        entry["hostIP"] = address
    return [container(ports=[entry])]


@pytest.mark.parametrize(
    ("taken", "wanted", "fits"),
    [
        pytest.param(port(80), port(80), False, id="same"),
        pytest.param(port(80), port(81), True, id="other port"),
        pytest.param(port(80), port(80, protocol="UDP"), True, id="other protocol"),
        pytest.param(port(80, "10.0.0.1"), port(80, "10.0.0.2"), True, id="other address"),
        pytest.param(port(80, "10.0.0.1"), port(80), False, id="all against one address"),
        pytest.param(port(80), port(80, "10.0.0.1"), False, id="one address against all"),
    ],
)
def test_host_ports(taken: list[Obj], wanted: list[Obj], fits: bool) -> None:
    found = reject([node("n")], pod("p", containers=wanted), [pod("q", on="n", containers=taken)])
    assert found == ({} if fits else {"n": (PORTS, True)})


def zones() -> list[Obj]:
    return [
        node("a1", labels={ZONE: "a"}),
        node("a2", labels={ZONE: "a"}),
        node("b1", labels={ZONE: "b"}),
        node("x"),
    ]


WITH = ("node(s) didn't match pod affinity rules", False)
APART = ("node(s) didn't match pod anti-affinity rules", True)
UNWELCOME = ("node(s) didn't satisfy existing pods anti-affinity rules", True)
WEB = {"app": "web"}

INTERPOD: dict[str, tuple[Obj, list[Obj], dict[str, tuple[Any, ...]]]] = {
    "with others, in their zone": (
        pod("p", affinity=required("podAffinity", pod_term(WEB))),
        [pod("q", labels=WEB, on="a1")],
        {"b1": WITH, "x": WITH},
    ),
    "with nobody there": (
        pod("p", affinity=required("podAffinity", pod_term(WEB))),
        [],
        {"a1": WITH, "a2": WITH, "b1": WITH, "x": WITH},
    ),
    "the first of its own kind": (
        pod("p", labels=WEB, affinity=required("podAffinity", pod_term(WEB))),
        [],
        {"x": WITH},
    ),
    "one pod must match all terms": (
        pod("p", affinity=required("podAffinity", pod_term(WEB), pod_term({"tier": "1"}, HOST))),
        [pod("q", labels=WEB, on="a1"), pod("r", labels={"tier": "1"}, on="a2")],
        {"a1": WITH, "a2": WITH, "b1": WITH, "x": WITH},
    ),
    "away from others, by node": (
        pod("p", affinity=required("podAntiAffinity", pod_term(WEB, HOST))),
        [pod("q", labels=WEB, on="a1")],
        {"a1": APART},
    ),
    "away from others, by zone; no zone is no place": (
        pod("p", affinity=required("podAntiAffinity", pod_term(WEB))),
        [pod("q", labels=WEB, on="a1"), pod("r", labels=WEB, on="x")],
        {"a1": APART, "a2": APART},
    ),
    "others want to be alone": (
        pod("p", labels=WEB),
        [pod("q", on="b1", affinity=required("podAntiAffinity", pod_term(WEB)))],
        {"b1": UNWELCOME},
    ),
    "another namespace is not meant": (
        pod("p", affinity=required("podAntiAffinity", pod_term(WEB))),
        [pod("q", labels=WEB, on="a1", namespace="other")],
        {},
    ),
    "another namespace is named": (
        pod("p", affinity=required("podAntiAffinity", pod_term(WEB, namespaces=["other"]))),
        [pod("q", labels=WEB, on="a1", namespace="other"), pod("r", labels=WEB, on="b1")],
        {"a1": APART, "a2": APART},
    ),
    "another namespace is selected": (
        pod(
            "p",
            affinity=required(
                "podAntiAffinity",
                pod_term(WEB, namespaceSelector={"matchLabels": {"team": "x"}}),
            ),
        ),
        [pod("q", labels=WEB, on="a1", namespace="other"), pod("r", labels=WEB, on="b1")],
        {"a1": APART, "a2": APART},
    ),
    "every namespace is selected": (
        pod("p", affinity=required("podAntiAffinity", pod_term(WEB, namespaceSelector={}))),
        [pod("q", labels=WEB, on="a1", namespace="other"), pod("r", labels=WEB, on="b1")],
        {"a1": APART, "a2": APART, "b1": APART},
    ),
    "an existing pod selects this namespace": (
        pod("p", labels=WEB, namespace="other"),
        [
            pod(
                "q",
                on="b1",
                affinity=required(
                    "podAntiAffinity",
                    pod_term(WEB, namespaceSelector={"matchLabels": {"team": "x"}}),
                ),
            )
        ],
        {"b1": UNWELCOME},
    ),
    "no selector matches no pod": (
        pod("p", affinity=required("podAntiAffinity", pod_term(None))),
        [pod("q", on="a1")],
        {},
    ),
    "match label keys: only pods of the same revision": (
        pod(
            "p",
            labels={"app": "web", "rev": "2"},
            affinity=required("podAntiAffinity", pod_term(WEB, matchLabelKeys=["rev"])),
        ),
        [
            pod("q", labels={"app": "web", "rev": "1"}, on="a1"),
            pod("r", labels={"app": "web", "rev": "2"}, on="b1"),
        ],
        {"b1": APART},
    ),
    "mismatch label keys: only pods of other tenants": (
        pod(
            "p",
            labels={"app": "web", "tenant": "x"},
            affinity=required("podAntiAffinity", pod_term(WEB, mismatchLabelKeys=["tenant"])),
        ),
        [
            pod("q", labels={"app": "web", "tenant": "x"}, on="a1"),
            pod("r", labels={"app": "web", "tenant": "y"}, on="b1"),
        ],
        {"b1": APART},
    ),
    "a key that the API server has merged already is left alone": (
        pod(
            "p",
            labels={"rev": "3"},
            affinity=required("podAntiAffinity", pod_term({"rev": "2"}, matchLabelKeys=["rev"])),
        ),
        [pod("q", labels={"rev": "3"}, on="a1"), pod("r", labels={"rev": "2"}, on="b1")],
        {"b1": APART},
    ),
}


@pytest.mark.parametrize("case", INTERPOD)
def test_affinity_between_pods(case: str) -> None:
    item, placed, expected = INTERPOD[case]
    state = cluster(zones(), placed)
    state.set_namespace("other", {"team": "x"})
    state.set_namespace("default", {})
    _, error = Cycle(state, state.info(item)).feasible()
    found = {name: (*r.reasons, r.resolvable) for name, r in error.rejections.items()}
    assert found == expected


SKEW = ("node(s) didn't match pod topology spread constraints", True)
NO_LABEL = ("node(s) didn't match pod topology spread constraints (missing required label)", False)
FOO = {"foo": ""}


def three_zones(**more: Any) -> list[Obj]:
    return [node(name, labels={ZONE: name[0]}, **more) for name in ("a1", "b1", "c1")]


def placed(*where: str, **more: Any) -> list[Obj]:
    return [pod(f"q{i}", labels=FOO, on=name, **more) for i, name in enumerate(where)]


SPREAD: dict[str, tuple[list[Obj], Obj, list[Obj], dict[str, tuple[Any, ...]]]] = {
    "no pods yet": (
        three_zones(),
        pod("p", labels=FOO, topologySpreadConstraints=[spread(FOO)]),
        [],
        {},
    ),
    "fuller zones are out": (
        three_zones(),
        pod("p", labels=FOO, topologySpreadConstraints=[spread(FOO)]),
        placed("a1", "a1", "b1"),
        {"a1": SKEW, "b1": SKEW},
    ),
    "a pod that does not match itself adds nothing": (
        three_zones(),
        pod("p", topologySpreadConstraints=[spread(FOO)]),
        placed("a1", "a1", "b1"),
        {"a1": SKEW},
    ),
    "a larger skew": (
        three_zones(),
        pod("p", labels=FOO, topologySpreadConstraints=[spread(FOO, skew=2)]),
        placed("a1", "a1", "b1"),
        {"a1": SKEW},
    ),
    "other namespaces and pods being deleted do not count": (
        three_zones(),
        pod("p", labels=FOO, topologySpreadConstraints=[spread(FOO)]),
        [
            *placed("a1", namespace="other"),
            pod("d", labels=FOO, on="b1", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        ],
        {},
    ),
    "a node without the label": (
        [*three_zones(), node("x")],
        pod("p", labels=FOO, topologySpreadConstraints=[spread(FOO)]),
        [],
        {"x": NO_LABEL},
    ),
    "too few domains: the emptiest counts as empty": (
        three_zones(),
        pod("p", labels=FOO, topologySpreadConstraints=[spread(FOO, minDomains=4)]),
        placed("a1", "b1", "c1"),
        {"a1": SKEW, "b1": SKEW, "c1": SKEW},
    ),
    "enough domains": (
        three_zones(),
        pod("p", labels=FOO, topologySpreadConstraints=[spread(FOO, minDomains=3)]),
        placed("a1", "b1", "c1"),
        {},
    ),
    "nodes that the pod cannot use do not count, by default": (
        three_zones(),
        pod(
            "p",
            labels=FOO,
            topologySpreadConstraints=[spread(FOO)],
            affinity=node_terms({"matchExpressions": [expression(ZONE, "In", "a", "b")]}),
        ),
        placed("a1", "b1"),
        {"c1": (AFFINITY, False)},
    ),
    "they do if the constraint ignores affinity": (
        three_zones(),
        pod(
            "p",
            labels=FOO,
            topologySpreadConstraints=[spread(FOO, nodeAffinityPolicy="Ignore")],
            affinity=node_terms({"matchExpressions": [expression(ZONE, "In", "a", "b")]}),
        ),
        placed("a1", "b1"),
        {"a1": SKEW, "b1": SKEW, "c1": (AFFINITY, False)},
    ),
    "tainted nodes count, by default": (
        [
            *three_zones()[:2],
            node("c1", labels={ZONE: "c"}, taints=[{"key": "k", "effect": "NoSchedule"}]),
        ],
        pod("p", labels=FOO, topologySpreadConstraints=[spread(FOO)]),
        placed("a1", "b1"),
        {"a1": SKEW, "b1": SKEW, "c1": ("node(s) had untolerated taint(s)", False)},
    ),
    "they do not if the constraint honors taints": (
        [
            *three_zones()[:2],
            node("c1", labels={ZONE: "c"}, taints=[{"key": "k", "effect": "NoSchedule"}]),
        ],
        pod("p", labels=FOO, topologySpreadConstraints=[spread(FOO, nodeTaintsPolicy="Honor")]),
        placed("a1", "b1"),
        {"c1": ("node(s) had untolerated taint(s)", False)},
    ),
    "match label keys: each revision for itself": (
        three_zones(),
        pod(
            "p",
            labels={"foo": "", "rev": "2"},
            topologySpreadConstraints=[spread(FOO, matchLabelKeys=["rev"])],
        ),
        placed("a1", "a1", "b1"),
        {},
    ),
    "two constraints must both hold": (
        [*three_zones(), node("c2", labels={ZONE: "c"})],
        pod("p", labels=FOO, topologySpreadConstraints=[spread(FOO), spread(FOO, key=HOST)]),
        placed("a1", "b1", "c1"),
        {"a1": SKEW, "b1": SKEW, "c1": SKEW},
    ),
}


@pytest.mark.parametrize("case", SPREAD)
def test_topology_spread(case: str) -> None:
    nodes, item, pods, expected = SPREAD[case]
    assert reject(nodes, item, pods) == expected


@pytest.mark.parametrize(
    "field",
    [
        pytest.param(expression("metadata.name", "Exists"), id="operator"),
        pytest.param(expression("metadata.name", "NotIn", "a", "b"), id="two values"),
        pytest.param(expression("spec.unschedulable", "NotIn", "x"), id="another field"),
    ],
)
def test_broken_field_terms_match_nothing(field: Obj) -> None:
    item = pod("p", affinity=node_terms({"matchFields": [field]}))
    assert reject([node("n")], item) == {"n": (AFFINITY, False)}


def test_a_selector_that_cannot_be_read_matches_nothing() -> None:
    broken = {"matchExpressions": [expression("app", "Like", "x")]}
    term = {"topologyKey": ZONE, "labelSelector": broken}
    item = pod("p", affinity=required("podAntiAffinity", term))
    assert reject(zones(), item, [pod("q", labels={"app": "x"}, on="a1")]) == {}


def test_a_pod_that_names_its_node() -> None:
    state = cluster([node("a", cpu="64"), node("b")])
    assert outcome(state, pod("p", on="b")) == "b"
    by_field = node_terms({"matchFields": [expression("metadata.name", "In", "a")]})
    assert outcome(state, pod("p", on="b", affinity=by_field)).startswith(
        "0/2 nodes are available: node(s) didn't satisfy plugin(s) [NodeAffinity NodeName] "
        "simultaneously. not found"
    )
    assert outcome(state, pod("p", on="z")).startswith(
        "0/2 nodes are available: 2 node(s) didn't satisfy plugin(s) [NodeName]. preemption: "
    )


def test_large_clusters_are_searched_in_turns() -> None:
    state = cluster([node(f"n{i}", cpu="2") for i in range(400)])
    seen: set[str] = set()
    for i in range(8):
        nodes, error = Cycle(state, state.info(pod(f"p{i}"))).feasible()
        # 50 % less one for every 125 nodes: 47 % of 400.
        assert len(nodes) == 188 and not error.rejections
        seen |= {info.name for info in nodes}
    assert len(seen) == 400
