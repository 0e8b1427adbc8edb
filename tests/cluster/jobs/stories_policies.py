"""Pod failure policies, success policies, and when a pod is replaced."""

from __future__ import annotations

from typing import Any

from tests.cluster.jobs.stage import Obj, Stage
from tests.cluster.jobs.telling import story

DISRUPTED: Obj = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}


def codes(action: str, operator: str, *values: int, container: str = "") -> Obj:
    wanted: Obj = {"operator": operator, "values": list(values)}
    if container:
        wanted["containerName"] = container
    return {"action": action, "onExitCodes": wanted}


def condition(action: str, kind: str, status: str = "True") -> Obj:
    return {"action": action, "onPodConditions": [{"type": kind, "status": status}]}


def with_rules(stage: Stage, *rules: Obj, width: int = 1, **spec: Any) -> None:
    stage.make(podFailurePolicy={"rules": list(rules)}, **spec)
    stage.until(active=width, pods=width)


def indexed(completions: int, **spec: Any) -> Any:
    return {
        "completionMode": "Indexed",
        "completions": completions,
        "parallelism": completions,
        **spec,
    }


@story
def an_exit_code_fails_the_job(stage: Stage) -> None:
    with_rules(stage, codes("FailJob", "In", 42, 43))
    stage.fail(*stage.active(), code=42)
    stage.until("Failed")
    stage.mark("failed")


@story
def any_other_exit_code_fails_the_job(stage: Stage) -> None:
    with_rules(stage, codes("FailJob", "NotIn", 1, 2, container="main"), backoffLimit=3)
    stage.fail(*stage.active(), code=2)
    stage.until(active=1, failed=1, pods=2)
    stage.mark("an exempt code")
    stage.fail(*stage.active(), code=3)
    stage.until("Failed")
    stage.mark("failed")


@story
def the_job_fails_while_others_run(stage: Stage) -> None:
    spec = {"completions": 2, "parallelism": 2, "node": True}
    with_rules(stage, codes("FailJob", "In", 7), width=2, **spec)
    stage.fail(stage.active()[0], code=7)
    stage.until("FailureTarget", active=0, terminating=1)
    stage.mark("announced")
    stage.stop()
    stage.until("Failed")
    stage.mark("failed")


@story
def disruptions_are_ignored(stage: Stage) -> None:
    with_rules(stage, condition("Ignore", "DisruptionTarget"), backoffLimit=0)
    stage.fail(*stage.active(), condition=DISRUPTED)
    stage.until(active=1, failed=0, pods=2)
    stage.mark("replaced and not counted")
    stage.succeed(*stage.active())
    stage.until("Complete")
    stage.mark("done")


@story
def a_deleted_pod_that_was_disrupted(stage: Stage) -> None:
    with_rules(stage, condition("Ignore", "DisruptionTarget"), backoffLimit=0, node=True)
    stage.run(stage.active()[0])
    stage.until(ready=1)
    pod = stage.active()[0]
    stage.remove(pod)
    stage.until(terminating=1)
    stage.mark("not counted while it goes")
    stage.fail(pod, condition=DISRUPTED)
    stage.until(active=1, terminating=0)
    stage.mark("replaced")


@story
def some_failures_only_count(stage: Stage) -> None:
    with_rules(stage, codes("Count", "In", 1), codes("FailJob", "NotIn", 0), backoffLimit=1)
    stage.fail(*stage.active(), code=1)
    stage.until(active=1, failed=1, pods=2)
    stage.mark("counted")
    stage.fail(*stage.active(), code=1)
    stage.until("Failed")
    stage.mark("failed by the limit")


@story
def no_rule_matches(stage: Stage) -> None:
    with_rules(stage, codes("FailJob", "In", 42), backoffLimit=0)
    stage.fail(*stage.active(), code=1)
    stage.until("Failed")
    stage.mark("failed by the limit")


@story
def the_first_rule_decides(stage: Stage) -> None:
    with_rules(
        stage, condition("Ignore", "DisruptionTarget"), codes("FailJob", "In", 42), backoffLimit=1
    )
    stage.fail(*stage.active(), code=42, condition=DISRUPTED)
    stage.until(active=1, pods=2)
    stage.mark("ignored")
    stage.fail(*stage.active(), code=42)
    stage.until("Failed")
    stage.mark("failed")


@story
def a_condition_fails_the_job(stage: Stage) -> None:
    with_rules(stage, condition("FailJob", "example.test/Broken"))
    stage.fail(*stage.active(), condition={"type": "example.test/Broken", "status": "True"})
    stage.until("Failed")
    stage.mark("failed")


@story
def a_false_condition_fails_the_job(stage: Stage) -> None:
    with_rules(stage, condition("FailJob", "example.test/Well", "False"))
    stage.fail(*stage.active(), condition={"type": "example.test/Well", "status": "False"})
    stage.until("Failed")
    stage.mark("failed")


@story
def an_init_container_fails_the_job(stage: Stage) -> None:
    template = {"spec": {"initContainers": [{"name": "first", "image": "x"}]}}
    with_rules(stage, codes("FailJob", "In", 9, container="first"), template=template)
    stage.fail(*stage.active(), code=9, init=True)
    stage.until("Failed")
    stage.mark("failed")


