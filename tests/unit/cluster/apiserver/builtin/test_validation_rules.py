"""Rules the recorded answers do not reach: sizes, metadata of updates, odd corners."""

from __future__ import annotations

from typing import Any

import pytest

from corral.cluster.apiserver.builtin.validation import (
    validate_create,
    validate_ephemeral_containers,
    validate_object_meta,
    validate_object_meta_update,
    validate_status_update,
    validate_update,
)
from corral.cluster.apiserver.builtin.validation.fields.names import name_is_1035_label
from corral.cluster.apiserver.builtin.validation.fields.quantities import (
    canonical,
    is_whole,
    nano,
    value_of,
)
from corral.cluster.apiserver.builtin.validation.workloads.cron import schedule_error


def texts(problems: list[Any]) -> list[str]:
    return [str(p) for p in problems]


def meta(**extra: Any) -> dict[str, Any]:
    return {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "1", **extra}


def pod(**spec: Any) -> dict[str, Any]:
    container = {
        "name": "c",
        "image": "i",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "Always",
    }
    return {
        "metadata": meta(),
        "spec": {
            "containers": [container],
            "restartPolicy": "Always",
            "dnsPolicy": "ClusterFirst",
            "terminationGracePeriodSeconds": 30,
            **spec,
        },
        "status": {"qosClass": "BestEffort"},
    }


def test_config_map_over_a_mebibyte() -> None:
    obj = {"metadata": meta(), "data": {"k": "x" * (1024 * 1024 + 1)}}
    found = validate_create("", "v1", "ConfigMap", obj)
    assert [(p.field, p.body) for p in found] == [
        ("[]", "Too long: may not be more than 1048576 bytes")
    ]


def test_annotations_over_the_limit() -> None:
    obj = {"metadata": meta(annotations={"a": "ä" * (128 * 1024)})}
    assert texts(validate_create("", "v1", "ConfigMap", obj)) == [
        "metadata.annotations: Too long: may not be more than 262144 bytes"
    ]


@pytest.mark.parametrize(
    ("name", "sound"),
    [("my-name", True), ("1name", False), ("Name", False), ("a" * 64, False)],
)
def test_dns_1035_names(name: str, sound: bool) -> None:
    assert (not name_is_1035_label(name, False)) is sound


def test_generate_name_may_end_in_a_dash() -> None:
    obj = {"metadata": {"generateName": "a-", "name": "a-x", "namespace": "n"}}
    assert validate_object_meta(obj, namespaced=True) == []


def test_namespace_on_a_cluster_scoped_kind() -> None:
    found = validate_create("", "v1", "Node", {"metadata": meta()})
    assert texts(found) == ["metadata.namespace: Forbidden: not allowed on this type"]


def test_unknown_kinds_only_have_metadata() -> None:
    obj = {"metadata": {"name": "Bad"}, "spec": {"anything": 1}}
    assert [p.field for p in validate_create("x.example", "v1", "Thing", obj)] == ["metadata.name"]


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("name", "b", 'metadata.name: Invalid value: "b": field is immutable'),
        ("namespace", "m", 'metadata.namespace: Invalid value: "m": field is immutable'),
        ("uid", "v", 'metadata.uid: Invalid value: "v": field is immutable'),
        (
            "creationTimestamp",
            "2026-01-01T00:00:00Z",
            'metadata.creationTimestamp: Invalid value: "2026-01-01T00:00:00Z": field is immutable',
        ),
        (
            "resourceVersion",
            "",
            'metadata.resourceVersion: Invalid value: "": must be specified for an update',
        ),
        ("generation", 1, "metadata.generation: Invalid value: 1: must not be decremented"),
    ],
)
def test_what_never_changes(field: str, value: Any, text: str) -> None:
    old = {"metadata": meta(generation=2)}
    new = {"metadata": meta(generation=2) | {field: value}}
    assert texts(validate_object_meta_update(new, old)) == [text]


def test_no_new_finalizers_while_deleting() -> None:
    old = {"metadata": meta(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["a.b/c"])}
    new = {
        "metadata": meta(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["a.b/c", "a.b/d"])
    }
    assert texts(validate_object_meta_update(new, old)) == [
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being "
        'deleted, found new finalizers []string{"a.b/d"}'
    ]


