"""Per-index back-off, pod failure policy and success policy in whole passes and alone."""

from __future__ import annotations

from typing import Any

import pytest
from job_builders import FAILURES, IGNORED, NOW, STAMP, job, pod, run

from corral.cluster.workloads.job.indexes import IndexSet
from corral.cluster.workloads.job.policies import match_failure, match_success

INT32_MAX = 2**31 - 1


def on_codes(action: str, *values: int, operator: str = "In", **extra: Any) -> dict[str, Any]:
    return {
        "action": action,
        "onExitCodes": {"operator": operator, "values": list(values), **extra},
    }


def on_condition(action: str, kind: str, status: str | None = "True") -> dict[str, Any]:
    pattern = {"type": kind, "status": status} if status else {"type": kind}
    return {"action": action, "onPodConditions": [pattern]}


def per_index(limit: int = 1, size: int = 2, **spec: Any) -> dict[str, Any]:
    return {
        "parallelism": size,
        "completions": size,
        "completionMode": "Indexed",
        "backoffLimit": INT32_MAX,
        "backoffLimitPerIndex": limit,
        **spec,
    }


def ended(kind: str, reason: str, message: str) -> list[tuple[str, str]]:
    interim = "SuccessCriteriaMet" if kind == "Complete" else "FailureTarget"
    return [(interim, reason, message), (kind, reason, message)]


SUCCESS = ("CompletionsReached", "Reached expected number of succeeded pods")
LIMIT = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
FAILED_INDEXES = ("FailedIndexes", "Job has failed indexes")
MAX_FAILED = (
    "MaxFailedIndexesExceeded",
    "Job has exceeded the specified maximal number of failed indexes",
)
POLICY = (
    "PodFailurePolicy",
    "Container main for pod ns/pod-a failed with exit code 3 matching FailJob rule at index 0",
)
RULE_0 = ("SuccessPolicy", "Matched rules at index 0")

