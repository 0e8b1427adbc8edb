"""Jobs, events and MPIJobs as people see them."""

from __future__ import annotations

import io
import pickle
from datetime import timedelta
from typing import Any

import pytest
from rich.console import Console

from corral.api.mpi.kinds import MPIJob as MPIJobKind
from corral.client.errors import BadRequest
from corral.client.explain.explanation import Explanation
from corral.client.kinds import Role, kind_of
from corral.sdk.display import span
from corral.sdk.explained import Explained
from corral.sdk.mpijobs import MPIJob
from corral.sdk.resources import ResourceSpec
from corral.sdk.views import Event, Events, Job, Jobs, LogLine

Obj = dict[str, Any]
EVIL = "<script>alert(1)</script>"


def training(**status: Any) -> Job:
    obj: Obj = {
        "apiVersion": "training.corral.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {
            "name": "digits", "namespace": "n", "uid": "u",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"replicas": 4},
        "status": {"phase": "Running", **status},
    }  # fmt: skip
    return Job.read(kind_of("trainingjobs"), obj)


RUNNING = training(
    replicas={"ready": 3, "restarts": 1},
    startTime="2026-01-01T00:00:00Z",
    completionTime="2026-01-01T00:02:05Z",
    progress={"step": 5, "totalSteps": 20, "percent": 25, "metrics": {"loss": 0.12345}},
)
FAILED = training(
    phase="Failed",
    failure={"pod": EVIL, "replica": 1, "exitCode": 1, "reason": "Error", "logTail": EVIL},
)


def rich_text(renderable: object) -> str:
    out = io.StringIO()
    Console(file=out, width=200, color_system=None).print(renderable)
    return out.getvalue()


def test_a_job_in_words() -> None:
    assert repr(RUNNING) == (
        "<TrainingJob n/digits: Running, 3/4 replicas, step 5/20 (25 %), loss=0.1235>"
    )
    assert str(RUNNING) == "digits"
    assert (RUNNING.replicas, RUNNING.ready, RUNNING.restarts) == (4, 3, 1)
    assert RUNNING.duration == timedelta(seconds=125)
    assert RUNNING.metrics == {"loss": 0.12345}
    assert not RUNNING.finished
    assert FAILED.finished
    assert FAILED.failure is not None
    assert FAILED.failure.exit_code == 1


@pytest.mark.parametrize("value", [RUNNING, FAILED, Jobs([RUNNING, FAILED]), Jobs()])
def test_html_is_safe_and_alone(value: Job | Jobs) -> None:
    html = value._repr_html_()
    assert "<script" not in html
    for outside in ("src=", "href=", "url(", "@import", "http"):
        assert outside not in html


def test_html_says_what_matters() -> None:
    html = RUNNING._repr_html_()
    for words in ("digits", "Running", "width:25%", "3 of 4 ready", "loss=0.1235", "2m5s"):
        assert words in html
    assert "&lt;script&gt;" in FAILED._repr_html_()
    assert "no jobs" in Jobs()._repr_html_()
    assert Jobs([RUNNING])._repr_html_().count("<tr>") == 2


def test_terminals() -> None:
    assert "step 5/20" in rich_text(RUNNING)
    assert "digits" in rich_text(Jobs([RUNNING, FAILED]))
    found = Explained.of(Explanation("Failed", "it fell", ("a stone",), ("look down",)))
    assert rich_text(found) == "it fell\n  - a stone\n  hint: look down\n"
    assert "<strong>it fell</strong>" in found._repr_html_()
    assert repr(found) == str(found)


