"""What has become of a task: its Job and pods, its status, its events, its results."""

from __future__ import annotations

import base64
from copy import deepcopy
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from corral.families.federated import results
from corral.families.federated.groups.proplets import Proplet
from corral.families.federated.settings import FederatedSettings
from corral.families.federated.tasks.metrics import TaskMetrics
from corral.families.federated.tasks.state import Progress, observe
from corral.families.federated.tasks.status import Draft, transitions
from corral.families.federated.tasks.watching import readings
from corral.kube.errors import NotFound
from corral.kube.resources import CONFIGMAPS, JOBS
from corral.runtime import Informer
from corral.runtime.informers.reflector import Scope

Obj = dict[str, Any]
NOW = 1_800_000_000.0
PROPLET = Proplet("p1", "n1", "Pod")


def job(*conditions: Obj, kind: str = "Job", **status: Any) -> Obj:
    return {
        "apiVersion": "batch/v1",
        "kind": kind,
        "metadata": {"name": "t-job", "namespace": "ns", "uid": "u"},
        "status": {"conditions": list(conditions), **status},
    }


def holds(type: str, message: str = "") -> Obj:
    return {"type": type, "status": "True", "message": message}


def pod(phase: str, *, policy: str = "Never", **container: Any) -> Obj:
    statuses = [{"name": "wasm-task", **container}] if container else []
    return {
        "metadata": {"name": "t-job-x", "namespace": "ns"},
        "spec": {"restartPolicy": policy, "containers": [{"name": "wasm-task"}]},
        "status": {"phase": phase, "containerStatuses": statuses},
    }


# --- progress ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("workload", "pods", "state", "reason"),
    [
        (job(), [], "waiting", ""),
        (job(), [pod("Pending")], "waiting", ""),
        (job(), [pod("Running")], "running", ""),
        (job(holds("Complete")), [pod("Succeeded")], "succeeded", ""),
        (job(succeeded=1), [], "succeeded", ""),
        (job(holds("Failed", "too often")), [], "failed", "JobFailed"),
        (
            job(),
            [pod("Pending", state={"waiting": {"reason": "ErrImagePull", "message": "no"}})],
            "waiting",
            "ErrImagePull",
        ),
        (
            job(),
            [
                pod(
                    "Running",
                    policy="OnFailure",
                    state={"waiting": {"reason": "CrashLoopBackOff"}},
                    lastState={"terminated": {"exitCode": 3, "message": "bad"}},
                )
            ],
            "running",
            "Restarting",
        ),
        (job(kind="Deployment"), [pod("Running", policy="Always")], "running", ""),
    ],
)
def test_how_far_it_is(workload: Obj, pods: list[Obj], state: str, reason: str) -> None:
    progress = observe(workload, pods)
    assert (progress.state, progress.reason) == (state, reason)


def test_the_error_of_a_job() -> None:
    assert observe(job(holds("Failed")), []).message == "Job failed"
    said = "Job has reached the specified backoff limit"
    assert observe(job(holds("Failed", said)), []).message == said
    ended = {"terminated": {"exitCode": 134, "reason": "WasmTrap", "message": "unreachable\n"}}
    failed = pod("Failed", state=ended)
    assert observe(job(holds("Failed", said)), [failed]).message == (
        f"{said}: WasmTrap: exit code 134: unreachable"
    )


def test_pods_that_are_not_made() -> None:
    workload = job()
    workload["metadata"]["creationTimestamp"] = "2027-01-15T08:00:00Z"
    assert observe(workload, [], now=NOW + 4) == Progress("waiting")
    late = observe(workload, [], now=NOW + 6)
    assert (late.state, late.reason) == ("waiting", "NoPods")
    assert "kubectl describe job t-job" in late.message
    # a clock that was two years ahead has made it
    assert observe(workload, [], now=NOW - 730 * 86400) == late


# --- status --------------------------------------------------------------------------------------


def draft(status: Obj | None = None) -> Draft:
    task: Obj = {"metadata": {"name": "t", "namespace": "ns", "generation": 2}}
    return Draft({**task, "status": status} if status else task, NOW)


def ready(status: Obj) -> tuple[str, str]:
    (found,) = [c for c in status["conditions"] if c["type"] == "Ready"]
    return found["status"], found["reason"]


