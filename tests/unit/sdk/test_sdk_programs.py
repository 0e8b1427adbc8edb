"""What `train` makes of targets and options; the objects are what the definition takes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from corral.api.training.kinds import TrainingJob
from corral.client.errors import BadRequest
from corral.sdk.errors import CannotShip
from corral.sdk.programs.archive import pack_files
from corral.sdk.programs.program import Code, code_of
from corral.sdk.programs.shipping import inline
from corral.sdk.resources import ResourceSpec
from corral.sdk.training import TrainOptions, checkpoint_of, job_name, training_job

Obj = dict[str, Any]
SHIPPED = inline(pack_files({"train.py": b""}))
CODE = Code("train", ("python", "train.py"), b"")


def job(replicas: int = 1, **options: Any) -> Obj:
    """A job that the definition takes."""
    made = training_job(
        CODE, SHIPPED, TrainOptions(**options), name="x", namespace="n", replicas=replicas
    )
    assert TrainingJob.validate(made) == []
    return made


def test_targets(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("train.py", "run.sh", "tool", "sub/deep.py"):
        (tmp_path / name).write_text("")
    assert code_of(tmp_path / "train.py", ["-x"]).command == ("python", "train.py", "-x")
    assert code_of(str(tmp_path / "run.sh")).command == ("sh", "run.sh")
    assert code_of(tmp_path / "tool").command == ("./tool",)
    whole = code_of(tmp_path, ["1"])
    assert (whole.command, whole.source) == (("python", "train.py", "1"), tmp_path)
    deep = code_of("sub/deep.py", directory=tmp_path)
    assert (deep.command, deep.source) == (("python", "sub/deep.py"), tmp_path)
    assert deep.title == "deep"


@pytest.mark.parametrize(
    ("target", "args", "directory", "words"),
    [
        ("nothing.py", None, None, "no file or folder"),
        ("nothing.py", None, ".", "there is no file"),
        (".", None, None, "has none of"),
        ("/etc/hostname", None, ".", "is not in"),
        ("a.py", "--x 1", None, "list of words"),
        ("a.py", {"x": 1}, None, "list of words"),
        (job_name, ["a"], None, "by name"),
        (job_name, None, ".", "sent alone"),
    ],
)
def test_targets_that_make_no_sense(
    target: Any, args: Any, directory: Any, words: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text("")
    with pytest.raises(CannotShip, match=words):
        code_of(target, args, directory=directory)


def test_a_plain_job() -> None:
    spec = job(2)["spec"]
    assert spec["replicas"] == 2
    assert spec["image"] == f"python:{sys.version_info.major}.{sys.version_info.minor}"
    assert spec["command"][:2] == ["sh", "-c"]
    assert spec["command"][-2:] == ["python", "train.py"]
    assert not spec.keys() & {"env", "resources", "elastic", "checkpoint", "runPolicy"}


def test_every_option_has_its_place() -> None:
    made = job(
        2,
        resources={"cpu": 2, "memory": "4Gi", "gpu": 1},
        env={"A": "1"},
        packages=["numpy>=1", "tqdm"],
        pip_index_url="https://index.test/simple",
        framework="pytorch",
        image="mine:1",
        checkpoint="s3://bucket/a/b",
        elastic=(1, 4),
        procs_per_replica=2,
        retries=1,
        timeout=60,
        ttl=5,
        gang=True,
        priority_class="high",
        queue="team",
        suspend=True,
        labels={"team": "a"},
        annotations={"note": "b"},
        template={"spec": {"nodeSelector": {"zone": "x"}}},
    )
    spec = made["spec"]
    assert made["metadata"] == {
        "name": "x", "namespace": "n", "labels": {"team": "a"}, "annotations": {"note": "b"},
    }  # fmt: skip
    assert spec["resources"]["limits"] == {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "1"}
    assert spec["env"] == [{"name": "A", "value": "1"}]
    assert spec["elastic"] == {"minReplicas": 1, "maxReplicas": 4}
    assert spec["checkpoint"] == {"storage": {"s3": {"bucket": "bucket", "prefix": "a/b"}}}
    assert spec["runPolicy"] == {
        "suspend": True, "backoffLimit": 1, "activeDeadlineSeconds": 60,
        "ttlSecondsAfterFinished": 5,
    }  # fmt: skip
    assert spec["scheduling"] == {"gang": True, "priorityClassName": "high", "queue": "team"}
    assert spec["command"][-2:] == ["torchrun", "train.py"]
    pod = spec["template"]["spec"]
    assert pod["nodeSelector"] == {"zone": "x"}
    variables = {entry["name"]: entry["value"] for entry in pod["containers"][0]["env"]}
    assert variables["CORRAL_PACKAGES"] == "numpy>=1\ntqdm"
    assert variables["PIP_INDEX_URL"] == "https://index.test/simple"


@pytest.mark.parametrize(
    ("value", "storage"),
    [
        (True, {"pvc": {"size": "10Gi"}}),
        ("5Gi", {"pvc": {"size": "5Gi"}}),
        ("/data", {"local": {"path": "/data"}}),
        ("gs://b", {"gcs": {"bucket": "b", "prefix": ""}}),
        ("az://acc/c/p/q", {"azure": {"account": "acc", "container": "c", "prefix": "p/q"}}),
        ({"storage": "1Gi", "interval": "1m"}, {"pvc": {"size": "1Gi"}}),
    ],
)
def test_checkpoints(value: Any, storage: Obj) -> None:
    found = checkpoint_of(value)
    assert found is not None
    assert found["storage"] == storage
    job(checkpoint=value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"checkpoint": "ftp://x"}, "cannot be kept"),
        ({"framework": "torch"}, "no framework"),
        ({"elastic": (2, 3)}, "does not hold replicas=1"),
        ({"elastic": 3}, "elastic=3"),
    ],
)
def test_options_that_make_no_sense(options: Obj, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        job(**options)


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("train_digits", "train-digits-x"),
        ("Été 2!", "t-2-x"),
        ("123", "job-123-x"),
        ("___", "job-x"),
        ("a" * 90, "a" * 40 + "-x"),
    ],
)
def test_names(title: str, name: str) -> None:
    assert job_name(title, "x") == name


@pytest.mark.parametrize(
    ("given", "requests"),
    [
        (ResourceSpec(), {}),
        (ResourceSpec(cpu=0.5, gpu=2), {"cpu": "0.5", "nvidia.com/gpu": "2"}),
        (ResourceSpec(memory=1024, extra={"a.b/c": 1}), {"memory": "1024", "a.b/c": "1"}),
        (ResourceSpec(gpu=1, gpu_resource="amd.com/gpu"), {"amd.com/gpu": "1"}),
        ({"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Gi"}},
         {"cpu": "1", "memory": "1Gi"}),
    ],
)  # fmt: skip
def test_resources(given: Any, requests: Obj) -> None:
    spec = ResourceSpec.of(given)
    assert spec.requirements().get("requests", {}) == requests
    assert ResourceSpec.of(spec.requirements()).requirements() == spec.requirements()


@pytest.mark.parametrize(
    "wrong", [{"cpu": "two"}, {"memory": "-1Gi"}, {"gpu": -1}, {"ram": 1}, {"limits": {"cpu": "x"}}]
)
def test_resources_that_make_no_sense(wrong: Obj) -> None:
    with pytest.raises(ValueError, match=r"cpu|memory|gpu|ram"):
        ResourceSpec.of({"cpu": 1, **wrong})
