"""The audit policy: which rule holds for a request, and what is no policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from corral.cluster.apiserver.audit.policy import Level, PolicyError, load_policy, parse_policy
from corral.cluster.apiserver.auth.attributes import Attributes
from corral.cluster.apiserver.auth.users import UserInfo

TIM = UserInfo("tim@k8s.io", groups=("humans", "developers"))


def policy(*rules: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": list(rules), **more}


def pods(verb: str = "get", *, sub: str = "", name: str = "busybox", group: str = "") -> Attributes:
    return Attributes(TIM, verb, "default", group, "v1", "pods", sub, name, True, "/x")


def path(where: str) -> Attributes:
    return Attributes(TIM, "get", resource_request=False, path=where)


@pytest.mark.parametrize(
    ("rule", "attrs", "matches"),
    [
        ({}, pods(), True),
        ({"users": ["tim@k8s.io"]}, pods(), True),
        ({"users": ["somebody"]}, pods(), False),
        ({"userGroups": ["developers"]}, pods(), True),
        ({"userGroups": ["nobody"]}, pods(), False),
        ({"verbs": ["get"]}, pods(), True),
        ({"verbs": ["create"]}, pods(), False),
        ({"namespaces": ["default"]}, pods(), True),
        ({"namespaces": ["other"]}, pods(), False),
        ({"namespaces": ["default"]}, path("/healthz"), False),
        ({"resources": [{"resources": ["pods"]}]}, pods(), True),
        ({"resources": [{"resources": ["pods"]}]}, pods(sub="log"), False),
        ({"resources": [{"resources": ["pods/log"]}]}, pods(sub="log"), True),
        ({"resources": [{"resources": ["pods/*"]}]}, pods(sub="log"), True),
        ({"resources": [{"resources": ["pods/*"]}]}, pods(), True),
        ({"resources": [{"resources": ["*/log"]}]}, pods(sub="log"), True),
        ({"resources": [{"resources": ["*/log"]}]}, pods(), False),
        ({"resources": [{"resources": ["*"]}]}, pods(sub="log"), True),
        ({"resources": [{"group": "apps", "resources": ["*"]}]}, pods(), False),
        ({"resources": [{"group": "apps"}]}, pods(group="apps"), True),
        ({"resources": [{"resources": ["pods"], "resourceNames": ["busybox"]}]}, pods(), True),
        ({"resources": [{"resources": ["pods"], "resourceNames": ["other"]}]}, pods(), False),
        ({"nonResourceURLs": ["/healthz*"]}, path("/healthz/etcd"), True),
        ({"nonResourceURLs": ["/healthz"]}, path("/healthz/etcd"), False),
        ({"nonResourceURLs": ["*"]}, path("/version"), True),
        ({"nonResourceURLs": ["*"]}, pods(), False),
    ],
)
def test_a_rule_matches(rule: dict[str, Any], attrs: Attributes, matches: bool) -> None:
    found = parse_policy(policy({"level": "Request", **rule})).decide(attrs)
    assert found.level is (Level.REQUEST if matches else Level.NONE)


def test_the_first_rule_that_matches_decides() -> None:
    chosen = parse_policy(
        policy(
            {"level": "None", "verbs": ["watch"]},
            {"level": "Metadata", "omitStages": ["RequestReceived"], "omitManagedFields": False},
            omitStages=["ResponseStarted"],
            omitManagedFields=True,
        )
    )
    assert chosen.decide(pods("watch")).level is Level.NONE
    found = chosen.decide(pods("get"))
    assert found.level is Level.METADATA
    assert found.omit_stages == {"RequestReceived", "ResponseStarted"}
    assert not found.omit_managed_fields


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ([], "object with rules"),
        ({"kind": "Policy"}, "audit.k8s.io/v1"),
        (policy(), "at least one rule"),
        (policy({"level": "Everything"}), "rules[0].level"),
        (policy({"level": "None", "user": []}), "unknown field 'user'"),
        (policy({"level": "None", "users": "tim"}), "rules[0].users: must be a list"),
        (policy({"level": "None", "omitStages": ["Never"]}), "'Never' is none of"),
        (policy({"level": "None", "nonResourceURLs": ["healthz"]}), "must begin with /"),
        (policy({"level": "None", "nonResourceURLs": ["/a*b"]}), "at its end only"),
        (policy({"level": "None", "resources": [{"group": "apps/v1"}]}), "without a version"),
        (policy({"level": "None", "resources": [{"resourceNames": ["x"]}]}), "need resources"),
        (
            policy({"level": "None", "namespaces": ["a"], "nonResourceURLs": ["/x"]}),
            "both resources and nonResourceURLs",
        ),
    ],
)
def test_what_is_no_policy(document: Any, why: str) -> None:
    with pytest.raises(PolicyError) as caught:
        parse_policy(document)
    assert why in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"policy\.yaml"):
        load_policy(tmp_path / "policy.yaml")