def test_a_life() -> None:
    made = draft()
    made.waits("NoProplets", "there are no proplets")
    first = made.status
    assert (first["phase"], ready(first)) == ("Pending", ("False", "NoProplets"))
    made = draft(first)
    made.scheduled(PROPLET)
    made.created(JOBS, job())
    second = made.status
    assert (second["phase"], second["propletId"], second["nodeName"]) == ("Scheduled", "p1", "n1")
    assert second["jobRef"]["kind"] == "Job"
    made = draft(second)
    made.runs()
    made.partial({"step": 1})
    third = made.status
    assert (third["phase"], ready(third)) == ("Running", ("True", "Running"))
    made = draft(third)
    made.completed(results.Extracted("log", {"a": 1}))
    last = made.status
    assert (last["phase"], last["results"], last["resultSource"]) == ("Completed", {"a": 1}, "log")
    (partial,) = [c for c in last["conditions"] if c["type"] == "Partial"]
    assert partial["status"] == "False"
    assert last["startTime"] == last["finishTime"] == "2027-01-15T08:00:00Z"
    told = [transitions(a, b) for a, b in (({}, first), (first, second), (second, third))]
    assert [[event.reason for event in events] for events in told] == [
        ["NoProplets"], ["Scheduled"], ["Running"],
    ]  # fmt: skip
    assert [e.type for events in told for e in events] == ["Warning", "Normal", "Normal"]
    assert transitions(third, last)[0].reason == "Completed"
    assert transitions(last, last) == []


def test_lost_and_begun_anew() -> None:
    made = draft()
    made.scheduled(PROPLET)
    made.created(JOBS, job())
    made.partial({"step": 1})
    made.lost("its pod is being deleted")
    status = made.status
    assert (status["phase"], status["reschedules"], made.attempt) == ("Pending", 1, 1)
    assert not {"propletId", "nodeName", "jobRef", "results"} & set(status)
    assert ready(status) == ("False", "PropletLost")


def test_a_failure() -> None:
    made = draft()
    made.scheduled(PROPLET)
    before = deepcopy(made.status)
    made.failed("JobFailed", "x" * 5000)
    assert (made.status["phase"], len(made.status["error"])) == ("Failed", 2048)
    (event,) = transitions(before, made.status)
    assert (event.type, event.reason) == ("Warning", "JobFailed")


# --- results -------------------------------------------------------------------------------------


def ended(name: str, message: str) -> Obj:
    return {"name": name, "state": {"terminated": {"exitCode": 0, "message": message}}}


def succeeded(message: str = "", courier: str = "", **metadata: Any) -> Obj:
    return {
        "metadata": {"name": "p", "namespace": "ns", **metadata},
        "status": {
            "phase": "Succeeded",
            "containerStatuses": [ended("wasm-task", message)],
            "initContainerStatuses": [ended("deliver", courier)] if courier else [],
        },
    }


class Reader:
    """A client that has these objects, and logs."""

    def __init__(self, log: str = "", **data: Any) -> None:
        self.log, self.data = log, data
        self.asked: list[str] = []

    async def get(self, resource: Any, name: str, *, namespace: str) -> Obj:
        assert (name, namespace) == ("t-job-result", "ns")
        kind = "configmap" if resource is CONFIGMAPS else "secret"
        self.asked.append(kind)
        if kind not in self.data:
            raise NotFound("no")
        return {"data": self.data[kind]}

    async def log_lines(self, *_: Any, **__: Any) -> Any:
        self.asked.append("log")
        for line in self.log.splitlines():
            yield line


async def extracted(reader: Reader, job: Obj, *pods: Obj) -> tuple[str, Obj] | None:
    client: Any = reader
    found = await results.extract(client, "t", job, pods, FederatedSettings())
    return (found.source, found.results) if found else None


ANNOTATION = "propeller.absmach.io/result"


