"""Lists of thousands of items whose check takes their length squared: the API server stands still.

The effort is counted, not timed: lines that run, and texts that are compared.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest

from corral.cluster.apiserver.admission.pods import _merge
from corral.cluster.apiserver.admission.quotas.amounts import pod_total
from corral.cluster.apiserver.apply import managers
from corral.cluster.apiserver.apply.conflicts import Clash, conflict_error
from corral.cluster.apiserver.apply.fields import subtract
from corral.cluster.apiserver.builtin.strategy import cluster, podwarnings
from corral.cluster.apiserver.builtin.strategy.allocation import (
    ServiceNetwork,
    Taken,
    allocate_create,
)
from corral.cluster.apiserver.builtin.strategy.resources import complete_pod_level_resources
from corral.cluster.apiserver.builtin.strategy.volumewarnings import (
    MOST_CLASHES,
    overlapping_path_warnings,
)
from corral.cluster.apiserver.builtin.validation.core import nodes, quotas
from corral.cluster.apiserver.builtin.validation.fields import meta
from corral.cluster.apiserver.builtin.validation.fields.errors import Errors, FieldError
from corral.cluster.apiserver.builtin.validation.network import network_policies, services
from corral.cluster.apiserver.builtin.validation.pods import (
    aggregates,
    environment,
    pods,
    resources,
    scheduling,
    updates,
)
from corral.cluster.apiserver.builtin.validation.storage import classes
from corral.cluster.apiserver.builtin.validation.system import (
    admission_policies,
    certificates,
    leases,
    webhooks,
)
from corral.cluster.apiserver.builtin.validation.workloads import job_policies, replicated
from corral.kube.errors import Invalid
from tests.backends import Backend
from tests.cluster.objects import Objects

Obj = dict[str, Any]
SMALL, LARGE = 50, 800
WARNING_LIMIT = 4097


class Text(str):
    """A text that counts how often one is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Text.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def t(prefix: str, number: int = 0) -> Text:
    return Text(f"{prefix}{number}")


def effort(work: Callable[[], object]) -> int:
    """Lines of Python that run, and comparisons of texts."""
    lines = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal lines
        lines += 1
        return trace

    Text.compared = 0
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines + Text.compared


# -- checks ----------------------------------------------------------------------------------------


def spread(errs: Errors, n: int) -> None:
    pairs = [{"topologyKey": t("k", i), "whenUnsatisfiable": t("DoNotSchedule")} for i in range(n)]
    scheduling.check_spread(errs, pairs, "p")


def match_keys(errs: Errors, n: int) -> None:
    term = {
        "matchLabelKeys": [t("k", i) for i in range(n)],
        "mismatchLabelKeys": [t("m", i) for i in range(n)],
        "labelSelector": {"matchExpressions": [{"key": t("k", i)} for i in range(n)] * 2},
    }
    scheduling._check_match_keys(errs, term, "p")


def claims(errs: Errors, n: int) -> None:
    listed = [{"name": t("c", i)} for i in range(n)]
    known = resources.ClaimNames(t("c", i) for i in range(n))
    resources._check_claims(errs, listed, known, "p")


def class_tolerations(errs: Errors, n: int) -> None:
    listed = [{"key": t("k", i), "operator": t("Exists")} for i in range(n)]
    made = {"handler": "h", "scheduling": {"tolerations": listed}}
    leases._RUNTIME_CLASS(errs, made)


def node_addresses(errs: Errors, n: int) -> None:
    addresses = [{"type": t("Hostname"), "address": t("a", i)} for i in range(n)]
    nodes.validate_node_update(errs, {"status": {"addresses": addresses}}, {})


def usages(errs: Errors, n: int) -> None:
    spec = {"usages": [t("u", i) for i in range(n)]}
    certificates._SIGNING_REQUEST(errs, {"spec": spec})


