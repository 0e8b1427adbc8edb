"""``corral up`` serves REST beside the cluster, with the cluster's own authority."""

from __future__ import annotations

import json
import os
import signal
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.objects import eventually
from tests.e2e.clusters import Up, corral

JOBS = "/api/v1/namespaces/default/trainingjobs"
JOB = {"metadata": {"name": "hello"}, "spec": {"image": "busybox", "command": ["echo", "hello"]}}


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    cluster = Up(tmp_path / "c", "--isolation", "plain")
    cluster.start()
    yield cluster
    cluster.stop()


def dashboard(up: Up) -> str:
    return up.log.read_text().split("dashboard=")[1].split()[0]


def ask(up: Up, path: str, body: Any = None, *, token: str = "admin-token") -> tuple[int, bytes]:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(dashboard(up) + path, data=data, headers=headers)
    try:
        with urllib.request.urlopen(request, context=up.tls(), timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_a_job_over_rest_on_a_cluster_of_ones_own(up: Up) -> None:
    assert isinstance(up.tls(), ssl.SSLContext)
    code, said = ask(up, JOBS, JOB)
    assert code == 201, said
    eventually(
        lambda: json.loads(ask(up, f"{JOBS}/hello/status")[1])["phase"] == "Succeeded", seconds=60
    )
    assert ask(up, f"{JOBS}/hello/logs") == (200, b"hello\n")
    assert ask(up, JOBS, token="nobody-knows-it")[0] == 401
    audit = (up.data / "logs" / "gateway-audit.log").read_text()
    assert '"user":"admin"' in audit
    assert "admin-token" not in audit
    assert not (up.data / "credentials" / "gateway.kubeconfig").exists()


def test_its_address_is_the_same_after_a_restart(up: Up) -> None:
    before = dashboard(up)
    facts = json.loads((up.data / "gateway.json").read_text())
    assert facts["url"] == before
    up.stop()
    up.start()
    assert dashboard(up) == before
    assert ask(up, JOBS)[0] == 200


def test_killed_it_comes_back_where_it_was(up: Up) -> None:
    assert ask(up, JOBS)[0] == 200
    killed = up.parts()["gateway"]
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: up.parts().get("gateway", killed) != killed, seconds=60)
    eventually(lambda: serves(up), seconds=60)


def serves(up: Up) -> bool:
    try:
        return ask(up, JOBS)[0] == 200
    except OSError:
        return False  # it does not listen yet


def test_a_port_that_is_taken_is_told(up: Up, tmp_path: Path) -> None:
    port = dashboard(up).rpartition(":")[2]
    done = corral(
        "up", "--data-dir", str(tmp_path / "other"), "--port", "0", "--gateway-port", port, code=1
    )
    assert "--gateway-port" in done.stderr


def test_without_it(tmp_path: Path) -> None:
    cluster = Up(tmp_path / "c", "--no-gateway", "--no-operator")
    cluster.start()
    try:
        assert dashboard(cluster) == "none"
        assert "gateway" not in cluster.parts()
    finally:
        cluster.stop()