async def test_every_route() -> None:
    noted = job()
    noted["metadata"]["annotations"] = {ANNOTATION: '{"a": 1}'}
    assert await extracted(Reader(), noted, succeeded('{"a": 2}')) == ("job-annotation", {"a": 1})
    plain = job()
    found = await extracted(Reader(), plain, succeeded('{"a": 2}'))
    assert found == ("termination-message", {"a": 2})
    reader = Reader(configmap={"result": '{"a": 3}'})
    assert await extracted(reader, plain, succeeded("[]")) == ("configmap", {"a": 3})
    packed = base64.b64encode(b'{"a": 4}').decode()
    reader = Reader(secret={"result": packed})
    assert await extracted(reader, plain, succeeded("no")) == ("secret", {"a": 4})
    annotated = succeeded(annotations={ANNOTATION: '{"a": 5}'})
    assert await extracted(Reader(), plain, annotated) == ("pod-annotation", {"a": 5})
    reader = Reader('{"a": 0}\nhello\n{"a": 6}\nbye\n')
    assert await extracted(reader, plain, succeeded()) == ("log", {"a": 6})
    assert reader.asked == ["configmap", "secret", "log"]
    assert await extracted(Reader("nothing"), plain, succeeded()) is None


async def test_only_pods_that_succeeded_have_messages() -> None:
    failed = succeeded('{"a": 1}')
    failed["status"]["phase"] = "Failed"
    found = await extracted(Reader(), job(), failed, succeeded('{"a": 2}'))
    assert found == ("termination-message", {"a": 2})


async def test_the_courier_knows_more() -> None:
    pod = succeeded('{"a": 1}', courier='{"a": 1, "update_ref": "oci://x"}')
    found = await extracted(Reader(), job(), pod)
    assert found == ("termination-message", {"a": 1, "update_ref": "oci://x"})
    pod = succeeded("", courier='{"courier_error": "no registry"}')
    assert await extracted(Reader(), job(), pod) is None
    assert results.courier_error([pod]) == "no registry"
    assert results.courier_error([succeeded("x")]) == ""


@pytest.mark.parametrize("text", ["", "null", "[1]", '"a"', "{", "1" * (2 << 20), None, 5])
def test_what_is_no_result(text: Any) -> None:
    assert results.as_object(text) is None


def test_nulls_are_left_out_where_a_patch_would_lose_them() -> None:
    text = '{"a": null, "b": [null, {"c": null, "d": 1}], "e": {"f": null}}'
    assert results.as_object(text) == {"b": [None, {"d": 1}], "e": {}}


# --- figures -------------------------------------------------------------------------------------


def test_readings() -> None:
    measured = {
        "timestamp": "2027-01-15T08:00:00Z",
        "containers": [
            {"name": "deliver", "usage": {"cpu": "9"}},
            {"name": "wasm-task", "usage": {"cpu": "250m", "memory": "12Mi"}},
        ],
    }
    running = pod("Running", restartCount=2)
    assert readings(measured, running, None) == {
        "cpu": "250m", "memory": "12Mi", "restarts": 2, "time": "2027-01-15T08:00:00Z",
    }  # fmt: skip
    assert readings(measured, running, ["memory"]) == {
        "memory": "12Mi", "time": "2027-01-15T08:00:00Z",
    }  # fmt: skip
    assert readings({}, pod("Running"), None) == {}


def test_the_figures_of_the_contract() -> None:
    registry, client = CollectorRegistry(), object()
    informer = Informer(client, Scope(JOBS))  # type: ignore[arg-type]
    metrics = TaskMetrics(registry, informer)
    metrics.changed("ns", {}, {"phase": "Scheduled"})
    metrics.changed("ns", {"phase": "Scheduled"}, {"phase": "Scheduled"})
    ended = {
        "phase": "Completed",
        "startTime": "2027-01-15T08:00:00Z",
        "finishTime": "2027-01-15T08:00:04Z",
    }
    metrics.changed("ns", {"phase": "Running"}, ended)
    metrics.created()
    metrics.ended("succeeded", job(startTime="2027-01-15T07:59:58Z"), NOW)
    metrics.extracted("log", 0.01)
    metrics.extracted("", 0.01)
    text = generate_latest(registry).decode()
    for line in (
        'propeller_task_total{namespace="ns",phase="Scheduled"} 1.0',
        'propeller_task_duration_seconds_sum{namespace="ns",phase="Completed"} 4.0',
        "propeller_task_active 0.0",
        'propeller_job_total{status="created"} 1.0',
        "propeller_job_duration_seconds_sum 2.0",
        'propeller_result_extraction_total{source="log",status="found"} 1.0',
        'propeller_result_extraction_total{source="none",status="missing"} 1.0',
        "propeller_result_extraction_duration_seconds_count 2.0",
    ):
        assert line in text, line
