"""The process: how it starts, what it says, and how it stops."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

from corral.gateway.manifests import GatewayInstall, gateway_objects
from corral.kube import KubeClient
from tests.backends import Backend
from tests.cluster.gateway.gateways import GatewayProcess, Somebody
from tests.cluster.jobs_api.manifests_of_jobs import training


def test_a_stop_ends_watches_in_order(backend: Backend, tmp_path: Path, namespace: str) -> None:
    gateway = GatewayProcess(backend, tmp_path)
    gateway.start()
    admin = Somebody(gateway, backend.token)
    jobs = f"/api/v1/namespaces/{namespace}/trainingjobs"
    assert admin.ask("POST", jobs, training("w", runPolicy={"suspend": True})).status == 201
    events: list[str] = []
    begun = threading.Event()

    def watch() -> None:
        for _, event, _ in admin.events(f"{jobs}/w/watch"):
            events.append(event)
            begun.set()

    thread = threading.Thread(target=watch)
    thread.start()
    assert begun.wait(30)
    assert gateway.stop() == 0
    thread.join(30)
    assert events == ["ADDED", "end"]
    assert "Traceback" not in gateway.log.read_text()


def test_its_pages_and_its_certificate(admin: Somebody, gateway: GatewayProcess) -> None:
    """`Somebody` trusts the authority in the folder only."""
    assert gateway.url.startswith("https://127.0.0.1:")
    stranger = Somebody(gateway, None)
    assert stranger.get("/healthz").body == b"ok\n"
    assert stranger.get("/readyz").body == b"ok\n"
    assert stranger.get("/openapi.json").json()["openapi"] == "3.1.0"
    admin.get("/api/v1/trainingjobs")
    assert b'corral_gateway_requests_total{code="200"' in stranger.get("/metrics").body


def test_what_cannot_be_done_is_said_in_one_line(backend: Backend, gateway: GatewayProcess) -> None:
    port = gateway.url.rpartition(":")[2]
    for options, words in (
        (("--listen", f"127.0.0.1:{port}"), "cannot serve on"),
        (("--listen", "nonsense"), "expected HOST:PORT"),
        (("--kubeconfig", "/nowhere/at/all"), "does not exist"),
        (("--cert", "/nowhere"), "belong together"),
    ):
        argv = [
            sys.executable, "-m", "corral.cli.main", "gateway", "--grpc-listen", "none",
            "--kubeconfig", str(backend.kubeconfig), *options,
        ]  # fmt: skip
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode != 0
        assert words in done.stderr, done.stderr
        assert "Traceback" not in done.stderr


async def test_an_api_server_takes_its_objects(kubeconfig: str) -> None:
    """Strictly: no field is unknown, and nothing is warned about."""
    warned: list[str] = []
    objects = gateway_objects(GatewayInstall(namespace="default"))
    async with KubeClient.from_kubeconfig(kubeconfig, on_warning=warned.append) as client:
        for obj in objects:
            resource = await client.resource_for(obj["apiVersion"], obj["kind"])
            await client.apply(
                resource, obj, field_manager="check", field_validation="Strict", dry_run=True
            )
    assert warned == []