def file_keys(errs: Errors, n: int) -> None:
    volumes = [{"name": t("v", i), "emptyDir": {}} for i in range(n)]
    env = [{"valueFrom": {"fileKeyRef": {"volumeName": t("v", i)}}} for i in range(n)]
    spec = {"volumes": volumes, "containers": [{"env": env}]}
    environment.check_file_refs(errs, spec, "p")


def indexes(errs: Errors, n: int) -> None:
    even, odd = (",".join(str(2 * i + at) for i in range(n)) for at in (0, 1))
    assert job_policies.overlap(even, odd, 1 << 30) is None


def resource_names(errs: Errors, n: int) -> None:
    rule = {"resourceNames": [t("n", i) for i in range(n)]}
    admission_policies._MATCH(errs, {"resourceRules": [rule]}, "p")


def actions(errs: Errors, n: int) -> None:
    spec = {"policyName": "x", "validationActions": [t("a", i) for i in range(n)]}
    admission_policies._BINDING(errs, {"spec": spec})


def topologies(errs: Errors, n: int) -> None:
    terms = [
        {"matchLabelExpressions": [{"key": "k", "values": [t("v", i), t("w", i)]}]}
        for i in range(n)
    ]
    many = {"key": "k", "values": [t("v", i) for i in range(n)]}
    classes._check_topologies(errs, [*terms, {"matchLabelExpressions": [many]}], "p")


def topology_keys(errs: Errors, n: int) -> None:
    driver = {"name": "d", "nodeID": "i", "topologyKeys": [t("k", i) for i in range(n)]}
    classes._check_node(errs, {"spec": {"drivers": [driver]}})


def review_versions(errs: Errors, n: int) -> None:
    webhooks._check_versions(errs, [t("v", i) for i in range(n)], "p")


def claim_templates(errs: Errors, n: int) -> None:
    made = [{"metadata": {"name": t("c", i)}} for i in range(n)]
    volumes = [{"name": t("v", i)} for i in range(n)]
    spec = {"template": {"spec": {"volumes": volumes}}, "volumeClaimTemplates": made}
    replicated._with_claim_volumes(spec)


def profiles(errs: Errors, n: int) -> None:
    names = {f"container.apparmor.security.beta.kubernetes.io/c{i}": "" for i in range(n)}
    spec = {"containers": [{"name": t("c", i)} for i in range(n)]}
    pods.check_pod_annotations(errs, names, spec, "p")


def kept_tolerations(errs: Errors, n: int) -> None:
    new, old = (
        {"tolerations": [{"key": t("k", i), "operator": "Exists"} for i in range(n)]}
        for _ in range(2)
    )
    updates._check_tolerations(errs, new, old)


def transitions(errs: Errors, n: int) -> None:
    ended, running = (
        {"containerStatuses": [{"name": t("c", i), "state": state} for i in range(n)]}
        for state in ({"terminated": {"exitCode": 1}}, {})
    )
    spec = {"containers": [{"name": t("c", i)} for i in range(n)]}
    updates._check_transitions(errs, running, ended, spec)


def addresses(errs: Errors, n: int) -> None:
    new, old = ({"externalIPs": [t("a", i) for i in range(n)]} for _ in range(2))
    services._check(errs, {"spec": new}, old)
    both = ({"ingress": [{"ip": t("a", i)} for i in range(n)]} for _ in range(2))
    services.check_load_balancer(errs, *both, ip_mode=False)


def blocks(errs: Errors, n: int) -> None:
    new, old = (
        {"ingress": [{"from": [{"ipBlock": {"cidr": t("10.0.0.0/", i)}} for i in range(n)]}]}
        for _ in range(2)
    )
    network_policies.validate_network_policy_update(errs, {"spec": new}, {"spec": old})


def sidecars(n: int) -> Obj:
    made = [
        {"restartPolicy": "Always", "resources": {"requests": {f"x.y/{i}": "1"}}} for i in range(n)
    ]
    return {"initContainers": made, "resources": {"requests": {"cpu": "1"}}}


def sidecar_requests(errs: Errors, n: int) -> None:
    aggregates.check_pod_resources(errs, sidecars(n), "p")


