"""Indexed jobs: names, completed and failed indexes, limits per index, elastic completions."""

from __future__ import annotations

from typing import Any

from tests.cluster.jobs.stage import Stage, pod_spec_of_one
from tests.cluster.jobs.telling import story


def make(stage: Stage, completions: int, *, parallelism: int | None = None, **spec: Any) -> None:
    width = completions if parallelism is None else parallelism
    stage.make(completionMode="Indexed", completions=completions, parallelism=width, **spec)
    stage.until(active=min(width, completions), pods=min(width, completions))


@story
def indexed(stage: Stage) -> None:
    make(stage, 3)
    stage.mark("started", full=True)
    stage.succeed(*stage.active(1))
    stage.until(active=2, succeeded=1, completedIndexes="1")
    stage.mark("one done")
    stage.succeed(*stage.active())
    stage.until("Complete")
    stage.mark("done")


@story
def lowest_index_first(stage: Stage) -> None:
    make(stage, 4, parallelism=2)
    stage.mark("first two")
    stage.succeed(*stage.active(0))
    stage.until(active=2, completedIndexes="0", pods=3)
    stage.mark("the next")
    stage.succeed(*stage.active())
    stage.until(active=1, completedIndexes="0-2", pods=4)
    stage.succeed(*stage.active())
    stage.until("Complete")
    stage.mark("done")


@story
def completed_indexes_are_compressed(stage: Stage) -> None:
    make(stage, 8)
    for index in (0, 1):
        stage.succeed(*stage.active(index))
    stage.until(completedIndexes="0,1")
    stage.mark("two neighbours")
    for index in (2, 5, 7):
        stage.succeed(*stage.active(index))
    stage.until(completedIndexes="0-2,5,7")
    stage.mark("with gaps")
    stage.succeed(*stage.active())
    stage.until("Complete")
    stage.mark("done")


@story
def a_failed_index_is_tried_again(stage: Stage) -> None:
    make(stage, 2)
    stage.fail(*stage.active(1))
    stage.until(active=2, failed=1, pods=3)
    stage.mark("again")
    stage.succeed(*stage.active())
    stage.until("Complete")
    stage.mark("done")


@story
def indexed_back_off_limit(stage: Stage) -> None:
    make(stage, 3, backoffLimit=0)
    stage.succeed(*stage.active(2))
    stage.until(active=2, succeeded=1)
    stage.fail(*stage.active(0))
    stage.until("Failed")
    stage.mark("failed")


@story
def a_second_pod_of_an_index_goes(stage: Stage) -> None:
    make(stage, 3, parallelism=2)
    stage.quiet(1.1)  # the younger one goes, and ages are whole seconds
    first = stage.active(0)[0]["metadata"]
    kept = ("labels", "annotations", "finalizers", "ownerReferences")
    meta = {"name": "twin", **{key: first[key] for key in kept}}
    stage.create(
        "pods", {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod_spec_of_one()}
    )
    stage.wait(lambda: stage.find("pods", "twin") is None)
    stage.until(active=2, terminating=0)
    stage.mark("one for each index")
    stage.succeed(*stage.active(0))
    stage.until(active=2, completedIndexes="0", pods=3)
    stage.mark("goes on")


@story
def elastic_up(stage: Stage) -> None:
    make(stage, 2)
    stage.succeed(*stage.active(0))
    stage.until(active=1, completedIndexes="0")
    stage.change(completions=4, parallelism=4)
    stage.until(active=3, pods=4)
    stage.mark("wider")
    stage.succeed(*stage.active())
    stage.until("Complete")
    stage.mark("done")


@story
def elastic_down(stage: Stage) -> None:
    make(stage, 4)
    stage.succeed(*stage.active(3), *stage.active(0))
    stage.until(active=2, completedIndexes="0,3")
    stage.change(completions=2, parallelism=2)
    stage.until(active=1, completedIndexes="0")
    stage.mark("narrower")
    stage.succeed(*stage.active())
    stage.until("Complete")
    stage.mark("done")


