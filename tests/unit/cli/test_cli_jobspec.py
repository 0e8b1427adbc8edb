"""Jobs from the words of a command line."""

from __future__ import annotations

import pytest

from corral.api import kind_of
from corral.cli.errors import Trouble
from corral.cli.jobspec import (
    RUNNABLE,
    RunOptions,
    build,
    check_name,
    mpi_command,
    name_for,
    parse_env,
)

OPTIONS = RunOptions(
    name="digits",
    namespace="vision",
    command=["python", "train.py"],
    replicas=4,
    env={"A": "b"},
    cpu="2",
    memory="4Gi",
    gpus=1,
    slots=2,
    queue="night",
    labels={"team": "vision"},
)


@pytest.mark.parametrize("kind", RUNNABLE)
def test_what_is_made_is_valid(kind: str) -> None:
    obj = build(kind, OPTIONS)
    model = kind_of(obj)
    assert model is not None
    assert model.validate(obj) == []
    assert obj["metadata"] == {
        "name": "digits",
        "namespace": "vision",
        "labels": {"team": "vision"},
    }


def test_a_training_job() -> None:
    spec = build("trainingjob", OPTIONS)["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    asked = {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "1"}
    assert container["resources"] == {"requests": asked, "limits": asked}
    assert container["command"] == ["python", "train.py"]
    assert container["env"] == [{"name": "A", "value": "b"}]
    assert (spec["replicas"], spec["scheduling"]) == (4, {"queue": "night"})


def test_an_mpi_job() -> None:
    spec = build("mpijob", OPTIONS)["spec"]
    roles = spec["mpiReplicaSpecs"]
    (launcher,) = roles["Launcher"]["template"]["spec"]["containers"]
    (worker,) = roles["Worker"]["template"]["spec"]["containers"]
    assert launcher["command"] == ["mpirun", "-n", "8", "python", "train.py"]
    assert "resources" not in launcher
    assert "command" not in worker
    assert worker["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert roles["Worker"]["replicas"] == 4


@pytest.mark.parametrize("word", ["mpirun", "/opt/bin/mpiexec", "sh", "horovodrun"])
def test_a_command_that_launches_itself_is_left_alone(word: str) -> None:
    options = RunOptions("pi", "default", [word, "-n", "2", "x"])
    assert mpi_command(options) == [word, "-n", "2", "x"]


def test_kinds_that_cannot_be_run() -> None:
    with pytest.raises(Trouble, match="cannot be run as a checkpoint"):
        build("checkpoint", OPTIONS)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python", "train.py"], "train-x1"),
        (["python", "-u", "src/My_Model.py"], "my-model-x1"),
        (["sh", "-c", "echo"], "sh-x1"),
        (["./2024-run.sh"], "run-x1"),
        (["python", "é.py"], "job-x1"),
        (["python", f"{'x' * 80}.py"], f"{'x' * 53}-x1"),
    ],
)
def test_names_of_jobs_that_were_given_none(command: list[str], name: str) -> None:
    made = name_for(command, "x1")
    assert made == name
    assert check_name(made) == made


@pytest.mark.parametrize("name", ["My_Job", "1st", "-a", "a-", "x" * 57, "", "a.b"])
def test_names_that_are_refused(name: str) -> None:
    with pytest.raises(Trouble) as refused:
        check_name(name)
    assert refused.value.code == 2
    assert "try '" in refused.value.hint


def test_variables() -> None:
    env = parse_env(["A=b=c", "B=", "HOME"], {"HOME": "/root"})
    assert env == {"A": "b=c", "B": "", "HOME": "/root"}
    for word in ("=x", "A B=c", "UNSET"):
        with pytest.raises(Trouble):
            parse_env([word], {})
