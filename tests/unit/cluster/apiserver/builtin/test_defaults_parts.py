"""Defaulting in parts: quantities, image tags, and objects with almost nothing in them."""

from __future__ import annotations

from typing import Any

import pytest

from corral.cluster.apiserver.builtin.defaults import _DEFAULTS, apply_defaults
from corral.cluster.apiserver.builtin.defaults.images import pull_policy
from corral.cluster.apiserver.builtin.defaults.quantity import round_up_to_milli


def test_rounding_up_to_milli() -> None:
    resources = {"a": "100u", "b": "1", "c": "1500u", "d": "0.0001", "e": "bad u", "f": 3}
    round_up_to_milli(resources)
    assert resources == {"a": "1m", "b": "1", "c": "2m", "d": "1m", "e": "bad u", "f": 3}


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("busybox", "Always"),
        ("busybox:latest", "Always"),
        ("busybox:1", "IfNotPresent"),
        ("localhost:5000/busybox", "Always"),
        ("localhost:5000/busybox:1", "IfNotPresent"),
        ("a/b@sha256:" + "0" * 64, "IfNotPresent"),
        ("a/b:latest@sha256:" + "0" * 64, "Always"),
        ("Upper", "IfNotPresent"),
        ("", "IfNotPresent"),
    ],
)
def test_pull_policy(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


@pytest.mark.parametrize("gvk", sorted(_DEFAULTS), ids=lambda gvk: "-".join(gvk))
def test_objects_with_nothing_in_them(gvk: tuple[str, str, str]) -> None:
    obj: dict[str, Any] = {"metadata": {}}
    apply_defaults(*gvk, obj)
    once = repr(obj)
    apply_defaults(*gvk, obj)
    assert repr(obj) == once


def test_unknown_kinds_pass_through() -> None:
    obj: dict[str, Any] = {"spec": {}}
    apply_defaults("example.com", "v1", "Thing", obj)
    assert obj == {"spec": {}}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"podIP": "1.1.1.1"}, {"podIP": "1.1.1.1", "podIPs": [{"ip": "1.1.1.1"}]}),
        ({"podIPs": [{"ip": "2.2.2.2"}]}, {"podIP": "2.2.2.2", "podIPs": [{"ip": "2.2.2.2"}]}),
        (
            {"podIP": "1.1.1.1", "podIPs": [{"ip": "2.2.2.2"}, {"ip": "::1"}]},
            {"podIP": "1.1.1.1", "podIPs": [{"ip": "1.1.1.1"}]},
        ),
    ],
    ids=["single", "list", "disagreeing"],
)
def test_pod_addresses_agree(status: Any, expected: Any) -> None:
    obj = {"metadata": {}, "spec": {}, "status": status}
    apply_defaults("", "v1", "Pod", obj)
    assert obj["status"] == expected


def test_balancer_addresses_get_a_mode() -> None:
    obj = {
        "metadata": {},
        "spec": {"type": "LoadBalancer"},
        "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}, {"hostname": "h"}]}},
    }
    apply_defaults("", "v1", "Service", obj)
    assert obj["status"]["loadBalancer"]["ingress"] == [
        {"ip": "1.2.3.4", "ipMode": "VIP"},
        {"hostname": "h"},
    ]


def test_exempt_priority_level() -> None:
    obj: dict[str, Any] = {"spec": {"type": "Exempt", "exempt": {}}}
    apply_defaults("flowcontrol.apiserver.k8s.io", "v1", "PriorityLevelConfiguration", obj)
    assert obj["spec"]["exempt"] == {"nominalConcurrencyShares": 0, "lendablePercent": 0}


def test_zero_is_kept_where_it_means_something() -> None:
    obj: dict[str, Any] = {
        "spec": {"replicas": 0, "revisionHistoryLimit": 0, "progressDeadlineSeconds": 0}
    }
    apply_defaults("apps", "v1", "Deployment", obj)
    assert obj["spec"]["replicas"] == 0
    assert obj["spec"]["revisionHistoryLimit"] == 0
    assert obj["spec"]["progressDeadlineSeconds"] == 0