def test_events() -> None:
    old = {
        "type": "Warning", "reason": "Bad", "message": EVIL, "count": 3,
        "lastTimestamp": "2026-01-01T10:00:00Z", "involvedObject": {"kind": "Pod", "name": "a"},
    }  # fmt: skip
    new = {
        "type": "Normal", "reason": "Good", "note": "fine", "series": {"count": 2},
        "eventTime": "2026-01-01T10:00:01Z", "regarding": {"kind": "Pod", "name": "b"},
    }  # fmt: skip
    events = Events([Event.read(old), Event.read(new), Event.read({})])
    assert str(events[0]) == f"10:00:00 Warning Bad Pod/a: {EVIL}"
    assert [event.count for event in events] == [3, 2, 1]
    html = events._repr_html_()
    assert "(x3)" in html
    assert "<script" not in html
    assert "fine" in rich_text(events)


def test_log_lines_are_texts() -> None:
    line = LogLine("loss 1", pod="a-0", role=Role("replica", 0), container="trainer")
    assert line == "loss 1"
    assert line.upper() == "LOSS 1"
    assert line.role.index == 0
    assert pickle.loads(pickle.dumps(line)) == "loss 1"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0s"), (59.9, "59s"), (61, "1m1s"), (7261, "2h1m"), (200_000, "2d"), (-5, "0s")],
)
def test_spans(seconds: float, words: str) -> None:
    assert span(timedelta(seconds=seconds)) == words


# -- MPIJobs ---------------------------------------------------------------------------------------

PI = MPIJob(
    "pi",
    image="mpi:1",
    command="mpirun -n 4 '/my pi'",
    workers=2,
    slots_per_worker=2,
    mpi_implementation="Intel",
    resources=ResourceSpec(cpu=2, gpu=1),
    launcher_resources=ResourceSpec(cpu="100m"),
    env={"A": "1"},
    namespace="n",
    labels={"team": "a"},
    run_policy={"cleanPodPolicy": "Running"},
)


def test_an_mpijob_is_what_the_definition_takes() -> None:
    made = PI.to_manifest()
    assert MPIJobKind.validate(made) == []
    launcher, worker = (made["spec"]["mpiReplicaSpecs"][role] for role in ("Launcher", "Worker"))
    first = launcher["template"]["spec"]["containers"][0]
    assert first["command"] == ["mpirun", "-n", "4", "/my pi"]
    assert first["env"] == [{"name": "A", "value": "1"}]
    assert worker["replicas"] == 2
    gpus = worker["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]
    assert gpus == "1"


def test_an_mpijob_comes_back_as_it_went() -> None:
    again = MPIJob.from_manifest(PI.to_manifest())
    assert again.command == ("mpirun", "-n", "4", "/my pi")
    for name in ("name", "image", "workers", "slots_per_worker", "mpi_implementation", "env",
                 "namespace", "labels", "run_policy"):  # fmt: skip
        assert getattr(again, name) == getattr(PI, name)
    assert again.resources.requirements() == PI.resources.requirements()
    assert again.to_manifest() == PI.to_manifest()


def test_what_has_no_field_survives() -> None:
    manifest = PI.to_manifest()
    manifest["spec"]["sshAuthMountPath"] = "/home/x/.ssh"
    pod = manifest["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]
    pod["nodeSelector"] = {"zone": "a"}
    pod["containers"].append({"name": "sidecar", "image": "s"})
    manifest["status"] = {"conditions": [{"type": "Running", "status": "True"}]}
    read = MPIJob.from_manifest(manifest)
    assert read.phase == "Running"
    written = read.to_manifest()
    assert "status" not in written
    assert written["spec"] == manifest["spec"]


def test_yaml(tmp_path: Any) -> None:
    import yaml

    text = yaml.safe_dump(PI.to_manifest())
    path = tmp_path / "pi.yaml"
    path.write_text(text)
    for source in (text, path, str(path)):
        assert MPIJob.from_yaml(source).name == "pi"
    with pytest.raises(BadRequest, match="not an MPIJob"):
        MPIJob.from_yaml("kind: Pod\nmetadata: {}\n")


def test_mpijobs_that_make_no_sense() -> None:
    with pytest.raises(BadRequest, match="no image"):
        MPIJob("x", command="a").to_manifest()
    with pytest.raises(BadRequest, match="slots"):
        MPIJob("x", image="a", slots_per_worker=0).to_manifest()
