"""The same commands through the gateway that `corral up` serves."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.cluster.objects import Objects
from tests.e2e.cli_jobs.commands import Cli, training_job
from tests.e2e.clusters import Up


@pytest.fixture
def remote(cli: Cli, up: Up) -> Cli:
    """Commands that reach the cluster through its gateway only, with a bearer token."""
    url = re.search(r"dashboard=(https://\S+)", up.log.read_text())
    assert url is not None, up.log.read_text()
    cli.monkeypatch.delenv("KUBECONFIG")
    cli.monkeypatch.setenv("CORRAL_GATEWAY", url[1])
    cli.monkeypatch.setenv("CORRAL_TOKEN", up.token)
    cli.monkeypatch.setenv("CORRAL_CA", up.ca_file)
    return cli


def test_a_life_through_the_gateway(remote: Cli, objects: Objects) -> None:
    remote.program()
    said = remote("run", "--name", "far", "-r", "2", "--", "python", "train.py")
    assert "[replica-1] step 4" in said.out
    assert "trainingjob/far Succeeded" in said.err
    template = objects.get("training.corral.dev/v1alpha1", "trainingjobs", "far")["spec"][
        "template"
    ]
    assert all("hostPath" not in volume for volume in template["spec"]["volumes"])
    assert remote("get").out.splitlines()[1].split()[:3] == ["far", "trainingjob", "Succeeded"]
    assert "replica 0/2 running, 2 succeeded" in remote("describe", "far").out
    assert remote("logs", "far", "--role", "replica/0", "--tail", "1").out == "step 4\n"
    assert {row["reason"] for row in remote("events", "far", "-o", "json").json()} >= {"Scheduled"}
    assert "far" in remote("explain", "far").out
    assert "needs the cluster itself" in remote("top", code=2).err
    assert remote("restart", "far").out == "trainingjob/far restarted\n"
    assert remote("wait", "far", "--timeout", "60s").out == "trainingjob/far Succeeded\n"
    assert remote("delete", "far").out == "trainingjob/far deleted\n"
    assert remote("describe", "far", code=3).err.count("\n") == 1


def test_apply_through_the_gateway(remote: Cli, objects: Objects) -> None:
    file = remote.folder / "job.yaml"
    job = training_job("held", ["true"], runPolicy={"suspend": True})
    for replicas in (1, 3):
        job["spec"]["replicas"] = replicas
        file.write_text(yaml.safe_dump(job))
        assert remote("apply", "-f", "job.yaml").out == "trainingjob/held applied\n"
        found = objects.get("training.corral.dev/v1alpha1", "trainingjobs", "held")
        assert found["spec"]["replicas"] == replicas
    file.write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}")
    assert "does not take ConfigMaps" in remote("apply", "-f", "job.yaml", code=2).err


def test_who_may_not(remote: Cli) -> None:
    remote.monkeypatch.setenv("CORRAL_TOKEN", "nobody-token")
    said = remote("get", "tj", code=4)
    assert "nobody may not list trainingjobs" in said.err
