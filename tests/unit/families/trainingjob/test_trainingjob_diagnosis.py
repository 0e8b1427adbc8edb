"""Why replicas failed, as the status says it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from corral.families.trainingjob.lifecycle.diagnosis import culprit, diagnose, log_tail
from corral.families.trainingjob.lifecycle.limits import RunLimits
from corral.kube.client import KubeClient
from corral.kube.errors import NotFound
from corral.runtime.pods.failures import shortened, stuck_reason, trimmed
from tests.unit.families.trainingjob.training_world import (
    START,
    deleting,
    ended,
    make_pod,
    unschedulable,
    waiting,
)

Obj = dict[str, Any]


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (ended(make_pod(1), 3), {"reason": "Error", "exitCode": 3}),
        (
            ended(make_pod(1), 137, reason="OOMKilled"),
            {
                "reason": "OOMKilled", "exitCode": 137, "signal": 9,
                "message": "the container used more memory than its limit",
            },
        ),
        (ended(make_pod(1), 139), {"reason": "Error", "exitCode": 139, "signal": 11}),
        (
            ended(make_pod(1), 1, signal=6, message="abort\n"),
            {"reason": "Error", "exitCode": 1, "signal": 6, "message": "abort"},
        ),
        (
            waiting(make_pod(1), "CreateContainerConfigError", 'secret "s" not found'),
            {"reason": "CreateContainerConfigError", "message": 'secret "s" not found'},
        ),
        (
            unschedulable(make_pod(1)),
            {"reason": "Unschedulable", "message": "0/1 nodes are available"},
        ),
        (
            deleting(make_pod(1, phase="Running")),
            {"reason": "PodLost", "message": "the pod was deleted or lost with its node"},
        ),
    ],
    ids=["exit", "oom", "signal", "message", "config", "unschedulable", "deleted"],
)  # fmt: skip
def test_diagnosis(pod: Obj, expected: Obj) -> None:
    assert diagnose(pod) == {"replica": 1, "pod": "job-1", **expected}


def test_the_node_is_named() -> None:
    pod = ended(make_pod(0), 1)
    pod["spec"]["nodeName"] = "n7"
    assert diagnose(pod)["node"] == "n7"


def test_the_first_to_end_is_the_cause() -> None:
    pods = [
        ended(make_pod(0), 1, at=START + 2),
        ended(make_pod(1), 1, at=START),
        make_pod(2, phase="Running"),
        ended(make_pod(3), 1, at=START + 1),
    ]
    assert culprit(pods) is pods[1]


def test_of_those_that_ended_together_the_one_without_memory_is_the_cause() -> None:
    pods = [ended(make_pod(0), 1), ended(make_pod(1), 137, reason="OOMKilled")]
    assert culprit(pods) is pods[1]


def test_a_loss_explains_failures() -> None:
    pods = [ended(make_pod(0), 1), deleting(make_pod(1, phase="Running"))]
    assert culprit(pods) is pods[1]


def test_nobody_is_to_blame_while_all_run() -> None:
    assert culprit([make_pod(0, phase="Running"), ended(make_pod(1), 0)]) is None


def test_a_pod_on_its_way_is_not_stuck() -> None:
    assert stuck_reason(waiting(make_pod(0), "ContainerCreating")) == ("", "")


def test_messages_are_bounded() -> None:
    assert shortened("a" * 9, 9) == "a" * 9
    assert shortened("a" * 10, 9) == "a" * 8 + "…"


def test_the_tail_is_bounded_by_lines_and_bytes() -> None:
    limits = RunLimits(log_lines=3, log_bytes=8)
    assert trimmed(["a", "b", "c", "d"], limits) == "b\nc\nd"
    assert trimmed(["long line", "ä23456"], limits) == "\nä23456"[-8:]


class _Logs:
    """A client with one log."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.asked: list[Any] = []

    async def log_lines(self, *args: Any, **more: Any) -> AsyncGenerator[str, None]:
        self.asked.append((args, more))
        yield "one"
        if self.error is not None:
            raise self.error
        yield "two"


async def test_the_end_of_the_log_of_the_container_that_failed() -> None:
    logs = _Logs()
    tail = await log_tail(cast(KubeClient, logs), ended(make_pod(1), 1), RunLimits())
    assert tail == "one\ntwo"
    assert logs.asked == [
        (
            ("job-1", "ns"),
            {"container": "trainer", "tail_lines": 20, "previous": False, "limit_bytes": 4 << 20},
        )
    ]


async def test_what_cannot_be_read_is_left_out() -> None:
    logs = _Logs(NotFound("gone"))
    assert await log_tail(cast(KubeClient, logs), ended(make_pod(1), 1), RunLimits()) == ""