def test_pod_update_says_what_may_change() -> None:
    new, old = pod(nodeSelector={"a": "b"}), pod()
    [found] = validate_update("", "v1", "Pod", new, old)
    head = "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    assert found.field == "spec"
    assert found.body.startswith(head)
    assert '+\tnodeSelector: {"a":"b"},' in found.body


def test_gated_pods_may_narrow_where_they_run() -> None:
    gates = [{"name": "g"}]
    old = pod(schedulingGates=gates, nodeSelector={"a": "b"})
    wider = pod(schedulingGates=gates, nodeSelector={"a": "b", "c": "d"})
    other = pod(schedulingGates=gates, nodeSelector={"a": "x"})
    assert validate_update("", "v1", "Pod", wider, old) == []
    assert texts(validate_update("", "v1", "Pod", other, old)) == [
        'spec.nodeSelector: Invalid value: {"a":"x"}: only additions to spec.nodeSelector are '
        "allowed (no mutations or deletions)"
    ]


def test_a_finished_container_does_not_come_back() -> None:
    old, new = pod(restartPolicy="Never"), pod(restartPolicy="Never")
    ended = {"name": "c", "state": {"terminated": {"exitCode": 1}}}
    running = {"name": "c", "state": {"running": {}}}
    old["status"]["containerStatuses"] = [ended]
    new["status"]["containerStatuses"] = [running]
    assert texts(validate_status_update("", "v1", "Pod", new, old)) == [
        "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated "
        "state"
    ]
    old["spec"]["restartPolicy"] = new["spec"]["restartPolicy"] = "OnFailure"
    assert validate_status_update("", "v1", "Pod", new, old) == []


def test_ephemeral_containers_stay() -> None:
    debug = {**pod()["spec"]["containers"][0], "name": "d"}
    old = pod(ephemeralContainers=[debug])
    assert validate_ephemeral_containers(pod(ephemeralContainers=[debug]), old) == []
    [gone] = validate_ephemeral_containers(pod(), old)
    assert gone.body == ('Forbidden: existing ephemeral containers "d" may not be removed\n')


def job(**status: Any) -> dict[str, Any]:
    return {"metadata": meta(), "spec": {"completions": 2, "parallelism": 1}, "status": status}


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (
            {"failed": 2},
            {"failed": 1},
            "status.failed: Invalid value: 1: cannot decrease the failed counter",
        ),
        (
            {"startTime": "2026-01-01T00:00:00Z"},
            {"startTime": "2026-01-02T00:00:00Z"},
            'status.startTime: Invalid value: "2026-01-02T00:00:00Z": field is immutable for '
            "unsuspended job once set",
        ),
        (
            {"conditions": [{"type": "FailureTarget", "status": "True"}]},
            {},
            "status.conditions: Invalid value: cannot disable the terminal FailureTarget=True "
            "condition",
        ),
    ],
    ids=["counter", "start time", "terminal condition"],
)
def test_job_status_history(old: dict[str, Any], new: dict[str, Any], text: str) -> None:
    assert texts(validate_status_update("batch", "v1", "Job", job(**new), job(**old))) == [text]


@pytest.mark.parametrize(
    "text",
    ["* * * * *", "0 0 1 1 0", "*/15 0-6,22 ? jan-mar MON", "@daily", "@every 1h30m", "@hourly"],
)
def test_schedules_that_can_be_read(text: str) -> None:
    assert schedule_error(text) == ""


@pytest.mark.parametrize(
    ("text", "printed", "billionths", "whole"),
    [
        ("1", "1", 10**9, 1),
        ("1500m", "1500m", 1_500_000_000, 2),
        ("1.5", "1500m", 1_500_000_000, 2),
        ("1Gi", "1Gi", 2**30 * 10**9, 2**30),
        ("1024Mi", "1Gi", 2**30 * 10**9, 2**30),
        ("0.5Gi", "512Mi", 2**29 * 10**9, 2**29),
        ("1e3", "1e3", 10**12, 1000),
        ("-1", "-1", -(10**9), -1),
        ("1000k", "1M", 10**15, 10**6),
        ("0", "0", 0, 0),
    ],
)
def test_quantities(text: str, printed: str, billionths: int, whole: int) -> None:
    assert canonical(text) == printed
    assert nano(text) == billionths
    assert value_of(text) == whole
    assert is_whole(text) == (billionths % 10**9 == 0)
