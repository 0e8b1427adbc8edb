"""What becomes of a WasmTask whose module tries what it must not: it fails, and says why."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.cluster.federated_clients.federation import API, Federation
from tests.cluster.federated_clients.modules import hostile_module
from tests.cluster.objects import eventually

ATTEMPTS: dict[str, tuple[list[str], dict[str, Any], tuple[str, ...]]] = {
    "files": (["read", "/etc/passwd"], {}, ("exit code 1", "cannot read /etc/passwd")),
    "mounts of its couriers": (
        ["read", "/var/run/secrets/corral/token"],
        {"env": {"ROUND_ID": "round-1"}},
        ("exit code 1", "cannot read /var/run/secrets/corral/token"),
    ),
    "network": (["network"], {}, ("exit code 1", "no network")),
    "memory": (
        ["grow"],
        {"resources": {"limits": {"memory": "24Mi"}}},
        ("OOMKilled", "the limit is 25165824 bytes"),
    ),
    "time": (["spin"], {"activeDeadlineSeconds": 2}, ("active longer than specified deadline",)),
}


@pytest.mark.parametrize(("words", "spec", "told"), ATTEMPTS.values(), ids=ATTEMPTS)
def test_a_task_that_fails_says_why(
    federation: Federation, words: list[str], spec: dict[str, Any], told: tuple[str, ...]
) -> None:
    module = base64.b64encode(hostile_module().read_bytes()).decode()
    task = {
        "apiVersion": API,
        "kind": "WasmTask",
        "metadata": {"name": "attempt"},
        "spec": {"file": module, "cliArgs": words, "restartPolicy": "Never", **spec},
    }
    federation.objects.create("wasmtasks", task)
    eventually(lambda: federation.task("attempt").get("phase") == "Failed", seconds=60)
    error = federation.task("attempt")["error"]
    assert all(text in error for text in told), error
