"""`corral run` and the life of a job by commands alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cluster.objects import Objects, eventually
from tests.e2e.cli_jobs.commands import SLEEPS, Cli

GROUP = "training.corral.dev/v1alpha1"


def test_a_folder_is_mounted_read_only_and_runs(cli: Cli, objects: Objects) -> None:
    cli.program()
    said = cli("run", "--name", "mounted", "--replicas", "2", "--", "python", "train.py")
    for replica in (0, 1):
        assert f"[replica-{replica}] replica {replica} in " in said.out
        assert f"[replica-{replica}] step 4" in said.out
    assert "trainingjob/mounted Succeeded" in said.err
    spec = objects.get(GROUP, "trainingjobs", "mounted")["spec"]["template"]["spec"]
    (volume,) = spec["volumes"]
    assert volume["hostPath"]["path"] == str(cli.folder)
    assert spec["containers"][0]["volumeMounts"][0]["readOnly"] is True


@pytest.mark.parametrize("size", [10, 3_000_000], ids=["inside the job", "in ConfigMaps"])
def test_a_folder_is_sent(
    cli: Cli, objects: Objects, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORRAL_SHIP", "archive")
    cli.program("train.py", "import os\nprint(sorted(os.listdir('.')), open('x/y').read())\n")
    (cli.folder / "x").mkdir()
    (cli.folder / "x" / "y").write_text("here")
    (cli.folder / "noise").write_bytes(os.urandom(size))
    (cli.folder / "left.out").touch()
    (cli.folder / ".gitignore").write_text("*.out\n")
    said = cli("run", "--name", "sent", "--", "python", "train.py")
    assert "['.gitignore', 'noise', 'train.py', 'x'] here" in said.out
    maps = {name for name in objects.names("v1", "configmaps") if name.startswith("sent-code")}
    assert len(maps) == (0 if size < 1000 else 5)
    for name in maps:
        owner = objects.get("v1", "configmaps", name)["metadata"]["ownerReferences"][0]
        assert (owner["kind"], owner["name"]) == ("TrainingJob", "sent")
    cli("restart", "sent")
    cli("wait", "sent", "--timeout", "60s")
    assert "['.gitignore', 'noise', 'train.py', 'x'] here" in cli("logs", "sent").out
    cli("delete", "sent")
    eventually(lambda: not maps & objects.names("v1", "configmaps"))


def test_what_does_not_fit_is_refused_with_words(
    cli: Cli, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORRAL_SHIP", "archive")
    cli.program()
    (cli.folder / "model.bin").write_bytes(os.urandom(9 << 20))
    said = cli("run", "--name", "large", "--", "python", "train.py", code=2)
    assert ".corralignore" in said.err
    assert objects.find(GROUP, "trainingjobs", "large") is None


def test_a_failure_is_told_with_its_reason(cli: Cli) -> None:
    cli.program()
    said = cli("run", "--name", "fails", "-e", "CODE=3", "--", "python", "train.py", code=1)
    assert "exit code 3" in said.err
    assert said.err.splitlines()[-1].startswith("corral: trainingjob/fails failed")
    assert "corral explain trainingjob/fails" in said.err


def test_suspend_resume_scale_restart_delete(cli: Cli, objects: Objects) -> None:
    cli("run", "--detach", "--name", "lives", "--no-code", "--", *SLEEPS)
    assert cli("wait", "lives", "--for", "running", "--timeout", "60s").out == (
        "trainingjob/lives Running\n"
    )
    assert cli("suspend", "lives").out == "trainingjob/lives suspended\n"
    cli("wait", "lives", "--for", "suspended", "--timeout", "60s")
    assert cli("scale", "lives", "--replicas", "2").out == "trainingjob/lives scaled to 2\n"
    assert cli("resume", "tj/lives").out == "trainingjob/lives resumed\n"
    eventually(lambda: _ready(objects) == 2, seconds=60)
    (row,) = cli("get", "tj").out.splitlines()[1:]
    assert row.split()[:3] == ["lives", "Running", "2/2"]
    assert "1 pod" not in cli("top", "lives").out
    assert cli("restart", "lives", code=6).err.count("\n") == 1
    assert cli("delete", "trainingjob", "lives").out == "trainingjob/lives deleted\n"
    assert objects.find(GROUP, "trainingjobs", "lives") is None


def _ready(objects: Objects) -> int:
    status = objects.get(GROUP, "trainingjobs", "lives").get("status") or {}
    return int((status.get("replicas") or {}).get("ready") or 0)


def test_logs_of_one_replica_with_times(cli: Cli) -> None:
    cli.program()
    cli("run", "--detach", "--name", "wrote", "-r", "2", "--", "python", "train.py")
    said = cli("logs", "-f", "wrote", "--role", "replica/1", "--timestamps").out
    lines = said.splitlines()
    assert lines[0].split(" ", 1)[1].startswith("replica 1 in")
    assert [line.split(" ", 1)[1] for line in lines[1:]] == [f"step {n}" for n in (1, 2, 3, 4)]
    cli("wait", "wrote", "--timeout", "60s")
    assert cli("logs", "wrote", "--tail", "1", "--no-prefix").out == "step 4\nstep 4\n"
    assert cli("logs", "wrote", "-o", "name").out == "pod/wrote-0\npod/wrote-1\n"


def test_apply_takes_files_folders_and_standard_input(
    cli: Cli, objects: Objects, tmp_path: Path
) -> None:
    folder = tmp_path / "manifests"
    folder.mkdir()
    (folder / "a.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndata: {a: b}\n"
        "---\napiVersion: v1\nkind: List\nitems:\n"
        "- {apiVersion: v1, kind: ConfigMap, metadata: {name: two}}\n"
    )
    (folder / "b.json").write_text(
        '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "three"}}'
    )
    said = cli("apply", "-f", str(folder))
    assert said.out == "configmap/one applied\nconfigmap/two applied\nconfigmap/three applied\n"
    assert {"one", "two", "three"} <= objects.names("v1", "configmaps")
    with (folder / "b.json").open() as file:
        cli.monkeypatch.setattr("sys.stdin", file)
        assert cli("apply", "-f", "-", "-o", "name").out == "configmap/three\n"


def test_mpijobs_by_their_own_command_line(cli: Cli, objects: Objects) -> None:
    words = ("mpijob", "pi", "--image", "python:3.12", "--workers", "2", "--slots", "2")
    said = cli.odh("create", *words, "--mpi", "mpich", "--command", "sh -c 'echo launched'")
    assert said.out == "mpijob/pi created\n"
    spec = objects.get("kubeflow.org/v2beta1", "mpijobs", "pi")["spec"]
    assert (spec["slotsPerWorker"], spec["mpiImplementation"]) == (2, "MPICH")
    cli("wait", "mpijob/pi", "--timeout", "60s")
    assert "launched" in cli.odh("logs", "mpijob", "pi", "--launcher").out
    said = cli.odh("describe", "mpijob", "pi")
    assert "Phase:      Succeeded" in said.out
    assert "Duration:" in said.out
    assert "/2 workers active" in said.out
    (row,) = cli.odh("list", "mpijob").out.splitlines()[1:]
    assert row.split()[:2] == ["pi", "Succeeded"]
    assert cli.odh("delete", "mpijob", "pi").out == "mpijob/pi deleted\n"
    assert objects.find("kubeflow.org/v2beta1", "mpijobs", "pi") is None
