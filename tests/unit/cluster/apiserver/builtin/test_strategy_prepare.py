"""Preparing writes: the branches that single requests to a server do not show."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from corral.cluster.apiserver.builtin.defaults import apply_defaults
from corral.cluster.apiserver.builtin.strategy import PodStrategy, strategy_for
from corral.cluster.apiserver.builtin.strategy.cluster import SigningRequestStrategy
from corral.cluster.apiserver.builtin.strategy.core import NamespaceStrategy
from corral.cluster.apiserver.builtin.strategy.netwarnings import cidr_warnings, ip_warnings
from corral.cluster.apiserver.builtin.strategy.resources import qos_class


def container(**resources: Any) -> dict[str, Any]:
    return {"name": "c", "image": "x:1", "resources": resources}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [container()]}, "BestEffort"),
        ({"containers": []}, "BestEffort"),
        ({"containers": [container(limits={"cpu": "0"}, requests={"cpu": "0"})]}, "BestEffort"),
        ({"containers": [container(requests={"cpu": "1"})]}, "Burstable"),
        (
            {
                "containers": [
                    container(
                        limits={"cpu": "1", "memory": "1Gi"},
                        requests={"cpu": "1000m", "memory": "1024Mi"},
                    )
                ]
            },
            "Guaranteed",
        ),
        (
            {
                "containers": [
                    container(
                        limits={"cpu": "1", "memory": "1"}, requests={"cpu": "1", "memory": "1"}
                    ),
                    container(),
                ]
            },
            "Burstable",
        ),
        (
            {"containers": [container(limits={"cpu": "1"}, requests={"cpu": "1"})]},
            "Burstable",
        ),
        (
            {
                "resources": {
                    "limits": {"cpu": "1", "memory": "1"},
                    "requests": {"cpu": "1", "memory": "1"},
                },
                "containers": [container()],
            },
            "Guaranteed",
        ),
        ({"resources": {}, "containers": [container()]}, "BestEffort"),
        (
            {
                "containers": [container()],
                "initContainers": [container(requests={"memory": "1Mi"})],
            },
            "Burstable",
        ),
    ],
    ids=[
        "none", "no-containers", "zeros", "requests-only", "spellings", "mixed", "cpu-only",
        "pod-level", "empty-pod-level", "init",
    ],
)  # fmt: skip
def test_qos(spec: Any, expected: str) -> None:
    assert qos_class(spec) == expected


def pod(**extra: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "uid": "u", "generation": 3},
        "spec": {"containers": [container()]},
        "status": {"phase": "Running", "qosClass": "BestEffort", "observedGeneration": 2},
        **extra,
    }


def pods() -> PodStrategy:
    strategy = strategy_for("", "Pod")
    assert isinstance(strategy, PodStrategy)
    return strategy


def test_pod_status_keeps_what_old_clients_drop() -> None:
    old = pod()
    old["status"]["conditions"] = [{"type": "Ready", "status": "False", "observedGeneration": 2}]
    old["status"]["resourceClaimStatuses"] = [{"name": "r"}]
    old["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    new = pod(status={"phase": "Failed", "conditions": [{"type": "Ready", "status": "True"}]})
    pods().prepare_status_update(new, old)
    assert new["status"] == {
        "phase": "Failed",
        "qosClass": "BestEffort",
        "observedGeneration": 2,
        "resourceClaimStatuses": [{"name": "r"}],
        "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 2}],
    }
    assert new["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:00Z"


def test_pod_update_keeps_pod_level_resources() -> None:
    old, new = pod(), pod()
    old["spec"]["resources"] = {"requests": {"cpu": "1"}}
    pods().prepare_update(new, old)
    assert new["spec"] == old["spec"]
    assert new["metadata"]["generation"] == 3


def test_resize_of_other_containers_is_left_to_validation() -> None:
    old, new = pod(), pod()
    new["spec"]["containers"] = [container(), container()]
    pods().prepare_resize(new, old)
    assert len(new["spec"]["containers"]) == 2
    renamed = pod()
    renamed["spec"]["containers"][0] = {"name": "other", "resources": {"limits": {"cpu": "1"}}}
    pods().prepare_resize(renamed, old)
    assert renamed["spec"]["containers"][0]["name"] == "other"


def test_app_armor_annotation_equal_to_the_pods_profile_stays_silent() -> None:
    obj = pod()
    obj["metadata"]["annotations"] = {
        "container.apparmor.security.beta.kubernetes.io/c": "localhost/x"
    }
    profile = {"type": "Localhost", "localhostProfile": "x"}
    obj["spec"]["securityContext"] = {"appArmorProfile": profile}
    assert pods().prepare_create(obj) == ()
    assert "securityContext" not in obj["spec"]["containers"][0]


@pytest.mark.parametrize("value", ["localhost/", "odd", "localhost/ x"])
def test_app_armor_annotation_without_meaning_only_warns(value: str) -> None:
    obj = pod()
    key = "container.apparmor.security.beta.kubernetes.io/c"
    obj["metadata"]["annotations"] = {key: value}
    advice = 'deprecated since v1.30; use the "appArmorProfile" field instead'
    assert pods().prepare_create(obj) == (f"metadata.annotations[{key}]: {advice}",)
    assert "securityContext" not in obj["spec"]["containers"][0]


def test_namespace_finalize_changes_finalizers_only() -> None:
    strategy = strategy_for("", "Namespace")
    assert isinstance(strategy, NamespaceStrategy)
    old = {"metadata": {"name": "n"}, "spec": {"finalizers": ["kubernetes"]}, "status": {"a": 1}}
    new: dict[str, Any] = {"metadata": {"name": "n"}, "spec": {}, "status": {"a": 2}}
    strategy.prepare_finalize(new, old)
    assert new == {"metadata": {"name": "n"}, "spec": {}, "status": {"a": 1}}


def test_volume_notes_changes_of_phase() -> None:
    strategy = copy.copy(strategy_for("", "PersistentVolume"))
    strategy.now = lambda: "NOW"
    old = {"metadata": {}, "spec": {}, "status": {"phase": "A", "lastPhaseTransitionTime": "T"}}
    same: dict[str, Any] = {"metadata": {}, "spec": {}, "status": {"phase": "A"}}
    strategy.prepare_status_update(same, old)
    assert same["status"]["lastPhaseTransitionTime"] == "T"
    moved: dict[str, Any] = {"metadata": {}, "spec": {}, "status": {"phase": "B"}}
    strategy.prepare_status_update(moved, old)
    assert moved["status"]["lastPhaseTransitionTime"] == "NOW"
    told = {"metadata": {}, "spec": {}, "status": {"phase": "B", "lastPhaseTransitionTime": "U"}}
    strategy.prepare_status_update(told, old)
    assert told["status"]["lastPhaseTransitionTime"] == "U"


def test_limit_range_without_a_name_gets_one() -> None:
    obj: dict[str, Any] = {"metadata": {}, "spec": {}}
    strategy_for("", "LimitRange").prepare_create(obj)
    assert len(obj["metadata"]["name"]) == 36


def test_signing_request_status_keeps_approval() -> None:
    strategy = copy.copy(strategy_for("certificates.k8s.io", "CertificateSigningRequest"))
    assert isinstance(strategy, SigningRequestStrategy)
    strategy.now = lambda: "NOW"
    approved = {"type": "Approved", "status": "True", "lastTransitionTime": "T"}
    old = {"metadata": {}, "spec": {"a": 1}, "status": {"conditions": [approved]}}
    new: dict[str, Any] = {
        "metadata": {},
        "spec": {"a": 2},
        "status": {
            "certificate": "x",
            "conditions": [
                {"type": "Approved", "status": "False"},
                {"type": "Failed", "status": "True"},
            ],
        },
    }
    strategy.prepare_status_update(new, old)
    assert new["spec"] == {"a": 1}
    assert new["status"] == {
        "certificate": "x",
        "conditions": [
            {**approved, "lastUpdateTime": "NOW"},
            {
                "type": "Failed",
                "status": "True",
                "lastUpdateTime": "NOW",
                "lastTransitionTime": "NOW",
            },
        ],
    }


def test_disruption_budget_drops_the_old_marker() -> None:
    marker = {
        "key": "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match",
        "operator": "DoesNotExist",
    }
    obj: dict[str, Any] = {
        "metadata": {},
        "spec": {"selector": {"matchExpressions": [marker], "matchLabels": {"a": "b"}}},
    }
    strategy_for("policy", "PodDisruptionBudget").prepare_create(obj)
    assert obj["spec"]["selector"] == {"matchLabels": {"a": "b"}}


@pytest.mark.parametrize(
    ("value", "warning"),
    [
        ("1.2.3.4", ""),
        ("2001:db8::1", ""),
        ("not-an-address", ""),
        ("010.2.3.4", 'non-standard IP address "010.2.3.4" is invalid: use "10.2.3.4"'),
        ("::ffff:1.2.3.4", 'non-standard IP address "::ffff:1.2.3.4" is invalid: use "1.2.3.4"'),
        (
            "2001:DB8::1",
            'IPv6 address "2001:DB8::1" should be in RFC 5952 canonical format ("2001:db8::1")',
        ),
    ],
)
def test_address_warnings(value: str, warning: str) -> None:
    assert ip_warnings("f", value) == ([f"f: {warning}"] if warning else [])


@pytest.mark.parametrize(
    ("value", "warning"),
    [
        ("10.0.0.0/8", ""),
        ("x", ""),
        (
            "10.0.0.1/8",
            'CIDR value "10.0.0.1/8" is ambiguous in this context '
            '(should be "10.0.0.0/8" or "10.0.0.1/32"?)',
        ),
        (
            "2001:DB8::/64",
            'IPv6 CIDR value "2001:DB8::/64" should be in RFC 5952 canonical format '
            '("2001:db8::/64")',
        ),
    ],
)
def test_range_warnings(value: str, warning: str) -> None:
    assert cidr_warnings("f", value) == ([f"f: {warning}"] if warning else [])


def test_job_labels_are_adopted_but_not_shared() -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}}
    obj: dict[str, Any] = {
        "metadata": {"name": "j", "uid": "u"},
        "spec": {"template": template, "manualSelector": True},
    }
    apply_defaults("batch", "v1", "Job", obj)
    strategy_for("batch", "Job").prepare_create(obj)
    assert obj["metadata"]["labels"] == {"a": "b"}
    assert obj["metadata"]["labels"] is not obj["spec"]["template"]["metadata"]["labels"]


def test_daemon_set_status_keeps_the_template_generation() -> None:
    key = "deprecated.daemonset.template.generation"
    old = {"metadata": {"annotations": {key: "4"}}, "spec": {}}
    new: dict[str, Any] = {"metadata": {"annotations": {"x": "y"}}, "spec": {}, "status": {}}
    strategy_for("apps", "DaemonSet").prepare_status_update(new, old)
    assert new["metadata"]["annotations"] == {"x": "y", key: "4"}


def test_cron_job_warns_of_zones_in_a_changed_schedule() -> None:
    obj: dict[str, Any] = {"metadata": {"name": "c"}, "spec": {"schedule": "TZ=UTC * * * * *"}}
    strategy = strategy_for("batch", "CronJob")
    assert strategy.warnings_create(obj) == []
    assert strategy.warnings_update(obj, obj) == [
        "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see "
        "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
    ]


def test_indexed_job_of_very_many_indexes() -> None:
    spec = {"completionMode": "Indexed", "completions": 100_001, "parallelism": 10_001}
    job: dict[str, Any] = {"metadata": {"name": "j", "generation": 2}, "spec": spec}
    strategy = strategy_for("batch", "Job")
    (warning,) = strategy.warnings_create(job)
    assert warning.startswith("spec: In Indexed Jobs with a number of completions higher than 10^5")
    assert strategy.warnings_update(job, {"metadata": {"generation": 1}}) == [warning]
    cron = {"metadata": {"name": "c"}, "spec": {"jobTemplate": {"spec": spec}}}
    (warning,) = strategy_for("batch", "CronJob").warnings_create(cron)
    assert warning.startswith("spec.jobTemplate.spec: In Indexed Jobs")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("a" * 64, "must be no more than 63 characters"),
        ("a.b", "must not contain dots"),
        ("-a", "a lowercase RFC 1123 label must consist of"),
    ],
)
def test_names_that_make_poor_host_names(name: str, problem: str) -> None:
    obj = {"metadata": {"name": name}, "spec": {"template": {}}}
    (warning,) = strategy_for("apps", "Deployment").warnings_create(obj)
    assert warning.startswith("metadata.name: this is used in Pod names and hostnames, which")
    assert problem in warning