def pod_level(errs: Errors, n: int) -> None:
    complete_pod_level_resources(sidecars(n))


def totals(errs: Errors, n: int) -> None:
    assert len(pod_total(sidecars(n), "requests")) == n + 1


def scopes(errs: Errors, n: int) -> None:
    hard = {f"requests.hugepages-{i}": "1" for i in range(n)}
    terms = [{"scopeName": "Terminating", "operator": "Exists"} for _ in range(n)]
    spec = {"hard": hard, "scopes": ["Terminating"] * n, "scopeSelector": {}}
    spec["scopeSelector"] = {"matchExpressions": terms}
    quotas.validate_quota(errs, {"spec": spec})


# -- warnings, defaults and admission --------------------------------------------------------------


def paths(errs: Errors, n: int) -> None:
    items = [{"path": f"a{i}/b"} for i in range(n)] + [{"path": "a"}] * n
    overlapping_path_warnings([{"name": "v", "configMap": {"items": items}}])


def ports(errs: Errors, n: int) -> None:
    bound = [{"containerPort": 1, "hostPort": i + 1} for i in range(n)]
    loose = [{"containerPort": 2} for _ in range(n)]
    podwarnings.pod_warnings({"spec": {"containers": [{"ports": [*bound, *loose]}]}})


def excluded_rules(errs: Errors, n: int) -> None:
    rule = {
        "apiGroups": [t("g", i) for i in range(n)],
        "resources": [t("r", i) for i in range(n)],
    }
    found = next(s for s in cluster.STRATEGIES if s.kind == "MutatingWebhookConfiguration")
    assert found.warnings_common({"webhooks": [{"rules": [rule]}]}) == []


def shared_ports(errs: Errors, n: int) -> None:
    listed = [{"port": i, "nodePort": 0} for i in range(1, n)] + [{"port": 0, "nodePort": 30000}]
    spec = {"type": "NodePort", "clusterIPs": ["None"], "clusterIP": "None", "ports": listed}
    allocate_create({"metadata": {}, "spec": spec}, Taken(), ServiceNetwork())


def merged_tolerations(errs: Errors, n: int) -> None:
    given = [{"key": t("k", i), "operator": t("Exists")} for i in range(n)]
    assert len(_merge(given, [])) == n


# -- field ownership -------------------------------------------------------------------------------


def owners(errs: Errors, n: int) -> None:
    entries = [
        managers.new_entry(
            (f"m{i}", "Update", "", ""), api_version="v1", time=None, fields={f"f:{i}": {}}
        )
        for i in range(n)
    ]
    assert len(managers.capped(entries)) == 10


def removals(errs: Errors, n: int) -> None:
    changed: Obj = {f"f:{i}": {} for i in range(n)}
    for _ in range(n):
        assert subtract({"f:x": {}}, changed) == {"f:x": {}}


def conflicts(errs: Errors, n: int) -> None:
    conflict_error([Clash((t("m", i), "Apply", "v1", ""), ("f:a",)) for i in range(n)])


@pytest.mark.attack(
    "apiserver",
    "A list of thousands of items, of which each is compared with every other",
    "Read once: twice the items are twice the effort",
)
@pytest.mark.parametrize(
    "check",
    [
        spread, match_keys, claims, class_tolerations, node_addresses, usages,
        file_keys, indexes, resource_names, actions, topologies, topology_keys, review_versions,
        claim_templates, profiles, kept_tolerations, transitions, addresses, blocks,
        sidecar_requests, pod_level, totals, scopes, paths, ports, excluded_rules, shared_ports,
        merged_tolerations, owners, removals, conflicts,
    ],
)  # fmt: skip
def test_lists_are_read_once(check: Callable[[Errors, int], None]) -> None:
    small, large = (effort(partial(check, Errors(), n)) for n in (SMALL, LARGE))
    assert large / small < 2.5 * LARGE / SMALL


# -- what the answers carry ------------------------------------------------------------------------