@story
def an_exit_code_fails_the_index(stage: Stage) -> None:
    spec = indexed(2, backoffLimitPerIndex=3)
    with_rules(stage, codes("FailIndex", "In", 42), width=2, **spec)
    stage.fail(*stage.active(0), code=42)
    stage.until(active=1, failed=1, failedIndexes="0")
    stage.mark("not tried again")
    stage.succeed(*stage.active())
    stage.until("Failed")
    stage.mark("failed at the end")


@story
def ignored_failures_of_an_index(stage: Stage) -> None:
    spec = indexed(2, backoffLimitPerIndex=1)
    with_rules(stage, condition("Ignore", "DisruptionTarget"), width=2, **spec)
    stage.fail(*stage.active(1), condition=DISRUPTED)
    stage.until(active=2, pods=3)
    stage.wait(lambda: len([p for p in stage.all("pods") if p["metadata"].get("finalizers")]) == 2)
    stage.mark("ignored", full=True)
    stage.fail(*stage.active(1))
    stage.until(active=2, failed=1, pods=4)
    stage.mark("counted", full=True)


@story
def enough_indexes_succeed(stage: Stage) -> None:
    rules = [{"succeededIndexes": "0,2"}]
    stage.make(**indexed(4, successPolicy={"rules": rules}))
    stage.until(active=4, pods=4)
    stage.succeed(*stage.active(0))
    stage.until(active=3, succeeded=1)
    stage.mark("one of two")
    stage.succeed(*stage.active(2))
    stage.until("Complete")
    stage.mark("enough")


@story
def enough_pods_succeed(stage: Stage) -> None:
    stage.make(**indexed(3, successPolicy={"rules": [{"succeededCount": 1}]}))
    stage.until(active=3, pods=3)
    stage.succeed(*stage.active(1))
    stage.until("Complete")
    stage.mark("enough")


@story
def enough_of_some_indexes_succeed(stage: Stage) -> None:
    rules = [
        {"succeededIndexes": "0", "succeededCount": 1},
        {"succeededIndexes": "1-3", "succeededCount": 2},
    ]
    stage.make(**indexed(4, successPolicy={"rules": rules}))
    stage.until(active=4, pods=4)
    stage.succeed(*stage.active(1))
    stage.until(active=3, succeeded=1)
    stage.succeed(*stage.active(3))
    stage.until("Complete")
    stage.mark("the second rule")


@story
def success_while_others_go_slowly(stage: Stage) -> None:
    policy = {"rules": [{"succeededIndexes": "0"}]}
    stage.make(node=True, **indexed(3, successPolicy=policy))
    stage.until(active=3, pods=3)
    stage.succeed(*stage.active(0))
    stage.until("SuccessCriteriaMet", active=0, terminating=2)
    stage.mark("announced")
    stage.stop()
    stage.until("Complete")
    stage.mark("done")


@story
def all_succeed_before_the_policy(stage: Stage) -> None:
    stage.make(**indexed(2, successPolicy={"rules": [{"succeededIndexes": "0,1"}]}))
    stage.until(active=2, pods=2)
    stage.succeed(*stage.active())
    stage.until("Complete")
    stage.mark("done")


@story
def failure_comes_before_the_success_policy(stage: Stage) -> None:
    spec = indexed(2, successPolicy={"rules": [{"succeededIndexes": "1"}]}, backoffLimit=0)
    stage.make(**spec)
    stage.until(active=2, pods=2)
    stage.fail(*stage.active(0))
    stage.until("Failed")
    stage.mark("failed")


@story
def only_failed_pods_are_replaced(stage: Stage) -> None:
    stage.make(podReplacementPolicy="Failed", node=True)
    stage.until(active=1, pods=1)
    pod = stage.active()[0]
    stage.remove(pod)
    stage.until(active=0, terminating=1)
    stage.quiet()
    stage.mark("not replaced while it goes")
    stage.fail(pod)
    stage.until(active=1, failed=1, terminating=0)
    stage.mark("replaced")


@story
def only_failed_indexes_are_replaced(stage: Stage) -> None:
    stage.make(node=True, **indexed(2, podReplacementPolicy="Failed"))
    stage.until(active=2, pods=2)
    pod = stage.active(1)[0]
    stage.remove(pod)
    stage.until(active=1, terminating=1)
    stage.quiet()
    stage.mark("not replaced while it goes")
    stage.succeed(pod)
    stage.until(active=1, succeeded=1, terminating=0)
    stage.mark("it succeeded after all")


@story
def terminating_pods_are_replaced(stage: Stage) -> None:
    stage.make(podReplacementPolicy="TerminatingOrFailed", node=True)
    stage.until(active=1, pods=1)
    stage.remove(*stage.active())
    stage.until(active=1, failed=1, terminating=1, pods=2)
    stage.mark("replaced while it goes")
    stage.stop()
    stage.until(active=1, failed=1, terminating=0, pods=1)
    stage.mark("gone")
