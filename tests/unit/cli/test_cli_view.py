"""What is drawn of a job."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from corral.cli.views.live import JobView, Replica, duration, sparkline


def drawn(view: JobView) -> str:
    console = Console(file=StringIO(), width=100, force_terminal=False)
    console.print(view.render())
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_sparkline() -> None:
    assert sparkline([]) == ""
    assert sparkline([1.0]) == "▁"
    assert sparkline([3.0, 2.0, 1.0]) == "█▅▁"
    assert sparkline([5.0, 5.0]) == "▁▁"
    assert len(sparkline(list(range(1000)), width=10)) == 10
    assert sparkline([-1.7e308, 0.0, 1.7e308]) in ("▁▄█", "▁▅█")


def test_duration() -> None:
    assert [duration(seconds) for seconds in (None, 0, 65, 3725)] == ["", "0:00", "1:05", "1:02:05"]


def test_a_job_that_has_said_nothing_yet() -> None:
    text = drawn(JobView("trainingjob/digits", message="waits for a node"))
    assert text.splitlines() == ["trainingjob/digits  Pending  waits for a node"]


def test_progress_and_the_course_of_the_loss() -> None:
    view = JobView("trainingjob/digits", phase="Running", elapsed=65)
    for step in (1, 2, 3):
        report = {"step": step, "totalSteps": 4, "percent": 25 * step, "etaSeconds": 9}
        view.report({**report, "metrics": {"loss": 1 / step, "accuracy": 0.5}})
        view.report({**report, "metrics": {"loss": 1 / step, "accuracy": 0.5}})
    head, bar, metrics = drawn(view).splitlines()
    assert head == "trainingjob/digits  Running  1:05"
    assert bar.startswith("step 3/4 ━")
    assert bar.endswith("75%  eta 0:09")
    assert metrics == "loss 0.3333 █▃▁  accuracy 0.5"


def test_few_replicas_are_named_and_many_are_counted() -> None:
    view = JobView("mpijob/pi", replicas=[Replica("launcher", "Running"), Replica("w", "Pending")])
    assert drawn(view).splitlines()[1] == "replicas  launcher ● Running  w ○ Pending"
    view.replicas = [Replica(f"w-{n}", "Running" if n else "OOMKilled") for n in range(100)]
    assert drawn(view).splitlines()[1] == "replicas  99 Running  1 OOMKilled"
