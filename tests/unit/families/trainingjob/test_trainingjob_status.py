"""Statuses: what is written of them, and the events and figures they stand for."""

from __future__ import annotations

from copy import deepcopy
from itertools import pairwise
from typing import Any, cast

from prometheus_client import CollectorRegistry

from corral.api.training.kinds import TRAININGJOBS, TrainingJob
from corral.families.trainingjob.lifecycle.events import transitions
from corral.families.trainingjob.lifecycle.status import (
    Draft,
    is_finished,
    is_suspended,
    running_since,
)
from corral.families.trainingjob.metrics import TrainingMetrics
from corral.kube.client import KubeClient
from corral.runtime import ConsistencyStore
from corral.runtime.family.statuses import StatusController
from corral.runtime.informers.informer import Informer
from corral.runtime.informers.reflector import Scope
from tests.unit.families.trainingjob.training_world import START, make_job

Obj = dict[str, Any]


class _Server:
    """Takes patches."""

    def __init__(self) -> None:
        self.patches: list[Obj] = []

    async def patch(self, resource: Any, name: str, **more: Any) -> Obj:
        assert more["subresource"] == "status"
        self.patches.append(more["patch"])
        return {"metadata": {"name": name, "resourceVersion": "8"}}


async def test_only_what_differs_is_written_and_bound_to_the_version() -> None:
    server = _Server()
    statuses = StatusController(
        cast(KubeClient, server), TRAININGJOBS, ConsistencyStore({}), field_manager="test"
    )
    job = make_job()
    job["metadata"]["resourceVersion"] = "7"
    job["status"] = {"phase": "Running", "progress": {"step": 3}}
    assert await statuses.write(job, deepcopy(job["status"])) is job
    assert server.patches == []
    await statuses.write(job, {**job["status"], "phase": "Succeeded"})
    assert server.patches == [
        {"status": {"phase": "Succeeded"}, "metadata": {"resourceVersion": "7"}}
    ]


def test_a_draft_fits_the_schema() -> None:
    job = make_job()
    draft = Draft(job, START)
    draft.valid()
    draft.restarting("ReplicaFailed", "m" * 5000)
    draft.wait_until(START + 0.5)
    draft.summarise({"count": 1, "bytes": 3, "last": "job-000001"})
    draft.status |= {"attempt": 1, "worldSize": 2, "replicaAttempts": {"1": 2}}
    draft.status |= {"launchedAttempt": 2, "completedReplicas": "0"}
    draft.end("Failed", reason="BackoffLimitExceeded", message="too often")
    assert TrainingJob.validate({**job, "status": draft.status}) == []
    assert "status" not in job


def test_conditions_tell_where_a_job_is() -> None:
    draft = Draft(make_job(), START)
    draft.condition("Running", holds=True, reason="AllReplicasRunning")
    assert running_since(draft.status) == START
    draft.condition("Suspended", holds=True, reason="Suspended")
    assert is_suspended(draft.status)
    assert not is_finished(draft.status)
    draft.invalid("no image")
    assert not is_finished(draft.status)
    draft.end("Failed", reason="DeadlineExceeded", message="")
    assert is_finished(draft.status)


def statuses(*steps: Any) -> list[Obj]:
    """The statuses of a job after each of the steps."""
    job, out = make_job(), [dict[str, Any]()]
    for number, step in enumerate(steps):
        draft = Draft(job, START + number)
        step(draft)
        job["status"] = draft.status
        out.append(draft.status)
    return out


def events(*steps: Any) -> list[list[tuple[str, str]]]:
    found = statuses(*steps)
    return [
        [(event.type, event.reason) for event in transitions(old, new)]
        for old, new in pairwise(found)
    ]


def _start(draft: Draft) -> None:
    draft.valid()
    draft.status |= {"attempt": 1, "worldSize": 2}
    draft.condition("Running", holds=False, reason="PodsPending")


def _run(draft: Draft) -> None:
    draft.condition("Running", holds=True, reason="AllReplicasRunning")
    draft.end_condition("Restarting", reason="AllReplicasRunning")


def _fail(draft: Draft) -> None:
    draft.restarting("ReplicaFailed", f"attempt {draft.stamp}")
    draft.condition("Running", holds=False, reason="PodsEnding")


def _stick(draft: Draft) -> None:
    draft.condition("Running", holds=False, reason="ImagePullBackOff", message=draft.stamp)


def _same(draft: Draft) -> None:
    return None


def test_every_change_is_said_once() -> None:
    assert events(_start, _same, _stick, _stick, _run, _same, _fail, _same, _fail, _run) == [
        [("Normal", "Started")],
        [],
        [("Warning", "ImagePullBackOff")],
        [],
        [("Normal", "Running")],
        [],
        [("Warning", "ReplicaFailed")],
        [],
        [("Warning", "ReplicaFailed")],
        [("Normal", "Running")],
    ]


def test_ends_are_said_once() -> None:
    def end(type: str, reason: str) -> Any:
        return lambda draft: draft.end(type, reason=reason, message="")

    assert events(_start, end("Succeeded", "AllReplicasSucceeded"), _same)[1:] == [
        [("Normal", "Succeeded")],
        [],
    ]
    assert events(_start, end("Failed", "DeadlineExceeded"), _same)[1:] == [
        [("Warning", "DeadlineExceeded")],
        [],
    ]
    assert events(lambda draft: draft.invalid("no image"), _same) == [
        [("Warning", "InvalidSpec")],
        [],
    ]


def test_suspension_and_resume_are_said() -> None:
    def suspend(draft: Draft) -> None:
        draft.condition("Suspended", holds=True, reason="Suspended")
        draft.condition("Running", holds=False, reason="Suspended")

    def resume(draft: Draft) -> None:
        draft.condition("Suspended", holds=False, reason="Resumed")

    assert events(_start, suspend, resume)[1:] == [
        [("Normal", "Suspended")],
        [("Normal", "Resumed")],
    ]


async def test_figures() -> None:
    registry = CollectorRegistry()
    jobs = Informer(cast(KubeClient, None), Scope(TRAININGJOBS, None))
    metrics = TrainingMetrics(registry, jobs)
    found = statuses(_start, _run)
    found[1]["startTime"] = found[2]["startTime"] = "2027-01-15T08:00:00Z"
    metrics.changed(found[1], found[2], now=START + 5)
    failed = deepcopy(found[2])
    failed["replicas"] |= {"restarts": 2, "disruptions": 1}
    failed |= {"completionTime": "2027-01-15T08:00:00Z", "phase": "Failed"}
    metrics.changed(found[2], failed, now=START + 9)
    job = make_job()
    job["status"] = failed
    jobs.store.put(job)
    value = registry.get_sample_value
    assert value("corral_trainingjobs", {"phase": "Failed"}) == 1
    assert value("corral_trainingjobs", {"phase": "Running"}) == 0
    assert value("corral_trainingjob_restarts_total", {"cause": "failure"}) == 2
    assert value("corral_trainingjob_restarts_total", {"cause": "disruption"}) == 1
    assert value("corral_trainingjobs_finished_total", {"phase": "Failed"}) == 1
    assert value("corral_trainingjob_time_to_running_seconds_count") == 1
