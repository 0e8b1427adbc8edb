"""Every route by which a result is found, in their order."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from tests.cluster.federated_tasks.tasking import Obj, Tasks

RESULT = "propeller.absmach.io/result"
WAIT = "until [ -e /go/now ]; do sleep 0.05; done"


def leave(tasks: Tasks, name: str, route: str, value: str) -> None:
    """Leave a result by one of the routes."""
    annotation = {"metadata": {"annotations": {RESULT: value}}}
    named: Obj = {"apiVersion": "v1", "metadata": {"name": f"{name}-job-result"}}
    if route == "job-annotation":
        tasks.objects.patch("batch/v1", "jobs", f"{name}-job", annotation)
    elif route == "pod-annotation":
        (pod,) = tasks.pods(name)
        tasks.objects.patch("v1", "pods", pod["metadata"]["name"], annotation)
    elif route == "configmap":
        config = {**named, "kind": "ConfigMap", "data": {"result": value}}
        tasks.objects.create("configmaps", config)
    elif route == "secret":
        data = {"result": base64.b64encode(value.encode()).decode()}
        tasks.objects.create("secrets", {**named, "kind": "Secret", "data": data})


ORDER = ("job-annotation", "termination-message", "configmap", "secret", "pod-annotation", "log")


@pytest.mark.parametrize("first", range(len(ORDER)))
def test_the_first_route_that_has_an_object_wins(tasks: Tasks, first: int, tmp_path: Path) -> None:
    """All routes from one on have a result, those before it have none that is an object."""
    name = f"route-{first}"
    used = set(ORDER[first:])
    message = '{"by": "termination-message"}' if "termination-message" in used else "[1]"
    script = f"{WAIT}; echo '{message}' > /dev/termination-log; echo '{{\"by\": \"log\"}}'"
    tmp_path.chmod(0o755)
    tasks.process(
        name,
        script,
        volumes=[{"name": "go", "hostPath": {"path": str(tmp_path)}}],
        volumeMounts=[{"name": "go", "mountPath": "/go", "readOnly": True}],
    )
    tasks.phase(name, "Running")
    for route in ORDER:
        if route not in ("termination-message", "log"):
            value = f'{{"by": "{route}"}}' if route in used else "no JSON"
            leave(tasks, name, route, value)
    (tmp_path / "now").touch()
    status = tasks.phase(name, "Completed")
    assert status["results"] == {"by": ORDER[first]}
    assert status["resultSource"] == ORDER[first]


def test_without_a_result_it_is_completed_all_the_same(tasks: Tasks) -> None:
    tasks.process("silent", "echo done")
    status = tasks.phase("silent", "Completed")
    assert "results" not in status and "resultSource" not in status


def test_a_message_that_was_cut_off_is_no_result(tasks: Tasks) -> None:
    script = 'printf \'{"a": "%05000d"}\' 0 > /dev/termination-log; echo \'{"by": "log"}\''
    tasks.process("cut", script)
    assert tasks.phase("cut", "Completed")["results"] == {"by": "log"}