@pytest.mark.attack(
    "apiserver",
    "Thousands of files of a volume, or ports of a pod, that are in each other's way",
    "As many warnings as an answer can carry; each of them is short",
)
def test_warnings_have_a_limit() -> None:
    same = [{"key": "a", "path": "a"}] * 2000
    secret = {"name": "v", "secret": {"secretName": "s", "items": same}}
    assert overlapping_path_warnings([secret]) == [
        'volume "v" (Secret "s"): overlapping paths: "a" with "a"'
    ]
    deep = [{"path": "/".join("a" * depth)} for depth in range(1, 800)]
    volumes = [{"name": "v", "configMap": {"name": "n" * 100_000, "items": deep}}] * 3
    found = overlapping_path_warnings(volumes)
    assert len(found) == MOST_CLASHES
    assert max(map(len, found)) <= WARNING_LIMIT
    many = [{"ports": [{"containerPort": 1}] * 2000}]
    assert len(podwarnings.pod_warnings({"spec": {"containers": many}})) == MOST_CLASHES


def controllers(errs: Errors) -> None:
    ref = {"apiVersion": "v1", "kind": "Pod", "name": "x" * 90, "uid": "u", "controller": True}
    meta._check_owners(errs, [ref] * 5000, "p")


def managers_of_odd_letters(errs: Errors) -> None:
    meta._check_managed_fields(errs, [{"operation": "Apply", "manager": "\x7f" * 100_000}], "p")


def many_scopes(errs: Errors) -> None:
    terms = [{"scopeName": "Terminating", "operator": "Exists"}] * 500
    spec = {
        "hard": {f"hugepages-{i}": "1" for i in range(500)},
        "scopes": ["Terminating"] * 500,
        "scopeSelector": {"matchExpressions": terms},
    }
    quotas.validate_quota(errs, {"spec": spec})
    errs[:] = list(dict.fromkeys(errs))  # as for every object


def unknown_names(errs: Errors) -> None:
    known = resources.ClaimNames(f"known-{i:060}" for i in range(5000))
    resources._check_claims(errs, [{"name": f"c{i}"} for i in range(5000)], known, "p")


def empty_steps(errs: Errors) -> None:
    service = {"namespace": "n", "name": "x", "port": 443, "path": "/" * 20_000}
    webhooks._check_service(errs, service, "p")


def foreign_addresses(errs: Errors) -> None:
    spec = {"clusterIPs": [f"::{i:x}" for i in range(5000)]}
    with pytest.raises(Invalid) as refused:
        allocate_create({"metadata": {}, "spec": spec}, Taken(), ServiceNetwork())
    details = refused.value.details
    errs += (FieldError(c["reason"], c["field"], c["message"]) for c in details["causes"])


@pytest.mark.attack(
    "apiserver",
    "Thousands of errors, of which each repeats the whole list",
    "What is long is cut where many errors repeat it",
)
@pytest.mark.parametrize(
    "check",
    [
        controllers, managers_of_odd_letters, many_scopes, unknown_names, empty_steps,
        foreign_addresses,
    ],
)  # fmt: skip
def test_errors_do_not_repeat_long_lists(check: Callable[[Errors], None]) -> None:
    errs = Errors()
    check(errs)
    assert errs
    assert sum(len(str(error)) for error in errs) < 8 << 20


@pytest.mark.attack(
    "apiserver",
    "An update whose resource version is made of odd digits, or of thousands",
    "Refused in the words for one that cannot be read",
)
@pytest.mark.parametrize(
    ("version", "why"),
    [("²", "invalid syntax"), ("9" * 5000, "value out of range")],
    ids=["odd", "long"],
)
def test_odd_resource_versions(backend: Backend, objects: Objects, version: str, why: str) -> None:
    body: Obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "odd-version"}}
    assert backend.request("POST", objects.path("v1", "configmaps"), body).code == 201
    body["metadata"]["resourceVersion"] = version
    reply = backend.request("PUT", objects.path("v1", "configmaps", "odd-version"), body)
    assert f'parsing "{version}": {why}' in reply.json()["message"]
