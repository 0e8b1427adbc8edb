"""Completions, parallelism, failures and back-off of jobs without indexes."""

from __future__ import annotations

from tests.cluster.jobs.stage import Stage
from tests.cluster.jobs.telling import story


@story
def one_pod_succeeds(stage: Stage) -> None:
    stage.make()
    stage.until(active=1, pods=1)
    stage.mark("started", full=True)
    stage.run(stage.pods()[0])
    stage.until(active=1, ready=1)
    stage.mark("running")
    stage.succeed(*stage.pods())
    stage.until("Complete")
    stage.mark("done")


@story
def one_pod_fails_without_retries(stage: Stage) -> None:
    stage.make(backoffLimit=0)
    stage.until(active=1, pods=1)
    stage.fail(*stage.pods())
    stage.until("Failed")
    stage.mark("done")


@story
def one_after_the_other(stage: Stage) -> None:
    stage.make(completions=3, parallelism=1)
    for done in range(3):
        stage.until(active=1, succeeded=done, pods=done + 1)
        stage.mark(f"{done} done")
        stage.succeed(*stage.active())
    stage.until("Complete")
    stage.mark("all done")


@story
def two_at_a_time(stage: Stage) -> None:
    stage.make(completions=3, parallelism=2)
    stage.until(active=2, pods=2)
    stage.mark("started")
    stage.succeed(stage.active()[0])
    stage.until(active=2, succeeded=1, pods=3)
    stage.succeed(stage.active()[0])
    stage.until(active=1, succeeded=2)
    stage.mark("one left")
    stage.succeed(*stage.active())
    stage.until("Complete")
    stage.mark("all done")


@story
def never_more_than_completions(stage: Stage) -> None:
    stage.make(completions=2, parallelism=5)
    stage.until(active=2, pods=2)
    stage.quiet()
    stage.mark("started")
    stage.succeed(*stage.active())
    stage.until("Complete")
    stage.mark("done")


@story
def parallelism_of_none(stage: Stage) -> None:
    stage.make(parallelism=0, completions=1)
    stage.until(ready=0, terminating=0)
    stage.quiet()
    stage.mark("nothing")
    stage.change(parallelism=1)
    stage.until(active=1, pods=1)
    stage.mark("begun")


@story
def completions_of_none(stage: Stage) -> None:
    stage.make(completions=0, parallelism=1)
    stage.until("Complete")
    stage.mark("done at once")


@story
def work_queue(stage: Stage) -> None:
    stage.make(parallelism=3)
    stage.until(active=3, pods=3)
    stage.succeed(stage.active()[0])
    stage.until(active=2, succeeded=1)
    stage.quiet()
    stage.mark("none is started after the first success")
    stage.fail(stage.active()[0])
    stage.until(active=1, failed=1)
    stage.mark("a failure is not made up for")
    stage.succeed(*stage.active())
    stage.until("Complete")
    stage.mark("done")


@story
def work_queue_with_an_early_failure(stage: Stage) -> None:
    stage.make(parallelism=2)
    stage.until(active=2, pods=2)
    stage.fail(stage.active()[0])
    stage.until(active=2, failed=1, pods=3)
    stage.mark("made up for")
    stage.succeed(*stage.active())
    stage.until("Complete")
    stage.mark("done")


@story
def work_queue_that_shrinks(stage: Stage) -> None:
    stage.make(parallelism=3)
    stage.until(active=3, pods=3)
    stage.change(parallelism=1)
    stage.until(active=1, pods=1)
    stage.mark("one left")
    stage.succeed(*stage.active())
    stage.until("Complete")
    stage.mark("done")


@story
def more_parallelism(stage: Stage) -> None:
    stage.make(completions=5, parallelism=1)
    stage.until(active=1, pods=1)
    stage.change(parallelism=3)
    stage.until(active=3, pods=3)
    stage.mark("three")


@story
def less_parallelism(stage: Stage) -> None:
    stage.make(completions=5, parallelism=3)
    stage.until(active=3, pods=3)
    stage.run(stage.active()[1])
    stage.until(active=3, ready=1)
    stage.change(parallelism=1)
    stage.until(active=1, ready=1, terminating=0, pods=1)
    stage.mark("the ready one stays")


@story
def less_parallelism_on_a_node(stage: Stage) -> None:
    stage.make(completions=5, parallelism=3, node=True)
    stage.until(active=3, pods=3)
    stage.change(parallelism=1)
    stage.until(active=1, terminating=2)
    stage.mark("two are going")
    stage.stop()
    stage.until(active=1, terminating=0, pods=1)
    stage.mark("two are gone and not counted")


@story
def parallelism_to_none_and_back(stage: Stage) -> None:
    stage.make(completions=2, parallelism=2)
    stage.until(active=2, pods=2)
    stage.change(parallelism=0)
    stage.until(active=0, terminating=0, pods=0)
    stage.mark("none")
    stage.change(parallelism=2)
    stage.until(active=2, pods=2)
    stage.mark("back")