@story
def elastic_down_to_what_is_done(stage: Stage) -> None:
    make(stage, 3)
    stage.succeed(*stage.active(0))
    stage.until(active=2, completedIndexes="0")
    stage.change(completions=1, parallelism=1)
    stage.until("Complete")
    stage.mark("done")


@story
def a_long_name(stage: Stage) -> None:
    stage.name = "story-" + "of-a-very-long-name-" * 2 + "at-its-end-a"
    make(stage, 2)
    stage.mark("names are cut", full=True)


@story
def what_the_template_says_stays(stage: Stage) -> None:
    template = {
        "metadata": {
            "labels": {"app": "mine"},
            "annotations": {"note": "kept"},
            "finalizers": ["example.test/hold"],
        },
        "spec": {
            "hostname": "ignored",
            "subdomain": "group",
            "initContainers": [
                {"name": "first", "image": "x", "env": [{"name": "A", "value": "1"}]}
            ],
            "containers": [
                {"name": "main", "image": "x"},
                {
                    "name": "own",
                    "image": "x",
                    "env": [{"name": "JOB_COMPLETION_INDEX", "value": "mine"}],
                },
            ],
        },
    }
    stage.make(template, completionMode="Indexed", completions=1, parallelism=1)
    stage.until(active=1, pods=1)
    stage.mark("made", full=True)
    stage.patch("pods", stage.pods()[0]["metadata"]["name"], {"metadata": {"finalizers": None}})


@story
def per_index_limit(stage: Stage) -> None:
    make(stage, 2, backoffLimitPerIndex=1)
    stage.mark("started", full=True)
    stage.fail(*stage.active(0))
    stage.until(active=2, failed=1, pods=3)
    stage.mark("again, with its failures", full=True)
    stage.fail(*stage.active(0))
    stage.until(active=1, failed=2, failedIndexes="0")
    stage.mark("index 0 has failed")
    stage.succeed(*stage.active(1))
    stage.until("Failed")
    stage.mark("failed at the end")


@story
def per_index_limit_of_none(stage: Stage) -> None:
    make(stage, 3, backoffLimitPerIndex=0)
    stage.fail(*stage.active())
    stage.until("Failed")
    stage.mark("all have failed")


@story
def per_index_failures_that_heal(stage: Stage) -> None:
    make(stage, 2, backoffLimitPerIndex=2)
    stage.fail(*stage.active(1))
    stage.until(active=2, failed=1, pods=3)
    stage.succeed(*stage.active())
    stage.until("Complete")
    stage.mark("done")


@story
def per_index_failures_are_not_replaced_beyond(stage: Stage) -> None:
    make(stage, 3, parallelism=1, backoffLimitPerIndex=0)
    stage.fail(*stage.active(0))
    stage.until(active=1, failed=1, failedIndexes="0", pods=2)
    stage.mark("goes on with the next")
    stage.succeed(*stage.active())
    stage.until(active=1, completedIndexes="1", pods=3)
    stage.succeed(*stage.active())
    stage.until("Failed")
    stage.mark("failed at the end")


@story
def too_many_failed_indexes(stage: Stage) -> None:
    make(stage, 4, backoffLimitPerIndex=0, maxFailedIndexes=1)
    stage.fail(*stage.active(0))
    stage.until(active=3, failedIndexes="0")
    stage.mark("one may fail")
    stage.fail(*stage.active(2))
    stage.until("Failed")
    stage.mark("two may not")


@story
def too_many_failed_indexes_on_a_node(stage: Stage) -> None:
    make(stage, 3, backoffLimitPerIndex=0, maxFailedIndexes=0, node=True)
    stage.fail(*stage.active(1))
    stage.until("FailureTarget", active=0, terminating=2)
    stage.mark("announced")
    stage.stop()
    stage.until("Failed")
    stage.mark("failed")


@story
def a_limit_per_index_and_one_for_all(stage: Stage) -> None:
    make(stage, 2, backoffLimitPerIndex=3, backoffLimit=1)
    stage.fail(*stage.active(0))
    stage.until(active=2, failed=1, pods=3)
    stage.fail(*stage.active(1))
    stage.until("Failed")
    stage.mark("the limit of the job")
