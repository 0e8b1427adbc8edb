"""What each kind allows: creating by PUT, blind updates, propagation, selectors, reset fields."""

from __future__ import annotations

from typing import Any

import pytest

from corral.cluster.apiserver.builtin.strategy import (
    EPHEMERAL_CONTAINERS_FIELDS,
    RESIZE_FIELDS,
    strategy_for,
)

RBAC = "rbac.authorization.k8s.io"


@pytest.mark.parametrize(
    ("group", "kind", "create", "blind"),
    [
        ("", "Pod", False, True),
        ("", "Service", True, True),
        ("", "Endpoints", True, True),
        ("", "Event", True, True),
        ("", "LimitRange", True, True),
        ("coordination.k8s.io", "Lease", True, False),
        ("node.k8s.io", "RuntimeClass", True, False),
        (RBAC, "ClusterRole", True, True),
        ("policy", "PodDisruptionBudget", False, False),
        ("storage.k8s.io", "CSIDriver", False, False),
        ("storage.k8s.io", "StorageClass", False, True),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", False, False),
        ("apps", "Deployment", False, True),
        ("example.com", "Anything", False, True),
    ],
)
def test_put_rules(group: str, kind: str, create: bool, blind: bool) -> None:
    strategy = strategy_for(group, kind)
    assert strategy.allow_create_on_update is create
    assert strategy.allow_unconditional_update is blind


@pytest.mark.parametrize(
    ("gvk", "policy"),
    [
        (("batch", "v1", "Job"), "Orphan"),
        (("", "v1", "ReplicationController"), "Orphan"),
        (("batch", "v1", "CronJob"), "Background"),
        (("apps", "v1", "Deployment"), "Background"),
        (("", "v1", "Pod"), "Background"),
    ],
)
def test_default_propagation(gvk: tuple[str, str, str], policy: str) -> None:
    assert strategy_for(gvk[0], gvk[2]).default_propagation({}, gvk) == policy


def test_events_never_take_part_in_garbage_collection() -> None:
    assert not strategy_for("", "Event").supports_propagation
    assert strategy_for("", "Pod").supports_propagation


POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "n"},
    "spec": {
        "nodeName": "node",
        "restartPolicy": "Always",
        "schedulerName": "s",
        "serviceAccountName": "a",
        "hostNetwork": True,
    },
    "status": {"phase": "Running", "podIPs": [{"ip": "1.2.3.4"}], "nominatedNodeName": "m"},
}


def test_pod_fields() -> None:
    assert strategy_for("", "Pod").selectable_fields(POD) == {
        "metadata.name": "p",
        "metadata.namespace": "n",
        "spec.nodeName": "node",
        "spec.host": "node",
        "spec.restartPolicy": "Always",
        "spec.schedulerName": "s",
        "spec.serviceAccountName": "a",
        "spec.hostNetwork": "true",
        "status.phase": "Running",
        "status.podIP": "1.2.3.4",
        "status.podIPs": "",
        "status.nominatedNodeName": "m",
    }


@pytest.mark.parametrize(
    ("group", "kind", "obj", "field", "value"),
    [
        ("", "Pod", {}, "spec.hostNetwork", "false"),
        ("", "Pod", {}, "status.podIP", ""),
        ("", "Node", {"spec": {"unschedulable": True}}, "spec.unschedulable", "true"),
        ("", "Node", {}, "spec.unschedulable", "false"),
        ("", "Secret", {"type": "Opaque"}, "type", "Opaque"),
        ("", "Namespace", {"status": {"phase": "Active"}}, "status.phase", "Active"),
        ("", "Service", {"spec": {"type": "NodePort"}}, "spec.type", "NodePort"),
        ("batch", "Job", {"status": {"succeeded": 3}}, "status.successful", "3"),
        ("batch", "Job", {}, "status.successful", "0"),
        ("", "ReplicationController", {"status": {"replicas": 2}}, "status.replicas", "2"),
        ("", "Event", {"involvedObject": {"uid": "u"}}, "involvedObject.uid", "u"),
        ("", "Event", {"regarding": {"uid": "u"}}, "involvedObject.uid", "u"),
        ("", "Event", {"reportingComponent": "c"}, "source", "c"),
        ("", "Event", {"source": {"component": "s"}, "reportingComponent": "c"}, "source", "s"),
        ("events.k8s.io", "Event", {"involvedObject": {"uid": "u"}}, "regarding.uid", "u"),
        ("events.k8s.io", "Event", {"reportingComponent": "c"}, "reportingController", "c"),
    ],
)
def test_field_values(group: str, kind: str, obj: Any, field: str, value: str) -> None:
    assert strategy_for(group, kind).field_value(obj, field) == value