@story
def ready_pods_are_counted(stage: Stage) -> None:
    stage.make(completions=3, parallelism=3)
    stage.until(active=3, pods=3)
    for pod in stage.active()[:2]:
        stage.run(pod)
    stage.until(ready=2)
    stage.mark("two ready")
    stage.run(stage.pods("Running")[0], ready=False)
    stage.until(ready=1)
    stage.mark("one ready")


@story
def a_pod_deleted_by_hand_is_a_failure(stage: Stage) -> None:
    stage.make()
    stage.until(active=1, pods=1)
    stage.remove(*stage.pods())
    stage.until(active=0, failed=1)
    stage.mark("counted, and waiting for the back-off")
    stage.until(active=1, failed=1, pods=1)
    stage.mark("replaced")


@story
def a_pod_deleted_by_hand_on_a_node(stage: Stage) -> None:
    stage.make(node=True)
    stage.until(active=1, pods=1)
    stage.remove(*stage.pods())
    stage.until(active=0, failed=1, terminating=1)
    stage.mark("counted while it goes")
    stage.stop()
    stage.until(terminating=0, failed=1)
    stage.mark("gone")


@story
def a_finished_pod_deleted_by_hand(stage: Stage) -> None:
    stage.make(completions=2)
    stage.until(active=1, pods=1)
    stage.succeed(*stage.active())
    stage.until(active=1, succeeded=1, pods=2)
    stage.remove(*stage.pods("Succeeded"))
    stage.quiet()
    stage.mark("still counted")
    stage.succeed(*stage.active())
    stage.until("Complete")
    stage.mark("done")


@story
def retries_up_to_the_limit(stage: Stage) -> None:
    stage.make(backoffLimit=1)
    stage.until(active=1, pods=1)
    stage.fail(*stage.active())
    stage.until(active=1, failed=1, pods=2)
    stage.mark("tried again")
    stage.fail(*stage.active())
    stage.until("Failed")
    stage.mark("given up")


@story
def success_after_failures(stage: Stage) -> None:
    stage.make(backoffLimit=2)
    for failures in range(2):
        stage.until(active=1, failed=failures, pods=failures + 1)
        stage.fail(*stage.active())
    stage.until(active=1, failed=2, pods=3)
    stage.succeed(*stage.active())
    stage.until("Complete")
    stage.mark("done")


@story
def failures_and_successes_together(stage: Stage) -> None:
    stage.make(completions=4, parallelism=4, backoffLimit=3)
    stage.until(active=4, pods=4)
    first, second, third, last = stage.active()
    stage.fail(first, second)
    stage.succeed(third)
    stage.until(active=3, succeeded=1, failed=2, pods=6)
    stage.mark("two replaced")
    stage.succeed(last, *stage.active())
    stage.until("Complete")
    stage.mark("done")


@story
def too_many_restarts_in_place(stage: Stage) -> None:
    stage.make({"spec": {"restartPolicy": "OnFailure"}}, backoffLimit=2)
    stage.until(active=1, pods=1)
    stage.run(stage.pods()[0], restarts=1)
    stage.until(active=1, ready=1)
    stage.mark("one restart is allowed")
    stage.run(stage.pods()[0], restarts=2)
    stage.until("Failed")
    stage.mark("two are not")


@story
def no_restart_in_place(stage: Stage) -> None:
    stage.make({"spec": {"restartPolicy": "OnFailure"}}, backoffLimit=0)
    stage.until(active=1, pods=1)
    stage.run(stage.pods()[0], restarts=1)
    stage.until("Failed")
    stage.mark("given up")


@story
def the_others_go_when_the_job_fails(stage: Stage) -> None:
    stage.make(completions=3, parallelism=3, backoffLimit=0)
    stage.until(active=3, pods=3)
    stage.fail(stage.active()[0])
    stage.until("Failed")
    stage.mark("all are counted as failed")


@story
def the_others_go_slowly_when_the_job_fails(stage: Stage) -> None:
    stage.make(completions=3, parallelism=3, backoffLimit=0, node=True)
    stage.until(active=3, pods=3)
    stage.run(stage.active()[1])
    stage.until(ready=1)
    stage.fail(stage.pods("Pending")[0])
    stage.until("FailureTarget", active=0, terminating=2)
    stage.mark("the end is announced")
    stage.stop()
    stage.until("Failed")
    stage.mark("the end")


@story
def many_pods(stage: Stage) -> None:
    stage.make(completions=30, parallelism=12)
    done = 0
    while done < 30:
        want = min(12, 30 - done)
        stage.until(active=want, succeeded=done)
        stage.succeed(*stage.active())
        done += want
    stage.until("Complete", pods=30)
    stage.mark("done")