# name: (spec, status, pods, expected active, failed, succeeded, done, failed indexes, conditions)
CASES: dict[str, tuple[Any, ...]] = {
    "success after a failure in the index": (
        per_index(), {},
        [pod("a1", "Failed", index=0, failures=0), pod("a2", "Succeeded", index=0, failures=1),
         pod("b", "Succeeded", index=1, failures=0)],
        0, 1, 2, "0,1", "", ended("Complete", *SUCCESS)),
    "a failed pod is kept for its replacement": (
        per_index(), {}, [pod("a", "Failed", index=0, failures=0)], 2, 0, 0, "", "", []),
    "a replaced failed pod counts": (
        per_index(), {},
        [pod("a", "Failed", index=0, failures=0), pod("b", "Pending", index=0, failures=1)],
        2, 1, 0, "", "", []),
    "replacement waits while another index runs": (
        per_index(), {},
        [pod("a", index=0, failures=0), pod("b", "Failed", index=1, failures=0, finished=0)],
        1, 0, 0, "", "", []),
    "an index beyond its limit, the job goes on": (
        per_index(), {}, [pod("a", "Failed", index=0, failures=1)], 1, 1, 0, "", "0", []),
    "FailIndex, the job goes on": (
        per_index(podFailurePolicy={"rules": [on_codes("FailIndex", 3)]}), {},
        [pod("a", "Failed", index=0, failures=0, exit_code=3)], 1, 1, 0, "", "0", []),
    "FailJob": (
        per_index(podFailurePolicy={"rules": [on_codes("FailJob", 3)]}), {},
        [pod("a", "Failed", index=0, failures=0, exit_code=3)],
        0, 1, 0, "", "", ended("Failed", *POLICY)),
    "Ignore": (
        per_index(podFailurePolicy={"rules": [on_codes("Ignore", 3)]}), {},
        [pod("a", "Failed", index=0, failures=0, exit_code=3)], 2, 0, 0, "", "", []),
    "backoffLimit comes before the limit per index": (
        per_index(backoffLimit=1), {},
        [pod("a", "Failed", index=0, failures=0), pod("b", "Failed", index=1, failures=0)],
        0, 2, 0, "", "", ended("Failed", *LIMIT)),
    "all indexes ended, one failed": (
        per_index(), {},
        [pod("a", "Failed", index=0, failures=1), pod("b", "Succeeded", index=1, failures=0)],
        0, 1, 1, "1", "0", ended("Failed", *FAILED_INDEXES)),
    "more failed indexes than allowed": (
        per_index(size=4, maxFailedIndexes=1), {},
        [pod("a", "Failed", index=0, failures=1), pod("b", "Succeeded", index=1, failures=0),
         pod("c", "Failed", index=2, failures=1), pod("d", index=3, failures=0)],
        0, 3, 1, "1", "0,2", [("FailureTarget", *MAX_FAILED)]),
    "success policy met, some indexes failed": (
        per_index(limit=2, successPolicy={"rules": [
            {"succeededIndexes": "0,1", "succeededCount": 1}]}), {},
        [pod("a", "Failed", index=0), pod("b", "Succeeded", index=1)],
        0, 1, 1, "1", "", ended("Complete", *RULE_0)),
    "success policy met before, all pods ended": (
        per_index(limit=2, successPolicy={"rules": [{"succeededCount": 1}]}),
        {"conditions": [{"type": "SuccessCriteriaMet", "status": "True", "reason": RULE_0[0],
                         "message": RULE_0[1]}]},
        [pod("a", "Failed", index=0), pod("b", "Succeeded", index=1)],
        0, 1, 1, "1", "", ended("Complete", *RULE_0)),
    "success policy met, pods still run": (
        per_index(limit=3, size=3, successPolicy={"rules": [{"succeededIndexes": "0,1",
                                                             "succeededCount": 1}]}), {},
        [pod("a1", "Failed", index=0), pod("a2", index=1), pod("b", "Succeeded", index=1),
         pod("c", index=2)],
        0, 1, 1, "1", "", [("SuccessCriteriaMet", *RULE_0)]),
    "failure policy wins over success policy": (
        {"parallelism": 2, "completions": 2, "completionMode": "Indexed",
         "podFailurePolicy": {"rules": [on_codes("FailJob", 3)]},
         "successPolicy": {"rules": [{"succeededIndexes": "1"}]}}, {},
        [pod("a", "Failed", index=0, exit_code=3), pod("b", "Succeeded", index=1)],
        0, 1, 1, "1", None, ended("Failed", *POLICY)),
    "limit per index wins over success policy": (
        per_index(successPolicy={"rules": [{"succeededIndexes": "1"}]}), {},
        [pod("a", "Failed", index=0, failures=1), pod("b", "Succeeded", index=1)],
        0, 1, 1, "1", "0", ended("Failed", *FAILED_INDEXES)),
    "back-off limit wins over success policy": (
        {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "backoffLimit": 0,
         "successPolicy": {"rules": [{"succeededIndexes": "1"}]}}, {},
        [pod("a", "Failed", index=0), pod("b", "Succeeded", index=1)],
        0, 1, 1, "1", None, ended("Failed", *LIMIT)),
    "success criteria met once stay met": (
        {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "backoffLimit": 0,
         "successPolicy": {"rules": [{"succeededIndexes": "1"}]}},
        {"conditions": [{"type": "SuccessCriteriaMet", "status": "True", "reason": RULE_0[0],
                         "message": RULE_0[1]}]},
        [pod("a", "Failed", index=0), pod("b", "Succeeded", index=1)],
        0, 1, 1, "1", None, ended("Complete", *RULE_0)),
    "a failure target once met stays met": (
        {"parallelism": 2, "completions": 2, "completionMode": "Indexed",
         "successPolicy": {"rules": [{"succeededIndexes": "1"}]}},
        {"conditions": [{"type": "FailureTarget", "status": "True", "reason": POLICY[0],
                         "message": POLICY[1]}]},
        [pod("a", "Failed", index=0), pod("b", "Succeeded", index=1)],
        0, 1, 1, "1", None, ended("Failed", *POLICY)),
    "FailJob with a pod still running": (
        {"parallelism": 2, "completions": 2,
         "podFailurePolicy": {"rules": [on_codes("FailJob", 3)]}}, {},
        [pod("a", "Failed", exit_code=3), pod("b")],
        0, 2, 0, "", None, [("FailureTarget", *POLICY)]),
    "a running pod with a bad exit code does not fail the job": (
        {"podFailurePolicy": {"rules": [on_codes("FailJob", 3)]}}, {},
        [pod("a", exit_code=3)], 1, 0, 0, "", None, []),
    "an ignored failure of a plain job": (
        {"backoffLimit": 0, "podFailurePolicy": {"rules": [on_codes("Ignore", 3)]}}, {},
        [pod("a", "Failed", exit_code=3)], 1, 0, 0, "", None, []),
    "Count goes towards the limit": (
        {"backoffLimit": 0, "podFailurePolicy": {"rules": [
            on_codes("Count", 3), on_codes("Ignore", 3)]}}, {},
        [pod("a", "Failed", exit_code=3)], 0, 1, 0, "", None, ended("Failed", *LIMIT)),
    "an ignored failure delays the replacement": (
        {"podFailurePolicy": {"rules": [on_codes("Ignore", 3)]}}, {},
        [pod("a", "Failed", exit_code=3, finished=0)], 0, 0, 0, "", None, []),
    "a terminating pod has not failed when only failed ones are replaced": (
        {"podReplacementPolicy": "Failed",
         "podFailurePolicy": {"rules": [on_codes("FailJob", 3)]}}, {},
        [pod("a", deleted=True, exit_code=3)], 0, 0, 0, "", None, []),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_pass_with_policy(name: str) -> None:
    spec, status, pods, active, failed, succeeded, done, failed_indexes, conditions = CASES[name]
    ran = run(job(status, **spec), pods)
    seen = ran.status
    assert seen.get("active", 0) == active
    assert seen.get("failed", 0) == failed
    assert seen.get("succeeded", 0) == succeeded
    assert seen.get("completedIndexes", "") == done
    assert seen.get("failedIndexes") == failed_indexes
    assert [(c[0], *c[2:]) for c in ran.conditions] == conditions


def test_failure_counts_travel_to_the_replacement() -> None:
    policy = {"rules": [on_codes("Ignore", 3)]}
    spec = per_index(limit=5, size=3, podFailurePolicy=policy)
    ran = run(job(**spec), [
        pod("a", "Failed", index=0, failures=2, exit_code=1),
        pod("b", "Failed", index=1, failures=2, exit_code=3),
    ])  # fmt: skip
    counts = [p["metadata"]["annotations"] for p in ran.created]
    assert [(c[FAILURES], c.get(IGNORED)) for c in counts] == [
        ("3", None), ("2", "1"), ("0", None),
    ]  # fmt: skip


def test_the_later_failure_of_an_index_is_the_one_to_replace() -> None:
    ran = run(job(**per_index(limit=9, size=1)), [
        pod("old", "Failed", index=0, failures=0, finished=900),
        pod("new", "Failed", index=0, failures=1, finished=600),
    ])  # fmt: skip
    assert ran.created[0]["metadata"]["annotations"][FAILURES] == "2"
    assert ran.freed == ["old"]


def test_an_index_waits_for_its_own_back_off() -> None:
    ran = run(job(**per_index(limit=9)), [
        pod("a", "Failed", index=0, failures=2, finished=15),
        pod("b", "Failed", index=1, failures=0, finished=6),
    ])  # fmt: skip
    assert ran.created == [] and ran.verdict.requeue_after == 4.0


ONE = {"containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 1}}}]}
MATCHES: dict[str, tuple[list[dict[str, Any]], dict[str, Any], str | None]] = {
    "no rules": ([], ONE, None),
    "In": ([on_codes("Count", 1, 2)], ONE, "Count"),
    "not In": ([on_codes("Count", 2)], ONE, None),
    "NotIn": ([on_codes("Ignore", 2, operator="NotIn")], ONE, "Ignore"),
    "not NotIn": ([on_codes("Ignore", 1, operator="NotIn")], ONE, None),
    "unknown operator": ([on_codes("Ignore", 1, operator="Odd")], ONE, None),
    "unknown action": ([on_codes("Odd", 1)], ONE, None),
    "container name": ([on_codes("Count", 1, containerName="main")], ONE, "Count"),
    "other container name": ([on_codes("Count", 1, containerName="other")], ONE, None),
    "exit code 0 never matches": (
        [on_codes("Count", 5, operator="NotIn")],
        {"containerStatuses": [{"name": "m", "state": {"terminated": {"exitCode": 0}}}]}, None),
    "still running": (
        [on_codes("Count", 1)], {"containerStatuses": [{"name": "m", "state": {}}]}, None),
    "init container": (
        [on_codes("FailIndex", 7)],
        {"initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 7}}}]},
        "FailIndex"),
    "first rule wins": ([on_codes("Ignore", 1), on_codes("FailJob", 1)], ONE, "Ignore"),
    "condition": (
        [on_condition("Ignore", "DisruptionTarget")],
        {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}, "Ignore"),
    "condition with the defaulted status": (
        [on_condition("Ignore", "DisruptionTarget", None)],
        {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}, "Ignore"),
    "condition with another status": (
        [on_condition("Ignore", "DisruptionTarget")],
        {"conditions": [{"type": "DisruptionTarget", "status": "False"}]}, None),
    "condition after exit codes": (
        [on_codes("FailJob", 9), on_condition("FailIndex", "DisruptionTarget")],
        {**ONE, "conditions": [{"type": "DisruptionTarget", "status": "True"}]}, "FailIndex"),
}  # fmt: skip


@pytest.mark.parametrize("name", MATCHES)
def test_failure_rules(name: str) -> None:
    rules, status, action = MATCHES[name]
    found = match_failure({"rules": rules}, pod("a", "Failed", status=status))
    assert found.action == action
    assert found.counts is (action != "Ignore")


def test_condition_message() -> None:
    found = match_failure(
        {"rules": [on_codes("Count", 9), on_condition("FailJob", "DisruptionTarget")]},
        pod("a", "Failed",
            status={"conditions": [{"type": "DisruptionTarget", "status": "True"}]}),
    )  # fmt: skip
    assert found.message == (
        "Pod ns/pod-a has condition DisruptionTarget matching FailJob rule at index 1"
    )


@pytest.mark.parametrize(
    ("rules", "succeeded", "message"),
    [
        ([], "0-9", None),
        ([{"succeededCount": 3}], "0,1", None),
        ([{"succeededCount": 2}], "0,1", "Matched rules at index 0"),
        ([{"succeededIndexes": "0-2"}], "0-2,5", "Matched rules at index 0"),
        ([{"succeededIndexes": "0-3"}], "0-2,5", None),
        ([{"succeededIndexes": "0-6", "succeededCount": 4}], "0-2,5,8", "Matched rules at index 0"),
        ([{"succeededIndexes": "0-4", "succeededCount": 4}], "0-2,5,8", None),
        ([{"succeededIndexes": "x"}, {"succeededCount": 1}], "7", "Matched rules at index 1"),
        ([{"succeededIndexes": "1,3-5,8"}], "1,3-5,8,9", "Matched rules at index 0"),
        ([{"succeededCount": 0}], "", None),
    ],
)
def test_success_rules(rules: list[Any], succeeded: str, message: str | None) -> None:
    done = IndexSet.parse(succeeded, 10)
    assert match_success({"rules": rules} if rules else None, 10, done) == message


def test_now_is_what_conditions_carry() -> None:
    ran = run(job(backoffLimit=0), [pod("a", "Failed")], now=NOW)
    assert {c["lastTransitionTime"] for c in ran.status["conditions"]} == {STAMP}