@pytest.mark.parametrize(
    ("group", "kind", "label", "message"),
    [
        ("", "Pod", "foo", "field label not supported: foo"),
        ("", "Node", "metadata.namespace", "field label not supported: metadata.namespace"),
        (
            "apps",
            "ReplicaSet",
            "status.replicas",
            '"status.replicas" is not a known field selector: '
            'only "metadata.name", "metadata.namespace"',
        ),
        ("batch", "Job", "x", 'field label "x" not supported for Job'),
        (
            "events.k8s.io",
            "Event",
            "involvedObject.name",
            "field label not supported: involvedObject.name",
        ),
        (
            "certificates.k8s.io",
            "CertificateSigningRequest",
            "metadata.namespace",
            "field label not supported: metadata.namespace",
        ),
    ],
)
def test_unsupported_fields(group: str, kind: str, label: str, message: str) -> None:
    strategy = strategy_for(group, kind)
    assert label not in strategy.field_names
    assert strategy.unsupported_field(label) == message


@pytest.mark.parametrize(
    ("group", "kind", "main", "status"),
    [
        (
            "",
            "Pod",
            [("status",)],
            [("spec",), ("metadata", "deletionTimestamp"), ("metadata", "ownerReferences")],
        ),
        ("apps", "Deployment", [("status",)], [("spec",), ("metadata", "labels")]),
        ("apps", "ReplicaSet", [("status",)], [("spec",)]),
        ("", "Node", [("status",)], [("spec",)]),
        ("", "ConfigMap", [], [("spec",)]),
        ("storage.k8s.io", "VolumeAttachment", [("status",)], [("metadata",), ("spec",)]),
        (
            "certificates.k8s.io",
            "CertificateSigningRequest",
            [("spec",), ("status",)],
            [("spec",), ("status", "conditions")],
        ),
    ],
)
def test_reset_fields(group: str, kind: str, main: Any, status: Any) -> None:
    strategy = strategy_for(group, kind)
    assert strategy.reset_fields == main
    assert strategy.status_reset_fields == status


def test_fields_that_pod_subresources_own() -> None:
    assert EPHEMERAL_CONTAINERS_FIELDS == [("spec", "ephemeralContainers")]
    assert ("spec", "containers", "*", "resources") in RESIZE_FIELDS


@pytest.mark.parametrize(
    ("pod", "requested", "period"),
    [
        ({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 30}}, None, 30),
        ({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 30}}, 5, 5),
        ({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 30}}, -1, 1),
        ({"spec": {"nodeName": "n"}}, None, 0),
        ({"spec": {"terminationGracePeriodSeconds": 30}}, None, 0),
        ({"spec": {"nodeName": "n"}, "status": {"phase": "Failed"}}, 60, 0),
        ({"spec": {"nodeName": "n"}, "status": {"phase": "Succeeded"}}, None, 0),
    ],
    ids=["default", "asked", "negative", "none", "unscheduled", "failed", "succeeded"],
)
def test_grace_of_pods(pod: Any, requested: int | None, period: int) -> None:
    strategy = strategy_for("", "Pod")
    assert strategy.graceful_delete
    assert strategy.graceful_period(pod, requested) == period


def test_other_kinds_are_deleted_at_once() -> None:
    assert not strategy_for("", "ConfigMap").graceful_delete
    assert strategy_for("", "ConfigMap").graceful_period({}, 30) == 0


def test_strategies_are_kept() -> None:
    assert strategy_for("example.com", "Thing") is strategy_for("example.com", "Thing")
