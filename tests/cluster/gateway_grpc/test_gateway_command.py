"""``corral gateway`` as people start it: a process of its own, its own event loop, TLS."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from corral.v1 import jobs_pb2 as pb
from corral.v1.jobs_pb2_grpc import JobServiceStub
from tests.backends import Backend
from tests.backends.base import wait_for
from tests.cluster.objects import Objects


@pytest.fixture
def process(kubeconfig: str, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """The process, and the address of gRPC."""
    log = tmp_path / "gateway.log"
    command = [
        *(sys.executable, "-m", "corral.cli.main", "gateway", "--kubeconfig", kubeconfig),
        *("--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0"),
        *("--cert-dir", str(tmp_path / "certs"), "--audit-file", str(tmp_path / "audit.log")),
    ]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
    try:
        line = wait_for(process, log, "is ready", 60)
        yield process, line.rpartition("grpc=")[2].strip()
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def test_the_command_serves_and_ends_in_order(
    process: tuple[subprocess.Popen[bytes], str],
    backend: Backend,
    objects: Objects,
    namespace: str,
    tmp_path: Path,
) -> None:
    running, address = process
    job = {"apiVersion": "training.corral.dev/v1alpha1", "kind": "TrainingJob"}
    metadata = (("authorization", f"Bearer {backend.token}"),)
    credentials = grpc.ssl_channel_credentials((tmp_path / "certs/ca.crt").read_bytes())
    with grpc.secure_channel(address, credentials) as channel:
        stub = JobServiceStub(channel)
        request = pb.WatchStatusRequest(kind="trainingjobs", namespace=namespace)
        watch = stub.WatchStatus(request, metadata=metadata, timeout=60)
        spec = {"image": "busybox", "command": ["true"], "runPolicy": {"suspend": True}}
        objects.create("trainingjobs", {**job, "metadata": {"name": "seen"}, "spec": spec})
        assert next(watch).object.name == "seen"
        running.send_signal(signal.SIGTERM)
        with pytest.raises(grpc.RpcError) as caught:
            for _ in watch:
                pass
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert "go on where it ended" in caught.value.details()
    assert running.wait(60) == 0
    assert '"protocol":"grpc"' in (tmp_path / "audit.log").read_text()
    assert backend.token not in (tmp_path / "audit.log").read_text()
